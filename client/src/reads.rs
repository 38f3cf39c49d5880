//! The reads and watches of a client.

use std::sync::Arc;

use bytes::Bytes;
use bytestring::ByteString;
use zoolet_protocol::{
    Acl, AddWatch, Auth, ClientInfo, ErrorCode, Lookup, MultiReadOp, MultiResult, Names, OpCode,
    Read, Request, Response, SessionId, Stat, Watch, WatchMode, Zxid,
};

use super::call::{Answer, Call};
use super::error::Error;
use super::operation::{
    Operation, Reading, ReplyReader, RequestSubject, Sent, Subject, UnexpectedReply, read_reply,
    reply_reader,
};
use super::session::WatchRegistration;
use super::watcher::{PersistentWatcher, Watcher};
use super::watches::{EventQueue, WatchKind};
use super::{Client, rewatch};

/// The result of a read, and the watch that it left: [`Operation::and_watch`].
///
/// ```no_run
/// use zoolet_client::{Client, Error, Watched};
///
/// # async fn example(client: Client) -> Result<(), Error> {
/// let Watched { found: names, watcher } = client.children("/members").and_watch().await?;
/// println!("{} members, until {:?}", names.len(), watcher.await?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Watched<T> {
    /// The result of the read.
    pub found: T,
    /// The watch.
    pub watcher: Watcher,
}

impl Client {
    fn lookup<T>(
        &self,
        path: &str,
        reading: ReplyReader<T>,
        wrap: fn(zoolet_protocol::RawPath) -> Lookup,
    ) -> Operation<T> {
        self.operation(path, reading, |path| Request::Read(Read::Lookup(wrap(path.into()))))
    }

    /// A znode's data, empty where it is null, and its Stat (`getData`).
    pub fn get(&self, path: &str) -> Operation<(Bytes, Stat)> {
        let reading = reply_reader!(Response::Data(data, stat) => (data.unwrap_or_default(), stat));
        self.lookup(path, reading, Lookup::GetData)
    }

    /// A znode's Stat, or `None` if it does not exist (`exists`).
    pub fn exists(&self, path: &str) -> Operation<Option<Stat>> {
        let reading: ReplyReader<Option<Stat>> = |header, response| match (header.err, response) {
            (ErrorCode::NO_NODE, _) => Ok(None),
            (ErrorCode::OK, Response::Stat(stat)) => Ok(Some(stat)),
            _ => Err(UnexpectedReply::of(header)),
        };
        self.lookup(path, reading, Lookup::Exists)
    }

    /// The names of a znode's children, in no order (`getChildren`).
    pub fn children(&self, path: &str) -> Operation<Names> {
        self.lookup(path, reply_reader!(Response::Names(names) => names), Lookup::GetChildren)
    }

    /// The names of a znode's children in no order, and its own Stat (`getChildren2`).
    pub fn children_and_stat(&self, path: &str) -> Operation<(Names, Stat)> {
        let reading = reply_reader!(Response::NamesStat(names, stat) => (names, stat));
        self.lookup(path, reading, Lookup::GetChildren2)
    }

    /// The names of a znode's children in no order, and the zxid of the last transaction that the
    /// server had applied when it read them.
    pub fn children_with_zxid(&self, path: &str) -> Operation<(Names, Zxid)> {
        let reading: ReplyReader<(Names, Zxid)> = |header, response| match response {
            Response::Names(names) if header.err.is_ok() => Ok((names, header.zxid)),
            _ => Err(UnexpectedReply::of(header)),
        };
        self.lookup(path, reading, Lookup::GetChildren)
    }

    /// A znode's access control list and its Stat (`getACL`).
    pub fn acl(&self, path: &str) -> Operation<(Vec<Acl>, Stat)> {
        let reading = reply_reader!(Response::Acl(acl, stat) => (acl.unwrap_or_default(), stat));
        self.operation(path, reading, |path| Request::Read(Read::GetAcl(path.into())))
    }

    /// How many descendants a znode has (`getAllChildrenNumber`, ZooKeeper 3.6 and later).
    pub fn all_children_number(&self, path: &str) -> Operation<i32> {
        let reading = reply_reader!(Response::Number(number) => number);
        self.operation(path, reading, |path| Request::Read(Read::GetAllChildrenNumber(path.into())))
    }

    /// Waits until the server has applied all that its leader had committed before (`sync`), so
    /// that a read which follows sees it.
    pub fn sync(&self, path: &str) -> Operation<()> {
        let reading = reply_reader!(Response::Path(_) => ());
        self.operation(path, reading, |path| Request::Read(Read::Sync(path.into())))
    }

