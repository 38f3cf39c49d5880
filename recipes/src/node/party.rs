//! Memberships by ephemerals with names of their own: kazoo's `Party` and `ShallowParty`, with
//! their znodes.

use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::{Acl, ErrorCode, ZPath, Zxid};

use super::child_path;
use super::error::NodeError;
use super::persistent_node::PersistentNode;
use super::reading::read_children;
use super::report::{NodeEvents, NodeState};
use crate::client::{self, Client, Parents};

/// What the name of a member of a [`Party`] ends with.
const MARKER: &str = "__party__";

/// The directory of a party, with what its members are created with.
#[derive(Debug, Clone)]
struct Directory {
    client: Client,
    path: String,
    acl: Option<Vec<Acl>>,
}

impl Directory {
    fn new(client: &Client, path: &str) -> Result<Self, NodeError> {
        ZPath::check(path).map_err(client::Error::from)?;
        Ok(Self { client: client.clone(), path: path.to_owned(), acl: None })
    }

    /// A name that no other member has: 32 hexadecimal digits, as in kazoo.
    fn unique_digits(&self) -> String {
        self.client.unique_name().replace('-', "")
    }

    /// Creates the znode of a member, and returns when it is there.
    async fn join(&self, name: &str, identifier: &str) -> Result<PartyMember, NodeError> {
        let node = PersistentNode::builder(&self.client, &child_path(&self.path, name)?)
            .data(Bytes::copy_from_slice(identifier.as_bytes()))
            .acl_or_default(self.acl.clone())
            .parents(Parents::Persistent)
            .start()?;
        let member = PartyMember { node, identifier: identifier.to_owned() };
        member.registered().await?;
        Ok(member)
    }

    /// The names of all children, sorted.
    async fn names(&self) -> Result<Vec<String>, NodeError> {
        let mut names = match self.client.children(&self.path).await {
            Ok(names) => names.to_vec(),
            Err(error) if error.is(ErrorCode::NO_NODE) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        names.sort_unstable();
        Ok(names)
    }
}

/// A set of members that come and go, each with a text that others read.
///
/// Its znodes are those of kazoo's `Party`: `<32 hexadecimal digits>__party__`, whose data is the
/// identifier. Unlike kazoo's, a member that lost its session joins again by itself.
///
/// ```no_run
/// use zoolet_client::Client;
/// use zoolet_recipes::Party;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let party = Party::new(&client, "/party")?;
/// let member = party.join("host-1").await?;
/// println!("{:?}", party.participants().await?);
/// member.leave().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Party(Directory);

impl Party {
    /// The party of a path. Nothing is created before a member joins.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if `path` is not valid.
    pub fn new(client: &Client, path: &str) -> Result<Self, NodeError> {
        Directory::new(client, path).map(Self)
    }

    /// The same party with this access control list for its members and for the directories that
    /// are created for them. Without it each has the [default](Client::default_acl) of its path.
    #[must_use]
    pub fn with_acl(mut self, acl: Vec<Acl>) -> Self {
        self.0.acl = Some(acl);
        self
    }

    /// Joins with an identifier, and returns when the znode is there. Each call is a member of its
    /// own. Missing directories are created as persistent znodes, as by kazoo.
    ///
    /// # Errors
    ///
    /// [`NodeError::Closed`] if the client is closed. A refusal of the server is tried again after a
    /// pause: set a limit with `tokio::time::timeout`.
    ///
    /// # Cancellation
    ///
    /// Safe: the znode is deleted in the background.
    pub async fn join(&self, identifier: &str) -> Result<PartyMember, NodeError> {
        self.0.join(&format!("{}{MARKER}", self.0.unique_digits()), identifier).await
    }

    /// The identifiers of all members, in the order of their znodes' names, without those that the client
    /// may not read. Costs a list, and a read for each member.
    ///
    /// # Errors
    ///
    /// The errors of reads.
    pub async fn participants(&self) -> Result<Vec<String>, NodeError> {
        let names = self.names().await?;
        let members = read_children(&self.0.client, &self.0.path, &names).await?;
        let text = |(_, data): (_, Bytes)| String::from_utf8_lossy(&data).into_owned();
        Ok(members.into_iter().map(text).collect())
    }

    /// The number of members. Costs one read.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub async fn count(&self) -> Result<usize, NodeError> {
        Ok(self.names().await?.len())
    }

    /// As in kazoo, whatever has the marker in its name is a member.
    async fn names(&self) -> Result<Vec<String>, NodeError> {
        let mut names = self.0.names().await?;
        names.retain(|name| name.contains(MARKER));
        Ok(names)
    }
}

