//! Transactions for threads.

use bytes::Bytes;
use zoolet_protocol::{CreateMode, Expect, MultiOp, MultiResult};

use super::Client;
use crate::Error;

/// The async [`Transaction`](crate::Transaction), for threads: several writes that the server
/// carries out all or none. [`Client::transaction`] makes it.
///
/// ```no_run
/// use zoolet_client::blocking::Client;
/// use zoolet_client::protocol::Expect;
/// use zoolet_client::{CreateMode, Error};
///
/// # fn example(client: Client) -> Result<(), Error> {
/// // Takes a job, unless another client was faster or the configuration has changed.
/// client
///     .transaction()
///     .check("/config", 3)
///     .delete("/jobs/7", Expect::Any)
///     .create("/running/7", "host-1", CreateMode::Ephemeral)
///     .commit()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a transaction is sent when it is committed"]
pub struct Transaction {
    client: Client,
    transaction: crate::Transaction,
}

impl Client {
    /// An empty transaction, to which operations are added before it is committed.
    pub fn transaction(&self) -> Transaction {
        Transaction { client: self.clone(), transaction: self.ask().transaction() }
    }
}

impl Transaction {
    /// As [`Transaction::check`](crate::Transaction::check) of the async client.
    pub fn check(self, path: &str, version: impl Into<Expect>) -> Self {
        self.and(MultiOp::check(path, version))
    }

    /// As [`Transaction::create`](crate::Transaction::create) of the async client.
    pub fn create(mut self, path: &str, data: impl Into<Bytes>, mode: CreateMode) -> Self {
        self.transaction = self.transaction.create(path, data, mode);
        self
    }

    /// As [`Transaction::set`](crate::Transaction::set) of the async client.
    pub fn set(self, path: &str, data: impl Into<Bytes>, version: impl Into<Expect>) -> Self {
        self.and(MultiOp::set_data(path, data, version))
    }

    /// As [`Transaction::delete`](crate::Transaction::delete) of the async client.
    pub fn delete(self, path: &str, version: impl Into<Expect>) -> Self {
        self.and(MultiOp::delete(path, version))
    }

    /// Adds any operation.
    pub fn and(mut self, op: impl Into<MultiOp>) -> Self {
        self.transaction = self.transaction.and(op);
        self
    }

    /// The operations so far, as for a guard's `transaction` or a migration.
    #[must_use]
    pub fn into_ops(self) -> Vec<MultiOp> {
        self.transaction.into_ops()
    }

    /// Commits the transaction, and returns when the server has answered. The result has one entry
    /// for each operation.
    ///
    /// # Errors
    ///
    /// As of the async client: [`Error::Refused`] names the operation that the server refused.
    pub fn commit(self) -> Result<Vec<MultiResult>, Error> {
        self.client.wait(self.transaction.commit())
    }
}
