//! A ZooKeeper client, and the lock recipes of Curator without their holes.
//!
//! The [`client`] stands on its own. [`InterProcessMutex`] is the first of the recipes.

pub mod client;

mod error;
mod guard;
mod line;
mod mutex;
mod owner;
mod place;

#[doc(inline)]
pub use zoolet_protocol as protocol;

pub use self::error::LockError;
pub use self::guard::{Guard, LockState};
pub use self::mutex::InterProcessMutex;
pub use self::owner::Owner;
