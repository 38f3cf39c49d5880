//! The instances of a service, kept in memory: Curator's `ServiceCache`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;
use zoolet_protocol::Zxid;

use super::context::Context;
use super::error::DiscoveryError;
use super::instance::ServiceInstance;
use crate::cache::{CacheError, CacheEvent, CacheEvents, CachedZnode, CuratorCache};
use crate::client::Subscription;
use crate::client::recipe::Publisher;

/// Instances of a service, in the order of their znodes' names.
pub type InstanceList<T> = Arc<[Arc<ServiceInstance<T>>]>;

/// The instances of a service, kept in memory and followed by a watch (`ServiceCache` of Curator).
///
/// Reading it sends no request and never waits for the network. Without a connection it has what it
/// knew last, and after a reconnect it reads what has changed. An instance whose data cannot be read
/// is not in it: see [`ServiceCache::unreadable`].
///
/// Dropping it removes the watch.
///
/// ```no_run
/// # async fn example(
/// #     discovery: zoolet_recipes::discovery::ServiceDiscovery,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// let cache = discovery.service_cache("orders")?;
/// cache.initialized().await?;
/// let mut changes = cache.changes();
/// loop {
///     println!("{} instances", cache.instances().len());
///     changes.changed().await?;
/// }
/// # }
/// ```
pub struct ServiceCache<T = ()> {
    // Dropped before the cache, whose events it reads.
    _follower: AbortOnDropHandle<()>,
    cache: Arc<CuratorCache>,
    known: Arc<Known<T>>,
}

/// What a cache and its follower share.
struct Known<T> {
    context: Arc<Context<T>>,
    /// The path of the instances, with a slash at its end.
    prefix: String,
    instances: Mutex<Table<T>>,
    /// Grows with each change.
    changes: Publisher<u64>,
    /// Whether all instances were known once, or why they never will be.
    initialized: Publisher<Option<Result<(), CacheError>>>,
}

/// The instances by the names of their znodes.
struct Table<T> {
    read: BTreeMap<String, Entry<T>>,
    /// The instances that were read, in one list; made when it is asked for.
    list: Option<InstanceList<T>>,
}

struct Entry<T> {
    /// When the data was set. Later data has a greater one, also after the znode was created again.
    mzxid: Zxid,
    instance: Result<Arc<ServiceInstance<T>>, DiscoveryError>,
}

impl<T: Send + Sync + 'static> ServiceCache<T> {
    /// Begins to follow the instances of a service.
    pub(super) fn start(context: &Arc<Context<T>>, service: &str) -> Result<Self, DiscoveryError> {
        let directory = context.paths.path_for_instances(service);
        let cache = CuratorCache::builder(&context.client, &directory).depth_max(1).start()?;
        let cache = Arc::new(cache);
        let known = Arc::new(Known {
            context: Arc::clone(context),
            prefix: format!("{}/", directory.trim_end_matches('/')),
            instances: Mutex::new(Table { read: BTreeMap::new(), list: None }),
            changes: Publisher::new(0),
            initialized: Publisher::new(None),
        });
        let following = follow(Arc::clone(&cache), cache.events(), Arc::clone(&known));
        let follower = AbortOnDropHandle::new(context.client.spawn(following));
        Ok(Self { _follower: follower, cache, known })
    }

    /// Waits until all instances are known for the first time. Until then the cache may be empty.
    ///
    /// # Errors
    ///
    /// [`DiscoveryError::Cache`] if the cache has ended.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn initialized(&self) -> Result<(), DiscoveryError> {
        let mut initialized = self.known.initialized.subscribe();
        match initialized.wait_for(Option::is_some).await {
            Ok(result) => Ok(result.clone().unwrap_or(Ok(()))?),
            Err(_) => unreachable!("the sender lives as long as the cache does"),
        }
    }

    /// All instances, disabled ones too, in the order of their znodes' names.
    #[must_use]
    pub fn instances(&self) -> InstanceList<T> {
        self.known.list()
    }

    /// The instance whose znode has this name: its id, with the number if it is sequential.
    #[must_use]
    pub fn instance(&self, name: &str) -> Option<Arc<ServiceInstance<T>>> {
        let table = self.known.instances.lock();
        table.read.get(name)?.instance.as_ref().ok().cloned()
    }

    /// Why some znodes are not among the instances: [`DiscoveryError::Unreadable`] of each.
    #[must_use]
    pub fn unreadable(&self) -> Vec<DiscoveryError> {
        let table = self.known.instances.lock();
        table.read.values().filter_map(|entry| entry.instance.as_ref().err().cloned()).collect()
    }

    /// A number that grows when an instance was registered, updated or unregistered, in a channel
    /// that reports that (`ServiceCacheListener.cacheChanged` of Curator). For the state of the
    /// connection see [`Client::state`](crate::client::Client::state).
    #[must_use]
    pub fn changes(&self) -> Subscription<u64> {
        self.known.changes.subscribe()
    }

    /// The cache of the znodes themselves, to wait until a change is in it, for one.
    #[must_use]
    pub fn znodes(&self) -> &CuratorCache {
        &self.cache
    }
}

