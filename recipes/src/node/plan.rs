//! What a persistent node is to be: its path, mode, data, and what to do where another znode has
//! its name.

use std::sync::Arc;

use bytes::Bytes;
use zoolet_protocol::{Acl, CreateMode, ZPath};

use super::error::NodeError;
use super::persistent_node::PersistentNode;
use crate::client::{self, Client, Parents};
use crate::defaults;

/// What a node does where an ephemeral of another session has its name.
///
/// A server does not tell whether the session of an ephemeral is alive. Of its own former sessions
/// a node knows that they are over: their ephemerals are replaced in any case, in one transaction,
/// so that no reader finds the znode missing.
///
/// ```
/// use zoolet_recipes::TakeOver;
///
/// assert_eq!(TakeOver::default(), TakeOver::OfOwnSessions);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum TakeOver {
    /// Waits until the other ephemeral is gone, and creates the znode then. A program that was
    /// killed and started again waits for one session timeout at most. Two programs with the same
    /// path by mistake do not disturb each other: the second one waits.
    #[default]
    OfOwnSessions,
    /// Replaces the other ephemeral at once, in one transaction. For paths that only one program
    /// can have, as one that is restarted. Of two nodes that do this at one path, the later one has
    /// it: the one whose znode was replaced waits until the other is gone.
    AtOnce,
}

/// What happens to the znode when its node is closed or dropped.
///
/// ```
/// use zoolet_recipes::AtClose;
///
/// assert_eq!(AtClose::default(), AtClose::Delete);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum AtClose {
    /// It is deleted, as by Curator.
    #[default]
    Delete,
    /// It stays. An ephemeral then lasts as long as the session of the client.
    Keep,
}

/// What a node is to be.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) client: Client,
    /// The path, before protection and without a sequence number.
    pub(crate) path: Arc<str>,
    pub(crate) mode: CreateMode,
    pub(crate) naming: Naming,
    /// `None` for the default of the client.
    pub(crate) acl: Option<Vec<Acl>>,
    /// How missing ancestors are created; `None` for not at all.
    pub(crate) parents: Option<Parents>,
    pub(crate) take_over: TakeOver,
    pub(crate) at_close: AtClose,
    /// A child that is created together with the znode.
    pub(crate) child: Option<Child>,
}

/// How the znode is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Naming {
    /// As the path says.
    Plain,
    /// With an id that no other znode has before the last part of the path: this one in all attempts
    /// of a node, so that each finds what an earlier one created.
    Protected(String),
}

/// A child that is created together with the znode.
#[derive(Debug, Clone)]
pub(crate) struct Child {
    pub(crate) path: String,
    pub(crate) data: Bytes,
    pub(crate) mode: CreateMode,
}

impl Plan {
    /// The access control list of a znode with this path.
    pub(crate) fn acl_of(&self, path: &str) -> Vec<Acl> {
        defaults::acl(&self.client, self.acl.as_deref(), path)
    }

    pub(crate) fn is_ephemeral(&self) -> bool {
        self.mode.flags().is_ephemeral()
    }

    /// Whether an ephemeral is told from those of other nodes of this path by its number alone.
    pub(crate) fn is_numbered_alone(&self) -> bool {
        self.mode == CreateMode::EphemeralSequential && self.naming == Naming::Plain
    }

    /// The mode in which a znode is created again whose name is known: a sequential one keeps the
    /// number that it had first, as in Curator.
    pub(crate) fn mode_of_known_name(&self) -> CreateMode {
        match self.mode {
            CreateMode::EphemeralSequential => CreateMode::Ephemeral,
            CreateMode::PersistentSequential => CreateMode::Persistent,
            CreateMode::PersistentSequentialWithTtl(ttl) => CreateMode::PersistentWithTtl(ttl),
            mode => mode,
        }
    }
}

