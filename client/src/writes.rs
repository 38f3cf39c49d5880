//! The writes of a client, except for creates.

use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;

use bytes::Bytes;
use zoolet_protocol::{
    Acl, ErrorCode, Expect, MultiOp, MultiResult, Reconfig, ReplyHeader, Request, Response, Stat,
    Write, Zxid, multi_refusal,
};

use super::Client;
use super::error::Error;
use super::operation::{
    CallFuture, Operation, Reading, RequestSubject, Sent, UnexpectedReply, reply_reader,
};
use super::recipe::deletion::warn_of_refusal;

impl Client {
    /// Replaces a znode's data (`setData`). Awaited, it returns the new Stat.
    ///
    /// A request that is longer than [`jute_max_buffer`](crate::Builder::jute_max_buffer), 1,048,575
    /// bytes by default, fails with [`Error::TooLong`] and is not sent. A server with a lower limit closes
    /// the connection at it ([`Error::ConnectionLoss`]).
    pub fn set(&self, path: &str, data: impl Into<Bytes>) -> SetData {
        let data = Some(data.into());
        SetData { client: self.clone(), path: path.to_owned(), data, version: Expect::Any }
    }

    /// Deletes a znode (`delete`). Awaited, it fails with [`NOT_EMPTY`](ErrorCode::NOT_EMPTY) if
    /// the znode has children; [`Client::delete_with_descendants`] deletes those too.
    pub fn delete(&self, path: &str) -> Delete {
        Delete { client: self.clone(), path: path.to_owned(), version: Expect::Any }
    }

    /// Replaces a znode's access control list (`setACL`). Awaited, it returns the new Stat.
    pub fn set_acl(&self, path: &str, acl: Vec<Acl>) -> SetAcl {
        SetAcl { client: self.clone(), path: path.to_owned(), acl, version: Expect::Any }
    }

    /// Changes the members of an ensemble (`reconfig`, ZooKeeper 3.5 and later), and returns the new
    /// configuration as text and its Stat. A server on its own refuses it, as does one without
    /// `reconfigEnabled=true`.
    pub fn reconfigure(&self, change: Reconfig) -> Operation<(Bytes, Stat)> {
        let reading = reply_reader!(Response::Data(data, stat) => (data.unwrap_or_default(), stat));
        let about = RequestSubject::Path(String::new());
        self.prepared(about, reading, Ok(Request::Write(Write::Reconfig(change))))
    }

    /// Carries out several writes, all or none (`multi`). The paths are as the client names them,
    /// in the results too, of which there is one for each operation. When the server refuses one,
    /// none is carried out, and the error names that operation: its code, its path and its
    /// [index](Error::operation_index) among the operations.
    pub fn multi(&self, ops: Vec<MultiOp>) -> Operation<Vec<MultiResult>> {
        self.multi_with(ops, Reading::Reply(multi_results)).localized(Self::all_below_own_root)
    }

    /// As [`Client::multi`], without its results.
    pub fn multi_without_results(&self, ops: Vec<MultiOp>) -> Operation<()> {
        let read = |body: &Bytes| {
            let refused = |(index, code)| Err(UnexpectedReply::RefusedAt(index, code));
            Ok(multi_refusal(body)?.map_or(Ok(()), refused))
        };
        self.multi_with(ops, Reading::Body(read))
    }

    /// As [`Client::multi`], with the zxid of the transaction: the czxid of all that it created,
    /// and the mzxid of all whose data it set.
    pub fn multi_with_zxid(&self, ops: Vec<MultiOp>) -> Operation<(Vec<MultiResult>, Zxid)> {
        let read = |header: &ReplyHeader, response| {
            multi_results(header, response).map(|results| (results, header.zxid))
        };
        let multi = self.multi_with(ops, Reading::Reply(read));
        multi.localized(|client, (results, zxid)| (client.all_below_own_root(results), zxid))
    }

