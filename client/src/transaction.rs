//! Transactions: several writes, all or none.

use bytes::Bytes;
use zoolet_protocol::{Create, CreateMode, Expect, MultiOp, MultiResult};

use crate::Client;
use crate::operation::Operation;

/// Several writes that the server carries out all or none: [`Client::transaction`].
///
/// The server carries them out in their order, and each sees those before it. When it refuses one,
/// nothing is changed, and the error of the commit names that operation
/// ([`Error::operation_index`](crate::Error::operation_index)). All of them get the same zxid.
///
/// A version that is checked is given as a number, or as [`Expect::Any`] for any version.
///
/// ```no_run
/// use zoolet_client::protocol::{Expect, MultiResult};
/// use zoolet_client::{Client, CreateMode, Error};
///
/// # async fn example(client: Client) -> Result<(), Error> {
/// // Takes a job, unless someone else was quicker or the configuration has changed.
/// let results = client
///     .transaction()
///     .check("/config", 3)
///     .delete("/jobs/7", Expect::Any)
///     .create("/running/7", "host-1", CreateMode::Ephemeral)
///     .commit()
///     .await?;
/// assert!(matches!(&results[2], MultiResult::Create2(path, _stat) if path == "/running/7"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a transaction is sent when its commit is awaited or sent"]
pub struct Transaction {
    client: Client,
    ops: Vec<MultiOp>,
}

impl Client {
    /// An empty transaction, to which operations are added before it is committed.
    pub fn transaction(&self) -> Transaction {
        Transaction { client: self.clone(), ops: Vec::new() }
    }
}

impl Transaction {
    /// Refuses the transaction with `NO_NODE` unless the znode exists, and with `BAD_VERSION`
    /// unless its data has this version.
    pub fn check(self, path: &str, version: impl Into<Expect>) -> Self {
        self.and(MultiOp::check(path, version))
    }

    /// Creates a znode with the client's [default](Client::default_acl) access control list. For
    /// another: `.and(Create::new(path, mode).data(data).acl(acl))`, with [`Create`] of the protocol.
    pub fn create(self, path: &str, data: impl Into<Bytes>, mode: CreateMode) -> Self {
        let acl = self.client.default_acl(path);
        self.and(Create::new(path, mode).data(data).acl(acl))
    }

    /// Replaces a znode's data.
    pub fn set(self, path: &str, data: impl Into<Bytes>, version: impl Into<Expect>) -> Self {
        self.and(MultiOp::set_data(path, data, version))
    }

    /// Deletes a znode.
    pub fn delete(self, path: &str, version: impl Into<Expect>) -> Self {
        self.and(MultiOp::delete(path, version))
    }

    /// Adds any operation.
    pub fn and(mut self, op: impl Into<MultiOp>) -> Self {
        self.ops.push(op.into());
        self
    }

    /// The operations so far, as for the `transaction` of a lock's guard.
    #[must_use]
    pub fn into_ops(self) -> Vec<MultiOp> {
        self.ops
    }

    /// The call that commits the transaction. Its result has one entry for each operation.
    pub fn commit(self) -> Operation<Vec<MultiResult>> {
        self.client.multi(self.ops)
    }
}
