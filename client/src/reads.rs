//! What one may ask of a client without changing anything, and what one may watch.

use std::sync::Arc;

use bytes::Bytes;
use bytestring::ByteString;
use zoolet_protocol::{
    Acl, AddWatch, Auth, ClientInfo, ErrorCode, Lookup, MultiReadOp, MultiResult, Names, OpCode,
    Read, Request, Response, SessionId, Stat, Watch, WatchMode, Zxid,
};

use super::call::{Answer, Call};
use super::error::Error;
use super::operation::{About, Operation, Reading, Sent, Unfit, read, reading};
use super::session::Registration;
use super::watcher::{PersistentWatcher, Watcher};
use super::watches::{Cell, Kind};
use super::{Client, rewatch};

/// What was found, and a watch on it.
#[derive(Debug)]
pub struct Watched<T> {
    /// What was found.
    pub found: T,
    /// The watch that was left.
    pub watcher: Watcher,
}

impl Client {
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

    /// The names of a znode's children in no order, and the zxid of the last transaction that the
    /// server had applied when it read them.
    pub fn children_with_zxid(&self, path: &str) -> Operation<(Names, Zxid)> {
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

    /// The paths of the session's ephemerals that begin with `prefix`. Under a
    /// [namespace](Client::namespace) only those below it are told.
    pub fn ephemerals(&self, prefix: &str) -> Operation<Names> {
        let reading = reading!(Response::Names(names) => names);
        let request = |path: String| Request::Read(Read::GetEphemerals(path.into()));
        self.operation(prefix, reading, request).localized(|client, paths| {
            paths.iter().filter_map(|path| client.path_below_root(path)).collect()
        })
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
        self.prepared(
            About::Path("/".to_owned()),
            reading!(Response::Multi(results) => results),
            request,
        )
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
        let about = About::Path(String::new());
        read(answer.await, OpCode::AUTH, &about, reading!(Response::Empty => ()))
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
    pub(crate) fn send_watches(
        &self,
        watches: Vec<Registration>,
        seen: Zxid,
        session: SessionId,
    ) -> Sent<()> {
        let paths = watches.iter().map(|watch| (watch.kind, watch.path.as_str()));
        let request = rewatch::registration(paths, seen);
        let operation =
            self.prepared(About::Path(String::new()), reading!(Response::Empty => ()), Ok(request));
        operation.in_session(session).send_watching(watches)
    }
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
