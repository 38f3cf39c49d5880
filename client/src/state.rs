//! The state of a client's connection, in Curator's terms.

/// How a client stands with its servers (`ConnectionState` of Curator).
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
    /// Without a connection; the session may live or not.
    Suspended,
    /// Connected again after [`ConnectionState::Suspended`] or [`ConnectionState::Lost`].
    Reconnected,
    /// The session is over, or must be taken to be: ephemerals and locks are gone.
    Lost,
    /// Connected to a server that serves reads only.
    ReadOnly,
}

impl ConnectionState {
    /// Whether requests can be answered.
    #[must_use]
    pub fn is_connected(self) -> bool {
        matches!(self, Self::Connected | Self::Reconnected | Self::ReadOnly)
    }
}
