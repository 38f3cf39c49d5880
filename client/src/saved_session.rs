//! A session that one client gives up and another goes on with.

use std::fmt;
use std::time::Duration;

use zoolet_protocol::{Password, SessionId, Zxid};

/// What a client needs to go on with the session of another: for a program that restarts and keeps
/// its ephemeral znodes (`ZooKeeper(.., sessionId, sessionPasswd)` of Java).
///
/// [`Client::hand_over`](crate::Client::hand_over) returns it, and
/// [`Builder::session`](crate::Builder::session) takes it. The other client must be connected before
/// the session times out. Two clients must not use one session at the same time: a server moves it
/// to the connection that came last.
///
/// Watches do not move with the session. Whoever has the password can use the session: keep it as
/// secret as the credentials.
///
/// ```
/// use std::time::Duration;
/// use zoolet_client::SavedSession;
/// use zoolet_client::protocol::{Password, SessionId, Zxid};
///
/// let timeout = Duration::from_secs(30);
/// let saved = SavedSession::new(SessionId(7), Password::from_bytes(vec![1; 16]), timeout, Zxid(40));
/// assert_eq!((saved.id(), saved.last_zxid_seen()), (SessionId(7), Zxid(40)));
/// assert!(!format!("{saved:?}").contains("[1, "), "the password is not shown");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct SavedSession {
    id: SessionId,
    password: Password,
    timeout: Duration,
    last_zxid_seen: Zxid,
}

impl SavedSession {
    /// A session with these properties, as they were stored somewhere. A zxid that is too low can
    /// lead the client to a server that is behind what the other has seen; [`Zxid::ZERO`] is right
    /// where it does not matter.
    #[must_use]
    pub fn new(id: SessionId, password: Password, timeout: Duration, last_zxid_seen: Zxid) -> Self {
        Self { id, password, timeout, last_zxid_seen }
    }

    /// The session id.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// The password of the session.
    #[must_use]
    pub fn password(&self) -> &Password {
        &self.password
    }

    /// The session timeout that the server granted.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The last zxid that the client has seen.
    #[must_use]
    pub fn last_zxid_seen(&self) -> Zxid {
        self.last_zxid_seen
    }
}

/// Without the password.
impl fmt::Debug for SavedSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedSession")
            .field("id", &self.id)
            .field("timeout", &self.timeout)
            .field("last_zxid_seen", &self.last_zxid_seen)
            .finish_non_exhaustive()
    }
}
