//! What a znode does: it holds, it waits, or it is something else.

use crate::style::{Recipe, Style};

/// What the znode of a recipe does.
///
/// ```
/// use zoolet_layouts::Role;
///
/// assert!(Role::Reads.holds() && Role::WaitsToRead.waits());
/// assert_eq!(Role::WaitsToRead.text(), "waits to read");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// It holds a lock or a lease.
    Holds,
    /// It waits for a lock.
    Waits,
    /// It holds a read lock.
    Reads,
    /// It waits for a read lock.
    WaitsToRead,
    /// It holds a write lock.
    Writes,
    /// It waits for a write lock.
    WaitsToWrite,
    /// It has a permit of a semaphore.
    HasPermit,
    /// It is the next that receives a permit.
    WaitsForPermit,
    /// It leads.
    Leads,
    /// It waits for the leadership.
    WaitsToLead,
    /// It is a member of a group or of a barrier.
    Member,
    /// It is an item of a queue.
    Item,
}

impl Role {
    /// The role, for a person.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Waits | Self::WaitsForPermit | Self::WaitsToLead => "waits",
            Self::Reads => "reads",
            Self::WaitsToRead => "waits to read",
            Self::Writes => "writes",
            Self::WaitsToWrite => "waits to write",
            Self::HasPermit => "has a permit",
            Self::Leads => "leads",
            Self::Member => "is a member",
            Self::Item => "is an item",
        }
    }

    /// Whether it holds something that others wait for.
    #[must_use]
    pub fn holds(self) -> bool {
        matches!(self, Self::Holds | Self::Reads | Self::Writes | Self::HasPermit | Self::Leads)
    }

    /// Whether it waits.
    #[must_use]
    pub fn waits(self) -> bool {
        matches!(
            self,
            Self::Waits
                | Self::WaitsToRead
                | Self::WaitsToWrite
                | Self::WaitsForPermit
                | Self::WaitsToLead
        )
    }
}

/// The role of a znode that holds, or of one that waits.
pub(crate) fn role(style: Style, recipe: Recipe, holds: bool) -> Role {
    let (held, waited) = match (style, recipe) {
        (Style::CuratorRead | Style::KazooRead, _) => (Role::Reads, Role::WaitsToRead),
        (Style::CuratorWrite, _) | (Style::KazooLock, Recipe::KazooReadWriteLock) => {
            (Role::Writes, Role::WaitsToWrite)
        }
        (_, Recipe::LeaderLatch | Recipe::ApacheElection) => (Role::Leads, Role::WaitsToLead),
        (_, Recipe::Semaphore | Recipe::KazooSemaphore) => (Role::HasPermit, Role::WaitsForPermit),
        (_, Recipe::DoubleBarrier | Recipe::Party) => (Role::Member, Role::Member),
        (_, Recipe::Queue) => (Role::Item, Role::Item),
        _ => (Role::Holds, Role::Waits),
    };
    if holds { held } else { waited }
}
