//! The last events of a cache, for streams that read them at their own pace.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::Notify;
use zoolet_protocol::Zxid;

use super::error::CacheError;
use super::event::CacheEvent;
use super::limits::EVENT_BYTES_KEPT;
use super::store::Store;
use crate::client::Subscription;
use crate::client::recipe::Publisher;

/// The place of a stream among the events of one cache, with which another stream goes on there.
///
/// ```no_run
/// # fn example(cache: zoolet_recipes::CuratorCache, done: zoolet_recipes::EventPosition) {
/// let events = cache.events_after(done);
/// # drop(events);
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventPosition(pub(crate) u64);

/// Events, of which the oldest are dropped.
#[derive(Debug)]
pub(crate) struct EventLog {
    /// How many events were dropped.
    dropped: u64,
    events: VecDeque<CacheEvent>,
    count_max: usize,
    /// The memory of the znodes of the events.
    bytes: usize,
}

impl EventLog {
    pub(crate) fn new(count_max: usize) -> Self {
        Self { dropped: 0, events: VecDeque::new(), count_max: count_max.max(1), bytes: 0 }
    }

    pub(crate) fn push(&mut self, event: CacheEvent) {
        self.bytes += event.bytes();
        self.events.push_back(event);
        // The last event is kept, however long it is.
        while self.events.len() > self.count_max
            || self.bytes > EVENT_BYTES_KEPT && self.events.len() > 1
        {
            self.bytes -= self.events.pop_front().as_ref().map_or(0, CacheEvent::bytes);
            self.dropped += 1;
        }
    }

    /// The position behind the last event.
    pub(crate) fn end(&self) -> EventPosition {
        EventPosition(self.dropped + self.events.len() as u64)
    }

    /// The event at a position, if it has come. `Err` tells how many were dropped that had not been
    /// read.
    fn at(&self, position: EventPosition) -> Result<Option<&CacheEvent>, u64> {
        let EventPosition(position) = position;
        match position.checked_sub(self.dropped) {
            Some(index) => Ok(usize::try_from(index).ok().and_then(|index| self.events.get(index))),
            None => Err(self.dropped - position),
        }
    }
}

/// How far a cache is.
///
/// ```
/// use zoolet_recipes::CacheState;
///
/// assert_ne!(CacheState::Filling, CacheState::Current);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CacheState {
    /// The tree is read for the first time; the cache is empty.
    Filling,
    /// The cache has the whole tree, and follows its changes.
    Current,
    /// There is no connection, so that the cache may be old.
    Suspended,
    /// The connection was lost and is there again. The cache is what it was before, until the
    /// resync has ended.
    Resyncing,
    /// The cache follows no changes any more.
    Closed,
}

/// How far a cache is, and up to which transaction.
///
/// ```
/// use zoolet_recipes::{CacheProgress, CacheState};
/// use zoolet_recipes::protocol::Zxid;
///
/// let progress = CacheProgress { state: CacheState::Filling, zxid: Zxid::ZERO };
/// assert_eq!(progress.zxid, Zxid(0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheProgress {
    /// What the cache does.
    pub state: CacheState,
    /// All changes up to this transaction are certainly in the cache. Later ones may be too:
    /// [`CuratorCache::synced`](crate::CuratorCache::synced) asks the server.
    pub zxid: Zxid,
}

/// What a cache has, and its readers share with the task that follows the tree.
pub(crate) struct Shared {
    pub(crate) content: RwLock<Content>,
    /// Changes after each event too.
    pub(crate) progress: Publisher<CacheProgress>,
    /// Asks the task how far the server is.
    pub(crate) probe: Notify,
}

pub(crate) struct Content {
    pub(crate) store: Store,
    pub(crate) log: EventLog,
    /// The log has, or had, the event that the cache is initialized.
    pub(crate) is_initialized: bool,
    /// Why the cache has ended.
    pub(crate) error: Option<CacheError>,
}

/// The events of a cache from a moment on: [`CuratorCache::events`](crate::CuratorCache::events).
///
/// ```no_run
/// use zoolet_recipes::{CacheError, CacheEvent, CuratorCache};
///
/// # async fn example(cache: CuratorCache) -> Result<(), CacheError> {
/// let mut events = cache.events();
/// loop {
///     match events.next().await {
///         Ok(CacheEvent::Deleted { znode, .. }) => println!("{} had {:?}", znode.path, znode.data),
///         Ok(event) => println!("{event:?}"),
///         Err(CacheError::FellBehind { .. }) => cache.for_each(|znode| println!("{znode:?}")),
///         Err(error) => return Err(error),
///     }
/// }
/// # }
/// ```
pub struct CacheEvents {
    shared: Arc<Shared>,
    progress: Subscription<CacheProgress>,
    position: EventPosition,
}

impl CacheEvents {
    pub(crate) fn new(shared: &Arc<Shared>, position: EventPosition) -> Self {
        let progress = shared.progress.subscribe();
        Self { shared: Arc::clone(shared), progress, position }
    }

    /// Behind the last event that was returned: another stream can go on there.
    #[must_use]
    pub fn position(&self) -> EventPosition {
        self.position
    }

    /// The next event.
    ///
    /// # Errors
    ///
    /// [`CacheError::FellBehind`] once, if events were dropped before they were read; the stream
    /// goes on with those that came after this error. Why the cache has ended, after its last
    /// event.
    ///
    /// # Cancellation
    ///
    /// Safe: no event is lost.
    pub async fn next(&mut self) -> Result<CacheEvent, CacheError> {
        loop {
            self.progress.mark_unchanged();
            if let Some(result) = self.try_next() {
                return result;
            }
            if self.progress.changed().await.is_err() {
                unreachable!("the stream keeps the sender alive");
            }
        }
    }

    /// The next event, if it has come: as [`CacheEvents::next`].
    pub fn try_next(&mut self) -> Option<Result<CacheEvent, CacheError>> {
        let content = self.shared.content.read();
        match content.log.at(self.position) {
            Ok(Some(event)) => {
                self.position.0 += 1;
                Some(Ok(event.clone()))
            }
            Ok(None) => content.error.clone().map(Err),
            Err(_) => {
                let EventPosition(end) = content.log.end();
                let missed = end - self.position.0;
                self.position.0 = end;
                Some(Err(CacheError::FellBehind { missed }))
            }
        }
    }
}

impl std::fmt::Debug for CacheEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CacheEvents").field("position", &self.position).finish_non_exhaustive()
    }
}