    fn all_below_own_root(&self, results: Vec<MultiResult>) -> Vec<MultiResult> {
        results.into_iter().map(|result| self.below_own_root(result)).collect()
    }

    /// A result of a multi with its path as the client names it.
    fn below_own_root(&self, result: MultiResult) -> MultiResult {
        let local = |path: &str| self.local_path(path).into();
        match result {
            MultiResult::Create(path) => MultiResult::Create(local(&path)),
            MultiResult::Create2(path, stat) => MultiResult::Create2(local(&path), stat),
            result => result,
        }
    }

    fn multi_with<T>(&self, ops: Vec<MultiOp>, reading: Reading<T>) -> Operation<T> {
        let named = |op: &MultiOp| (op.op_code(), op.path().clone());
        let about = match self.root.is_empty() {
            true => RequestSubject::OpsOfRequest,
            false => RequestSubject::Ops(ops.iter().map(named).collect()),
        };
        let ops = ops.into_iter().map(|op| self.below_root(op)).collect();
        self.prepared_with(about, reading, Ok(Request::Write(Write::Multi(ops))))
    }

    /// An operation of a multi with its path as the server names it.
    fn below_root(&self, mut op: MultiOp) -> MultiOp {
        if self.root.is_empty() {
            return op;
        }
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
fn multi_results(
    header: &ReplyHeader,
    response: Response,
) -> Result<Vec<MultiResult>, UnexpectedReply> {
    match response {
        Response::Multi(results) if header.err.is_ok() => match refusal(&results) {
            Some((index, code)) => Err(UnexpectedReply::RefusedAt(index, code)),
            None => Ok(results),
        },
        _ => Err(UnexpectedReply::of(header)),
    }
}

/// The operation because of which a multi was refused, and its code. The operations before it have
/// the code OK.
fn refusal(results: &[MultiResult]) -> Option<(usize, ErrorCode)> {
    results.iter().enumerate().find_map(|(index, result)| match result {
        MultiResult::Error(ErrorCode::OK) => None,
        MultiResult::Error(code) => Some((index, *code)),
        _ => None,
    })
}

/// A call that replaces a znode's data: [`Client::set`].
///
/// ```no_run
/// # async fn example(client: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
/// let (data, stat) = client.get("/counter").await?;
/// client.set("/counter", data).version(stat.version).await?; // refused if someone was quicker
/// # Ok(())
/// # }
/// ```
#[must_use = "a request is sent when the call is awaited or `send()` is called"]
pub struct SetData {
    client: Client,
    path: String,
    data: Option<Bytes>,
    version: Expect,
}

impl SetData {
    /// Has the server refuse the write with [`BAD_VERSION`](ErrorCode::BAD_VERSION) unless the data
    /// has this version ([`Stat::version`]). -1 stands for any version, as does [`Expect::Any`].
    pub fn version(mut self, version: impl Into<Expect>) -> Self {
        self.version = version.into();
        self
    }

    /// The same call as an [`Operation`].
    pub fn into_operation(self) -> Operation<Stat> {
        let Self { client, path, data, version } = self;
        client.operation_at(path, reply_reader!(Response::Stat(stat) => stat), |path| {
            let path = path.into();
            Request::Write(Write::Op(MultiOp::SetData(zoolet_protocol::SetData {
                path,
                data,
                version,
            })))
        })
    }

    /// Sends the request now: see [`Operation::send`].
    pub fn send(self) -> Sent<Stat> {
        self.into_operation().send()
    }
}

impl fmt::Debug for SetData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetData")
            .field("path", &self.path)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl IntoFuture for SetData {
    type Output = Result<Stat, Error>;
    type IntoFuture = CallFuture<Stat>;

    fn into_future(self) -> CallFuture<Stat> {
        self.into_operation().into_future()
    }
}

/// A call that deletes a znode: [`Client::delete`].
///
/// ```no_run
/// # async fn example(client: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
/// client.delete("/config").version(3).await?;
/// client.delete("/leftover").guaranteed(); // in the background, until it is gone
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a request is sent when the call is awaited or `send()` is called"]
pub struct Delete {
    client: Client,
    path: String,
    version: Expect,
}

impl Delete {
    /// Has the server refuse the write with [`BAD_VERSION`](ErrorCode::BAD_VERSION) unless the data
    /// has this version ([`Stat::version`]). -1 stands for any version, as does [`Expect::Any`].
    pub fn version(mut self, version: impl Into<Expect>) -> Self {
        self.version = version.into();
        self
    }

    /// The same call as an [`Operation`].
    pub fn into_operation(self) -> Operation<()> {
        let Self { client, path, version } = self;
        client.operation_at(path, reply_reader!(Response::Empty => ()), |path| {
            let path = path.into();
            Request::Write(Write::Op(MultiOp::Delete(zoolet_protocol::Delete { path, version })))
        })
    }

    /// Sends the request now: see [`Operation::send`].
    pub fn send(self) -> Sent<()> {
        self.into_operation().send()
    }

    /// Deletes the znode in the background, whatever happens to the connection, until it is gone,
    /// the server refuses the delete, or the client is closed (Curator's `guaranteed()`). The first
    /// request is sent before this returns.
    pub fn guaranteed(self) {
        let shared = Arc::clone(self.client.shared());
        // Sent before any later request of the caller.
        let mut sent = self.clone().send();
        shared.spawn(async move {
            while let Err(error) = sent.await {
                if !error.is_passing() {
                    warn_of_refusal(&Err(error));
                    break;
                }
                tokio::time::sleep(GUARANTEED_RETRY_PAUSE).await;
                sent = self.clone().send();
            }
        });
    }
}

/// The pause before a guaranteed delete is sent again.
const GUARANTEED_RETRY_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

impl fmt::Debug for Delete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delete")
            .field("path", &self.path)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl IntoFuture for Delete {
    type Output = Result<(), Error>;
    type IntoFuture = CallFuture<()>;

    fn into_future(self) -> CallFuture<()> {
        self.into_operation().into_future()
    }
}

/// A call that replaces a znode's access control list: [`Client::set_acl`].
///
/// ```no_run
/// use zoolet_client::protocol::Acl;
///
/// # async fn example(client: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
/// let (_, stat) = client.acl("/config").await?;
/// client.set_acl("/config", vec![Acl::open()]).version(stat.aversion).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a request is sent when the call is awaited or `send()` is called"]
pub struct SetAcl {
    client: Client,
    path: String,
    acl: Vec<Acl>,
    version: Expect,
}

impl SetAcl {
    /// Has the server refuse the write with [`BAD_VERSION`](ErrorCode::BAD_VERSION) unless the list
    /// has this version ([`Stat::aversion`]). -1 stands for any version, as does [`Expect::Any`].
    pub fn version(mut self, version: impl Into<Expect>) -> Self {
        self.version = version.into();
        self
    }

    /// The same call as an [`Operation`].
    pub fn into_operation(self) -> Operation<Stat> {
        let Self { client, path, acl, version } = self;
        client.operation_at(path, reply_reader!(Response::Stat(stat) => stat), |path| {
            let (path, acl) = (path.into(), Some(acl));
            Request::Write(Write::SetAcl(zoolet_protocol::SetAcl { path, acl, version }))
        })
    }

    /// Sends the request now: see [`Operation::send`].
    pub fn send(self) -> Sent<Stat> {
        self.into_operation().send()
    }
}

impl fmt::Debug for SetAcl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetAcl")
            .field("path", &self.path)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl IntoFuture for SetAcl {
    type Output = Result<Stat, Error>;
    type IntoFuture = CallFuture<Stat>;

    fn into_future(self) -> CallFuture<Stat> {
        self.into_operation().into_future()
    }
}
