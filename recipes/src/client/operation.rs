//! What one may ask of a client, but for creates.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use bytestring::ByteString;
use zoolet_protocol::{
    Acl, AddWatch, Auth, ClientInfo, DecodeError, DecodeFault, ErrorCode, Expect, Lookup, MultiOp,
    MultiReadOp, MultiResult, Names, OpCode, Read, ReplyHeader, Request, Response, SessionId, Stat,
    Watch, WatchMode, Write, ZPath, Zxid,
};

use super::call::{Answer, Call, Outcome};
use super::clock::{Instant, now};
use super::error::Error;
use super::session::{Registration, Submission};
use super::watcher::{PersistentWatcher, Watcher};
use super::watches::{Cell, Kind};
use super::{Client, RetryPolicy, rewatch};

/// A boxed future, as `IntoFuture` needs a nameable type.
pub(crate) type Boxed<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// What was found, and a watch on it.
#[derive(Debug)]
pub struct Watched<T> {
    /// What was found.
    pub found: T,
    /// The watch that was left.
    pub watcher: Watcher,
}

/// How to read an answer: the header too, since an error may be one of the answers.
pub(crate) type Reading<T> = fn(&ReplyHeader, Response) -> Result<T, Unfit>;

/// What is no answer to the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// A refusal.
    Refused(ErrorCode),
    /// The answer to something else.
    Shape,
}

impl Unfit {
    pub(crate) fn of(header: &ReplyHeader) -> Self {
        if header.err.is_ok() { Self::Shape } else { Self::Refused(header.err) }
    }
}

/// A call that waits to be made: by `await`, with what is lost on the way tried again, or by
/// [`Operation::send`].
#[must_use = "a call is made when it is awaited or sent"]
pub struct Operation<T> {
    client: Client,
    /// The request, unless it cannot be made.
    request: Result<Request, Error>,
    /// As the caller names it, for errors.
    path: String,
    reading: Reading<T>,
    /// Whether it may be carried out twice.
    is_read: bool,
    /// The session in which it makes sense.
    bound: Option<SessionId>,
}

impl<T> std::fmt::Debug for Operation<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operation").field("request", &self.request).finish_non_exhaustive()
    }
}

impl<T> Operation<T> {
    /// Makes the call in this session only.
    pub(crate) fn bound_to(mut self, session: SessionId) -> Self {
        self.bound = Some(session);
        self
    }

    /// Makes the call until it is answered, whatever happens to the connection, or until the
    /// session to which it is bound is over. For calls that may be carried out twice.
    pub(crate) async fn until_answered(self) -> Result<T, Error> {
        loop {
            match self.send_with(None).await {
                Err(error) if error.is_retryable() => {}
                result => return result,
            }
        }
    }

    /// Makes the call now: it has its place in line when this returns. What is lost on the way is
    /// not tried again.
    pub fn send(self) -> Sent<T> {
        self.send_with(None)
    }

    /// Makes the call now, and has these watches there from now on.
    pub(crate) fn send_watching(self, watches: Vec<Registration>) -> Sent<T> {
        let answer = self.request.map(|request| {
            let call = Call::new(request.op_code());
            let answer = Answer(Arc::clone(&call));
            let submission =
                Submission { watches, bound: self.bound, ..Submission::new(request, call) };
            self.client.shared().with(|session, now| session.submit(submission, now));
            answer
        });
        Sent { answer, path: self.path, reading: self.reading }
    }

    fn send_with(&self, watch: Option<Registration>) -> Sent<T> {
        let answer = self.request.clone().map(|request| {
            let call = Call::new(request.op_code());
            let answer = Answer(Arc::clone(&call));
            let submission =
                Submission { watch, bound: self.bound, ..Submission::new(request, call) };
            self.client.shared().with(|session, now| session.submit(submission, now));
            answer
        });
        Sent { answer, path: self.path.clone(), reading: self.reading }
    }
}

impl<T: Send + 'static> Operation<T> {
    /// Makes the call until it is answered or must not be made again.
    async fn run(self, watch: Option<Registration>) -> Result<T, Error> {
        let mut retry = Retry::new(&self.client.retry);
        loop {
            match self.send_with(watch.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => retry.after(error, self.is_read).await?,
            }
        }
    }
}

/// Whether and when to call again what failed for want of a connection.
pub(crate) struct Retry {
    policy: RetryPolicy,
    start: Instant,
    tried: u32,
}

impl Retry {
    pub(crate) fn new(policy: &RetryPolicy) -> Self {
        Self { policy: policy.clone(), start: now(), tried: 0 }
    }

