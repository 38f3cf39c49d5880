//! Why a fault cannot be.

use std::time::Duration;

use zoolet_core::ConnectionId;
use zoolet_protocol::{PathError, SessionId};

/// Why a fault cannot be.
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
    /// A time is longer than may be.
    #[error("{0:?} is too long; a thousand years are the most, in all")]
    TooLong(Duration),
    /// A path is one of no znode, so that no request would ever be about it.
    #[error("no request is about the path {path:?}: {error} (give it as the server sees it)")]
    Path {
        /// The one that was given.
        path: String,
        /// What is wrong with it.
        error: PathError,
    },
    /// A refusal with [`ErrorCode::OK`](zoolet_protocol::ErrorCode::OK).
    #[error("a request is refused with an error, and Ok is none; give another code")]
    NoError,
    /// There is no such session.
    #[error(
        "no session {session} lives; {} (ask a connected client for its session id; a session that \
         has ended does not come back)",
        listed(live, "none does", "these do: ")
    )]
    UnknownSession {
        /// The one that was asked for.
        session: SessionId,
        /// Those that there are.
        live: Vec<SessionId>,
    },
    /// There is no such connection.
    #[error(
        "no connection {} is open; {} (Faults::connections lists them; a client that comes back has \
         another, so aim at its session)",
        connection.0,
        listed(&open.iter().map(|open| open.0).collect::<Vec<_>>(), "none is", "these are: ")
    )]
    UnknownConnection {
        /// The one that was asked for.
        connection: ConnectionId,
        /// Those that there are.
        open: Vec<ConnectionId>,
    },
}

/// Names the first of those that there are.
fn listed<T: ToString>(all: &[T], none: &str, some: &str) -> String {
    const SHOWN_MAX: usize = 8;
    if all.is_empty() {
        return none.to_owned();
    }
    let shown: Vec<_> = all.iter().take(SHOWN_MAX).map(ToString::to_string).collect();
    let more = if all.len() > SHOWN_MAX { ", and more" } else { "" };
    format!("{some}{}{more}", shown.join(", "))
}
