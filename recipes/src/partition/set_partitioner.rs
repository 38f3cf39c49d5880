//! A set of items that the members of a party share out: kazoo's `SetPartitioner`, with its znodes.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zoolet_protocol::{Acl, ErrorCode, ZPath};

use super::error::PartitionError;
use super::share::{Share, all};
use crate::client::{self, Client, Watched, Watcher};
use crate::kazoo_line::{create_directories, kazoo_lock};
use crate::lock::guard::Guard;
use crate::lock::owner::Owner;
use crate::node::party::identifier_of;
use crate::node::{PartyMember, ShallowParty, child_path};

/// How long the members of a party must stay the same before the set is shared out, as in kazoo.
const TIME_BOUNDARY: Duration = Duration::from_secs(30);

/// How many locks are entered at the same time: enough to hide the round trips, and few enough for
/// the queue of a server.
const LOCKS_AT_ONCE: usize = 128;

/// The pause before a party is listed again in which this member was missing.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Chooses the items of a member: from its identifier, the identifiers of all members, and all items,
/// the latter two sorted.
type PartitionBy = Arc<dyn Fn(&str, &[String], &[String]) -> Vec<String> + Send + Sync>;

/// A set of items that the members of a party share out, so that each item has one member at a time.
///
/// A member joins the party, waits until its members have stayed the same for a time, and acquires a
/// lock for each item of its share. When members come or go, all release their shares and acquire
/// new ones. The locks make it safe: whatever members believe of the party, no two have one item.
///
/// Its znodes are those of kazoo's `SetPartitioner`: the members are a
/// [`ShallowParty`] at `<path>/party`, and the locks kazoo's, at `<path>/locks/<item>`. Both can take
/// part in one party; with the default partition all must have the same items. Unlike kazoo's, it does
/// not end with its session: the share is lost, the member joins again by itself, and
/// [`SetPartitioner::acquire`] gives a new share. Members with the same identifier have shares of
/// their own.
///
/// Dropping it leaves the party in the background.
///
/// ```no_run
/// use zoolet_client::Client;
/// use zoolet_recipes::SetPartitioner;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let queues = ["mail", "print", "scan"];
/// let partitioner = SetPartitioner::builder(&client, "/work", "host-1", queues).start().await?;
/// loop {
///     let share = partitioner.acquire().await?;
///     println!("{:?}", share.items().collect::<Vec<_>>());
///     tokio::select! {
///         biased; // the end of a session is both, and a lost share cannot be released
///         () = share.lost() => drop(share),
///         () = share.change_requested() => share.release().await?,
///     }
/// }
/// # }
/// ```
#[must_use = "dropping it leaves the party"]
pub struct SetPartitioner {
    client: Client,
    path: String,
    /// Sorted.
    items: Vec<String>,
    member: PartyMember,
    time_boundary: Duration,
    partition_by: Option<PartitionBy>,
    acl: Option<Vec<Acl>>,
}

/// The options of a [`SetPartitioner`], which [`SetPartitionerBuilder::start`] starts.
///
/// ```no_run
/// use std::time::Duration;
/// use zoolet_recipes::SetPartitioner;
///
/// # async fn example(client: zoolet_client::Client) -> Result<(), zoolet_recipes::PartitionError> {
/// let builder = SetPartitioner::builder(&client, "/work", "host-1", ["mail", "print"]);
/// let partitioner = builder.time_boundary(Duration::from_secs(5)).start().await?;
/// # drop(partitioner);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "the party is not joined before `start()`"]
pub struct SetPartitionerBuilder {
    client: Client,
    path: String,
    identifier: String,
    items: Vec<String>,
    time_boundary: Duration,
    partition_by: Option<PartitionBy>,
    acl: Option<Vec<Acl>>,
}

impl SetPartitionerBuilder {
    /// Sets how long the members must stay the same before the set is shared out. The default is 30
    /// seconds, as in kazoo. With a shorter time the set is shared out more often while a fleet
    /// starts.
    pub fn time_boundary(mut self, time: Duration) -> Self {
        self.time_boundary = time;
        self
    }