    /// Waits until it is time to call again, or gives the error back: a read may be repeated, a
    /// write only while it surely did not happen.
    pub(crate) async fn after(&mut self, error: Error, is_repeatable: bool) -> Result<(), Error> {
        let may_repeat = match error {
            Error::NotSent { .. } => true,
            Error::Unknown { .. } => is_repeatable,
            _ => false,
        };
        let delay = self.policy.delay(self.tried, now() - self.start);
        let Some(delay) = delay.filter(|_| may_repeat) else { return Err(error) };
        tokio::time::sleep(delay).await;
        self.tried += 1;
        Ok(())
    }
}

impl<T: Send + 'static> IntoFuture for Operation<T> {
    type Output = Result<T, Error>;
    type IntoFuture = Boxed<T>;

    fn into_future(self) -> Boxed<T> {
        Box::pin(self.run(None))
    }
}

/// A call that has its place in line. Dropping it forgets the answer, not the request.
#[derive(Debug)]
#[must_use = "the answer tells whether it was done"]
pub struct Sent<T> {
    answer: Result<Answer, Error>,
    path: String,
    reading: Reading<T>,
}

impl<T> Future for Sent<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let answer = match &mut this.answer {
            Ok(answer) => answer,
            Err(error) => return Poll::Ready(Err(error.clone())),
        };
        let op = answer.0.op;
        let outcome = ready!(Pin::new(answer).poll(context));
        Poll::Ready(read(outcome, op, &this.path, this.reading))
    }
}

fn read<T>(outcome: Outcome, op: OpCode, path: &str, reading: Reading<T>) -> Result<T, Error> {
    let path = path.to_owned();
    let (header, body) = match outcome {
        Outcome::Answered(header, body) => (header, body),
        Outcome::ConnectionLost => return Err(Error::Unknown { op, path }),
        Outcome::NotSent => return Err(Error::NotSent { op, path }),
        Outcome::SessionLost => return Err(Error::Lost),
        Outcome::Closed => return Err(Error::Closed),
    };
    let response = if header.err.is_ok() { Response::decode(op, &body)? } else { Response::Empty };
    reading(&header, response).map_err(|unfit| match unfit {
        Unfit::Refused(ErrorCode::AUTH_FAILED) => Error::AuthFailed,
        Unfit::Refused(code) => Error::Refused { op, path, code },
        Unfit::Shape => {
            DecodeError { record: "Response", fault: DecodeFault::UnknownCode(op.0) }.into()
        }
    })
}

/// Declares how to read one shape of answer.
macro_rules! reading {
    ($pattern:pat => $value:expr) => {
        |header: &zoolet_protocol::ReplyHeader, response: zoolet_protocol::Response| match response
        {
            $pattern if header.err.is_ok() => Ok($value),
            _ => Err($crate::client::operation::Unfit::of(header)),
        }
    };
}
pub(crate) use reading;

impl Client {
    pub(crate) fn operation<T>(
        &self,
        path: &str,
        reading: Reading<T>,
        request: impl FnOnce(String) -> Request,
    ) -> Operation<T> {
        let request =
            ZPath::check(path).map(|()| request(self.server_path(path))).map_err(Error::from);
        self.prepared(path, reading, request)
    }

    /// An operation whose request was made, or cannot be.
    pub(crate) fn prepared<T>(
        &self,
        path: &str,
        reading: Reading<T>,
        request: Result<Request, Error>,
    ) -> Operation<T> {
        let is_read = matches!(request, Ok(Request::Read(_)));
        let client = self.clone();
        Operation { client, request, path: path.to_owned(), reading, is_read, bound: None }
    }

    fn lookup<T>(
        &self,
        path: &str,
        reading: Reading<T>,
        wrap: fn(zoolet_protocol::RawPath) -> Lookup,
    ) -> Operation<T> {
        self.operation(path, reading, |path| Request::Read(Read::Lookup(wrap(path.into()))))
    }

    /// A znode's data, null as nothing, and its Stat.
    pub fn get(&self, path: &str) -> Operation<(Bytes, Stat)> {
        let reading = reading!(Response::Data(data, stat) => (data.unwrap_or_default(), stat));
        self.lookup(path, reading, Lookup::GetData)
    }

    /// A znode's Stat, or `None` if there is no such znode.
    pub fn exists(&self, path: &str) -> Operation<Option<Stat>> {
        let reading: Reading<Option<Stat>> = |header, response| match (header.err, response) {
            (ErrorCode::NO_NODE, _) => Ok(None),
            (ErrorCode::OK, Response::Stat(stat)) => Ok(Some(stat)),
            _ => Err(Unfit::of(header)),
        };
        self.lookup(path, reading, Lookup::Exists)
    }

    /// The names of a znode's children, in no order.
    pub fn children(&self, path: &str) -> Operation<Names> {
        self.lookup(path, reading!(Response::Names(names) => names), Lookup::GetChildren)
    }