    /// The paths of the session's ephemerals that begin with `prefix` (`getEphemerals`, ZooKeeper
    /// 3.6 and later). A client with a [namespace](Client::namespace) lists only those below it.
    pub fn ephemerals(&self, prefix: &str) -> Operation<Names> {
        let reading = reply_reader!(Response::Names(names) => names);
        let request = |path: String| Request::Read(Read::GetEphemerals(path.into()));
        self.operation(prefix, reading, request).localized(|client, paths| {
            paths.iter().filter_map(|path| client.path_below_root(path)).collect()
        })
    }

    /// The identities that the server knows of this client (`whoAmI`, ZooKeeper 3.7 and later).
    pub fn who_am_i(&self) -> Operation<Vec<ClientInfo>> {
        let reading = reply_reader!(Response::WhoAmI(infos) => infos);
        self.operation("/", reading, |_| Request::Session(zoolet_protocol::SessionRequest::WhoAmI))
    }

    /// The ensemble's configuration as text (`/zookeeper/config`); empty on a single node.
    pub fn config(&self) -> Operation<(Bytes, Stat)> {
        self.without_namespace().get("/zookeeper/config")
    }

    /// As [`Client::exists`], with the zxid of the last transaction that the server had applied when it
    /// read the znode.
    pub fn exists_with_zxid(&self, path: &str) -> Operation<(Option<Stat>, Zxid)> {
        let reading: ReplyReader<(Option<Stat>, Zxid)> =
            |header, response| match (header.err, response) {
                (ErrorCode::NO_NODE, _) => Ok((None, header.zxid)),
                (ErrorCode::OK, Response::Stat(stat)) => Ok((Some(stat), header.zxid)),
                _ => Err(UnexpectedReply::of(header)),
            };
        self.lookup(path, reading, Lookup::Exists)
    }

    /// Several reads in one request (`multiRead`, ZooKeeper 3.6 and later). Each has its own
    /// result, which may be an error.
    pub fn multi_read(&self, ops: Vec<MultiReadOp>) -> Operation<Vec<MultiResult>> {
        self.multi_read_as(ops, reply_reader!(Response::Multi(results) => results))
    }

    /// As [`Client::multi_read`], with the zxid of the last transaction that the server had applied
    /// when it made the last of the reads.
    pub fn multi_read_with_zxid(
        &self,
        ops: Vec<MultiReadOp>,
    ) -> Operation<(Vec<MultiResult>, Zxid)> {
        let reading: ReplyReader<(Vec<MultiResult>, Zxid)> = |header, response| match response {
            Response::Multi(results) if header.err.is_ok() => Ok((results, header.zxid)),
            _ => Err(UnexpectedReply::of(header)),
        };
        self.multi_read_as(ops, reading)
    }

    /// One read with a request of its own, and with a result as of
    /// [`multi_read_with_zxid`](Client::multi_read_with_zxid): that there is no such znode, or that it
    /// may not be read, is a result too. For servers of all versions.
    pub fn read_with_zxid(&self, read: MultiReadOp) -> Operation<(MultiResult, Zxid)> {
        let reading: ReplyReader<(MultiResult, Zxid)> = |header, response| {
            let result = match (header.err, response) {
                (ErrorCode::OK, Response::Data(data, stat)) => MultiResult::Data(data, stat),
                (ErrorCode::OK, Response::Names(names)) => MultiResult::Children(names),
                (code @ (ErrorCode::NO_NODE | ErrorCode::NO_AUTH), _) => MultiResult::Error(code),
                _ => return Err(UnexpectedReply::of(header)),
            };
            Ok((result, header.zxid))
        };
        let (path, wrap): (_, fn(zoolet_protocol::RawPath) -> Lookup) = match read {
            MultiReadOp::GetData(path) => (path, Lookup::GetData),
            MultiReadOp::GetChildren(path) => (path, Lookup::GetChildren),
        };
        self.lookup(path.text().unwrap_or_default(), reading, wrap)
    }

    fn multi_read_as<T>(&self, ops: Vec<MultiReadOp>, reading: ReplyReader<T>) -> Operation<T> {
        let server_path = |path: zoolet_protocol::RawPath| -> zoolet_protocol::RawPath {
            self.server_path(path.text().unwrap_or_default()).into()
        };
        let ops = ops.into_iter().map(|op| match op {
            MultiReadOp::GetData(path) => MultiReadOp::GetData(server_path(path)),
            MultiReadOp::GetChildren(path) => MultiReadOp::GetChildren(server_path(path)),
        });
        let request = Ok(Request::Read(Read::MultiRead(ops.collect())));
        self.prepared(RequestSubject::Path("/".to_owned()), reading, request)
    }

