//! Where a cache hears of changes: one persistent watch, or one-shot watches on each znode.
//!
//! Servers before 3.6 have one-shot watches only. Then each znode of the cache has a watch for its
//! data, left by the read that found it, and one for its children, left by a list of them. An event
//! says that its watch is gone, so what it tells of is read again, which leaves the next watch: no
//! change is missed between. New children are found by the lists, deleted ones by their own watches.
//!
//! Several changes may be one event, so that the zxid of an event, where it has one, is not that of
//! what is read after it. These events count as those of a server that tells no zxids.

use std::sync::Arc;

use zoolet_protocol::{EventType, WatchMode, Zxid};

use super::selection::Selection;
use crate::client::recipe::OneShotWatches;
use crate::client::{Client, Error, Event, PersistentWatcher};

/// The watches of a cache in one session.
pub(crate) enum Source {
    Persistent(PersistentWatcher),
    OneShot(Arc<OneShotWatches>),
}

impl Source {
    /// Sets the persistent watch of a cache.
    pub(crate) async fn persistent(client: &Client, root: &str) -> Result<Self, Error> {
        // Also for one znode: a server before 3.9 has one mode for a path and a connection, so that
        // another mode would take the events of descendants from another cache of the same path.
        client.watch(root, WatchMode::PERSISTENT_RECURSIVE).await.map(Self::Persistent)
    }

    /// One-shot watches, none of which is set.
    pub(crate) fn one_shot(client: &Client) -> Self {
        Self::OneShot(Arc::new(client.one_shot_watches()))
    }

    /// The one-shot watches, if it has such.
    pub(crate) fn one_shots(&self) -> Option<&Arc<OneShotWatches>> {
        match self {
            Self::Persistent(_) => None,
            Self::OneShot(watches) => Some(watches),
        }
    }

    /// The next event.
    ///
    /// # Errors
    ///
    /// The session or the client has ended.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub(crate) async fn next(&mut self) -> Result<Event, Error> {
        match self {
            Self::Persistent(watcher) => watcher.next().await,
            Self::OneShot(watches) => watches.next().await,
        }
    }
}

/// What an event has a cache do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// To queue a change of a znode.
    Change(EventType, Zxid),
    /// To list the children of a znode.
    List,
    Nothing,
}

impl Task {
    /// What follows from an event of a persistent watch, or of a one-shot watch.
    pub(crate) fn of(event: &Event, selection: &Selection, is_one_shot: bool) -> Self {
        let is_of_znode = matches!(
            event.event_type,
            EventType::NODE_CREATED | EventType::NODE_DELETED | EventType::NODE_DATA_CHANGED
        );
        match event.event_type {
            EventType::NODE_CHILDREN_CHANGED if is_one_shot && selection.traverses(&event.path) => {
                Self::List
            }
            _ if !is_of_znode || !selection.includes(&event.path) => Self::Nothing,
            // Whatever it was, the znode is read; the watches of its children tell the rest.
            _ if is_one_shot => Self::Change(EventType::NODE_CREATED, Zxid::NONE),
            event_type => Self::Change(event_type, event.zxid),
        }
    }
}
