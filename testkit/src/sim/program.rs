//! What a simulation runs: the programs of its machines, and its checks.

use std::collections::BTreeSet;
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use zoolet_client as client;
use zoolet_recipes::queue::QueueError;
use zoolet_recipes::{CacheError, LeaseError, LockError, NodeError, PartitionError, ValueError};
use zoolet_server::Config;

use super::invariants::Invariant;
use super::plan::Terms;
use super::servers::Servers;
use super::world::World;

/// What a machine's program returns: an error of any type ends it.
///
/// ```
/// use zoolet_testkit::sim::{MachineResult, Sim, World};
///
/// async fn writer(world: World) -> MachineResult {
///     world.connect().await?.create("/seen").or_set().await?;
///     Ok(())
/// }
///
/// assert_eq!(Sim::new().machine("writer", 2, writer).run(1).violation, None);
/// ```
pub type MachineResult = Result<(), Box<dyn Error + Send + Sync>>;

/// A run of a machine's program.
type Running = Pin<Box<dyn Future<Output = MachineResult> + Send>>;

/// The program of a machine. It begins again when the machine was started again.
#[derive(Clone)]
pub(super) struct Program(Arc<dyn Fn(World) -> Running + Send + Sync>);

impl Program {
    pub(super) fn new<F>(program: impl Fn(World) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = MachineResult> + Send + 'static,
    {
        Self(Arc::new(move |world| Box::pin(program(world))))
    }

    pub(super) fn run(&self, world: World) -> Running {
        (self.0)(world)
    }
}

/// Machines with the same program.
#[derive(Clone)]
pub(super) struct Kind {
    pub(super) name: String,
    pub(super) count: usize,
    pub(super) program: Program,
}

/// What programs wait for in their rounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Waits {
    /// Nobody knows: one that waits for ever may do so.
    #[default]
    ForAnything,
    /// Each goes on when nobody holds the lock that it waits for.
    ForLocks,
}

/// Everything that a simulation runs.
#[derive(Clone)]
pub(super) struct Programs {
    pub(super) kinds: Vec<Kind>,
    /// Run one after the other.
    pub(super) setup: Vec<Program>,
    pub(super) at_end: Vec<Program>,
    pub(super) invariants: Vec<Invariant>,
    pub(super) terms: Terms,
    pub(super) waits: Waits,
    pub(super) config: Config,
    pub(super) is_configured: bool,
    pub(super) latency_ms: u64,
    pub(super) finish_within: Duration,
}

impl Programs {
    /// All machines in order: the number of their kind, and their number among those.
    pub(super) fn machines(&self) -> impl Iterator<Item = (usize, usize)> {
        let kinds = self.kinds.iter().enumerate();
        kinds.flat_map(|(number, kind)| (0..kind.count).map(move |index| (number, index)))
    }

    /// Why they cannot be run: a test that checks nothing would pass.
    pub(super) fn refusal(&self) -> Option<String> {
        self.refusal_of_machines().or_else(|| self.refusal_of_invariants()).or_else(|| {
            let is_lost = self.is_configured && self.terms.servers == Servers::Ensemble;
            let text =
                "Sim::configure changes one server, and an ensemble has no such configuration";
            is_lost.then(|| text.to_owned()).or_else(|| self.terms.refusal())
        })
    }

    fn refusal_of_machines(&self) -> Option<String> {
        let mut names = BTreeSet::new();
        for Kind { name, count, .. } in &self.kinds {
            // A name is a part of lines, and of lanes.
            if name.is_empty() || name.contains(char::is_control) {
                return Some(format!("{name:?} is no name of machines; give one, in one line"));
            }
            if *count == 0 {
                return Some(format!("there are 0 machines {name:?}; give at least 1"));
            }
            if !names.insert(name) {
                return Some(format!(
                    "two kinds of machines have the name {name:?}; give each its own"
                ));
            }
        }
        let text = "there are no machines; add some with Sim::machine";
        names.is_empty().then(|| text.to_owned())
    }