    /// Adds an identity to the session (`addAuthInfo`), now and after every reconnect. The scheme
    /// `digest` takes `user:password`. See [`Builder::auth`](crate::Builder::auth) to have it from
    /// the beginning.
    ///
    /// # Errors
    ///
    /// [`Error::AuthFailed`] if the server refuses it, as where it does not know the scheme; the
    /// client is closed then. [`Error::ConnectionLoss`] if the reply was lost; the client sends the
    /// credentials again after it has reconnected. Where they have 4 KiB or more and no server answers them, it
    /// drops them when it [gives its session up](crate::Builder::jute_max_buffer) for that.
    /// [`Error::TooLong`] for more than the limit.
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
        let reading = Reading::Reply(reply_reader!(Response::Empty => ()));
        read_reply(answer.await, OpCode::AUTH, Subject::Path(""), reading)
    }

    /// Watches all changes of a znode and of its list of children, or, with
    /// [`WatchMode::PERSISTENT_RECURSIVE`], of it and its descendants (`addWatch`, ZooKeeper 3.6
    /// and later). The znode need not exist.
    ///
    /// # Errors
    ///
    /// Those of a read.
    ///
    /// # Cancellation
    ///
    /// Safe: the watch is removed.
    pub async fn watch(&self, path: &str, mode: WatchMode) -> Result<PersistentWatcher, Error> {
        let kind = match mode {
            WatchMode::PERSISTENT => WatchKind::Persistent,
            _ => WatchKind::Recursive,
        };
        let operation = self.operation(path, reply_reader!(Response::Number(_) => ()), |path| {
            Request::Watch(Watch::Add(AddWatch { path: path.into(), mode }))
        });
        let server_path = self.server_path(path);
        let queue = Arc::new(EventQueue::default());
        let watch =
            WatchRegistration { path: (&*server_path).into(), kind, queue: Arc::clone(&queue) };
        let watcher = PersistentWatcher::new(self.clone(), server_path, kind, queue);
        operation.run(Some(watch)).await?;
        Ok(watcher)
    }

    /// Registers watches; the server reports what has happened since the zxid `seen`.
    pub(crate) fn send_watches(
        &self,
        watches: Vec<WatchRegistration>,
        seen: Zxid,
        session: SessionId,
    ) -> Sent<()> {
        let paths = watches.iter().map(|watch| (watch.kind, &*watch.path));
        let request = rewatch::registration(paths, seen);
        let operation = self.prepared(
            RequestSubject::Path(String::new()),
            reply_reader!(Response::Empty => ()),
            Ok(request),
        );
        operation.in_session(session).send_watching(watches)
    }
}

/// The kind of the one-shot watch that a read leaves.
pub(crate) fn kind_of_watch(lookup: &Lookup) -> WatchKind {
    match lookup {
        Lookup::Exists(_) | Lookup::GetData(_) => WatchKind::Data,
        Lookup::GetChildren(_) | Lookup::GetChildren2(_) => WatchKind::Child,
    }
}

impl<T: Send + 'static> Operation<T> {
    /// Reads, and leaves a one-shot watch: with `get` and `children` only if the znode exists, with
    /// `exists` in any case. The watch fires with the next change after what was read.
    ///
    /// # Errors
    ///
    /// Those of the read. No watch is left then.
    ///
    /// # Cancellation
    ///
    /// Safe: the watch is removed.
    ///
    /// # Panics
    ///
    /// If the call is not one of `get`, `exists` and the two of `children`.
    pub async fn and_watch(mut self) -> Result<Watched<T>, Error> {
        let request = self.request.clone()?;
        let Request::Read(Read::Lookup(lookup)) = request else {
            panic!("{} leaves no watch", request.op_code());
        };
        let kind = kind_of_watch(&lookup);
        let path = lookup.path().text().unwrap_or_default().to_owned();
        self.request = Ok(Request::Watch(Watch::Lookup(lookup)));
        let queue = Arc::new(EventQueue::default());
        let watch = WatchRegistration { path: (&*path).into(), kind, queue: Arc::clone(&queue) };
        // It exists before the request is sent, so that the watch is removed on cancellation.
        let watcher = Watcher::new(self.client.clone(), path, kind, queue);
        let found = self.run(Some(watch)).await?;
        Ok(Watched { found, watcher })
    }
}
