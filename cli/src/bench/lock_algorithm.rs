//! The locks that are compared.

use clap::ValueEnum;
use zoolet_client::Client;
use zoolet_recipes::{HerdLock, InterProcessLock, InterProcessMutex, LockError};

/// The name of the label.
pub(crate) const LOCK: &str = "lock";

/// A lock, by what its waiters watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum LockAlgorithm {
    /// Everybody watches the one znode of the holder, and all are woken when it goes
    ExistsHerd,
    /// Everybody watches the list of those who wait, and all are woken when it changes
    ChildrenHerd,
    /// Everybody watches the one before, and one is woken: InterProcessMutex
    Predecessor,
}

impl LockAlgorithm {
    pub(crate) const ALL: [Self; 3] = [Self::ExistsHerd, Self::ChildrenHerd, Self::Predecessor];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ExistsHerd => "exists-herd",
            Self::ChildrenHerd => "children-herd",
            Self::Predecessor => "predecessor",
        }
    }

    /// What the algorithm does, in a clause.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::ExistsHerd => "everybody watches the one znode of the holder, and all are woken",
            Self::ChildrenHerd => "everybody watches the list of those who wait, and all are woken",
            Self::Predecessor => {
                "everybody watches the one before, and one is woken: InterProcessMutex"
            }
        }
    }

    /// Whether each release wakes all waiters.
    pub(crate) fn is_herd(self) -> bool {
        self != Self::Predecessor
    }

    /// A lock on a path.
    pub(crate) fn lock(
        self,
        client: &Client,
        path: &str,
    ) -> Result<Box<dyn InterProcessLock>, LockError> {
        Ok(match self {
            Self::ExistsHerd => Box::new(HerdLock::watching_one_znode(client, path)?),
            Self::ChildrenHerd => Box::new(HerdLock::watching_all_children(client, path)?),
            Self::Predecessor => Box::new(InterProcessMutex::new(client, path)?),
        })
    }
}
