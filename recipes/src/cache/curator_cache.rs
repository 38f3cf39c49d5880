//! A copy of a part of the tree that follows its changes: Curator's `CuratorCache`.

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;
use zoolet_protocol::{ZPath, Zxid};

use super::error::CacheError;
use super::event_log::{
    CacheEvents, CacheProgress, CacheState, Content, EventLog, EventPosition, Shared,
};
use super::feed::Feed;
use super::limits::{CACHE_BYTES_MAX, EVENTS_KEPT, SYNC_AGAIN_AFTER};
use super::resync::KeepsData;
use super::selection::{Select, Selection};
use super::store::{Store, child_path};
use super::znode::CachedZnode;
use crate::client::recipe::Publisher;
use crate::client::{self, Client, Subscription};

/// A copy of a znode and its descendants that follows all changes, with one watch.
///
/// Curator's `CuratorCache`, and without its defect: after a reconnect a znode that was deleted and
/// created again meanwhile is recognised by its czxid, so that the copy never stays old.
///
/// - **What it has.** When the tree has been quiet for as long as a message takes, and there is a
///   connection, the copy is the tree. Until then it may be behind, and it never goes back. It
///   shows no change before it shows the changes that came before it; only a znode that was created
///   and set again at once may have the later data from the beginning. Servers before 3.9 send
///   events without zxids: the order is then that of arrival.
/// - **After a reconnect** all cached znodes are read again, several hundred with one request, and
///   children are listed only where they have changed. Until that has ended the copy stays as it
///   was.
/// - **What it cannot see.** A znode that may not be read is missing, and its descendants with it.
///   Changes of access control lists have no events: what may be read from now on is found at its
///   next change.
/// - **Limits.** The copy and its events take bounded memory: [`CuratorCacheBuilder::bytes_max`],
///   [`CuratorCacheBuilder::events_max`].
///
/// Dropping it removes the watch. A server before 3.6 has no such watch: then each znode has two one-shot
/// watches, which cost two requests and stay on the server until they fire or the connection ends, and
/// changes have events in the order of arrival.
///
/// ```no_run
/// use zoolet_client::Client;
/// use zoolet_recipes::CuratorCache;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let cache = CuratorCache::builder(&client, "/services").start()?;
/// cache.initialized().await?;
/// let created = client.create("/services/one").data("10.0.0.7").await?;
/// cache.synced(created.stat.czxid).await?;
/// assert_eq!(cache.get("/services/one").unwrap().data, "10.0.0.7");
/// # Ok(())
/// # }
/// ```
pub struct CuratorCache {
    client: Client,
    root: Arc<str>,
    shared: Arc<Shared>,
    task: AbortOnDropHandle<()>,
}

/// Options of a [`CuratorCache`].
///
/// ```no_run
/// use zoolet_recipes::{CacheError, CuratorCache, Select};
///
/// # fn example(client: zoolet_client::Client) -> Result<(), CacheError> {
/// let cache = CuratorCache::builder(&client, "/app")
///     .select(|path| if path == "/app/logs" { Select::Nothing } else { Select::All })
///     .bytes_max(64 << 20)
///     .start()?;
/// # drop(cache);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it starts the cache"]
pub struct CuratorCacheBuilder {
    client: Client,
    selection: Selection,
    keeps_data: KeepsData,
    bytes_max: usize,
    events_max: usize,
}

impl CuratorCacheBuilder {
    /// Caches the znode alone, without its descendants (`SINGLE_NODE_CACHE`).
    pub fn single_node(self) -> Self {
        self.depth_max(0)
    }

    /// Caches this many levels below the znode: 1 for its children. The server sends the events of
    /// all levels.
    pub fn depth_max(mut self, levels: u32) -> Self {
        self.selection.depth_max = levels;
        self
    }

    /// Caches Stats without data, as Curator's `CuratorCacheStorage.dataNotCached`. Changes of the
    /// data have events all the same.
    pub fn without_data(mut self) -> Self {
        self.keeps_data = KeepsData::No;
        self
    }

    /// Caches only what is selected: Curator's `TreeCacheSelector`. The function must return the
    /// same for a path each time, and not block.
    pub fn select(mut self, select: impl Fn(&str) -> Select + Send + Sync + 'static) -> Self {
        self.selection.selector = Some(Arc::new(select));
        self
    }

