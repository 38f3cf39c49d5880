//! Nodes, memberships, partitions and leases.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::Zxid;

use super::{Client, Recipe};
use crate::cache::CacheError;
use crate::lease::{Lease, LeaseError, LeaseHolder};
use crate::lock::state::LockState;
use crate::node::{
    GroupMemberBuilder, NodeError, NodeState, PersistentNodeBuilder, PersistentTtlNodeBuilder,
    Registered,
};
use crate::partition::{PartitionError, SetPartitionerBuilder};

/// The methods that all nodes have.
macro_rules! node_methods {
    ($($node:ident, $builder:ident, $end:literal;)*) => {$(
        impl $node {
            /// Starts a node with these options, which were made of the same client
            /// ([`Client::ask`]).
            ///
            /// # Errors
            ///
            /// As the async recipe; so of all that follow.
            pub fn start(client: &Client, builder: $builder) -> Result<Self, NodeError> {
                Ok(Self::of(client, builder.start()?))
            }

            /// Waits until the znode is there.
            ///
            /// # Errors
            ///
            /// As the async recipe.
            pub fn registered(&self) -> Result<Registered, NodeError> {
                self.client.wait(self.recipe.registered())
            }

            /// Waits until the znode is there, within a time limit.
            ///
            /// # Errors
            ///
            /// [`NodeError::TimedOut`] when the time has passed.
            pub fn registered_within(&self, time: Duration) -> Result<Registered, NodeError> {
                self.client.wait(self.recipe.registered_within(time))
            }

            /// Whether the znode is there, as far as is known without a request.
            #[must_use]
            pub fn state(&self) -> NodeState {
                self.recipe.state()
            }

            #[doc = $end]
            ///
            /// # Errors
            ///
            /// As the async recipe.
            pub fn close(self) -> Result<(), NodeError> {
                let Self { recipe, client } = self;
                client.wait(recipe.close())
            }
        }
    )*};
}

/// The async [`PersistentNode`](crate::PersistentNode), for threads.
///
/// ```no_run
/// use zoolet_client::blocking::Client;
/// use zoolet_recipes::blocking::PersistentNode;
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181")?;
/// let options = zoolet_recipes::PersistentNode::builder(client.ask(), "/members/host-1");
/// let node = PersistentNode::start(&client, options.data("10.0.0.7"))?;
/// println!("registered as {}", node.registered()?.path);
/// # Ok(())
/// # }
/// ```
pub type PersistentNode = Recipe<crate::PersistentNode>;

/// The async [`PersistentTtlNode`](crate::PersistentTtlNode), for threads.
pub type PersistentTtlNode = Recipe<crate::PersistentTtlNode>;

/// The async [`GroupMember`](crate::GroupMember), for threads.
pub type GroupMember = Recipe<crate::GroupMember>;

node_methods! {
    PersistentNode, PersistentNodeBuilder,
        "Ends the node, and returns when the znode is deleted, or at once if it is to stay.";
    PersistentTtlNode, PersistentTtlNodeBuilder, "Ends the touching. Nothing is deleted.";
    GroupMember, GroupMemberBuilder, "Leaves the group, and returns when the znode is deleted.";
}

impl PersistentNode {
    /// Replaces the data, and returns when the znode has it.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn set_data(&self, data: impl Into<Bytes>) -> Result<(), NodeError> {
        self.client.wait(self.recipe.set_data(data))
    }
}

impl PersistentTtlNode {
    /// Replaces the data, and returns when the znode has it.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn set_data(&self, data: impl Into<Bytes>) -> Result<(), NodeError> {
        self.client.wait(self.recipe.set_data(data))
    }
}

impl GroupMember {
    /// Replaces the payload, and returns when the znode has it.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn set_payload(&self, payload: impl Into<Bytes>) -> Result<(), NodeError> {
        self.client.wait(self.recipe.set_payload(payload))
    }

    /// All members with their payloads, this one always among them.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn members(&self) -> Result<BTreeMap<String, Bytes>, NodeError> {
        self.client.wait(self.recipe.members())
    }

    /// A copy of the members that follows their changes.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn follow(&self) -> Result<GroupMembers, CacheError> {
        Ok(GroupMembers::of(&self.client, self.recipe.follow()?))
    }
}

/// The async [`GroupMembers`](crate::GroupMembers), for threads.
pub type GroupMembers = Recipe<crate::GroupMembers>;

impl GroupMembers {
    /// The members as far as the copy knows them. This sends no request.
    #[must_use]
    pub fn current(&self) -> BTreeMap<String, Bytes> {
        self.recipe.current()
    }

    /// Waits until all members are known, and after that for a change. Returns the members then.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn changed(&mut self) -> Result<BTreeMap<String, Bytes>, CacheError> {
        self.client.wait(self.recipe.changed())
    }

    /// As [`GroupMembers::changed`], within a time limit: `None` when the time has passed.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn changed_within(
        &mut self,
        time: Duration,
    ) -> Result<Option<BTreeMap<String, Bytes>>, CacheError> {
        self.client.wait_within(time, self.recipe.changed()).transpose()
    }
}

/// The async [`Party`](crate::Party), for threads.
pub type Party = Recipe<crate::Party>;

/// The async [`ShallowParty`](crate::ShallowParty), for threads.
pub type ShallowParty = Recipe<crate::ShallowParty>;

/// The async [`PartyMember`](crate::PartyMember), for threads.
pub type PartyMember = Recipe<crate::PartyMember>;

