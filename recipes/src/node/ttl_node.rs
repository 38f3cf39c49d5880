//! A znode that the server deletes when its program is gone for a time: Curator's
//! `PersistentTtlNode`, with its znodes.

use std::num::NonZeroU32;
use std::time::Duration;

use bytes::Bytes;
use tokio_util::task::AbortOnDropHandle;
use zoolet_protocol::{Acl, CreateMode, ErrorCode};

use super::child_path;
use super::error::NodeError;
use super::limits::BACK_OFF_MIN;
use super::persistent_node::PersistentNode;
use super::plan::{AtClose, Child, PersistentNodeBuilder};
use super::report::{NodeEvents, NodeState, Registered};
use crate::client::recipe::Publisher;
use crate::client::{self, Client, Subscription};
use crate::defaults;

/// The name of the child, as in Curator.
const TOUCH: &str = "touch";

/// How many times the child is touched while its time to live passes, as in Curator.
const TOUCH_FACTOR: NonZeroU32 = NonZeroU32::new(2).expect("two is not zero");

/// A znode that outlives its program by a time to live, and not more.
///
/// The znode is a container. Its child `touch` has a time to live, and this sets the data of the
/// child again and again. When the program is gone for that long, the server deletes the child, and
/// then the container. Watches on the znode do not fire when the child is touched.
///
/// Its znodes are those of Curator's `PersistentTtlNode` (later versions of Curator give the znode itself
/// a time to live; each takes what it finds). Unlike there, one transaction creates both,
/// so that no container without a child stays for ever when the program ends in between. Closing or
/// dropping this ends the touching, and deletes nothing.
///
/// Apache ZooKeeper needs `zookeeper.extendedTypesEnabled=true`.
///
/// ```no_run
/// use std::time::Duration;
/// use zoolet_client::Client;
/// use zoolet_recipes::PersistentTtlNode;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let minute = Duration::from_secs(60);
/// let node = PersistentTtlNode::builder(&client, "/uploads/7", minute).data("1 %").start()?;
/// node.registered().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping a node ends the touching"]
pub struct PersistentTtlNode {
    node: PersistentNode,
    touched: Subscription<Option<Result<(), NodeError>>>,
    _toucher: AbortOnDropHandle<()>,
}

/// The options of a [`PersistentTtlNode`], which [`PersistentTtlNodeBuilder::start`] starts.
///
/// ```no_run
/// # use std::time::Duration;
/// # use zoolet_recipes::{NodeError, PersistentTtlNode};
/// # fn example(client: zoolet_client::Client) -> Result<(), NodeError> {
/// let minute = Duration::from_secs(60);
/// let node = PersistentTtlNode::builder(&client, "/uploads/7", minute).child_name("alive").start()?;
/// # drop(node);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is created before `start()`"]
pub struct PersistentTtlNodeBuilder {
    client: Client,
    path: String,
    ttl: Duration,
    node: PersistentNodeBuilder,
    acl: Option<Vec<Acl>>,
    child: String,
    touch_factor: NonZeroU32,
}

impl PersistentTtlNodeBuilder {
    /// Sets the first data.
    pub fn data(mut self, data: impl Into<Bytes>) -> Self {
        self.node = self.node.data(data);
        self
    }

    /// Sets the access control list of both znodes, and of ancestors that are created.
    pub fn acl(mut self, acl: Vec<Acl>) -> Self {
        self.node = self.node.acl(acl.clone());
        self.acl = Some(acl);
        self
    }

    /// Has missing ancestors not be created.
    pub fn without_parents(mut self) -> Self {
        self.node = self.node.without_parents();
        self
    }

    /// Sets the name of the child. The default is `touch`.
    pub fn child_name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.child);
        self
    }

    /// Sets how many times the child is touched while its time to live passes. The default is 2.
    pub fn touch_factor(mut self, factor: NonZeroU32) -> Self {
        self.touch_factor = factor;
        self
    }

    /// Starts to create the znode in the background, and to touch its child.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if the path is not valid; [`NodeError::Name`] if the
    /// name of the child is not.
    pub fn start(self) -> Result<PersistentTtlNode, NodeError> {
        let Self { client, path, ttl, node, acl, child, touch_factor } = self;
        let child_path = child_path(&path, &child)?;
        let mode = CreateMode::PersistentWithTtl(ttl);
        let child = Child { path: child_path, data: defaults::data(&client), mode };
        let node = node.mode(CreateMode::Container).at_close(AtClose::Keep);
        let node = node.child(child.clone()).start()?;
        let sender = Publisher::new(None);
        let touched = sender.subscribe();
        // The shortest time to live is a millisecond.
        let interval = (ttl / touch_factor.get()).max(Duration::from_millis(1));
        let touching = touch_again(client.clone(), child, acl, interval, sender);
        let toucher = AbortOnDropHandle::new(client.spawn(touching));
        Ok(PersistentTtlNode { node, touched, _toucher: toucher })
    }
}

