//! The members of a group, followed: the copy that Curator's `GroupMember` keeps of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::report::Shared;
use crate::cache::{CacheError, CacheEvent, CacheEvents, CuratorCache, EventPosition};
use crate::client::Client;

/// A copy of the members of a group with their payloads, which follows their changes with one watch:
/// [`GroupMember::follow`](crate::GroupMember::follow). Reading it costs no request.
///
/// What the copy is worth, and what it costs: [`CuratorCache`]. Dropping it removes the watch; the
/// member stays in the group.
///
/// ```no_run
/// use zoolet_client::Client;
/// use zoolet_recipes::GroupMember;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let member = GroupMember::builder(&client, "/group", "host-1").payload("10.0.0.7").start()?;
/// let mut members = member.follow()?;
/// loop {
///     println!("{:?}", members.changed().await?);
/// }
/// # }
/// ```
pub struct GroupMembers {
    group: String,
    id: String,
    /// The node of the member that follows.
    own: Arc<Shared>,
    cache: CuratorCache,
    events: CacheEvents,
    is_initialized: bool,
}

impl GroupMembers {
    pub(super) fn start(
        client: &Client,
        group: &str,
        id: &str,
        own: Arc<Shared>,
    ) -> Result<Self, CacheError> {
        let cache = CuratorCache::builder(client, group).depth_max(1).start()?;
        // Those that came since it was started, too: its task may run on another thread.
        let events = cache.events_after(EventPosition(0));
        let (group, id) = (group.to_owned(), id.to_owned());
        Ok(Self { group, id, own, cache, events, is_initialized: false })
    }

    /// The members as far as the copy knows them. As in Curator, the member that follows is always
    /// among them, with its own payload if the copy has no znode of it, until it leaves.
    #[must_use]
    pub fn current(&self) -> BTreeMap<String, Bytes> {
        let znodes = self.cache.children_of(&self.group).unwrap_or_default();
        let members = znodes.into_iter().map(|znode| (znode.name().to_owned(), znode.data));
        let mut members: BTreeMap<String, Bytes> = members.collect();
        if self.own.status.borrow().closed.is_none() {
            let payload = || self.own.wanted.borrow().data.clone();
            members.entry(self.id.clone()).or_insert_with(payload);
        }
        members
    }

    /// Waits until all members are known, and after that until a member joins, leaves or has another
    /// payload. Returns the members then. Each call returns after one change: call it again for the
    /// next.
    ///
    /// # Errors
    ///
    /// Why the copy has ended.
    ///
    /// # Cancellation
    ///
    /// Safe: the next call tells the change.
    pub async fn changed(&mut self) -> Result<BTreeMap<String, Bytes>, CacheError> {
        loop {
            let is_told = match self.events.next().await {
                Ok(CacheEvent::Initialized { .. }) => {
                    self.is_initialized = true;
                    true
                }
                Ok(event) => event.path().is_some_and(|path| path != self.group),
                Err(CacheError::FellBehind { .. }) => {
                    // That it is initialized may be among the events that were dropped.
                    self.cache.initialized().await?;
                    self.is_initialized = true;
                    true
                }
                Err(error) => return Err(error),
            };
            if is_told && self.is_initialized {
                return Ok(self.current());
            }
        }
    }

    /// Waits until all members are known.
    ///
    /// # Errors
    ///
    /// Why the copy has ended.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn initialized(&self) -> Result<(), CacheError> {
        self.cache.initialized().await
    }

    /// The copy itself: the znode of the group, and those of its members.
    #[must_use]
    pub fn cache(&self) -> &CuratorCache {
        &self.cache
    }
}

/// Without the payloads, which may be secret.
impl fmt::Debug for GroupMembers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupMembers").field("id", &self.id).field("cache", &self.cache).finish()
    }
}