    /// Sets how the set is shared out: a function of the identifier of a member, the identifiers of
    /// all members and the items, the latter two sorted, which returns the items of that member. All
    /// members must have the same. The default gives the item `i` to the member `i` modulo their
    /// number, where items are sorted as text: kazoo sorts a set of numbers by their values. An item
    /// that the function returns twice counts once.
    pub fn partition_by(
        mut self,
        choose: impl Fn(&str, &[String], &[String]) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        self.partition_by = Some(Arc::new(choose));
        self
    }

    /// Sets the access control list of the znodes, and of directories that are created.
    pub fn acl(mut self, acl: Vec<Acl>) -> Self {
        self.acl = Some(acl);
        self
    }

    /// Joins the party, and returns when the member is in it.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if the path is not valid; [`NodeError::Name`](crate::NodeError::Name), as
    /// [`PartitionError::Member`], if the identifier or an item cannot be part of a znode's name.
    ///
    /// # Cancellation
    ///
    /// Safe: the member leaves in the background.
    pub async fn start(self) -> Result<SetPartitioner, PartitionError> {
        let Self { client, path, identifier, mut items, time_boundary, partition_by, acl } = self;
        ZPath::check(&path).map_err(client::Error::from)?;
        let path = path.trim_end_matches('/').to_owned();
        items.sort_unstable();
        items.dedup();
        for item in &items {
            child_path(&path, item)?;
        }
        create_directories(&client, &format!("{path}/locks/x"), acl.as_deref()).await?;
        let party = ShallowParty::new(&client, &format!("{path}/party"))?;
        let party = party.with_acl_or_default(acl.clone());
        let member = party.join(&identifier).await?;
        Ok(SetPartitioner { client, path, items, member, time_boundary, partition_by, acl })
    }
}

/// A party that was quiet for a time.
struct QuietParty {
    /// The names of all members' znodes.
    names: Vec<String>,
    /// Fires when the party changes after that.
    changes: Watcher,
}

impl SetPartitioner {
    /// The options of a member of the party at a path, with an identifier and the items that are
    /// shared out. Use an identifier that tells a person which program it is.
    pub fn builder<I>(
        client: &Client,
        path: &str,
        identifier: &str,
        items: impl IntoIterator<Item = I>,
    ) -> SetPartitionerBuilder
    where
        I: Into<String>,
    {
        SetPartitionerBuilder {
            client: client.clone(),
            path: path.to_owned(),
            identifier: identifier.to_owned(),
            items: items.into_iter().map(Into::into).collect(),
            time_boundary: TIME_BOUNDARY,
            partition_by: None,
            acl: None,
        }
    }

    /// Waits until the party is quiet, and acquires the locks of this member's items; again if the
    /// party changes meanwhile. A share may have no items.
    ///
    /// Release the last share first: this waits for items that another share holds, also if that is
    /// one of this member.
    ///
    /// # Errors
    ///
    /// [`PartitionError::Member`] with [`NodeError::Name`](crate::NodeError::Name) if the function of
    /// [`partition_by`](SetPartitionerBuilder::partition_by) returns what cannot be a name; the
    /// errors of locks and of requests. A session that ends is no error.
    ///
    /// # Cancellation
    ///
    /// Safe: locks that are held are released in the background.
    pub async fn acquire(&self) -> Result<Share, PartitionError> {
        loop {
            let QuietParty { names, mut changes } = self.quiet_party().await?;
            let items = self.items_of_own(&names);
            let locked = tokio::select! {
                biased;
                // Others wait for what was locked so far: it is released in the background.
                _ = &mut changes => continue,
                locked = self.lock_all(items) => locked?,
            };
            return Ok(Share::new(&self.client, locked, changes));
        }
    }

    /// The member of the party.
    pub fn member(&self) -> &PartyMember {
        &self.member
    }

    /// Leaves the party, and returns when the znode is deleted. Shares stay until they are released.
    ///
    /// # Errors
    ///
    /// As [`PartyMember::leave`].
    ///
    /// # Cancellation
    ///
    /// Safe: the znode is deleted in the background.
    pub async fn finish(self) -> Result<(), PartitionError> {
        Ok(self.member.leave().await?)
    }

