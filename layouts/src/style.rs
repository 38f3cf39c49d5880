//! The styles of names: one for each way in which a library names the znodes of a recipe.

/// One way in which a library names the znodes of a recipe. `<number>` is the one that the server
/// appends.
///
/// ```
/// use zoolet_layouts::{Recipe, Style};
///
/// assert_eq!(Style::GoLock.libraries(), "go-zookeeper");
/// assert_eq!(Style::GoLock.recipe(), Recipe::Mutex);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Style {
    /// `_c_<uuid>-lock-<number>`: Curator's `InterProcessMutex` and `LeaderSelector`, the locks in front
    /// of its semaphores, and Rust's zookeeper-client with `LockPrefix::new_curator`.
    CuratorLock,
    /// `_c_<32 hexadecimal digits>-lock-<number>`: go-zookeeper's `Lock`.
    GoLock,
    /// Any other name that ends in `lock-<number>`.
    OtherLock,
    /// `_c_<uuid>-__READ__<number>`: the read lock of Curator's `InterProcessReadWriteLock`.
    CuratorRead,
    /// `_c_<uuid>-__WRIT__<number>`: its write lock.
    CuratorWrite,
    /// `_c_<uuid>-lease-<number>`: a permit of Curator's `InterProcessSemaphoreV2`.
    CuratorPermit,
    /// `_c_<uuid>-latch-<number>`: Curator's `LeaderLatch`.
    CuratorLatch,
    /// `<32 hexadecimal digits>__lock__<number>`: kazoo's `Lock`, `WriteLock` and `Election`.
    KazooLock,
    /// `<32 hexadecimal digits>__rlock__<number>`: kazoo's `ReadLock`.
    KazooRead,
    /// `x-<session id>-<number>`: ZooKeeper's own `WriteLock`.
    ApacheLock,
    /// `n_<number>`: ZooKeeper's own `LeaderElectionSupport`.
    ApacheElection,
    /// `<uuid>_<number>`: the shared lock of Rust's zookeeper-async.
    UuidLock,
    /// `<32 hexadecimal digits>`: a permit of kazoo's `Semaphore`, or a member of its `DoubleBarrier`.
    KazooPermit,
    /// `<uuid>`: a member of Curator's `DistributedDoubleBarrier`.
    BarrierMember,
    /// `ready`: both libraries' double barriers have all their members.
    BarrierReady,
    /// `<32 hexadecimal digits>__party__`: kazoo's `Party`.
    KazooParty,
    /// `<32 hexadecimal digits>-<identifier>`: kazoo's `ShallowParty`.
    KazooShallowParty,
    /// `lease_holder`: kazoo's `NonBlockingLease`.
    KazooLease,
    /// `queue-..<number>`: an item of Curator's `DistributedQueue` and its kinds.
    CuratorQueue,
    /// `qn-<number>`: an item of ZooKeeper's own queue and of Curator's `SimpleDistributedQueue`.
    SimpleQueue,
    /// `entry-<priority>-<number>`: an item of kazoo's `Queue` and `LockingQueue`.
    KazooQueue,
}

/// What the znodes of a directory are for.
///
/// ```
/// use zoolet_layouts::Recipe;
///
/// assert_eq!(Recipe::ReadWriteLock.text(), "read-write lock");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Recipe {
    /// A mutex, or a leader selector, with Curator's names or go-zookeeper's.
    Mutex,
    /// Curator's read-write lock.
    ReadWriteLock,
    /// Curator's semaphore.
    Semaphore,
    /// Curator's leader latch.
    LeaderLatch,
    /// A lock or an election of kazoo.
    KazooLock,
    /// A read lock of kazoo, and what stands beside it.
    KazooReadWriteLock,
    /// kazoo's semaphore.
    KazooSemaphore,
    /// ZooKeeper's own write lock.
    ApacheLock,
    /// ZooKeeper's own election.
    ApacheElection,
    /// The shared lock of zookeeper-async.
    UuidLock,
    /// A double barrier.
    DoubleBarrier,
    /// A party of kazoo.
    Party,
    /// A lease of kazoo.
    Lease,
    /// A queue of items.
    Queue,
}

impl Style {
    /// All styles.
    pub const ALL: [Self; 21] = [
        Self::CuratorLock,
        Self::GoLock,
        Self::OtherLock,
        Self::CuratorRead,
        Self::CuratorWrite,
        Self::CuratorPermit,
        Self::CuratorLatch,
        Self::KazooLock,
        Self::KazooRead,
        Self::ApacheLock,
        Self::ApacheElection,
        Self::UuidLock,
        Self::KazooPermit,
        Self::BarrierMember,
        Self::BarrierReady,
        Self::KazooParty,
        Self::KazooShallowParty,
        Self::KazooLease,
        Self::CuratorQueue,
        Self::SimpleQueue,
        Self::KazooQueue,
    ];

