//! The znodes of ZooKeeper's recipes, as the libraries write them: which names are places of a lock,
//! who holds it, who waits, and who waits for whom over several locks.
//!
//! All of it works on values: the names of a directory's children, with their sessions and zxids. Where
//! these come from is the caller's affair: a server, a snapshot, a transaction log.
//!
//! - [`Name::read`] tells from a name alone which library wrote it, and for what: its [`Style`].
//! - [`Directory`] takes the children of one directory, one by one or at once, and tells who holds
//!   ([`Directory::holders`]) and the whole [`Queue`]s. [`Directory::holds`] and [`Directory::freed_by`] tell what one
//!   change has done, at a cost that does not grow with the others.
//! - [`semaphore`] does so for the two directories of a semaphore.
//! - [`WaitGraph`] takes queues of many paths and finds those that wait for each other in a cycle.
//!
//! What a name cannot tell is not guessed: a [`Role`] is that of an unchanged lock of its library. A lock
//! of kazoo may have been told to wait for other names too, and a permit may be one of any number.

mod directory;
mod lease;
mod line;
mod name;
mod queue;
mod role;
mod semaphore;
mod style;
mod towards;
mod wait_graph;

pub use self::directory::{Directory, Place, Znode};
pub use self::lease::Lease;
pub use self::name::Name;
pub use self::queue::{Queue, Row};
pub use self::role::Role;
pub use self::semaphore::{Part, Site, front_of_gate, semaphore};
pub use self::style::{Recipe, Style};
pub use self::towards::Towards;
pub use self::wait_graph::{Cycle, Step, WaitGraph};