/// Makes instances of the znodes of a cache until the cache ends.
async fn follow<T: Send + Sync + 'static>(
    cache: Arc<CuratorCache>,
    mut events: CacheEvents,
    known: Arc<Known<T>>,
) {
    // The instances are changed by this task alone: what it has read is never overwritten by what
    // another task read before.
    let initialized = cache.initialized().await;
    if initialized.is_ok() {
        known.read_all(&cache);
    }
    known.initialized.send_replace(Some(initialized));
    loop {
        match events.next().await {
            Ok(CacheEvent::Created { znode, .. } | CacheEvent::Changed { znode, .. }) => {
                known.put(&znode);
            }
            Ok(CacheEvent::Deleted { znode, .. }) => known.remove(&znode),
            Err(CacheError::FellBehind { .. }) => known.read_all(&cache),
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(
                    "{}: the instances are not followed any more: {error}",
                    known.prefix
                );
                return;
            }
        }
    }
}

impl<T> Known<T> {
    /// The name of a znode that is an instance. The directory and what is below instances are none.
    fn name<'a>(&self, znode: &'a CachedZnode) -> Option<&'a str> {
        let name = znode.path.strip_prefix(&self.prefix)?;
        (!name.is_empty() && !name.contains('/')).then_some(name)
    }

    /// Reads a znode, unless a later state of it was read.
    fn put(&self, znode: &CachedZnode) {
        let Some(name) = self.name(znode) else { return };
        let mzxid = znode.stat.mzxid;
        let is_read = |table: &Table<T>| table.read.get(name).is_some_and(|it| it.mzxid >= mzxid);
        if is_read(&self.instances.lock()) {
            return;
        }
        // Outside of the lock, for which readers wait.
        let instance = self.context.read(&znode.path, &znode.data).map(Arc::new);
        if let Err(error) = &instance {
            tracing::warn!("{error}");
        }
        let mut table = self.instances.lock();
        if !is_read(&table) {
            table.read.insert(name.to_owned(), Entry { mzxid, instance });
            self.changed(table);
        }
    }

    /// Removes a znode, unless it was created again.
    fn remove(&self, znode: &CachedZnode) {
        let Some(name) = self.name(znode) else { return };
        let mut table = self.instances.lock();
        if table.read.get(name).is_some_and(|entry| entry.mzxid <= znode.stat.mzxid) {
            table.read.remove(name);
            self.changed(table);
        }
    }

    /// Makes the instances those of the cache. Events of what is older do no harm after that: each
    /// of them is followed by the events that came after it.
    fn read_all(&self, cache: &CuratorCache) {
        let directory = self.prefix.trim_end_matches('/');
        let directory = if directory.is_empty() { "/" } else { directory };
        let znodes = cache.children_of(directory).unwrap_or_default();
        for znode in &znodes {
            self.put(znode);
        }
        let names: BTreeSet<_> = znodes.iter().map(CachedZnode::name).collect();
        let mut table = self.instances.lock();
        let before = table.read.len();
        table.read.retain(|name, _| names.contains(name.as_str()));
        if table.read.len() != before {
            self.changed(table);
        }
    }

    /// Tells of a change that was made.
    fn changed(&self, mut table: parking_lot::MutexGuard<'_, Table<T>>) {
        table.list = None;
        drop(table);
        self.changes.send_modify(|count| *count += 1);
    }

    fn list(&self) -> InstanceList<T> {
        let Table { read, list } = &mut *self.instances.lock();
        let make =
            || read.values().filter_map(|entry| entry.instance.as_ref().ok().cloned()).collect();
        Arc::clone(list.get_or_insert_with(make))
    }
}

impl<T> fmt::Debug for ServiceCache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceCache").field("prefix", &self.known.prefix).finish_non_exhaustive()
    }
}