    /// The libraries that write such names, for a person.
    #[must_use]
    pub fn libraries(self) -> &'static str {
        match self {
            Self::CuratorLock => "Curator, zoolet or Rust's zookeeper-client",
            Self::GoLock => "go-zookeeper",
            Self::OtherLock => "a library with Curator's ending",
            Self::CuratorRead | Self::CuratorWrite | Self::CuratorPermit | Self::CuratorLatch => {
                "Curator or zoolet"
            }
            Self::KazooLock
            | Self::KazooRead
            | Self::KazooPermit
            | Self::KazooParty
            | Self::KazooShallowParty
            | Self::KazooLease
            | Self::KazooQueue => "kazoo",
            Self::ApacheLock | Self::ApacheElection => "ZooKeeper's own recipes",
            Self::UuidLock => "zookeeper-async",
            Self::BarrierMember | Self::CuratorQueue => "Curator",
            Self::BarrierReady => "Curator or kazoo",
            Self::SimpleQueue => "ZooKeeper's own recipes or Curator",
        }
    }

    /// What such a name looks like, for a person.
    #[must_use]
    pub fn pattern(self) -> &'static str {
        match self {
            Self::CuratorLock => "_c_<uuid>-lock-<number>",
            Self::GoLock => "_c_<32 hex digits>-lock-<number>",
            Self::OtherLock => "..lock-<number>",
            Self::CuratorRead => "..__READ__<number>",
            Self::CuratorWrite => "..__WRIT__<number>",
            Self::CuratorPermit => "..lease-<number>",
            Self::CuratorLatch => "..latch-<number>",
            Self::KazooLock => "..__lock__<number>",
            Self::KazooRead => "..__rlock__<number>",
            Self::ApacheLock => "x-<session id>-<number>",
            Self::ApacheElection => "n_<number>",
            Self::UuidLock => "<uuid>_<number>",
            Self::KazooPermit => "<32 hex digits>",
            Self::BarrierMember => "<uuid>",
            Self::BarrierReady => "ready",
            Self::KazooParty => "<32 hex digits>__party__",
            Self::KazooShallowParty => "<32 hex digits>-<identifier>",
            Self::KazooLease => "lease_holder",
            Self::CuratorQueue => "queue-..<number>",
            Self::SimpleQueue => "qn-<number>",
            Self::KazooQueue => "entry-<priority>-<number>",
        }
    }

    /// The recipe that writes such names. Some serve two: the others of the directory decide then.
    #[must_use]
    pub fn recipe(self) -> Recipe {
        match self {
            Self::CuratorLock | Self::GoLock | Self::OtherLock => Recipe::Mutex,
            Self::CuratorRead | Self::CuratorWrite => Recipe::ReadWriteLock,
            Self::CuratorPermit => Recipe::Semaphore,
            Self::CuratorLatch => Recipe::LeaderLatch,
            Self::KazooLock => Recipe::KazooLock,
            Self::KazooRead => Recipe::KazooReadWriteLock,
            Self::ApacheLock => Recipe::ApacheLock,
            Self::ApacheElection => Recipe::ApacheElection,
            Self::UuidLock => Recipe::UuidLock,
            Self::KazooPermit => Recipe::KazooSemaphore,
            Self::BarrierMember | Self::BarrierReady => Recipe::DoubleBarrier,
            Self::KazooParty | Self::KazooShallowParty => Recipe::Party,
            Self::KazooLease => Recipe::Lease,
            Self::CuratorQueue | Self::SimpleQueue | Self::KazooQueue => Recipe::Queue,
        }
    }

    /// Whether a znode with such a name stands in a line, in which it holds or waits: a lock, or a
    /// candidate of an election.
    #[must_use]
    pub fn is_place(self) -> bool {
        matches!(
            self,
            Self::CuratorLock
                | Self::GoLock
                | Self::OtherLock
                | Self::CuratorRead
                | Self::CuratorWrite
                | Self::CuratorLatch
                | Self::KazooLock
                | Self::KazooRead
                | Self::ApacheLock
                | Self::ApacheElection
                | Self::UuidLock
        )
    }

    /// Whether several may hold together.
    pub(crate) fn is_shared(self) -> bool {
        matches!(self, Self::CuratorRead | Self::KazooRead)
    }
}

impl Recipe {
    /// The name of the recipe, for a person.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::ReadWriteLock => "read-write lock",
            Self::Semaphore => "semaphore",
            Self::LeaderLatch => "leader latch",
            Self::KazooLock => "lock of kazoo",
            Self::KazooReadWriteLock => "read-write lock of kazoo",
            Self::KazooSemaphore => "semaphore of kazoo",
            Self::ApacheLock => "write lock of ZooKeeper's recipes",
            Self::ApacheElection => "election of ZooKeeper's recipes",
            Self::UuidLock => "lock of zookeeper-async",
            Self::DoubleBarrier => "double barrier",
            Self::Party => "party of kazoo",
            Self::Lease => "lease of kazoo",
            Self::Queue => "queue",
        }
    }

    /// Whether it excludes others: a lock, a semaphore or an election.
    #[must_use]
    pub fn excludes(self) -> bool {
        !matches!(self, Self::DoubleBarrier | Self::Party | Self::Lease | Self::Queue)
    }
}