    /// The memory that the znodes may take, with an allowance for each; a gibibyte by default. A
    /// resync counts with what it has found. A cache that needs more ends with
    /// [`CacheError::TooLarge`].
    pub fn bytes_max(mut self, bytes: usize) -> Self {
        self.bytes_max = bytes;
        self
    }

    /// How many events are kept for streams that read slowly; 16,384 by default. Fewer are kept when
    /// their znodes take more than 64 MiB, which counts beside
    /// [`CuratorCacheBuilder::bytes_max`].
    pub fn events_max(mut self, count: usize) -> Self {
        self.events_max = count;
        self
    }

    /// Starts to read the tree and to follow it.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if the path is not valid.
    pub fn start(self) -> Result<CuratorCache, CacheError> {
        ZPath::check(&self.selection.root).map_err(client::Error::from)?;
        let content = Content {
            store: Store::default(),
            log: EventLog::new(self.events_max),
            is_initialized: false,
            error: None,
        };
        let progress = CacheProgress { state: CacheState::Filling, zxid: Zxid::ZERO };
        let shared = Arc::new(Shared {
            content: RwLock::new(content),
            progress: Publisher::new(progress),
            probe: Notify::new(),
        });
        let root = Arc::clone(&self.selection.root);
        let feed = Feed {
            client: self.client.clone(),
            selection: self.selection,
            keeps_data: self.keeps_data,
            bytes_max: self.bytes_max,
            shared: Arc::clone(&shared),
        };
        let task = AbortOnDropHandle::new(self.client.spawn(feed.run()));
        Ok(CuratorCache { client: self.client, root, shared, task })
    }
}

impl CuratorCache {
    /// A cache of a znode and all its descendants, unless options say otherwise. The znode need not
    /// exist.
    pub fn builder(client: &Client, path: &str) -> CuratorCacheBuilder {
        CuratorCacheBuilder {
            client: client.clone(),
            selection: Selection { root: path.into(), depth_max: u32::MAX, selector: None },
            keeps_data: KeepsData::Yes,
            bytes_max: CACHE_BYTES_MAX,
            events_max: EVENTS_KEPT,
        }
    }

