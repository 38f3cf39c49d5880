//! A znode that stays: Curator's `PersistentNode`, with its names.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use zoolet_protocol::Zxid;

use super::error::NodeError;
use super::keeper::Keeper;
use super::plan::{PersistentNodeBuilder, Plan};
use super::report::{NodeEvents, NodeState, Registered, Shared, Status, Wanted};
use crate::client::Client;

/// A znode that is created in the background, and created again whenever it is gone, over lost
/// connections and sessions that end, until the node is closed.
///
/// Most often the znode is an ephemeral by which a program registers itself. A lost connection
/// changes nothing as long as the session lives. When the session is over, the next one creates the
/// znode; if the old one is still there, because the client gave its session up before the server
/// did, one transaction replaces it, so that no reader finds it missing. The same name in the hands
/// of another session is not touched ([`TakeOver`](crate::TakeOver)).
///
/// What fails is told as a value ([`PersistentNode::events`], [`PersistentNode::last_failure`]), and
/// is tried again after a pause of at most thirty seconds. Others may set the data of the znode: the
/// node does not set it back.
///
/// The znode has the names of Curator's `PersistentNode`: a sequential one keeps the number that it
/// gets first. Dropping the node deletes the znode in the background, unless the builder says
/// [`AtClose::Keep`](crate::AtClose::Keep); [`PersistentNode::close`] waits until it is deleted.
///
/// ```no_run
/// use zoolet_client::Client;
/// use zoolet_recipes::PersistentNode;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let node = PersistentNode::builder(&client, "/members/host-1").data("10.0.0.7").start()?;
/// println!("registered as {}", node.registered().await?.path);
/// node.set_data("10.0.0.8").await?;
/// node.lost().await; // from here on others may find the znode missing; the node goes on
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping a node deletes its znode"]
pub struct PersistentNode {
    shared: Arc<Shared>,
    /// Has the task end.
    closing: CancellationToken,
}

impl PersistentNode {
    /// The options of a node at a path. The default is an ephemeral with empty data.
    pub fn builder(client: &Client, path: &str) -> PersistentNodeBuilder {
        PersistentNodeBuilder::new(client, path)
    }

    pub(super) fn of_plan(plan: Plan, data: Bytes) -> Self {
        let client = plan.client.clone();
        let shared = Arc::new(Shared::new(plan, data));
        let closing = CancellationToken::new();
        let keeper = Keeper::new(Arc::clone(&shared), closing.clone());
        client.spawn(keeper.run());
        Self { shared, closing }
    }

    /// Waits until the znode is there. Returns at once while it is.
    ///
    /// # Errors
    ///
    /// [`NodeError::Closed`] if the client is closed. What else fails is tried again: see
    /// [`PersistentNode::registered_within`].
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn registered(&self) -> Result<Registered, NodeError> {
        let mut status = self.shared.status.subscribe();
        let is_settled = |status: &Status| {
            status.closed.is_some()
                || status.present.as_ref().is_some_and(|it| it.state() == NodeState::Present)
        };
        let mut proofs = self.shared.plan.client.proof_changes();
        loop {
            proofs.mark_unchanged();
            tokio::select! {
                biased;
                settled = status.wait_for(is_settled) => {
                    let present = settled.ok().and_then(|status| status.present.clone());
                    let registered = present.map(|present| present.registered);
                    return registered.ok_or_else(|| self.closed());
                }
                // A new proof of the session makes a znode present that was not certain to be.
                changed = proofs.changed() => changed.map_err(|_| self.closed())?,
            }
        }
    }

    /// As [`PersistentNode::registered`], within a time limit.
    ///
    /// # Errors
    ///
    /// [`NodeError::TimedOut`] when the time has passed, with the cause of the last failure. Else as
    /// [`PersistentNode::registered`].
    pub async fn registered_within(&self, time: Duration) -> Result<Registered, NodeError> {
        match tokio::time::timeout(time, self.registered()).await {
            Ok(result) => result,
            Err(_) => Err(NodeError::TimedOut {
                path: self.shared.plan.path.to_string(),
                cause: self.last_failure().map(Box::new),
            }),
        }
    }

    /// Whether the znode is there, as far as is known without a request.
    #[must_use]
    pub fn state(&self) -> NodeState {
        let status = self.shared.status.borrow();
        match &status.present {
            _ if status.closed.is_some() => NodeState::Closed,
            Some(present) => present.state(),
            None => NodeState::Missing,
        }
    }