    /// The names of a znode's children, and its own Stat.
    pub fn children_and_stat(&self, path: &str) -> Operation<(Names, Stat)> {
        let reading = reading!(Response::NamesStat(names, stat) => (names, stat));
        self.lookup(path, reading, Lookup::GetChildren2)
    }

    /// The names of a znode's children, and the zxid of the last change before the answer.
    pub(crate) fn children_at(&self, path: &str) -> Operation<(Names, Zxid)> {
        let reading: Reading<(Names, Zxid)> = |header, response| match response {
            Response::Names(names) if header.err.is_ok() => Ok((names, header.zxid)),
            _ => Err(Unfit::of(header)),
        };
        self.lookup(path, reading, Lookup::GetChildren)
    }

    /// A znode's access control list and its Stat.
    pub fn acl(&self, path: &str) -> Operation<(Vec<Acl>, Stat)> {
        let reading = reading!(Response::Acl(acl, stat) => (acl.unwrap_or_default(), stat));
        self.operation(path, reading, |path| Request::Read(Read::GetAcl(path.into())))
    }

    /// How many descendants a znode has.
    pub fn all_children_number(&self, path: &str) -> Operation<i32> {
        let reading = reading!(Response::Number(number) => number);
        self.operation(path, reading, |path| Request::Read(Read::GetAllChildrenNumber(path.into())))
    }

    /// Waits until the server has seen all that happened before: a read after it is not behind.
    pub fn sync(&self, path: &str) -> Operation<()> {
        let reading = reading!(Response::Path(_) => ());
        self.operation(path, reading, |path| Request::Read(Read::Sync(path.into())))
    }

    /// The session's ephemerals whose paths begin with `prefix`.
    pub fn ephemerals(&self, prefix: &str) -> Operation<Names> {
        let reading = reading!(Response::Names(names) => names);
        self.operation(prefix, reading, |path| Request::Read(Read::GetEphemerals(path.into())))
    }

    /// Who the server takes this client for.
    pub fn who_am_i(&self) -> Operation<Vec<ClientInfo>> {
        let reading = reading!(Response::WhoAmI(infos) => infos);
        self.operation("/", reading, |_| Request::Session(zoolet_protocol::Session::WhoAmI))
    }

    /// The ensemble's configuration: its text, empty on a single node.
    pub fn config(&self) -> Operation<(Bytes, Stat)> {
        let root = Self { root: "".into(), ..self.clone() };
        root.get("/zookeeper/config")
    }

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

    /// Several writes, all or none; paths as the client names them. The answer has one result each.
    /// When one is refused the error is the first refusal's, and nothing happened.
    pub fn multi(&self, ops: Vec<MultiOp>) -> Operation<Vec<MultiResult>> {
        self.multi_with(ops, multi_results)
    }

    /// As [`Client::multi`], for whoever needs no results.
    pub(crate) fn multi_done(&self, ops: Vec<MultiOp>) -> Operation<()> {
        self.multi_with(ops, |header, response| multi_results(header, response).map(drop))
    }

    /// As [`Client::multi`], with the zxid of the change.
    pub(crate) fn multi_at(&self, ops: Vec<MultiOp>) -> Operation<(Vec<MultiResult>, Zxid)> {
        self.multi_with(ops, |header, response| {
            multi_results(header, response).map(|results| (results, header.zxid))
        })
    }

    /// As [`Client::multi`]; a refusal says which operation was refused.
    pub(crate) async fn multi_or_refusals(
        &self,
        ops: Vec<MultiOp>,
    ) -> Result<Result<Vec<MultiResult>, (usize, Error)>, Error> {
        let paths: Vec<_> = ops.iter().map(|op| (op.op_code(), op.path().to_string())).collect();
        let results = self
            .multi_with(ops, |header, response| match response {
                Response::Multi(results) if header.err.is_ok() => Ok(results),
                _ => Err(Unfit::of(header)),
            })
            .await?;
        let refused =
            results.iter().zip(paths).enumerate().find_map(
                |(index, (result, about))| match result {
                    MultiResult::Error(ErrorCode::OK) => None,
                    MultiResult::Error(code) => {
                        let (op, path) = about;
                        Some((index, Error::Refused { op, path, code: *code }))
                    }
                    _ => None,
                },
            );
        Ok(match refused {
            Some(refused) => Err(refused),
            None => Ok(results),
        })
    }

    fn multi_with<T>(&self, ops: Vec<MultiOp>, reading: Reading<T>) -> Operation<T> {
        let first = ops.first().map_or("", |op| op.path().text().unwrap_or_default());
        let path = first.to_owned();
        let ops = ops.into_iter().map(|op| self.below_root(op)).collect();
        self.prepared(&path, reading, Ok(Request::Write(Write::Multi(ops))))
    }

