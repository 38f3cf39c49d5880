//! Watches: their kinds, and the events that they fire.

use std::fmt;

use crate::code::codes;
use crate::id::integer_newtype;
use crate::path::RawPath;
use crate::record;

/// What happened to a znode: `Watcher.Event.EventType`.
///
/// ```
/// use zoolet_protocol::EventType;
///
/// assert_eq!(EventType::NODE_DELETED.to_string(), "NodeDeleted");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventType(pub i32);

codes! { EventType {
    /// Client side: only the connection's state changed.
    NONE = -1, "None";
    /// It was created.
    NODE_CREATED = 1, "NodeCreated";
    /// It was deleted.
    NODE_DELETED = 2, "NodeDeleted";
    /// Its data was set.
    NODE_DATA_CHANGED = 3, "NodeDataChanged";
    /// A child was created or deleted.
    NODE_CHILDREN_CHANGED = 4, "NodeChildrenChanged";
    /// Client side: a data watch was taken back.
    DATA_WATCH_REMOVED = 5, "DataWatchRemoved";
    /// Client side: a child watch was taken back.
    CHILD_WATCH_REMOVED = 6, "ChildWatchRemoved";
    /// Client side: a persistent watch was taken back.
    PERSISTENT_WATCH_REMOVED = 7, "PersistentWatchRemoved";
} }

/// The state of a client's connection: `Watcher.Event.KeeperState`. A server sends only
/// [`KeeperState::SYNC_CONNECTED`].
///
/// ```
/// use zoolet_protocol::KeeperState;
///
/// assert_eq!(KeeperState::SYNC_CONNECTED, KeeperState(3));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeeperState(pub i32);

codes! { KeeperState {
    /// No connection.
    DISCONNECTED = 0, "Disconnected";
    /// Connected.
    SYNC_CONNECTED = 3, "SyncConnected";
    /// The credentials were refused.
    AUTH_FAILED = 4, "AuthFailed";
    /// Connected to a read-only server.
    CONNECTED_READ_ONLY = 5, "ConnectedReadOnly";
    /// SASL succeeded.
    SASL_AUTHENTICATED = 6, "SaslAuthenticated";
    /// Closed by the client.
    CLOSED = 7, "Closed";
    /// The session is over.
    EXPIRED = -112, "Expired";
} }

record! {
    /// One event, as it goes to one connection, whatever number of its watches it fires.
    ///
    /// ```
    /// use zoolet_protocol::{EventType, KeeperState, WatchedEvent};
    ///
    /// let event = WatchedEvent::new(EventType::NODE_DELETED, "/lock");
    /// assert_eq!(event.state, KeeperState::SYNC_CONNECTED);
    /// ```
    #[derive(Debug, Clone, PartialEq, Eq, Hash)]
    pub struct WatchedEvent {
        /// What happened.
        pub event_type: EventType,
        /// Always [`KeeperState::SYNC_CONNECTED`] from a server.
        pub state: KeeperState,
        /// To which znode; for children, their parent.
        pub path: RawPath,
    }
}

impl WatchedEvent {
    /// An event as a server sends it.
    pub fn new(event_type: EventType, path: impl Into<RawPath>) -> Self {
        Self { event_type, state: KeeperState::SYNC_CONNECTED, path: path.into() }
    }
}

/// How an `addWatch` watches: `AddWatchMode`.
///
/// ```
/// use zoolet_protocol::WatchMode;
///
/// assert_eq!(WatchMode::PERSISTENT_RECURSIVE.to_string(), "PERSISTENT_RECURSIVE");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchMode(pub i32);

codes! { WatchMode {
    /// Every change of the znode and of its list of children, until it is taken back.
    PERSISTENT = 0, "PERSISTENT";
    /// Every creation, deletion and data change of the znode and all its descendants.
    PERSISTENT_RECURSIVE = 1, "PERSISTENT_RECURSIVE";
} }

/// Which watches `removeWatches` and `checkWatches` mean: `Watcher.WatcherType`.
///
/// ```
/// use zoolet_protocol::WatcherType;
///
/// assert_eq!(WatcherType::ANY, WatcherType(3));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatcherType(pub i32);

codes! { WatcherType {
    /// One-shot child watches.
    CHILDREN = 1, "Children";
    /// One-shot data and exists watches.
    DATA = 2, "Data";
    /// All on the path.
    ANY = 3, "Any";
    /// Persistent watches.
    PERSISTENT = 4, "Persistent";
    /// Persistent recursive watches.
    PERSISTENT_RECURSIVE = 5, "PersistentRecursive";
} }