/// A [`Party`] whose members have their identifiers in their names, so that one read shows all.
///
/// Its znodes are those of kazoo's `ShallowParty`: `<32 hexadecimal digits>-<identifier>`.
///
/// ```no_run
/// use zoolet_client::Client;
/// use zoolet_recipes::ShallowParty;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let party = ShallowParty::new(&client, "/party")?;
/// let member = party.join("host-1").await?;
/// assert!(party.participants().await?.contains(&"host-1".to_owned()));
/// # drop(member);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ShallowParty(Directory);

impl ShallowParty {
    /// As [`ShallowParty::with_acl`], or without it.
    pub(crate) fn with_acl_or_default(mut self, acl: Option<Vec<Acl>>) -> Self {
        self.0.acl = acl;
        self
    }

    /// The party of a path. Nothing is created before a member joins.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if `path` is not valid.
    pub fn new(client: &Client, path: &str) -> Result<Self, NodeError> {
        Directory::new(client, path).map(Self)
    }

    /// The same party with this access control list for its members and for the directories that
    /// are created for them. Without it each has the [default](Client::default_acl) of its path.
    #[must_use]
    pub fn with_acl(mut self, acl: Vec<Acl>) -> Self {
        self.0.acl = Some(acl);
        self
    }

    /// Joins with an identifier, and returns when the znode is there. Each call is a member of its
    /// own.
    ///
    /// # Errors
    ///
    /// [`NodeError::Name`] if the identifier cannot be part of a znode's name. Else as
    /// [`Party::join`].
    ///
    /// # Cancellation
    ///
    /// Safe: the znode is deleted in the background.
    pub async fn join(&self, identifier: &str) -> Result<PartyMember, NodeError> {
        self.0.join(&format!("{}-{identifier}", self.0.unique_digits()), identifier).await
    }

    /// The identifiers of all members, in the order of their znodes' names. Costs one read.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub async fn participants(&self) -> Result<Vec<String>, NodeError> {
        let names = self.0.names().await?;
        Ok(names.iter().map(|name| identifier_of(name).to_owned()).collect())
    }

    /// The number of members. Costs one read.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub async fn count(&self) -> Result<usize, NodeError> {
        Ok(self.0.names().await?.len())
    }
}

/// The identifier in the name of a member: what follows the first dash, as in kazoo.
pub(crate) fn identifier_of(name: &str) -> &str {
    name.split_once('-').map_or(name, |(_, identifier)| identifier)
}

/// A member of a [`Party`] or [`ShallowParty`]. It stays a member over lost connections and sessions
/// that end, until it leaves. Dropping it leaves in the background.
///
/// ```no_run
/// # async fn example(member: zoolet_recipes::PartyMember) -> Result<(), zoolet_recipes::NodeError> {
/// println!("{} is {:?}", member.identifier(), member.state());
/// member.leave().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping a member leaves the party"]
pub struct PartyMember {
    node: PersistentNode,
    identifier: String,
}

impl PartyMember {
    /// The identifier with which it joined.
    #[must_use]
    pub fn identifier(&self) -> &str {
        &self.identifier
    }

    /// Its znode.
    #[must_use]
    pub fn path(&self) -> String {
        self.node.path().unwrap_or_default()
    }

    /// Whether its znode is there, as far as is known without a request.
    #[must_use]
    pub fn state(&self) -> NodeState {
        self.node.state()
    }

    /// Waits until it is a member, and returns the czxid of its znode: it is greater each time that
    /// it has to join again.
    ///
    /// # Errors
    ///
    /// As [`PersistentNode::registered`].
    pub async fn registered(&self) -> Result<Zxid, NodeError> {
        Ok(self.node.registered().await?.czxid)
    }

    /// As [`PartyMember::registered`], within a time limit.
    ///
    /// # Errors
    ///
    /// As [`PersistentNode::registered_within`].
    pub async fn registered_within(&self, time: Duration) -> Result<Zxid, NodeError> {
        Ok(self.node.registered_within(time).await?.czxid)
    }

    /// Waits until others may find it missing. It joins again by itself.
    pub async fn lost(&self) {
        self.node.lost().await;
    }

    /// What happens to it from now on.
    #[must_use]
    pub fn events(&self) -> NodeEvents {
        self.node.events()
    }

    /// Leaves, and returns when the znode is deleted.
    ///
    /// # Errors
    ///
    /// As [`PersistentNode::close`].
    ///
    /// # Cancellation
    ///
    /// Safe: the znode is deleted in the background.
    pub async fn leave(self) -> Result<(), NodeError> {
        self.node.close().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identifier_follows_the_first_dash() {
        assert_eq!(identifier_of("0123-host-1"), "host-1");
        assert_eq!(identifier_of("0123-"), "");
        assert_eq!(identifier_of("0123"), "0123");
    }
}
