//! Credentials: `auth` requests, which the server has before any other request.

use std::sync::Arc;

use bytes::Bytes;
use zoolet_protocol::{
    Auth, ErrorCode, ReplyHeader, Request, SessionRequest, Xid, Zxid, encode_request,
};

use super::{Phase, Session};
use crate::call::{Call, Outcome};
use crate::clock::Instant;

impl Session {
    /// Adds credentials, now and after every reconnect. Those that are too long are not added: the server would
    /// close each connection at them.
    pub(crate) fn authenticate(&mut self, auth: Auth, call: Arc<Call>, now: Instant) {
        if self.is_closing() {
            return self.complete(&call, Outcome::Closed);
        }
        let request = Request::Session(SessionRequest::Auth(auth.clone()));
        if let Some(too_long) = self.too_long(&request) {
            return self.complete(&call, too_long);
        }
        self.credentials.push(auth);
        if self.phase == Phase::Connected {
            self.send_auth(&request, Some(call), now);
        } else {
            // They are sent after the next handshake; the caller need not wait for it.
            let header = ReplyHeader { xid: Xid::AUTH, zxid: Zxid::ZERO, err: ErrorCode::OK };
            self.complete(&call, Outcome::Answered(header, Bytes::new()));
        }
    }

    /// Sends all credentials, on a new connection.
    pub(super) fn send_credentials(&mut self, now: Instant) {
        for auth in self.credentials.clone() {
            self.send_auth(&Request::Session(SessionRequest::Auth(auth)), None, now);
        }
    }

    fn send_auth(&mut self, request: &Request, call: Option<Arc<Call>>, now: Instant) {
        self.outgoing.push_back(encode_request(Xid::AUTH, request));
        self.authenticating.push_back(call);
        self.last_sent = now;
    }
}
