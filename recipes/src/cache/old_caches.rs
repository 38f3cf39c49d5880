//! The caches that Curator had before `CuratorCache`, as views of one: `NodeCache`,
//! `PathChildrenCache` and `TreeCache`, with the events of their listeners.

use std::sync::Arc;

use tokio_util::task::AbortOnDropHandle;

use super::curator_cache::CuratorCache;
use super::error::CacheError;
use super::event::CacheEvent;
use super::event_log::CacheEvents;
use super::selection::Select;
use super::znode::CachedZnode;
use crate::client::Client;

/// An event of a [`TreeCache`] or a [`PathChildrenCache`], under the names of Curator's
/// `TreeCacheEvent`.
///
/// Curator's `PathChildrenCacheEvent` says `CHILD_` where this says `Node`.
///
/// ```
/// use zoolet_recipes::TreeCacheEvent;
///
/// assert!(TreeCacheEvent::Initialized.znode().is_none());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TreeCacheEvent {
    /// `NODE_ADDED`, `CHILD_ADDED`.
    NodeAdded(Arc<CachedZnode>),
    /// `NODE_UPDATED`, `CHILD_UPDATED`.
    NodeUpdated {
        /// The znode before.
        before: Arc<CachedZnode>,
        /// The znode.
        znode: Arc<CachedZnode>,
    },
    /// `NODE_REMOVED`, `CHILD_REMOVED`, with the last data.
    NodeRemoved(Arc<CachedZnode>),
    /// `CONNECTION_SUSPENDED`.
    ConnectionSuspended,
    /// `CONNECTION_RECONNECTED`, after the changes of the time without a connection.
    ConnectionReconnected,
    /// `CONNECTION_LOST`: the session has expired.
    ConnectionLost,
    /// `INITIALIZED`: all znodes have been added.
    Initialized,
    /// The listener was so slow that this many events were dropped. Read the cache again. Curator
    /// has no such event: its queue takes more and more memory.
    FellBehind(u64),
}

impl TreeCacheEvent {
    /// The znode that was added, updated or removed.
    #[must_use]
    pub fn znode(&self) -> Option<&Arc<CachedZnode>> {
        match self {
            Self::NodeAdded(znode) | Self::NodeRemoved(znode) => Some(znode),
            Self::NodeUpdated { znode, .. } => Some(znode),
            _ => None,
        }
    }
}

impl From<CacheEvent> for TreeCacheEvent {
    fn from(event: CacheEvent) -> Self {
        match event {
            CacheEvent::Created { znode, .. } => Self::NodeAdded(znode),
            CacheEvent::Changed { before, znode, .. } => Self::NodeUpdated { before, znode },
            CacheEvent::Deleted { znode, .. } => Self::NodeRemoved(znode),
            CacheEvent::Initialized { .. } => Self::Initialized,
            CacheEvent::Suspended => Self::ConnectionSuspended,
            CacheEvent::Lost => Self::ConnectionLost,
            CacheEvent::Resynced { .. } => Self::ConnectionReconnected,
        }
    }
}

/// A listener that is called until this is dropped.
///
/// ```no_run
/// # fn example(cache: zoolet_recipes::TreeCache) {
/// let listening: zoolet_recipes::Listening = cache.listen(|event| println!("{event:?}"));
/// drop(listening); // it is not called any more
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a listener is called only while this lives"]
pub struct Listening(AbortOnDropHandle<()>);

impl Listening {
    /// Whether the listener is called no more, because the cache has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.0.is_finished()
    }
}

/// Calls a listener with what is in the cache, and then with each event.
async fn tell(
    known: Vec<CachedZnode>,
    is_initialized: bool,
    mut events: CacheEvents,
    mut listener: impl FnMut(TreeCacheEvent),
) {
    for znode in known {
        listener(TreeCacheEvent::NodeAdded(Arc::new(znode)));
    }
    if is_initialized {
        listener(TreeCacheEvent::Initialized);
    }
    loop {
        match events.next().await {
            Ok(event) => listener(event.into()),
            Err(CacheError::FellBehind { missed }) => listener(TreeCacheEvent::FellBehind(missed)),
            Err(_) => return,
        }
    }
}

/// A znode and its descendants: Curator's `TreeCache`, which is a [`CuratorCache`] with other
/// events.
///
/// ```no_run
/// use zoolet_recipes::{CuratorCache, TreeCache};
///
/// # fn example(client: zoolet_client::Client) -> Result<(), zoolet_recipes::CacheError> {
/// let tree = TreeCache::of(CuratorCache::builder(&client, "/app").depth_max(3).start()?);
/// let listening = tree.listen(|event| println!("{event:?}"));
/// # drop(listening);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TreeCache {
    client: Client,
    cache: CuratorCache,
}

impl TreeCache {
    /// A view of a cache.
    #[must_use]
    pub fn of(cache: CuratorCache) -> Self {
        Self { client: cache.client().clone(), cache }
    }

    /// Starts a cache of a znode and all its descendants.
    ///
    /// # Errors
    ///
    /// As [`CuratorCacheBuilder::start`](crate::CuratorCacheBuilder::start).
    pub fn start(client: &Client, path: &str) -> Result<Self, CacheError> {
        Ok(Self::of(CuratorCache::builder(client, path).start()?))
    }

    /// The cache.
    #[must_use]
    pub fn cache(&self) -> &CuratorCache {
        &self.cache
    }