    fn refusal_of_invariants(&self) -> Option<String> {
        let is_path = |path: &str| path == "/" || (path.starts_with('/') && !path.ends_with('/'));
        let wrong = self.invariants.iter().find(|invariant| !is_path(&invariant.path))?;
        let path = &wrong.path;
        Some(format!(
            "the invariant of {path:?} is of no znode; a path begins with /, and ends without"
        ))
    }
}

/// Whether a run has had faults yet. They explain why a connection, a session or a lock was lost, or a
/// time limit has passed: a program may end with such an error, as a process does that its supervisor
/// starts again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Faults {
    None,
    Some,
}

impl Faults {
    pub(super) fn of(count: u64) -> Self {
        if count == 0 { Self::None } else { Self::Some }
    }

    /// Whether they explain an error.
    pub(super) fn explain(self, error: &(dyn Error + 'static)) -> bool {
        let mut next = Some(error);
        while let Some(error) = next {
            let loss = error.downcast_ref().map(|it| self.is_loss(it));
            let is_explained = loss.or_else(|| {
                error
                    .downcast_ref()
                    .map(|it| self.is_lock_loss(it))
                    .or_else(|| error.downcast_ref().map(|it| self.is_value_loss(it)))
                    .or_else(|| error.downcast_ref().map(|it| self.is_node_loss(it)))
                    .or_else(|| error.downcast_ref().map(|it| self.is_lease_loss(it)))
                    .or_else(|| error.downcast_ref().map(|it| self.is_cache_loss(it)))
                    .or_else(|| error.downcast_ref().map(|it| self.is_partition_loss(it)))
                    .or_else(|| error.downcast_ref().map(|it| self.is_queue_loss(it)))
            });
            if let Some(is_explained) = is_explained {
                return is_explained;
            }
            if error.is::<tokio::time::error::Elapsed>() {
                return true;
            }
            next = error.source();
        }
        false
    }

    fn is_loss(self, error: &client::Error) -> bool {
        match error {
            // A session may end without faults: by the program, or since it blocks its thread.
            client::Error::SessionExpired | client::Error::Closed => true,
            error => error.is_retryable() && self == Self::Some,
        }
    }

    fn is_lock_loss(self, error: &LockError) -> bool {
        match error {
            LockError::Lost(_) | LockError::PlaceLost(_) | LockError::TimedOut(_) => true,
            LockError::Client(error) => self.is_loss(error),
            LockError::Count(error) => self.is_value_loss(error),
            LockError::Several(errors) => errors.iter().all(|error| self.is_lock_loss(error)),
            _ => false,
        }
    }

    fn is_value_loss(self, error: &ValueError) -> bool {
        match error {
            ValueError::Client(error) => self.is_loss(error),
            ValueError::Mutex(error) => self.is_lock_loss(error),
            _ => false,
        }
    }

    fn is_node_loss(self, error: &NodeError) -> bool {
        match error {
            NodeError::TimedOut { .. } | NodeError::Closed(_) | NodeError::Contended(_) => true,
            // The session of the other may be one that has not expired yet.
            NodeError::Occupied { .. } => true,
            NodeError::Client(error) => self.is_loss(error),
            _ => false,
        }
    }

    fn is_lease_loss(self, error: &LeaseError) -> bool {
        match error {
            LeaseError::Client(error) => self.is_loss(error),
            LeaseError::Lock(error) => self.is_lock_loss(error),
            _ => false,
        }
    }

    fn is_cache_loss(self, error: &CacheError) -> bool {
        match error {
            CacheError::Closed(_) => true,
            CacheError::Client(error) => self.is_loss(error),
            _ => false,
        }
    }

    fn is_partition_loss(self, error: &PartitionError) -> bool {
        match error {
            PartitionError::Client(error) => self.is_loss(error),
            PartitionError::Lock(error) => self.is_lock_loss(error),
            PartitionError::Member(error) => self.is_node_loss(error),
            _ => false,
        }
    }

    fn is_queue_loss(self, error: &QueueError) -> bool {
        match error {
            QueueError::Lost(_) | QueueError::Unknown(_) | QueueError::TimedOut(_) => true,
            QueueError::NotCarriedOut { .. } => true,
            QueueError::Client(error) => self.is_loss(error),
            QueueError::Line(error) => self.is_lock_loss(error),
            _ => false,
        }
    }
}
