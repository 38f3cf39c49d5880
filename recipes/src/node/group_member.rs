//! Membership of a group: Curator's `GroupMember`, with its znodes.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::{Acl, ErrorCode, ZPath};

use super::child_path;
use super::error::NodeError;
use super::group_members::GroupMembers;
use super::persistent_node::PersistentNode;
use super::plan::TakeOver;
use super::reading::read_children;
use super::report::{NodeEvents, NodeState, Registered};
use crate::cache::CacheError;
use crate::client::{self, Client, Watched};
use crate::defaults;

/// A member of a group, with an id that no other member has.
///
/// Its znode is that of Curator's `GroupMember`: an ephemeral whose name is the id and whose data is
/// the payload. Unlike there, a member whose id another session uses does not set that one's data:
/// it waits until the other is gone, and says so ([`NodeEvent::Occupied`](crate::NodeEvent::Occupied)).
/// A member that lost its session joins again by itself.
///
/// Dropping it leaves the group in the background.
///
/// ```no_run
/// use zoolet_client::Client;
/// use zoolet_recipes::GroupMember;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let member = GroupMember::builder(&client, "/group", "host-1").payload("10.0.0.7").start()?;
/// member.registered().await?;
/// for (id, payload) in member.members().await? {
///     println!("{id}: {payload:?}");
/// }
/// member.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping a member leaves the group"]
pub struct GroupMember {
    client: Client,
    group: String,
    id: String,
    node: PersistentNode,
}

/// The options of a [`GroupMember`], which [`GroupMemberBuilder::start`] starts.
///
/// ```no_run
/// # use zoolet_recipes::{GroupMember, NodeError};
/// # fn example(client: zoolet_client::Client) -> Result<(), NodeError> {
/// let member = GroupMember::builder(&client, "/group", "host-1").start()?;
/// # drop(member);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "nothing is created before `start()`"]
pub struct GroupMemberBuilder {
    client: Client,
    group: String,
    id: String,
    payload: Bytes,
    acl: Option<Vec<Acl>>,
    take_over: TakeOver,
}

impl GroupMemberBuilder {
    /// Sets the first payload. The default is this machine's address, as in Curator.
    pub fn payload(mut self, payload: impl Into<Bytes>) -> Self {
        self.payload = payload.into();
        self
    }

    /// Sets the access control list of the znode, and of directories that are created.
    pub fn acl(mut self, acl: Vec<Acl>) -> Self {
        self.acl = Some(acl);
        self
    }

    /// Sets what happens where an ephemeral of another session has the id.
    pub fn take_over(mut self, take_over: TakeOver) -> Self {
        self.take_over = take_over;
        self
    }

    /// Joins the group in the background.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if the path of the group is not valid;
    /// [`NodeError::Name`] if the id cannot be the name of a znode.
    pub fn start(self) -> Result<GroupMember, NodeError> {
        let Self { client, group, id, payload, acl, take_over } = self;
        ZPath::check(&group).map_err(client::Error::from)?;
        let node = PersistentNode::builder(&client, &child_path(&group, &id)?);
        let node = node.data(payload).acl_or_default(acl).take_over(take_over).start()?;
        Ok(GroupMember { client, group, id, node })
    }
}

/// Without the payload, which may be secret.
impl std::fmt::Debug for GroupMemberBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupMemberBuilder")
            .field("group", &self.group)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl GroupMember {
    /// The options of a member with an id.
    pub fn builder(client: &Client, group: &str, id: &str) -> GroupMemberBuilder {
        GroupMemberBuilder {
            client: client.clone(),
            group: group.to_owned(),
            id: id.to_owned(),
            payload: defaults::data(client),
            acl: None,
            take_over: TakeOver::default(),
        }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// All members with their payloads. As in Curator, this member is always among them, with its
    /// own payload if its znode is missing. Those that the client may not read are left out. Costs a
    /// list, and a read for each member;
    /// [`GroupMember::follow`] reads them once.
    ///
    /// # Errors
    ///
    /// The errors of reads.
    pub async fn members(&self) -> Result<BTreeMap<String, Bytes>, NodeError> {
        let names = match self.client.children(&self.group).await {
            Ok(names) => names.to_vec(),
            Err(error) if error.is(ErrorCode::NO_NODE) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let mut members = BTreeMap::from([(self.id.clone(), self.node.data())]);
        members.extend(read_children(&self.client, &self.group, &names).await?);
        Ok(members)
    }

    /// A copy of the members that follows their changes, as Curator's `GroupMember` has one always: for
    /// whoever asks often who is there. It begins to read the group in the background.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if the path of the group is not valid, which
    /// [`GroupMemberBuilder::start`] has said already.
    pub fn follow(&self) -> Result<GroupMembers, CacheError> {
        GroupMembers::start(&self.client, &self.group, &self.id, self.node.shared())
    }

    /// Waits until a member joins or leaves after this was called, or until the connection was lost
    /// for so long that this may have been missed. Read [`GroupMember::members`] again then.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    ///
    /// # Cancellation
    ///
    /// Safe: no watch is left.
    pub async fn changed(&self) -> Result<(), NodeError> {
        loop {
            match self.client.children(&self.group).and_watch().await {
                Ok(Watched { watcher, .. }) => {
                    return match watcher.await {
                        Ok(_) | Err(client::Error::SessionExpired) => Ok(()),
                        Err(error) => Err(error.into()),
                    };
                }
                // There is no member yet, and this one creates the group.
                Err(error) if error.is(ErrorCode::NO_NODE) => drop(self.registered().await?),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Replaces the payload: [`PersistentNode::set_data`].
    ///
    /// # Errors
    ///
    /// As [`PersistentNode::set_data`].
    pub async fn set_payload(&self, payload: impl Into<Bytes>) -> Result<(), NodeError> {
        self.node.set_data(payload).await
    }

    /// Waits until its znode is there: [`PersistentNode::registered`].
    ///
    /// # Errors
    ///
    /// As [`PersistentNode::registered`].
    pub async fn registered(&self) -> Result<Registered, NodeError> {
        self.node.registered().await
    }

    /// As [`GroupMember::registered`], within a time limit.
    ///
    /// # Errors
    ///
    /// As [`PersistentNode::registered_within`].
    pub async fn registered_within(&self, time: Duration) -> Result<Registered, NodeError> {
        self.node.registered_within(time).await
    }

    /// Whether its znode is there, as far as is known without a request.
    #[must_use]
    pub fn state(&self) -> NodeState {
        self.node.state()
    }

    /// Waits until others may find it missing: [`PersistentNode::lost`].
    pub async fn lost(&self) {
        self.node.lost().await;
    }

    /// What happens to its znode from now on.
    #[must_use]
    pub fn events(&self) -> NodeEvents {
        self.node.events()
    }

    /// Leaves the group, and returns when the znode is deleted.
    ///
    /// # Errors
    ///
    /// As [`PersistentNode::close`].
    ///
    /// # Cancellation
    ///
    /// Safe: the znode is deleted in the background.
    pub async fn close(self) -> Result<(), NodeError> {
        self.node.close().await
    }
}
