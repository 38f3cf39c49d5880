//! What a connection waits for. A member handles the requests of a connection in order: a request
//! behind a write waits until the member has applied the write.

use zoolet_core::Identities;
use zoolet_protocol::{
    ConnectRequest, ConnectResponse, ErrorCode, Password, Read, Request, RequestHeader, Response,
    SessionId, Write, Xid,
};

/// A request's header, and the identities of its connection when it came in.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) header: RequestHeader,
    pub(super) identities: Identities,
}

/// The next step of a request.
#[derive(Debug)]
pub(super) enum Step {
    /// The member answers it from its own state.
    Local(Asked, Request),
    /// The member refuses it.
    Refused(Xid, ErrorCode, Response),
    /// The leader commits it.
    Write(Asked, Change),
    /// The leader tells the last committed zxid.
    Sync(Asked, Read),
    /// The leader creates a session.
    Begin(ConnectRequest),
    /// The leader tells whether the session is alive.
    Resume(ConnectRequest),
    /// The member answers when it has applied the transaction at this index.
    Committed(usize, Answer),
    /// The member answers when it has applied this many transactions.
    Reached(usize, Asked, Read),
}

/// What the leader commits.
#[derive(Debug)]
pub(super) enum Change {
    Write(Write),
    /// Nothing, but the refusal takes a zxid.
    Refused(ErrorCode),
}

/// The reply to a committed request.
#[derive(Debug)]
pub(super) enum Answer {
    Reply(Xid),
    Handshake(ConnectResponse),
}

/// What a member does with a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Treatment {
    CarryOut,
    /// It answers with this error code, and does nothing of what the request asks.
    Refuse(ErrorCode),
}

impl Step {
    /// How many transactions the member must have applied, if that is known.
    pub(super) fn awaited(&self) -> Option<usize> {
        match self {
            Self::Committed(index, _) => Some(index + 1),
            Self::Reached(place, ..) => Some(*place),
            _ => None,
        }
    }

    /// What the leader decides with.
    pub(super) fn is_for_leader(&self) -> bool {
        matches!(self, Self::Write(..) | Self::Sync(..) | Self::Begin(_) | Self::Resume(_))
    }
}

pub(super) fn accepted(
    session: SessionId,
    request: &ConnectRequest,
    timeout_ms: i32,
) -> ConnectResponse {
    ConnectResponse {
        protocol_version: 0,
        timeout_ms,
        session,
        password: Password::of(session),
        read_only: request.read_only.map(|_| false),
    }
}