    /// Waits until the party has this member and did not change for a time.
    async fn quiet_party(&self) -> Result<QuietParty, PartitionError> {
        let party = format!("{}/party", self.path);
        loop {
            self.member.registered().await?;
            let (names, mut changes) = match self.client.children(&party).and_watch().await {
                Ok(Watched { found, watcher }) => (found.to_vec(), watcher),
                Err(error) if is_passing(&error) => {
                    tokio::time::sleep(LOOK_AGAIN_AFTER).await;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let own = self.member.path();
            if !names.iter().any(|name| own.ends_with(&format!("/{name}"))) {
                // The server is behind, or the member was deleted just now.
                tokio::time::sleep(LOOK_AGAIN_AFTER).await;
                continue;
            }
            tokio::select! {
                biased;
                _ = &mut changes => {}
                () = tokio::time::sleep(self.time_boundary) => {
                    return Ok(QuietParty { names, changes });
                }
            }
        }
    }

    fn items_of_own(&self, names: &[String]) -> Vec<String> {
        let own = self.member.path();
        let own = own.rsplit('/').next().unwrap_or_default();
        match &self.partition_by {
            Some(choose) => {
                let mut members: Vec<_> =
                    names.iter().map(|name| identifier_of(name).to_owned()).collect();
                members.sort_unstable();
                let mut chosen = choose(self.member.identifier(), &members, &self.items);
                // The lock of an item is acquired once: the second time would wait for the first.
                let mut seen = HashSet::new();
                chosen.retain(|item| seen.insert(item.clone()));
                chosen
            }
            None => items_of(own, names, &self.items),
        }
    }

    /// Acquires the locks of these items.
    async fn lock_all(&self, items: Vec<String>) -> Result<Vec<(String, Guard)>, PartitionError> {
        let mut locked = Vec::with_capacity(items.len());
        for items in items.chunks(LOCKS_AT_ONCE) {
            let locks: Vec<_> = items.iter().map(|item| self.lock(item)).collect();
            for lock in all(locks).await {
                locked.push(lock?);
            }
        }
        Ok(locked)
    }

    async fn lock(&self, item: &str) -> Result<(String, Guard), PartitionError> {
        let directory = child_path(&format!("{}/locks", self.path), item)?;
        let acl = self.acl.as_deref();
        let lock = kazoo_lock(&self.client, &directory, self.member.identifier(), acl)?;
        Ok((item.to_owned(), lock.acquire(Owner::new()).await?))
    }
}

/// Whether a list may succeed later: the connection or session was lost, or the party is being
/// created.
fn is_passing(error: &client::Error) -> bool {
    error.is_retryable()
        || *error == client::Error::SessionExpired
        || error.is(ErrorCode::NO_NODE)
        || error.is(ErrorCode::THROTTLED_OP)
}

/// The items of the member with this znode: those whose index has the member's rank as its rest. The
/// members are ordered by identifier, as in kazoo, and those with the same one by their znodes.
fn items_of(own: &str, names: &[String], items: &[String]) -> Vec<String> {
    let key = |name: &String| (identifier_of(name).to_owned(), name.clone());
    let mut members: Vec<_> = names.iter().map(key).collect();
    members.sort_unstable();
    match members.iter().position(|(_, name)| name == own) {
        Some(rank) => items.iter().skip(rank).step_by(members.len()).cloned().collect(),
        None => Vec::new(),
    }
}

impl fmt::Debug for SetPartitioner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetPartitioner")
            .field("path", &self.path)
            .field("member", &self.member)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for SetPartitionerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetPartitionerBuilder")
            .field("path", &self.path)
            .field("identifier", &self.identifier)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(of: &[&str]) -> Vec<String> {
        of.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_item_has_one_member_and_the_order_is_kazoos() {
        let items = strings(&["a", "b", "c", "d", "e"]);
        // `sorted(items)[rank::3]`, by identifier and not by the digits before it.
        let names = strings(&["3-host-1", "1-host-2", "2-host-3"]);
        assert_eq!(items_of("3-host-1", &names, &items), ["a", "d"]);
        assert_eq!(items_of("1-host-2", &names, &items), ["b", "e"]);
        assert_eq!(items_of("2-host-3", &names, &items), ["c"]);
        assert!(items_of("4-host-4", &names, &items).is_empty());
    }

    #[test]
    fn members_with_one_identifier_have_shares_of_their_own() {
        let items = strings(&["a", "b"]);
        let names = strings(&["2-same", "1-same"]);
        assert_eq!(items_of("1-same", &names, &items), ["a"]);
        assert_eq!(items_of("2-same", &names, &items), ["b"]);
    }
}
