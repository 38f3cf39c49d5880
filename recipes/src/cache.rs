//! Copies of a part of the tree that follow its changes: Curator's caches.
//!
//! `feed` is the task of a cache. It does what three machines without I/O say: `resync` compares
//! the cache with the tree, `pending` has the changes in the order of zxids, and `apply` says what
//! a change does to the `store`. They rest on one invariant: **after everything up to a zxid is
//! applied, the cache has each path in a state that is not later, and the latest of these for each
//! path without an entry in `pending`**. The watch is set before the first read of a connection, so
//! each change is seen by a read or has an event. Why the cache is the tree when all is quiet
//! follows from both: docs/caches.md. `source` is the watch, or one-shot watches behind a server
//! without it.

pub(crate) mod apply;
pub(crate) mod curator_cache;
pub(crate) mod error;
pub(crate) mod event;
pub(crate) mod event_log;
pub(crate) mod feed;
pub(crate) mod kazoo;
pub(crate) mod limits;
#[cfg(test)]
mod model;
pub(crate) mod old_caches;
pub(crate) mod pending;
pub(crate) mod persistent_watcher;
pub(crate) mod requests;
pub(crate) mod resync;
pub(crate) mod selection;
pub(crate) mod source;
pub(crate) mod store;
pub(crate) mod znode;

pub use self::curator_cache::{CuratorCache, CuratorCacheBuilder};
pub use self::error::CacheError;
pub use self::event::CacheEvent;
pub use self::event_log::{CacheEvents, CacheProgress, CacheState, EventPosition};
pub use self::kazoo::{ChildrenWatch, DataWatch, Watching};
pub use self::old_caches::{Listening, NodeCache, PathChildrenCache, TreeCache, TreeCacheEvent};
pub use self::persistent_watcher::{Observed, PersistentWatcher};
pub use self::selection::Select;
pub use self::znode::CachedZnode;