/// The options of a [`PersistentNode`], which [`PersistentNodeBuilder::start`] starts.
///
/// Without options the znode is an ephemeral with empty data and the
/// [default](client::Client::default_acl) access control list of its path, and missing ancestors are
/// created as containers.
///
/// ```no_run
/// use zoolet_client::{Client, CreateMode};
/// use zoolet_recipes::{AtClose, PersistentNode};
///
/// # async fn example(client: Client) -> Result<(), zoolet_recipes::NodeError> {
/// let node = PersistentNode::builder(&client, "/config/defaults")
///     .mode(CreateMode::Persistent)
///     .data("on")
///     .at_close(AtClose::Keep)
///     .start()?;
/// node.registered().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "nothing is created before `start()`"]
pub struct PersistentNodeBuilder {
    plan: Plan,
    is_protected: bool,
    data: Bytes,
}

impl PersistentNodeBuilder {
    pub(super) fn new(client: &Client, path: &str) -> Self {
        let plan = Plan {
            client: client.clone(),
            path: path.into(),
            mode: CreateMode::Ephemeral,
            naming: Naming::Plain,
            acl: None,
            parents: Some(Parents::Containers),
            take_over: TakeOver::default(),
            at_close: AtClose::default(),
            child: None,
        };
        Self { plan, is_protected: false, data: Bytes::new() }
    }

    /// Sets the mode. A sequential znode keeps the number that it gets first: it is created again
    /// under the same name.
    pub fn mode(mut self, mode: CreateMode) -> Self {
        self.plan.mode = mode;
        self
    }

    /// Sets the first data.
    pub fn data(mut self, data: impl Into<Bytes>) -> Self {
        self.data = data.into();
        self
    }

    /// Has the name begin with an id that no other znode has, as Curator's `withProtection`. A
    /// sequential znode needs it where the program creates others of the same path and the same data
    /// by other means than nodes: after a lost reply the node could not tell them from its own. One
    /// that is not ephemeral needs it always: nothing else tells whose it is, and a lost reply would
    /// leave a second one that nobody deletes.
    pub fn protected(mut self) -> Self {
        self.is_protected = true;
        self
    }

    /// Sets the access control list of the znode, and of ancestors that are created.
    pub fn acl(mut self, acl: Vec<Acl>) -> Self {
        self.plan.acl = Some(acl);
        self
    }

    /// As [`PersistentNodeBuilder::acl`], or without it.
    pub(crate) fn acl_or_default(mut self, acl: Option<Vec<Acl>>) -> Self {
        self.plan.acl = acl;
        self
    }

    /// Sets how missing ancestors are created.
    pub fn parents(mut self, parents: Parents) -> Self {
        self.plan.parents = Some(parents);
        self
    }

    /// Has missing ancestors not be created: the node waits, with pauses, until others create them.
    pub fn without_parents(mut self) -> Self {
        self.plan.parents = None;
        self
    }

    /// Sets what happens where an ephemeral of another session has the name.
    pub fn take_over(mut self, take_over: TakeOver) -> Self {
        self.plan.take_over = take_over;
        self
    }

    /// Sets what happens to the znode when the node is closed or dropped.
    pub fn at_close(mut self, at_close: AtClose) -> Self {
        self.plan.at_close = at_close;
        self
    }

    /// Has a child be created together with the znode, in one transaction.
    pub(super) fn child(mut self, child: Child) -> Self {
        self.plan.child = Some(child);
        self
    }

    /// Starts to create the znode in the background, and to keep it.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if the path is not valid. What fails later is told by
    /// [`PersistentNode::events`].
    pub fn start(self) -> Result<PersistentNode, NodeError> {
        let Self { mut plan, is_protected, data } = self;
        // The name of a sequential znode may be its number alone.
        let is_sequential = plan.mode.flags().is_sequential();
        let checked = if is_sequential { format!("{}0", plan.path) } else { plan.path.to_string() };
        ZPath::check(&checked).map_err(client::Error::from)?;
        if is_protected {
            plan.naming = Naming::Protected(plan.client.protected_path(&plan.path));
        }
        Ok(PersistentNode::of_plan(plan, data))
    }
}

/// Without the data, which may be secret.
impl std::fmt::Debug for PersistentNodeBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PersistentNodeBuilder")
            .field("path", &self.plan.path)
            .field("mode", &self.plan.mode)
            .finish_non_exhaustive()
    }
}
