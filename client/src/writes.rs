//! What one may have a client change, but for creates.

use std::future::IntoFuture;

use bytes::Bytes;
use zoolet_protocol::{
    Acl, ErrorCode, Expect, MultiOp, MultiResult, ReplyHeader, Request, Response, Stat, Write, Zxid,
};

use super::Client;
use super::error::Error;
use super::operation::{About, Boxed, Operation, Reading, Sent, Unfit, reading};

impl Client {
    /// Replaces a znode's data.
    pub fn set(&self, path: &str, data: impl Into<Bytes>) -> SetData {
        let data = Some(data.into());
        SetData { client: self.clone(), path: path.to_owned(), data, version: Expect::Any }
    }

    /// Deletes a znode without children.
    pub fn delete(&self, path: &str) -> Delete {
        Delete { client: self.clone(), path: path.to_owned(), version: Expect::Any }
    }

    /// Replaces a znode's access control list.
    pub fn set_acl(&self, path: &str, acl: Vec<Acl>) -> SetAcl {
        SetAcl { client: self.clone(), path: path.to_owned(), acl, version: Expect::Any }
    }

    /// Several writes, all or none; paths as the client names them, in the answer too, which has one
    /// result each. When the server refuses one, none is carried out, and the error names that
    /// operation: its code, its path and its [index](Error::operation_index) among the operations.
    pub fn multi(&self, ops: Vec<MultiOp>) -> Operation<Vec<MultiResult>> {
        self.multi_with(ops, multi_results).localized(Self::all_below_own_root)
    }

    /// As [`Client::multi`], for whoever does not need the results.
    pub fn multi_without_results(&self, ops: Vec<MultiOp>) -> Operation<()> {
        self.multi_with(ops, |header, response| multi_results(header, response).map(drop))
    }

    /// As [`Client::multi`], with the zxid of the transaction: the czxid of all that it created, and
    /// the mzxid of all whose data it set.
    pub fn multi_with_zxid(&self, ops: Vec<MultiOp>) -> Operation<(Vec<MultiResult>, Zxid)> {
        let multi = self.multi_with(ops, |header, response| {
            multi_results(header, response).map(|results| (results, header.zxid))
        });
        multi.localized(|client, (results, zxid)| (client.all_below_own_root(results), zxid))
    }

    fn all_below_own_root(&self, results: Vec<MultiResult>) -> Vec<MultiResult> {
        results.into_iter().map(|result| self.below_own_root(result)).collect()
    }

    /// A result of a multi with its path as this client names it.
    fn below_own_root(&self, result: MultiResult) -> MultiResult {
        let local = |path: &str| self.local_path(path).into();
        match result {
            MultiResult::Create(path) => MultiResult::Create(local(&path)),
            MultiResult::Create2(path, stat) => MultiResult::Create2(local(&path), stat),
            result => result,
        }
    }

    fn multi_with<T>(&self, ops: Vec<MultiOp>, reading: Reading<T>) -> Operation<T> {
        let about = About::Ops(ops.iter().map(|op| (op.op_code(), op.path().clone())).collect());
        let ops = ops.into_iter().map(|op| self.below_root(op)).collect();
        self.prepared(about, reading, Ok(Request::Write(Write::Multi(ops))))
    }

    /// An operation of a multi with its path as the server names it.
    pub(crate) fn below_root(&self, mut op: MultiOp) -> MultiOp {
        let path = match &mut op {
            MultiOp::Create(create) => &mut create.path,
            MultiOp::Delete(delete) => &mut delete.path,
            MultiOp::SetData(set_data) => &mut set_data.path,
            MultiOp::Check(check) => &mut check.path,
        };
        if let Some(text) = path.text() {
            *path = self.server_path(text).into();
        }
        op
    }
}

/// The results of a multi that was carried out.
fn multi_results(header: &ReplyHeader, response: Response) -> Result<Vec<MultiResult>, Unfit> {
    match response {
        Response::Multi(results) if header.err.is_ok() => match refusal(&results) {
            Some((index, code)) => Err(Unfit::RefusedAt(index, code)),
            None => Ok(results),
        },
        _ => Err(Unfit::of(header)),
    }
}