    /// A znode (`getCurrentData`).
    #[must_use]
    pub fn current_data(&self, path: &str) -> Option<CachedZnode> {
        self.cache.get(path)
    }

    /// The children of a znode; `None` if the cache does not have it (`getCurrentChildren`).
    #[must_use]
    pub fn current_children(&self, path: &str) -> Option<Vec<CachedZnode>> {
        self.cache.children_of(path)
    }

    /// Calls a listener with all znodes that are there, and with each event, one at a time, on the
    /// runtime of the client. It must not block.
    pub fn listen(&self, listener: impl FnMut(TreeCacheEvent) + Send + 'static) -> Listening {
        let (known, is_initialized, events) = self.cache.known_and_events();
        let told = self.client.spawn(tell(known, is_initialized, events, listener));
        Listening(AbortOnDropHandle::new(told))
    }
}

/// The children of a znode, without the znode itself and without its other descendants: Curator's
/// `PathChildrenCache`.
///
/// ```no_run
/// use zoolet_recipes::PathChildrenCache;
///
/// # async fn example(client: zoolet_client::Client) -> Result<(), zoolet_recipes::CacheError> {
/// let members = PathChildrenCache::start(&client, "/members")?;
/// members.initialized().await?;
/// println!("{:?}", members.current_data());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PathChildrenCache(TreeCache);

impl PathChildrenCache {
    /// Starts to follow the children of a znode. It need not exist.
    ///
    /// # Errors
    ///
    /// As [`CuratorCacheBuilder::start`](crate::CuratorCacheBuilder::start).
    pub fn start(client: &Client, path: &str) -> Result<Self, CacheError> {
        let cache = CuratorCache::builder(client, path).depth_max(1).start()?;
        Ok(Self(TreeCache::of(cache)))
    }

    /// Starts to follow the children that are selected by their paths.
    ///
    /// # Errors
    ///
    /// As [`PathChildrenCache::start`].
    pub fn start_selecting(
        client: &Client,
        path: &str,
        select: impl Fn(&str) -> Select + Send + Sync + 'static,
    ) -> Result<Self, CacheError> {
        let cache = CuratorCache::builder(client, path).depth_max(1).select(select).start()?;
        Ok(Self(TreeCache::of(cache)))
    }

    /// The cache, which has the parent too.
    #[must_use]
    pub fn cache(&self) -> &CuratorCache {
        self.0.cache()
    }

    /// Waits until all children are there.
    ///
    /// # Errors
    ///
    /// As [`CuratorCache::initialized`].
    pub async fn initialized(&self) -> Result<(), CacheError> {
        self.cache().initialized().await
    }

    /// The children in the order of their names (`getCurrentData`).
    #[must_use]
    pub fn current_data(&self) -> Vec<CachedZnode> {
        self.cache().children_of(self.cache().root()).unwrap_or_default()
    }

    /// As [`TreeCache::listen`], without the events of the parent.
    pub fn listen(&self, mut listener: impl FnMut(TreeCacheEvent) + Send + 'static) -> Listening {
        let root = self.cache().root().to_owned();
        self.0.listen(move |event| {
            if event.znode().is_none_or(|znode| znode.path != root) {
                listener(event);
            }
        })
    }
}

/// One znode: Curator's `NodeCache`.
///
/// ```no_run
/// use zoolet_recipes::NodeCache;
///
/// # async fn example(client: zoolet_client::Client) -> Result<(), zoolet_recipes::CacheError> {
/// let config = NodeCache::start(&client, "/config")?;
/// config.initialized().await?;
/// println!("{:?}", config.current_data());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct NodeCache(TreeCache);

impl NodeCache {
    /// Starts to follow a znode. It need not exist.
    ///
    /// # Errors
    ///
    /// As [`CuratorCacheBuilder::start`](crate::CuratorCacheBuilder::start).
    pub fn start(client: &Client, path: &str) -> Result<Self, CacheError> {
        let cache = CuratorCache::builder(client, path).single_node().start()?;
        Ok(Self(TreeCache::of(cache)))
    }

    /// The cache.
    #[must_use]
    pub fn cache(&self) -> &CuratorCache {
        self.0.cache()
    }

    /// Waits until it is known whether the znode exists.
    ///
    /// # Errors
    ///
    /// As [`CuratorCache::initialized`].
    pub async fn initialized(&self) -> Result<(), CacheError> {
        self.cache().initialized().await
    }

    /// The znode, if it exists (`getCurrentData`).
    #[must_use]
    pub fn current_data(&self) -> Option<CachedZnode> {
        self.cache().get(self.cache().root())
    }

    /// Calls a listener each time when the znode was created, changed or deleted, with the znode if
    /// it exists (`nodeChanged`). It must not block. One that is slow may not be called for each change,
    /// and is called for the last.
    pub fn listen(
        &self,
        mut listener: impl FnMut(Option<&CachedZnode>) + Send + 'static,
    ) -> Listening {
        let (read, root) = (self.cache().reader(), self.cache().root().to_owned());
        self.0.listen(move |event| match event {
            TreeCacheEvent::NodeAdded(znode) | TreeCacheEvent::NodeUpdated { znode, .. } => {
                listener(Some(&znode));
            }
            TreeCacheEvent::NodeRemoved(_) => listener(None),
            // Of the changes that were dropped the last one counts.
            TreeCacheEvent::FellBehind(_) => listener(read(&root).as_ref()),
            _ => {}
        })
    }
}
