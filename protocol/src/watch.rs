//! Watches: their modes and types, and the events that fire them.

use std::fmt;

use crate::code::codes;
use crate::id::integer_newtype;
use crate::path::RawPath;
use crate::record;

/// The type of an event: `Watcher.Event.EventType`.
///
/// ```
/// use zoolet_protocol::EventType;
///
/// assert_eq!(EventType::NODE_DELETED.to_string(), "NodeDeleted");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventType(pub i32);

codes! { EventType {
    /// On the client's side: the state of the connection changed.
    NONE = -1, "None";
    /// The znode was created.
    NODE_CREATED = 1, "NodeCreated";
    /// The znode was deleted.
    NODE_DELETED = 2, "NodeDeleted";
    /// The data of the znode was set.
    NODE_DATA_CHANGED = 3, "NodeDataChanged";
    /// A child of the znode was created or deleted.
    NODE_CHILDREN_CHANGED = 4, "NodeChildrenChanged";
    /// On the client's side: a data watch was removed.
    DATA_WATCH_REMOVED = 5, "DataWatchRemoved";
    /// On the client's side: a child watch was removed.
    CHILD_WATCH_REMOVED = 6, "ChildWatchRemoved";
    /// On the client's side: a persistent watch was removed.
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
    /// The session has expired.
    EXPIRED = -112, "Expired";
} }

record! {
    /// One event as a connection receives it. It is sent once, however many watches of the
    /// connection it fires.
    ///
    /// ```
    /// use zoolet_protocol::{EventType, KeeperState, WatchedEvent};
    ///
    /// let event = WatchedEvent::new(EventType::NODE_DELETED, "/lock");
    /// assert_eq!(event.state, KeeperState::SYNC_CONNECTED);
    /// ```
    #[derive(Debug, Clone, PartialEq, Eq, Hash)]
    pub struct WatchedEvent {
        /// The type of the event.
        pub event_type: EventType,
        /// Always [`KeeperState::SYNC_CONNECTED`] from a server.
        pub state: KeeperState,
        /// The path of the znode. If a child was created or deleted, that of the parent.
        pub path: RawPath,
    }
}

impl WatchedEvent {
    /// An event as servers send it, with [`KeeperState::SYNC_CONNECTED`].
    pub fn new(event_type: EventType, path: impl Into<RawPath>) -> Self {
        Self { event_type, state: KeeperState::SYNC_CONNECTED, path: path.into() }
    }
}

/// The mode of an `addWatch`: `AddWatchMode`.
///
/// ```
/// use zoolet_protocol::WatchMode;
///
/// assert_eq!(WatchMode::PERSISTENT_RECURSIVE.to_string(), "PERSISTENT_RECURSIVE");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchMode(pub i32);

codes! { WatchMode {
    /// Fires on every change of the znode and of its children, until it is removed.
    PERSISTENT = 0, "PERSISTENT";
    /// Fires when the znode or one of its descendants is created or deleted or its data is set,
    /// until the watch is removed.
    PERSISTENT_RECURSIVE = 1, "PERSISTENT_RECURSIVE";
} }

/// The type of watches in `removeWatches` and `checkWatches`: `Watcher.WatcherType`.
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
    /// One-shot data watches, including those of `exists`.
    DATA = 2, "Data";
    /// All watches on the path.
    ANY = 3, "Any";
    /// Persistent watches.
    PERSISTENT = 4, "Persistent";
    /// Persistent recursive watches.
    PERSISTENT_RECURSIVE = 5, "PersistentRecursive";
} }