impl PersistentTtlNode {
    /// The options of a node at a path. Its child has this time to live, of a millisecond at least.
    pub fn builder(client: &Client, path: &str, ttl: Duration) -> PersistentTtlNodeBuilder {
        PersistentTtlNodeBuilder {
            client: client.clone(),
            path: path.to_owned(),
            ttl,
            node: PersistentNode::builder(client, path),
            acl: None,
            child: TOUCH.to_owned(),
            touch_factor: TOUCH_FACTOR,
        }
    }

    /// As [`PersistentNode::registered`].
    ///
    /// # Errors
    ///
    /// As [`PersistentNode::registered`].
    pub async fn registered(&self) -> Result<Registered, NodeError> {
        self.node.registered().await
    }

    /// As [`PersistentNode::registered_within`].
    ///
    /// # Errors
    ///
    /// As [`PersistentNode::registered_within`].
    pub async fn registered_within(&self, time: Duration) -> Result<Registered, NodeError> {
        self.node.registered_within(time).await
    }

    /// As [`PersistentNode::state`].
    #[must_use]
    pub fn state(&self) -> NodeState {
        self.node.state()
    }

    /// As [`PersistentNode::lost`].
    pub async fn lost(&self) {
        self.node.lost().await;
    }

    /// As [`PersistentNode::data`].
    #[must_use]
    pub fn data(&self) -> Bytes {
        self.node.data()
    }

    /// As [`PersistentNode::set_data`].
    ///
    /// # Errors
    ///
    /// As [`PersistentNode::set_data`].
    pub async fn set_data(&self, data: impl Into<Bytes>) -> Result<(), NodeError> {
        self.node.set_data(data).await
    }

    /// As [`PersistentNode::events`].
    #[must_use]
    pub fn events(&self) -> NodeEvents {
        self.node.events()
    }

    /// The result of the last touch of the child, to be read and waited for; `None` before the
    /// first. After a refusal the next touch comes at its time; where the connection was lost or the
    /// server too busy, at once.
    #[must_use]
    pub fn touched(&self) -> Subscription<Option<Result<(), NodeError>>> {
        self.touched.clone()
    }

    /// Ends the touching. Nothing is deleted: the server does that when the time to live has passed,
    /// unless another program touches the same znode.
    ///
    /// # Errors
    ///
    /// As [`PersistentNode::close`].
    pub async fn close(self) -> Result<(), NodeError> {
        self.node.close().await
    }
}

/// Touches the child until this is aborted or the client is closed.
async fn touch_again(
    client: Client,
    child: Child,
    acl: Option<Vec<Acl>>,
    interval: Duration,
    touched: Publisher<Option<Result<(), NodeError>>>,
) {
    // The first touch comes at once: an earlier program may have left the znode, and little of the
    // child's time.
    loop {
        let mut pause = interval;
        match touch(&client, &child, acl.as_deref()).await {
            Err(client::Error::Closed) => return,
            // The node creates its znode, with the child.
            Err(error) if error.is(ErrorCode::NO_NODE) => {}
            result => {
                if let Err(error) = &result {
                    tracing::debug!("{}: cannot touch it: {error}", child.path);
                    // With two touches in a time to live, none may be left out.
                    let is_passing = error.is_retryable() || error.is(ErrorCode::THROTTLED_OP);
                    pause = if is_passing { interval.min(BACK_OFF_MIN) } else { interval };
                }
                touched.send_replace(Some(result.map_err(NodeError::from)));
            }
        }
        tokio::time::sleep(pause).await;
    }
}

async fn touch(client: &Client, child: &Child, acl: Option<&[Acl]>) -> Result<(), client::Error> {
    match client.set(&child.path, child.data.clone()).await {
        Err(error) if error.is(ErrorCode::NO_NODE) => {
            let create = client.create(&child.path).data(child.data.clone());
            defaults::with_acl(create, acl).mode(child.mode).or_set().await.map(drop)
        }
        set => set.map(drop),
    }
}