    /// The path of the cache.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.root
    }

    /// A znode, if the cache has it. This sends no request.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<CachedZnode> {
        self.shared.content.read().store.get(path).map(|record| record.znode(path))
    }

    /// The names of the children of a znode that the cache has, in their order.
    #[must_use]
    pub fn children(&self, path: &str) -> Vec<String> {
        let content = self.shared.content.read();
        content.store.children(path).map(|(name, _)| name.to_owned()).collect()
    }

    /// The children of a znode that the cache has, in the order of their names; `None` if it does
    /// not have the znode.
    #[must_use]
    pub fn children_of(&self, path: &str) -> Option<Vec<CachedZnode>> {
        let content = self.shared.content.read();
        content.store.get(path)?;
        let children = content.store.children(path);
        Some(children.map(|(name, record)| record.znode(&child_path(path, name))).collect())
    }

    /// The number of znodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.content.read().store.len()
    }

    /// Whether it has no znode.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory that the znodes take, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.shared.content.read().store.bytes()
    }

    /// Visits all znodes in the order of their paths, as they are at one moment. The cache follows
    /// no changes meanwhile, so the visit should be short. The function must not call the cache:
    /// that could wait for ever.
    pub fn for_each(&self, mut visit: impl FnMut(CachedZnode)) {
        let content = self.shared.content.read();
        content.store.iter().for_each(|(path, record)| visit(record.znode(path)));
    }

    /// All znodes in the order of their paths, and the events of what changes after that.
    #[must_use]
    pub fn znodes_and_events(&self) -> (Vec<CachedZnode>, CacheEvents) {
        let content = self.shared.content.read();
        let znodes = content.store.iter().map(|(path, record)| record.znode(path)).collect();
        (znodes, CacheEvents::new(&self.shared, content.log.end()))
    }

    /// As [`CuratorCache::znodes_and_events`], and whether there was an
    /// [`Initialized`](crate::CacheEvent::Initialized) before these events.
    pub(crate) fn known_and_events(&self) -> (Vec<CachedZnode>, bool, CacheEvents) {
        let content = self.shared.content.read();
        let znodes = content.store.iter().map(|(path, record)| record.znode(path)).collect();
        let events = CacheEvents::new(&self.shared, content.log.end());
        (znodes, content.is_initialized, events)
    }

    /// Reads znodes of the cache from elsewhere.
    pub(crate) fn reader(&self) -> impl Fn(&str) -> Option<CachedZnode> + Send + use<> {
        let shared = Arc::clone(&self.shared);
        move |path| shared.content.read().store.get(path).map(|record| record.znode(path))
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The events from now on.
    #[must_use]
    pub fn events(&self) -> CacheEvents {
        let end = self.shared.content.read().log.end();
        CacheEvents::new(&self.shared, end)
    }

    /// The events after a position in a stream of this cache. If some of them were dropped by now,
    /// the first result is [`CacheError::FellBehind`].
    #[must_use]
    pub fn events_after(&self, position: EventPosition) -> CacheEvents {
        CacheEvents::new(&self.shared, position)
    }

    /// How far the cache is, to be read and awaited. It changes with each event too.
    #[must_use]
    pub fn progress(&self) -> Subscription<CacheProgress> {
        self.shared.progress.subscribe()
    }

    /// Waits until the cache has the whole tree for the first time.
    ///
    /// # Errors
    ///
    /// Why the cache has ended.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn initialized(&self) -> Result<(), CacheError> {
        self.wait_for(|progress| progress.state != CacheState::Filling).await
    }

    /// Waits until all changes up to a transaction are in the cache: with the zxid of a write,
    /// until the cache shows that write.
    ///
    /// If it is not there yet, a request makes the server catch up with its ensemble.
    ///
    /// # Errors
    ///
    /// Why the cache has ended; the errors of a write, except for a lost connection, which is
    /// waited for.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn synced(&self, zxid: Zxid) -> Result<(), CacheError> {
        let has_it = |progress: &CacheProgress| {
            progress.zxid >= zxid && progress.state == CacheState::Current
        };
        loop {
            let now = *self.shared.progress.borrow();
            if has_it(&now) || now.state == CacheState::Closed {
                return self.wait_for(has_it).await;
            }
            match self.client.connected_session().await?.catch_up(&self.root).await {
                Err(client::Error::SessionExpired) => {}
                caught_up => caught_up?,
            }
            self.shared.probe.notify_one();
            // The answer is lost if the connection is.
            if let Ok(done) = tokio::time::timeout(SYNC_AGAIN_AFTER, self.wait_for(has_it)).await {
                return done;
            }
        }
    }

    /// Waits until everything is in the cache that was committed before this call, by whomever.
    ///
    /// # Errors
    ///
    /// As [`CuratorCache::synced`].
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn catch_up(&self) -> Result<(), CacheError> {
        loop {
            let session = self.client.connected_session().await?;
            let asked = async {
                session.catch_up(&self.root).await?;
                let exists = self.client.exists_with_zxid(&self.root);
                exists.in_session(session.id()).until_answered().await
            };
            match asked.await {
                Ok((_, zxid)) => return self.synced(zxid).await,
                Err(client::Error::SessionExpired) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn wait_for(
        &self,
        mut is_there: impl FnMut(&CacheProgress) -> bool,
    ) -> Result<(), CacheError> {
        let mut progress = self.shared.progress.subscribe();
        let ends =
            |progress: &CacheProgress| progress.state == CacheState::Closed || is_there(progress);
        let reached = progress.wait_for(ends).await.map(|progress| *progress);
        match (reached, self.shared.content.read().error.clone()) {
            (Ok(progress), Some(error)) if progress.state == CacheState::Closed => Err(error),
            _ => Ok(()),
        }
    }

    /// Ends the cache. Its streams end with [`CacheError::Closed`] after their last event. What it
    /// has can still be read, as with Curator's `DO_NOT_CLEAR_ON_CLOSE`.
    pub fn close(&self) {
        self.task.abort();
        let mut content = self.shared.content.write();
        content.error.get_or_insert_with(|| CacheError::Closed(self.root.to_string()));
        drop(content);
        self.shared.progress.send_modify(|progress| progress.state = CacheState::Closed);
    }
}

impl Drop for CuratorCache {
    fn drop(&mut self) {
        self.close();
        // Streams live longer, and read events alone.
        let znodes = std::mem::take(&mut self.shared.content.write().store);
        drop(znodes);
    }
}

impl fmt::Debug for CuratorCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let progress = *self.shared.progress.borrow();
        f.debug_struct("CuratorCache")
            .field("root", &self.root)
            .field("progress", &progress)
            .field("znodes", &self.len())
            .finish_non_exhaustive()
    }
}