    /// Several reads in one request, each with its own result.
    pub fn multi_read(&self, ops: Vec<MultiReadOp>) -> Operation<Vec<MultiResult>> {
        let server_path = |path: zoolet_protocol::RawPath| -> zoolet_protocol::RawPath {
            self.server_path(path.text().unwrap_or_default()).into()
        };
        let ops = ops.into_iter().map(|op| match op {
            MultiReadOp::GetData(path) => MultiReadOp::GetData(server_path(path)),
            MultiReadOp::GetChildren(path) => MultiReadOp::GetChildren(server_path(path)),
        });
        let request = Ok(Request::Read(Read::MultiRead(ops.collect())));
        self.prepared("/", reading!(Response::Multi(results) => results), request)
    }

    /// Adds an identity, now and after every reconnect.
    ///
    /// # Errors
    ///
    /// [`Error::AuthFailed`] if the server has no such scheme; the client is closed then.
    pub async fn authenticate(
        &self,
        scheme: impl Into<ByteString>,
        credentials: impl Into<Bytes>,
    ) -> Result<(), Error> {
        let auth =
            Auth { auth_type: 0, scheme: Some(scheme.into()), auth: Some(credentials.into()) };
        let call = Call::new(OpCode::AUTH);
        let answer = Answer(Arc::clone(&call));
        self.shared().with(|session, now| session.authenticate(auth, call, now));
        read(answer.await, OpCode::AUTH, "", reading!(Response::Empty => ()))
    }

    /// Watches all changes of a znode and of its children, or, with
    /// [`WatchMode::PERSISTENT_RECURSIVE`], of it and its descendants. It need not exist.
    ///
    /// # Errors
    ///
    /// As for any request.
    pub async fn watch(&self, path: &str, mode: WatchMode) -> Result<PersistentWatcher, Error> {
        let kind = match mode {
            WatchMode::PERSISTENT => Kind::Persistent,
            _ => Kind::Recursive,
        };
        let operation = self.operation(path, reading!(Response::Number(_) => ()), |path| {
            Request::Watch(Watch::Add(AddWatch { path: path.into(), mode }))
        });
        let server_path = self.server_path(path);
        let cell = Arc::new(Cell::default());
        let watch = Registration { path: server_path.clone(), kind, cell: Arc::clone(&cell) };
        let watcher = PersistentWatcher::new(self.clone(), server_path, kind, cell);
        operation.run(Some(watch)).await?;
        Ok(watcher)
    }

    /// Registers watches on what was there at `seen`, and has what happened since told.
    pub(crate) fn send_watches(&self, watches: Vec<Registration>, seen: Zxid) -> Sent<()> {
        let paths = watches.iter().map(|watch| (watch.kind, watch.path.as_str()));
        let request = rewatch::registration(paths, seen);
        self.prepared("", reading!(Response::Empty => ()), Ok(request)).send_watching(watches)
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
            Some(code) => Err(Unfit::Refused(code)),
            None => Ok(results),
        },
        _ => Err(Unfit::of(header)),
    }
}

/// The code by which a multi was refused: the first that is not that of an operation which would
/// have been carried out.
fn refusal(results: &[MultiResult]) -> Option<ErrorCode> {
    results.iter().find_map(|result| match result {
        MultiResult::Error(ErrorCode::OK) => None,
        MultiResult::Error(code) => Some(*code),
        _ => None,
    })
}

impl<T: Send + 'static> Operation<T> {
    /// Leaves a watch with the look: for `get` and `children` only if there is a znode, for
    /// `exists` in any case.
    ///
    /// # Errors
    ///
    /// As for the look without it.
    ///
    /// # Panics
    ///
    /// If the call is not one of `get`, `exists` and the two of `children`.
    pub async fn and_watch(mut self) -> Result<Watched<T>, Error> {
        let request = self.request.clone()?;
        let Request::Read(Read::Lookup(lookup)) = request else {
            panic!("{} leaves no watch", request.op_code());
        };
        let kind = match lookup {
            Lookup::Exists(_) | Lookup::GetData(_) => Kind::Data,
            Lookup::GetChildren(_) | Lookup::GetChildren2(_) => Kind::Child,
        };
        let path = lookup.path().text().unwrap_or_default().to_owned();
        self.request = Ok(Request::Watch(Watch::Lookup(lookup)));
        let cell = Arc::new(Cell::default());
        let watch = Registration { path: path.clone(), kind, cell: Arc::clone(&cell) };
        // Made before the call, so that it is taken back when the call is cancelled.
        let watcher = Watcher::new(self.client.clone(), path, kind, cell);
        let found = self.run(Some(watch)).await?;
        Ok(Watched { found, watcher })
    }
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

    pub(crate) fn operation(&self) -> Operation<()> {
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
                if !error.is_retryable() {
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