/// The methods that both parties have.
macro_rules! party_methods {
    ($($party:ident),*) => {$(
        impl $party {
            /// The party of a path. Nothing is created before a member joins.
            ///
            /// # Errors
            ///
            /// [`Error::Path`](crate::client::Error::Path) if `path` is not valid.
            pub fn new(client: &Client, path: &str) -> Result<Self, NodeError> {
                Ok(Self::of(client, crate::$party::new(client.ask(), path)?))
            }

            /// Joins with an identifier, and returns when the znode is there.
            ///
            /// # Errors
            ///
            /// As the async recipe; so of all that follow.
            pub fn join(&self, identifier: &str) -> Result<PartyMember, NodeError> {
                let member = self.client.wait(self.recipe.join(identifier))?;
                Ok(PartyMember::of(&self.client, member))
            }

            /// The identifiers of all members.
            ///
            /// # Errors
            ///
            /// As the async recipe.
            pub fn participants(&self) -> Result<Vec<String>, NodeError> {
                self.client.wait(self.recipe.participants())
            }

            /// The number of members.
            ///
            /// # Errors
            ///
            /// As the async recipe.
            pub fn count(&self) -> Result<usize, NodeError> {
                self.client.wait(self.recipe.count())
            }
        }
    )*};
}

party_methods!(Party, ShallowParty);

impl PartyMember {
    /// Leaves, and returns when the znode is deleted.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn leave(self) -> Result<(), NodeError> {
        let Self { recipe, client } = self;
        client.wait(recipe.leave())
    }
}

/// The async [`NonBlockingLease`](crate::NonBlockingLease), for threads.
pub type NonBlockingLease = Recipe<crate::NonBlockingLease>;

impl NonBlockingLease {
    /// The lease of a path, for a client with this identifier.
    ///
    /// # Errors
    ///
    /// As the async recipe; so of all that follow.
    pub fn new(client: &Client, path: &str, identifier: &str) -> Result<Self, LeaseError> {
        Ok(Self::of(client, crate::NonBlockingLease::new(client.ask(), path, identifier)?))
    }

    /// Obtains the lease for this long from now, or renews it; `None` if another client has it.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn obtain(&self, duration: Duration) -> Result<Option<Lease>, LeaseError> {
        self.client.wait(self.recipe.obtain(duration))
    }

    /// Ends a lease before its time. Returns whether this client had it.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn give_up(&self, lease: &Lease) -> Result<bool, LeaseError> {
        self.client.wait(self.recipe.give_up(lease))
    }

    /// Who has the lease, or had it last.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn holder(&self) -> Result<Option<LeaseHolder>, LeaseError> {
        self.client.wait(self.recipe.holder())
    }
}

/// The async [`MultiNonBlockingLease`](crate::MultiNonBlockingLease), for threads.
pub type MultiNonBlockingLease = Recipe<crate::MultiNonBlockingLease>;

impl MultiNonBlockingLease {
    /// `count` leases below a path, for a client with this identifier.
    ///
    /// # Errors
    ///
    /// As the async recipe; so of all that follow.
    pub fn new(
        client: &Client,
        path: &str,
        count: u32,
        identifier: &str,
    ) -> Result<Self, LeaseError> {
        let leases = crate::MultiNonBlockingLease::new(client.ask(), path, count, identifier)?;
        Ok(Self::of(client, leases))
    }

    /// Renews the lease that this client has, or obtains the first that is free.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn obtain(&self, duration: Duration) -> Result<Option<(usize, Lease)>, LeaseError> {
        self.client.wait(self.recipe.obtain(duration))
    }
}

/// The async [`SetPartitioner`](crate::SetPartitioner), for threads.
pub type SetPartitioner = Recipe<crate::SetPartitioner>;

impl SetPartitioner {
    /// Joins the party with these options, which were made of the same client ([`Client::ask`]).
    ///
    /// # Errors
    ///
    /// As the async recipe; so of all that follow.
    pub fn start(client: &Client, builder: SetPartitionerBuilder) -> Result<Self, PartitionError> {
        Ok(Self::of(client, client.wait(builder.start())?))
    }

    /// Waits until the party is quiet, and acquires the locks of this member's items.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn acquire(&self) -> Result<Share, PartitionError> {
        Ok(Share::of(&self.client, self.client.wait(self.recipe.acquire())?))
    }

    /// Leaves the party, and returns when the znode is deleted.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn finish(self) -> Result<(), PartitionError> {
        let Self { recipe, client } = self;
        client.wait(recipe.finish())
    }
}

/// The async [`Share`](crate::Share), for threads.
pub type Share = Recipe<crate::Share>;

impl Share {
    /// The items, in the order in which the set is shared out.
    pub fn items(&self) -> impl ExactSizeIterator<Item = &str> {
        self.recipe.items()
    }

    /// The fencing token of an item; `None` if this is no item of the share.
    #[must_use]
    pub fn fencing_token(&self, item: &str) -> Option<Zxid> {
        self.recipe.fencing_token(item)
    }

    /// Whether all items are this client's, as far as is known without a request.
    #[must_use]
    pub fn state(&self) -> LockState {
        self.recipe.state()
    }

    /// Whether the members of the party have changed since the set was shared out.
    #[must_use]
    pub fn is_change_requested(&self) -> bool {
        self.recipe.is_change_requested()
    }

    /// Releases all items, and returns when other clients can have them.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn release(self) -> Result<(), PartitionError> {
        let Self { recipe, client } = self;
        client.wait(recipe.release())
    }
}
