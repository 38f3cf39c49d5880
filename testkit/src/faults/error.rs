//! Why a fault could not be set.

use std::time::Duration;

use zoolet_core::ConnectionId;
use zoolet_protocol::{PathError, SessionId};

/// Why a fault could not be set.
///
/// ```
/// use zoolet_protocol::SessionId;
/// use zoolet_testkit::{FaultError, TestServer};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = TestServer::start().await?;
/// let error = server.session(SessionId(7)).expire().unwrap_err();
/// assert!(error.to_string().starts_with("no session 0x7 lives; none does"), "{error}");
/// server.stop().await;
/// assert!(matches!(server.connections(), Err(FaultError::Stopped)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultError {
    /// No server runs with these faults.
    #[error("no server runs with these faults; start one, or start the stopped one again")]
    Stopped,
    /// A duration is too long.
    #[error("{0:?} is too long; the limit is a thousand years in total")]
    TooLong(Duration),
    /// A path is invalid, so no request can name it.
    #[error("no request can name the path {path:?}: {error} (give it as the server sees it)")]
    Path {
        /// The invalid path.
        path: String,
        /// Why it is invalid.
        error: PathError,
    },
    /// A request was to be refused with [`ErrorCode::OK`](zoolet_protocol::ErrorCode::OK).
    #[error("a request cannot be refused with Ok, which is not an error; give another code")]
    NoError,
    /// The state could not be reset.
    #[error("the state cannot be reset: {0}")]
    Reset(String),
    /// The session does not live.
    #[error(
        "no session {session} lives; {} (ask a connected client for its session id; a session that \
         has ended does not come back)",
        listed(live, "none does", "these do: ")
    )]
    UnknownSession {
        /// The session that does not live.
        session: SessionId,
        /// The live sessions.
        live: Vec<SessionId>,
    },
    /// The connection is not open.
    #[error(
        "no connection {} is open; {} (Faults::connections lists them; a client that comes back has \
         another, so aim at its session)",
        connection.0,
        listed(&open.iter().map(|open| open.0).collect::<Vec<_>>(), "none is", "these are: ")
    )]
    UnknownConnection {
        /// The connection that is not open.
        connection: ConnectionId,
        /// The open connections.
        open: Vec<ConnectionId>,
    },
}

/// Lists the first ids.
fn listed<T: ToString>(all: &[T], none: &str, some: &str) -> String {
    const SHOWN_MAX: usize = 8;
    if all.is_empty() {
        return none.to_owned();
    }
    let shown: Vec<_> = all.iter().take(SHOWN_MAX).map(ToString::to_string).collect();
    let more = if all.len() > SHOWN_MAX { ", and more" } else { "" };
    format!("{some}{}{more}", shown.join(", "))
}
