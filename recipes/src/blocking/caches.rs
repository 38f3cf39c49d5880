//! Caches.

use std::time::Duration;

use zoolet_protocol::Zxid;

use super::{Client, Recipe};
use crate::cache::{CacheError, CachedZnode, CuratorCacheBuilder};

/// The async [`CuratorCache`](crate::CuratorCache), for threads.
///
/// The listeners of a [`TreeCache`](crate::TreeCache), a
/// [`PathChildrenCache`](crate::PathChildrenCache) and a [`NodeCache`](crate::NodeCache) need no
/// async code: make these of [`Client::ask`].
///
/// ```no_run
/// use zoolet_client::blocking::Client;
/// use zoolet_recipes::blocking::CuratorCache;
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181")?;
/// let cache = CuratorCache::start(&client, CuratorCache::builder(&client, "/app").depth_max(2))?;
/// cache.initialized()?;
/// println!("{:?}", cache.znode("/app/config"));
/// # Ok(())
/// # }
/// ```
pub type CuratorCache = Recipe<crate::CuratorCache>;

impl CuratorCache {
    /// The options of a cache, as the async [`builder`](crate::CuratorCache::builder).
    pub fn builder(client: &Client, path: &str) -> CuratorCacheBuilder {
        crate::CuratorCache::builder(client.ask(), path)
    }

    /// Starts a cache with these options. The client must be the one of which they were made.
    ///
    /// # Errors
    ///
    /// As the async recipe; so of all that follow.
    pub fn start(client: &Client, builder: CuratorCacheBuilder) -> Result<Self, CacheError> {
        Ok(Self::of(client, builder.start()?))
    }

    /// A znode, if the cache has it. This sends no request.
    #[must_use]
    pub fn znode(&self, path: &str) -> Option<CachedZnode> {
        self.recipe.get(path)
    }

    /// The children of a znode, as the async [`children_of`](crate::CuratorCache::children_of).
    #[must_use]
    pub fn children_of(&self, path: &str) -> Option<Vec<CachedZnode>> {
        self.recipe.children_of(path)
    }

    /// Waits until the cache has the whole tree for the first time.
    ///
    /// # Errors
    ///
    /// Why the cache has ended.
    pub fn initialized(&self) -> Result<(), CacheError> {
        self.client.wait(self.recipe.initialized())
    }

    /// As [`CuratorCache::initialized`], within a time limit: `None` when the time has passed.
    #[must_use]
    pub fn initialized_within(&self, time: Duration) -> Option<Result<(), CacheError>> {
        self.client.wait_within(time, self.recipe.initialized())
    }

    /// Waits until all changes up to a transaction are in the cache.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn synced(&self, zxid: Zxid) -> Result<(), CacheError> {
        self.client.wait(self.recipe.synced(zxid))
    }

    /// Waits until everything is in the cache that was committed before this call.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn catch_up(&self) -> Result<(), CacheError> {
        self.client.wait(self.recipe.catch_up())
    }
}
