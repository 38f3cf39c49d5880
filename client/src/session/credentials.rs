//! Credentials: `auth` requests, which the server has before any other request.

use std::sync::Arc;

use bytes::Bytes;
use zoolet_protocol::{
    Auth, ErrorCode, ReplyHeader, Request, SessionRequest, Xid, Zxid, encode_request,
};

use super::{ConnectionFault, Phase, Session};
use crate::call::{Call, Outcome};
use crate::clock::Instant;

/// What proves an identity to the servers.
#[derive(Debug)]
pub(super) struct Credentials {
    auth: Auth,
    /// A server has accepted them.
    is_accepted: bool,
    /// They are long, and a connection was lost while they were the next to be answered.
    is_suspect: bool,
}

/// Shorter credentials are not too long for any server that is of use.
const LONG_BYTES_MIN: usize = 4 << 10;

/// Credentials that were sent and have no reply yet.
#[derive(Debug)]
pub(super) struct SentCredentials {
    /// Their place in the list.
    place: usize,
    /// `None` if they were sent again.
    call: Option<Arc<Call>>,
}

impl Session {
    /// Adds credentials, now and after every reconnect. Those that are too long are not added: the server would
    /// close each connection at them.
    pub(crate) fn authenticate(&mut self, auth: Auth, call: Arc<Call>, now: Instant) {
        if self.is_closing() {
            return self.complete(&call, Outcome::Closed);
        }
        let request = Request::Session(SessionRequest::Auth(auth.clone()));
        if let Some(too_long) = self.too_long(&request, std::iter::empty()) {
            return self.complete(&call, too_long);
        }
        let place = self.credentials.len();
        self.credentials.push(Credentials { auth, is_accepted: false, is_suspect: false });
        if self.phase == Phase::Connected {
            self.send_auth(&request, SentCredentials { place, call: Some(call) }, now);
        } else {
            // They are sent after the next handshake; the caller need not wait for it.
            let header = ReplyHeader { xid: Xid::AUTH, zxid: Zxid::ZERO, err: ErrorCode::OK };
            self.complete(&call, Outcome::Answered(header, Bytes::new()));
        }
    }

    /// Sends all credentials, on a new connection.
    pub(super) fn send_credentials(&mut self, now: Instant) {
        for place in 0..self.credentials.len() {
            let request =
                Request::Session(SessionRequest::Auth(self.credentials[place].auth.clone()));
            self.send_auth(&request, SentCredentials { place, call: None }, now);
        }
    }

    fn send_auth(&mut self, request: &Request, sent: SentCredentials, now: Instant) {
        self.outgoing.push_back(encode_request(Xid::AUTH, request));
        self.authenticating.push_back(sent);
        self.last_sent = now;
    }

    /// The reply to credentials came.
    pub(super) fn handle_auth_reply(&mut self, header: ReplyHeader) -> Result<(), ConnectionFault> {
        if let Some(SentCredentials { place, call }) = self.authenticating.pop_front() {
            match call {
                Some(call) => self.complete(&call, Outcome::Answered(header, Bytes::new())),
                None => self.preamble.handle_answer(),
            }
            self.credentials[place].is_accepted |= header.err.is_ok();
        }
        if header.err.is_ok() {
            return Ok(());
        }
        // The server closes the connection, and would close every other for these credentials.
        self.end();
        Err(ConnectionFault::AuthFailed)
    }

    /// The connection was lost: the credentials that would have been answered next may be the cause.
    pub(super) fn suspect_credentials(&mut self) {
        let next = self.authenticating.front().map(|sent| &mut self.credentials[sent.place]);
        if let Some(credentials) = next {
            let bytes = credentials.auth.auth.as_ref().map_or(0, Bytes::len);
            credentials.is_suspect |= bytes >= LONG_BYTES_MIN;
        }
    }

    /// Drops the credentials that may be what no server takes.
    pub(super) fn drop_suspect_credentials(&mut self) {
        self.credentials.retain(|credentials| credentials.is_accepted || !credentials.is_suspect);
    }

    /// The calls that wait for replies to credentials.
    pub(super) fn take_authenticating(&mut self) -> impl Iterator<Item = Arc<Call>> + use<> {
        std::mem::take(&mut self.authenticating).into_iter().filter_map(|sent| sent.call)
    }
}