/// The operation by which a multi was refused, and the code: the first that is not that of an
/// operation which would have been carried out.
fn refusal(results: &[MultiResult]) -> Option<(usize, ErrorCode)> {
    results.iter().enumerate().find_map(|(index, result)| match result {
        MultiResult::Error(ErrorCode::OK) => None,
        MultiResult::Error(code) => Some((index, *code)),
        _ => None,
    })
}

/// A call to replace a znode's data.
#[derive(Debug)]
#[must_use = "a call is made when it is awaited or sent"]
pub struct SetData {
    client: Client,
    path: String,
    data: Option<Bytes>,
    version: Expect,
}

impl SetData {
    /// Only if the data has this version.
    pub fn version(mut self, version: i32) -> Self {
        self.version = version.into();
        self
    }

    fn into_operation(self) -> Operation<Stat> {
        let Self { client, path, data, version } = self;
        client.operation(&path, reading!(Response::Stat(stat) => stat), |path| {
            let path = path.into();
            Request::Write(Write::Op(MultiOp::SetData(zoolet_protocol::SetData {
                path,
                data,
                version,
            })))
        })
    }

    /// Makes the call now; see [`Operation::send`].
    pub fn send(self) -> Sent<Stat> {
        self.into_operation().send()
    }
}

impl IntoFuture for SetData {
    type Output = Result<Stat, Error>;
    type IntoFuture = Boxed<Stat>;

    fn into_future(self) -> Boxed<Stat> {
        self.into_operation().into_future()
    }
}

/// A call to delete a znode.
#[derive(Debug)]
#[must_use = "a call is made when it is awaited or sent"]
pub struct Delete {
    client: Client,
    path: String,
    version: Expect,
}

impl Delete {
    /// Only if the data has this version.
    pub fn version(mut self, version: i32) -> Self {
        self.version = version.into();
        self
    }

    /// The same call as an [`Operation`], like those that have no options of their own.
    pub fn into_operation(self) -> Operation<()> {
        self.operation()
    }

    fn operation(&self) -> Operation<()> {
        let version = self.version;
        self.client.operation(&self.path, reading!(Response::Empty => ()), |path| {
            let path = path.into();
            Request::Write(Write::Op(MultiOp::Delete(zoolet_protocol::Delete { path, version })))
        })
    }

    /// Makes the call now; see [`Operation::send`].
    pub fn send(self) -> Sent<()> {
        self.operation().send()
    }

    /// Deletes in the background until the znode is gone or the client is closed, whatever happens
    /// to the connection: for a znode that must not stay. A version is kept to.
    pub fn guaranteed(self) {
        let runtime = self.client.shared().runtime.clone();
        // The delete has its place in line before anything that the caller asks next.
        let mut sent = self.operation().send();
        runtime.spawn(async move {
            while let Err(error) = sent.await {
                if !error.is_passing() {
                    break;
                }
                tokio::time::sleep(GUARANTEED_AGAIN_AFTER).await;
                sent = self.operation().send();
            }
        });
    }
}

/// How long a guaranteed delete waits before it is tried again.
const GUARANTEED_AGAIN_AFTER: std::time::Duration = std::time::Duration::from_millis(100);

impl IntoFuture for Delete {
    type Output = Result<(), Error>;
    type IntoFuture = Boxed<()>;

    fn into_future(self) -> Boxed<()> {
        self.operation().into_future()
    }
}

/// A call to replace a znode's access control list.
#[derive(Debug)]
#[must_use = "a call is made when it is awaited or sent"]
pub struct SetAcl {
    client: Client,
    path: String,
    acl: Vec<Acl>,
    version: Expect,
}

impl SetAcl {
    /// Only if the list has this version.
    pub fn version(mut self, version: i32) -> Self {
        self.version = version.into();
        self
    }
}

impl IntoFuture for SetAcl {
    type Output = Result<Stat, Error>;
    type IntoFuture = Boxed<Stat>;

    fn into_future(self) -> Boxed<Stat> {
        let Self { client, path, acl, version } = self;
        let operation = client.operation(&path, reading!(Response::Stat(stat) => stat), |path| {
            let path = path.into();
            Request::Write(Write::SetAcl(zoolet_protocol::SetAcl { path, acl: Some(acl), version }))
        });
        operation.into_future()
    }
}
