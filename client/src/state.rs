//! The connection state of a client, in Curator's terms.

/// The connection state of a client (`ConnectionState` of Curator):
/// [`Client::state`](crate::Client::state).
///
/// ```
/// use zoolet_client::ConnectionState;
///
/// assert!(ConnectionState::Reconnected.is_connected());
/// assert!(!ConnectionState::Suspended.is_connected());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnectionState {
    /// Connected for the first time.
    Connected,
    /// Not connected; the server may have expired the session or not.
    Suspended,
    /// Connected again after [`ConnectionState::Suspended`] or [`ConnectionState::Lost`].
    Reconnected,
    /// The session has expired, or must be taken to have: its ephemerals and locks are gone.
    Lost,
    /// Connected to a server that serves reads only.
    ReadOnly,
}

impl ConnectionState {
    /// Whether there is a connection over which requests are answered.
    #[must_use]
    pub fn is_connected(self) -> bool {
        matches!(self, Self::Connected | Self::Reconnected | Self::ReadOnly)
    }
}
