//! What a node tells: its state, its events, and what its task shares with its handle.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::broadcast::{self, Sender};
use zoolet_protocol::{SessionId, Zxid};

use super::error::NodeError;
use super::limits::EVENTS_MAX;
use super::plan::Plan;
use crate::client::recipe::Publisher;
use crate::lock::held_lock::HeldLock;
use crate::lock::state::LockState;

/// Whether the znode of a node is there, as far as is known without a request.
///
/// It follows the same rules as [`LockState`]: a disconnect alone changes nothing.
///
/// ```
/// use zoolet_recipes::NodeState;
///
/// assert_ne!(NodeState::Present, NodeState::Suspect);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeState {
    /// The znode is not there: it was not created yet, or is gone. The node creates it.
    Missing,
    /// The znode is there. If it is an ephemeral, no server can have ended its session.
    Present,
    /// The znode is an ephemeral, and the last proof that its session is alive is too old: the
    /// server may have deleted it.
    Suspect,
    /// The node is closed.
    Closed,
}

/// How a node came to its znode.
///
/// ```
/// use zoolet_recipes::Origin;
/// use zoolet_recipes::protocol::SessionId;
///
/// assert_ne!(Origin::Created, Origin::TakenOver(SessionId(7)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// It created the znode where there was none.
    Created,
    /// It replaced the ephemeral of this session by its own, in one transaction.
    TakenOver(SessionId),
    /// The znode was there and fits: the node has set its data. This is so for znodes that are not
    /// ephemeral, and for an ephemeral of the same session.
    Adopted,
}

/// A znode that a node has, from its creation until it is lost.
///
/// ```
/// use zoolet_recipes::{Origin, Registered};
/// use zoolet_recipes::protocol::Zxid;
///
/// let registered = Registered { path: "/a".into(), czxid: Zxid(7), origin: Origin::Created };
/// assert_eq!(registered.czxid, Zxid(7));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// Its path, with the sequence number and the id if it has them.
    pub path: String,
    /// The zxid of the transaction that created it. For an ephemeral it is greater than those of
    /// all earlier znodes of this name.
    pub czxid: Zxid,
    /// How the node came to it.
    pub origin: Origin,
}

/// What happens to a node.
///
/// ```
/// use zoolet_recipes::NodeEvent;
///
/// let event = NodeEvent::Lost { path: "/a".into() };
/// assert_ne!(event, NodeEvent::Missed(1));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeEvent {
    /// The znode is there: created, taken over from another session, or adopted.
    Registered(Registered),
    /// An ephemeral of another session has the name. The node waits until it is gone.
    Occupied {
        /// The path.
        path: String,
        /// The session of the ephemeral.
        owner: SessionId,
    },
    /// The znode is gone: someone deleted it, or its session has ended. The node creates it again.
    Lost {
        /// The path.
        path: String,
    },
    /// An attempt failed. The node tries again after a pause.
    Failed(NodeError),
    /// The receiver was so slow that this many events were dropped. The state is right.
    Missed(u64),
}

/// The events of a node from the moment of [`PersistentNode::events`](crate::PersistentNode::events)
/// on.
///
/// ```no_run
/// use zoolet_recipes::{NodeEvent, PersistentNode};
///
/// # async fn example(node: PersistentNode) {
/// let mut events = node.events();
/// while let Some(event) = events.next().await {
///     println!("{event:?}");
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct NodeEvents(broadcast::Receiver<NodeEvent>);

impl NodeEvents {
    /// The next event; `None` when the node is closed or dropped.
    ///
    /// # Cancellation
    ///
    /// Safe: no event is lost.
    pub async fn next(&mut self) -> Option<NodeEvent> {
        match self.0.recv().await {
            Ok(event) => Some(event),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(NodeEvent::Missed(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

/// The data that the znode is to have. The revision counts the changes of it, from 1.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) data: Bytes,
    pub(super) revision: u64,
}

/// What is known of the znode.
#[derive(Clone, Default)]
pub(super) struct Status {
    /// The name that the znode has, or had last.
    pub(super) path: Option<String>,
    /// The znode, while it is there.
    pub(super) present: Option<Present>,
    /// The revision of the data that the znode has.
    pub(super) written: u64,
    /// Why the last attempt failed, with the revision of the data that it was to write. `None`
    /// after a success.
    pub(super) failure: Option<(u64, NodeError)>,
    /// How the task ended, once it did.
    pub(super) closed: Option<Result<(), NodeError>>,
}

/// A znode that is there.
#[derive(Clone)]
pub(super) struct Present {
    pub(super) registered: Registered,
    /// An ephemeral is held as a lock is, with a proof of its session.
    pub(super) held: Option<Arc<HeldLock>>,
}

impl Present {
    pub(super) fn state(&self) -> NodeState {
        match self.held.as_ref().map(|held| held.state()) {
            None | Some(LockState::Held) => NodeState::Present,
            Some(LockState::Suspect) => NodeState::Suspect,
            Some(LockState::Lost) => NodeState::Missing,
        }
    }
}

/// What the task of a node shares with its handle.
pub(super) struct Shared {
    pub(super) plan: Plan,
    pub(super) wanted: Publisher<Wanted>,
    pub(super) status: Publisher<Status>,
    /// `None` when the node is closed.
    events: Mutex<Option<Sender<NodeEvent>>>,
}

impl Shared {
    pub(super) fn new(plan: Plan, data: Bytes) -> Self {
        Self {
            plan,
            wanted: Publisher::new(Wanted { data, revision: 1 }),
            status: Publisher::new(Status::default()),
            events: Mutex::new(Some(broadcast::channel(EVENTS_MAX).0)),
        }
    }

    pub(super) fn events(&self) -> NodeEvents {
        let events = self.events.lock();
        // The receiver of a sender that is dropped has no events.
        NodeEvents(events.as_ref().map_or_else(|| broadcast::channel(1).1, Sender::subscribe))
    }

    /// Publishes the znode that is there with data of this revision.
    pub(super) fn registered(&self, present: Present, written: u64) {
        let registered = present.registered.clone();
        self.status.send_modify(|status| {
            status.path = Some(registered.path.clone());
            status.present = Some(present);
            status.written = written;
            status.failure = None;
        });
        self.tell(NodeEvent::Registered(registered));
    }

    /// Publishes that the znode has the data of this revision.
    pub(super) fn written(&self, revision: u64) {
        self.status.send_modify(|status| {
            status.written = revision;
            status.failure = None;
        });
    }

    /// Publishes that the znode is gone.
    pub(super) fn lost(&self) {
        let mut path = String::new();
        self.status.send_modify(|status| {
            if let Some(present) = status.present.take() {
                path = present.registered.path;
            }
            status.written = 0;
        });
        self.tell(NodeEvent::Lost { path });
    }

    /// Publishes that an attempt to write the data of this revision failed.
    pub(super) fn failed(&self, revision: u64, error: NodeError) {
        self.status.send_modify(|status| status.failure = Some((revision, error.clone())));
        self.tell(match error {
            NodeError::Occupied { path, owner } => NodeEvent::Occupied { path, owner },
            error => NodeEvent::Failed(error),
        });
    }

    /// Publishes that the node is closed. Only the first call counts.
    pub(super) fn closed(&self, result: Result<(), NodeError>) {
        self.status.send_modify(|status| {
            status.present = None;
            status.closed.get_or_insert(result);
        });
        *self.events.lock() = None;
    }

    fn tell(&self, event: NodeEvent) {
        if let Some(events) = &*self.events.lock() {
            // Nobody may be listening.
            let _ = events.send(event);
        }
    }
}