    /// Waits until the znode is not certainly there any more: it was deleted, its session has ended,
    /// or the last proof that the session is alive is too old. Returns at once if it is not there.
    /// The node goes on: [`PersistentNode::registered`] waits until the znode is there again.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn lost(&self) {
        let mut status = self.shared.status.subscribe();
        let present = status.borrow_and_update().present.clone();
        let Some(present) = present else { return };
        let czxid = present.registered.czxid;
        let is_over =
            |status: &Status| status.present.as_ref().is_none_or(|it| it.registered.czxid != czxid);
        let over = status.wait_for(is_over);
        match &present.held {
            Some(held) => tokio::select! {
                biased;
                _ = over => {}
                () = held.not_held() => {}
            },
            None => drop(over.await),
        }
    }

    /// The name of the znode, with its number and id, once it was created. It stays the same from
    /// then on.
    #[must_use]
    pub fn path(&self) -> Option<String> {
        self.shared.status.borrow().path.clone()
    }

    /// Whether the node has its znode, and it was created by this transaction.
    #[cfg_attr(not(feature = "discovery"), expect(dead_code, reason = "registrations ask"))]
    pub(crate) fn has(&self, czxid: Zxid) -> bool {
        let status = self.shared.status.borrow();
        status.present.as_ref().is_some_and(|present| present.registered.czxid == czxid)
    }

    /// What the node and its task share.
    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// The data that the znode is to have.
    #[must_use]
    pub fn data(&self) -> Bytes {
        self.shared.wanted.borrow().data.clone()
    }

    /// Replaces the data, and returns when the znode has it, or later data of this node. While the
    /// znode is missing this waits until it is there.
    ///
    /// If another program has replaced the znode without the knowledge of this one, as after somebody
    /// deleted it, nothing is written: the node learns of it ([`NodeEvent::Lost`](crate::NodeEvent)), and
    /// this waits until the name is its own again. Each write comes after a look at the znode, and is
    /// refused unless the znode still has the version that was seen. ZooKeeper cannot check in a write
    /// whose znode it is. So this does not see a znode that replaces this one between the look and
    /// the write, if its data was set as often; the data of that one is overwritten then. A znode
    /// whose access control list does not let this program read or administer it is written without
    /// the version; one that is not ephemeral, without the look.
    ///
    /// # Errors
    ///
    /// What the server refused; the node writes the data again after a pause, until it succeeds or
    /// there is other data. [`NodeError::Closed`] if the client is closed.
    ///
    /// # Cancellation
    ///
    /// The data is written all the same.
    pub async fn set_data(&self, data: impl Into<Bytes>) -> Result<(), NodeError> {
        let data = data.into();
        let mut status = self.shared.status.subscribe();
        let mut revision = 0;
        self.shared.wanted.send_modify(|wanted| {
            revision = wanted.revision + 1;
            *wanted = Wanted { data, revision };
        });
        let refusal = |status: &Status| match &status.failure {
            Some((of, error)) if *of >= revision && !error.is_for_want_of_connection() => {
                Some(error.clone())
            }
            _ => None,
        };
        let settled = status
            .wait_for(|status| {
                status.closed.is_some() || status.written >= revision || refusal(status).is_some()
            })
            .await;
        match settled {
            Ok(status) if status.written >= revision => Ok(()),
            Ok(status) => Err(refusal(&status).unwrap_or_else(|| self.closed())),
            Err(_) => Err(self.closed()),
        }
    }

    /// Notes data that somebody else has set, so that the node creates the znode with it when it is
    /// gone. Nothing is written now, unless data of [`PersistentNode::set_data`] still waits to be:
    /// then this replaces it.
    pub fn remember_data(&self, data: impl Into<Bytes>) {
        let data = data.into();
        self.shared.wanted.send_if_modified(|wanted| {
            wanted.data = data;
            // Nothing is to be written.
            false
        });
    }

    /// What happens to the znode from now on.
    #[must_use]
    pub fn events(&self) -> NodeEvents {
        self.shared.events()
    }

    /// Why the last attempt to create the znode or to write its data failed; `None` after a success.
    #[must_use]
    pub fn last_failure(&self) -> Option<NodeError> {
        self.shared.status.borrow().failure.as_ref().map(|(_, error)| error.clone())
    }

    /// Ends the node, and returns when the znode is deleted, or at once if it is to stay. A znode of
    /// somebody else that has the name by now stays. Without a connection this waits for one; for an
    /// ephemeral no longer than until its session must have ended. Each call returns the same.
    ///
    /// A znode that is not ephemeral is left if the connection is lost during the first attempt to
    /// create it, and the node is closed before the next attempt.
    ///
    /// # Errors
    ///
    /// The refusal of the deletion, as of a znode that has children. A znode that is gone is none.
    ///
    /// # Cancellation
    ///
    /// Safe: the znode is deleted in the background.
    pub async fn close(&self) -> Result<(), NodeError> {
        self.closing.cancel();
        let mut status = self.shared.status.subscribe();
        let closed = status.wait_for(|status| status.closed.is_some()).await;
        match closed.ok().and_then(|status| status.closed.clone()) {
            Some(result) => result,
            None => unreachable!("the handle has the sender"),
        }
    }

    fn closed(&self) -> NodeError {
        NodeError::Closed(self.shared.plan.path.to_string())
    }
}

impl Drop for PersistentNode {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

/// Without the data, which may be secret.
impl fmt::Debug for PersistentNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path().unwrap_or_else(|| self.shared.plan.path.to_string());
        write!(f, "PersistentNode({path}, {:?})", self.state())
    }
}
