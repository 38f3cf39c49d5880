//! Sessions for tests: against no server, with the handshake answered by the test.

use std::time::Duration;

use bytes::BytesMut;
use zoolet_protocol::limits::FRAME_BYTES_MAX_DEFAULT;
use zoolet_protocol::{
    ConnectResponse, ErrorCode, Password, ReplyHeader, Response, SessionId, Xid, Zxid, encode_reply,
};

use super::{Options, Session, encoded};
use crate::clock::{Instant, SuspensionClock};
use crate::proof::Servers;

/// The session timeout that is asked for.
pub(super) const TIMEOUT: Duration = Duration::from_secs(12);
pub(super) const SESSION: SessionId = SessionId(7);

/// The options of a client without credentials.
pub(super) fn options(timeout: Duration, suspension: SuspensionClock) -> Options {
    Options {
        timeout,
        read_only: false,
        connection_timeout: timeout,
        jute_max_buffer: FRAME_BYTES_MAX_DEFAULT,
        attempt: timeout / 3,
        proven_ahead: Duration::ZERO,
        sasl: None,
        session: None,
        suspension,
    }
}

/// A session that is connected.
pub(super) fn connected(at: Instant) -> Session {
    let suspension = SuspensionClock::new(|| Duration::ZERO);
    let mut session = Session::new(options(TIMEOUT, suspension), at);
    shake_hands(&mut session, TIMEOUT, at);
    session
}

/// A connection to a server of an ensemble, whose handshake is answered at once.
pub(super) fn shake_hands(session: &mut Session, timeout: Duration, at: Instant) {
    session.handle_connected(Servers::PerhapsEnsemble, at);
    answer_handshake(session, timeout, at);
}

/// Answers the handshake with this session timeout, and discards what the session sends then.
pub(super) fn answer_handshake(session: &mut Session, timeout: Duration, at: Instant) {
    let response = ConnectResponse {
        protocol_version: 0,
        timeout_ms: i32::try_from(timeout.as_millis()).expect("it is short"),
        session: SESSION,
        password: Password::zero(),
        read_only: Some(false),
    };
    session.handle_frame(encoded(&response), at).expect("it is a handshake");
    while session.poll_transmit().is_some() {}
}

/// Answers a request without a body.
pub(super) fn answer(session: &mut Session, xid: Xid, err: ErrorCode, at: Instant) {
    let header = ReplyHeader { xid, zxid: Zxid(1), err };
    let mut reply = BytesMut::new();
    encode_reply(&header, &Response::Empty, &mut reply);
    session.handle_frame(reply.freeze(), at).expect("it is an answer");
}
