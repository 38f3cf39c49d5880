//! Migrations, and sets of them.

use zoolet_protocol::MultiOp;

use super::digest;
use crate::client::{Client, Transaction};

/// Operations that are carried out together, once: all or none. Curator's `Migration`.
///
/// What was given to one release of a program must not be changed in the next: a hash of the
/// operations is kept, and another hash is an [error](super::MigrationError::Mismatch). It covers paths,
/// data, access control lists, modes and versions. So nothing in them may be different on each machine,
/// as an address or a time.
///
/// ```
/// use zoolet_protocol::{CreateMode, MultiOp};
/// use zoolet_recipes::migration::Migration;
///
/// let migration = Migration::new(vec![
///     MultiOp::create("/app", "", CreateMode::Persistent),
///     MultiOp::create("/app/limits", "100", CreateMode::Persistent),
/// ]);
/// assert_eq!(migration.ops().len(), 2);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migration {
    ops: Vec<MultiOp>,
}

impl Migration {
    /// A migration of these operations, with paths as the client names them. A transaction that is not
    /// committed is one too, with the client's default access control lists:
    /// `client.transaction().create(..).into()`.
    #[must_use]
    pub fn new(ops: Vec<MultiOp>) -> Self {
        Self { ops }
    }

    /// The operations.
    #[must_use]
    pub fn ops(&self) -> &[MultiOp] {
        &self.ops
    }

    /// What is kept of it once it was carried out: the SHA-256 that Curator computes of its
    /// operations, with their paths as the namespace of this client has them. As in Java the chroot of
    /// the connection string is no part of it.
    #[must_use]
    pub fn hash(&self, client: &Client) -> [u8; 32] {
        digest::hash(client, &self.ops)
    }
}

impl From<Transaction> for Migration {
    fn from(transaction: Transaction) -> Self {
        Self::new(transaction.into_ops())
    }
}

/// All migrations of something so far, in their order. Curator's `MigrationSet`.
///
/// ```
/// use zoolet_protocol::{CreateMode, MultiOp};
/// use zoolet_recipes::migration::{Migration, MigrationSet};
///
/// let first = Migration::new(vec![MultiOp::create("/app", "", CreateMode::Persistent)]);
/// let second = Migration::new(vec![MultiOp::set_data("/app", "2", 0)]);
/// let set = MigrationSet::new("app", vec![first, second]);
/// assert_eq!((set.id(), set.migrations().len()), ("app", 2));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationSet {
    id: String,
    migrations: Vec<Migration>,
}

impl MigrationSet {
    /// The set with this id, which is the name of a znode.
    #[must_use]
    pub fn new(id: impl Into<String>, migrations: Vec<Migration>) -> Self {
        Self { id: id.into(), migrations }
    }

    /// The id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The migrations, the oldest first.
    #[must_use]
    pub fn migrations(&self) -> &[Migration] {
        &self.migrations
    }
}
