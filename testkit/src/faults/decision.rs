//! What a test decides about a request.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use zoolet_core::ConnectionId;
use zoolet_protocol::{ErrorCode, OpCode, Request, SessionId};

use crate::request_paths;

/// What happens to a request, for [`Aim::decide`](super::Aim::decide).
///
/// ```
/// use zoolet_testkit::Fate;
///
/// // The client cannot tell these two apart.
/// let unknown = [Fate::CutBefore, Fate::CutReply];
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The server carries it out and replies.
    Pass,
    /// It is lost on its way to the server, and the client waits.
    Drop,
    /// The server refuses it with this error code, and does nothing of what it asks.
    Fail(ErrorCode),
    /// The server carries it out, and its reply is lost: the client waits.
    LoseReply,
    /// It is lost: the connection closes when it arrives.
    CutBefore,
    /// The server carries it out, and the connection closes in place of its reply. Earlier messages
    /// still leave.
    CutReply,
    /// The server carries it out and replies, and the connection closes after the reply.
    CutAfter,
    /// The session expires when it arrives, and it is not carried out.
    ExpireBefore,
    /// The server carries it out and replies, and then the session expires. The connection closes
    /// after the reply.
    ExpireAfter,
    /// The server carries it out at once, and its reply leaves so much later. What the client would
    /// receive after it waits as well. The longest delay is a thousand years.
    Delay(Duration),
    /// The server carries it out, and freezes before the reply leaves, as if its process were
    /// stopped, until [`Aim::thaw`](super::Aim::thaw) of all clients.
    Freeze,
}

/// A request that has come in, as a test decides about it.
///
/// ```
/// use zoolet_protocol::OpCode;
/// use zoolet_testkit::{Fate, RequestInfo};
///
/// /// Loses the replies to the creates below a path.
/// fn decide(request: &RequestInfo) -> Fate {
///     let mut is_wanted = false;
///     request.each_path(|op, path| is_wanted |= op.is_create() && path.starts_with("/locks/"));
///     if is_wanted { Fate::CutReply } else { Fate::Pass }
/// }
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RequestInfo<'a> {
    /// The connection on which it came.
    pub connection: ConnectionId,
    /// The session of its client.
    pub session: SessionId,
    /// The number of the session: sessions are numbered from 1 in the order in which they were
    /// created since the first start of the server.
    pub session_number: u64,
    /// Its operation.
    pub op: OpCode,
    /// What it asks; `None` if that cannot be decoded.
    pub request: Option<&'a Request>,
}

impl RequestInfo<'_> {
    /// Calls `each` for every path that the request names, as the server sees it, with the operation
    /// that names it: within a multi, the operation in the multi. The create of a sequential znode
    /// names the path without the sequence number.
    pub fn each_path(&self, each: impl FnMut(OpCode, &str)) {
        if let Some(request) = self.request {
            request_paths::each(request, each);
        }
    }
}

/// The function of a test that decides about requests.
#[derive(Clone)]
pub(crate) struct Decide(Arc<Mutex<Function>>);

type Function = dyn FnMut(&RequestInfo<'_>) -> Fate + Send;

impl Decide {
    pub(super) fn new(function: impl FnMut(&RequestInfo<'_>) -> Fate + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(function)))
    }

    pub(super) fn ask(&self, request: &RequestInfo<'_>) -> Fate {
        let mut function = self.0.lock();
        match (*function)(request) {
            // Ok is no error to refuse a request with.
            Fate::Fail(ErrorCode::OK) => Fate::Pass,
            fate => fate,
        }
    }
}

impl fmt::Debug for Decide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decide").finish_non_exhaustive()
    }
}
