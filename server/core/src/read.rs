//! Reads: what they return and which watches they set (`FinalRequestProcessor`,
//! `DataTree.setWatches`).

use zoolet_protocol::{
    CheckWatches, Encode, ErrorCode, EventType, Lookup, MultiReadOp, MultiResult, Names,
    Permissions, RawPath, Read, Response, SetWatches, Stat, Watch, WatchedEvent,
};

use crate::acl::Authorizer;
use crate::core::{Core, Requester};
use crate::limits::MULTI_READ_BYTES_MAX;
use crate::tree::{Data, Znode};
use crate::watches::{Modes, Table, WatchReply};

impl Core {
    /// Answers a read that sets no watch.
    ///
    /// # Errors
    ///
    /// The error code for the header of the reply.
    pub fn read(&self, read: &Read, requester: &Requester) -> Result<Response, ErrorCode> {
        match read {
            Read::Lookup(lookup) => self.look_up(lookup, &self.authorizer(requester)),
            Read::GetAcl(path) => self.acl(path, requester),
            Read::Sync(path) => Ok(Response::Path(path.clone())),
            Read::GetEphemerals(prefix) => {
                let prefix = prefix.text().unwrap_or_default();
                let prefix = if prefix.trim().is_empty() { "/" } else { prefix };
                Ok(Response::Names(self.sessions.ephemerals_below(requester.session, prefix)))
            }
            Read::GetAllChildrenNumber(path) => self.descendants(path, requester),
            Read::CheckWatches(check) => self.check_watches(check, requester),
            Read::MultiRead(ops) => self.read_multi(ops, requester),
        }
    }

    /// Answers the plainest reads of a requester.
    #[must_use]
    pub fn plain_reader<'a>(&'a self, requester: &'a Requester) -> PlainReader<'a> {
        PlainReader { core: self, authorizer: self.authorizer(requester) }
    }

    /// Answers a request that sets or removes watches.
    pub fn watch(&mut self, watch: &Watch, requester: &Requester) -> WatchReply {
        let mut events = Vec::new();
        let reply = match watch {
            Watch::Lookup(lookup) => self.look_up_and_watch(lookup, requester),
            Watch::Add(add) => {
                // ZooKeeper accepts a watch on the null path. No event ever fires it.
                let path = add.path.text().unwrap_or_default();
                let added = self.watches.add_mode(requester.connection, path, add.mode);
                added.map(|()| Response::Number(0)).ok_or(ErrorCode::MARSHALLING_ERROR)
            }
            Watch::Remove(remove) => {
                let path = remove.path.text().unwrap_or_default();
                found(self.watches.remove(requester.connection, path, remove.watcher_type))
            }
            Watch::Set(lists) | Watch::Set2(lists) => {
                self.set_watches(lists, requester, &mut events)
            }
        };
        WatchReply { reply, events }
    }

    fn look_up(&self, lookup: &Lookup, authorizer: &Authorizer<'_>) -> Result<Response, ErrorCode> {
        let path = lookup.path().text().ok_or(ErrorCode::MARSHALLING_ERROR)?;
        if let Lookup::Exists(_) = lookup
            && path.contains('\0')
        {
            return Err(ErrorCode::BAD_ARGUMENTS);
        }
        let znode = self.readable(path, authorizer)?;
        Ok(match lookup {
            Lookup::Exists(_) => Response::Stat(znode.stat()),
            Lookup::GetData(_) => Response::Data(znode.data_bytes(), znode.stat()),
            Lookup::GetChildren(_) => Response::Names(self.tree.child_names(path)),
            Lookup::GetChildren2(_) => {
                Response::NamesStat(self.tree.child_names(path), znode.stat())
            }
        })
    }

    /// The znode at `path`, if it exists and the requester may read it.
    fn readable(&self, path: &str, authorizer: &Authorizer<'_>) -> Result<&Znode, ErrorCode> {
        let znode = self.tree.get(path).ok_or(ErrorCode::NO_NODE)?;
        authorizer.permits(&znode.acl, Permissions::READ)?;
        Ok(znode)
    }

    /// Sets a watch if the lookup succeeded. `exists` also sets one where no znode is.
    fn look_up_and_watch(
        &mut self,
        lookup: &Lookup,
        requester: &Requester,
    ) -> Result<Response, ErrorCode> {
        let reply = self.look_up(lookup, &self.authorizer(requester));
        let table = match lookup {
            Lookup::Exists(_) | Lookup::GetData(_) => Table::Data,
            Lookup::GetChildren(_) | Lookup::GetChildren2(_) => Table::Child,
        };
        let sets_watch = match (&reply, lookup) {
            (Ok(_), _) | (Err(ErrorCode::NO_NODE), Lookup::Exists(_)) => true,
            (Err(_), _) => false,
        };
        if sets_watch && let Some(path) = lookup.path().text() {
            self.watches.add(requester.connection, path, table, Modes::STANDARD);
        }
        reply
    }

    fn acl(&self, path: &RawPath, requester: &Requester) -> Result<Response, ErrorCode> {
        let path = path.text().ok_or(ErrorCode::MARSHALLING_ERROR)?;
        let znode = self.tree.get(path).ok_or(ErrorCode::NO_NODE)?;
        let authorizer = self.authorizer(requester);
        authorizer.permits(&znode.acl, Permissions::READ | Permissions::ADMIN)?;
        let acl = match authorizer.permits(&znode.acl, Permissions::ADMIN) {
            Ok(()) => znode.acl.to_vec(),
            Err(_) => znode.acl.to_masked_vec(),
        };
        Ok(Response::Acl(Some(acl), znode.stat()))
    }

    /// The number of a znode's descendants, if they are few enough to be counted at once. `None` if
    /// they are more: [`FrozenTree::descendants`](crate::FrozenTree::descendants) counts them
    /// without the server's lock.
    ///
    /// # Errors
    ///
    /// The error code for the header of the reply.
    pub fn few_descendants(
        &self,
        path: &RawPath,
        requester: &Requester,
    ) -> Result<Option<i32>, ErrorCode> {
        let path = path.text().ok_or(ErrorCode::MARSHALLING_ERROR)?;
        self.readable(path, &self.authorizer(requester))?;
        Ok(match path {
            // Under its second name, the empty string, the root counts as its own descendant.
            "" => Some(number(self.tree.count())),
            "/" => Some(number(self.tree.count() - 1)),
            _ => self.tree.few_below(path).map(|below| number(below.znodes - 1)),
        })
    }

    fn descendants(&self, path: &RawPath, requester: &Requester) -> Result<Response, ErrorCode> {
        let few = self.few_descendants(path, requester)?;
        let all = || number(self.tree.below(path.text().unwrap_or_default()).znodes - 1);
        Ok(Response::Number(few.unwrap_or_else(all)))
    }

    fn check_watches(
        &self,
        check: &CheckWatches,
        requester: &Requester,
    ) -> Result<Response, ErrorCode> {
        let path = check.path.text().unwrap_or_default();
        found(self.watches.has(requester.connection, path, check.watcher_type))
    }

    /// Answers a multiRead, up to [`MULTI_READ_BYTES_MAX`] bytes of data and names.
    fn read_multi(
        &self,
        ops: &[MultiReadOp],
        requester: &Requester,
    ) -> Result<Response, ErrorCode> {
        let mut bytes = 0;
        let mut results = Vec::new();
        let authorizer = self.authorizer(requester);
        for op in ops {
            let result = self.read_in_multi(op, &authorizer);
            bytes += match &result {
                MultiResult::Data(Some(data), _) => data.len(),
                MultiResult::Children(names) => names.encoded_len(),
                _ => 0,
            };
            if bytes > MULTI_READ_BYTES_MAX {
                return Err(ErrorCode::MARSHALLING_ERROR);
            }
            results.push(result);
        }
        Ok(Response::Multi(results))
    }

    fn read_in_multi(&self, op: &MultiReadOp, authorizer: &Authorizer<'_>) -> MultiResult {
        match self.look_up(&op.to_lookup(), authorizer) {
            Ok(Response::Data(data, stat)) => MultiResult::Data(data, stat),
            Ok(Response::Names(names)) => MultiResult::Children(names),
            Ok(other) => unreachable!("a read in a multi does not answer {other:?}"),
            Err(code) => MultiResult::Error(code),
        }
    }

    /// Sets the watches of a client that has reconnected. If a znode has changed since, the client
    /// receives the event it missed and its watch is not set. As in ZooKeeper, these events are
    /// sent without checking the access control lists.
    fn set_watches(
        &mut self,
        lists: &SetWatches,
        requester: &Requester,
        events: &mut Vec<WatchedEvent>,
    ) -> Result<Response, ErrorCode> {
        let all = [&lists.data, &lists.exist, &lists.child];
        let persistent = [&lists.persistent, &lists.persistent_recursive];
        if all.iter().chain(&persistent).any(|names| names.is_null()) {
            return Err(ErrorCode::MARSHALLING_ERROR);
        }
        let connection = requester.connection;
        let seen = lists.relative_zxid;
        let missed = |core: &Self, path: &str, table: Table| match core.tree.get(path) {
            None => Some(EventType::NODE_DELETED),
            Some(znode) if table == Table::Data && znode.stat.mzxid > seen => {
                Some(EventType::NODE_DATA_CHANGED)
            }
            Some(znode) if table == Table::Child && znode.stat.pzxid > seen => {
                Some(EventType::NODE_CHILDREN_CHANGED)
            }
            Some(_) => None,
        };
        for path in lists.data.iter() {
            match missed(self, path, Table::Data) {
                Some(event_type) => events.push(WatchedEvent::new(event_type, path)),
                None => self.watches.add(connection, path, Table::Data, Modes::STANDARD),
            }
        }
        for path in lists.exist.iter() {
            match self.tree.get(path) {
                Some(_) => events.push(WatchedEvent::new(EventType::NODE_CREATED, path)),
                None => self.watches.add(connection, path, Table::Data, Modes::STANDARD),
            }
        }
        for path in lists.child.iter() {
            match missed(self, path, Table::Child) {
                Some(event_type) => events.push(WatchedEvent::new(event_type, path)),
                None => self.watches.add(connection, path, Table::Child, Modes::STANDARD),
            }
        }
        self.add_all(requester, &lists.persistent, zoolet_protocol::WatchMode::PERSISTENT);
        let recursive = zoolet_protocol::WatchMode::PERSISTENT_RECURSIVE;
        self.add_all(requester, &lists.persistent_recursive, recursive);
        Ok(Response::Empty)
    }

    fn add_all(&mut self, requester: &Requester, paths: &Names, mode: zoolet_protocol::WatchMode) {
        for path in paths.iter() {
            let added = self.watches.add_mode(requester.connection, path, mode);
            assert!(added.is_some(), "{mode} is a known mode");
        }
    }
}

/// Answers the plainest reads of one requester, one after the other, without a copy of the data.
///
/// ```
/// use zoolet_core::{ConnectionId, Core, Requester, Settings};
/// use zoolet_protocol::{SessionId, Xid};
///
/// let core = Core::new(Settings::default());
/// let requester = Requester::new(SessionId(1), ConnectionId(1), Xid(1));
/// let reader = core.plain_reader(&requester);
/// assert!(reader.data(b"/zookeeper").is_some_and(|(_, data, _)| data.is_some_and(|it| it.is_empty())));
/// assert!(reader.data(b"/missing").is_none());
/// ```
#[derive(Debug)]
pub struct PlainReader<'a> {
    core: &'a Core,
    authorizer: Authorizer<'a>,
}

impl<'a> PlainReader<'a> {
    /// What [`Core::read`] answers to a `getData`, with the path. `None` if it refuses it, and where the
    /// access control list is long, so that it takes longer than others.
    #[must_use]
    #[inline]
    pub fn data(&self, path: &[u8]) -> Option<(&'a str, Option<&'a Data>, Stat)> {
        let znode = self.core.tree.get_bytes(path)?;
        if znode.acl.long_address().is_some() {
            return None;
        }
        self.authorizer.permits(&znode.acl, Permissions::READ).ok()?;
        Some((znode.path.as_str(), znode.data.as_ref(), znode.stat()))
    }
}

/// A number of znodes as replies carry it.
pub(crate) fn number(znodes: usize) -> i32 {
    i32::try_from(znodes).unwrap_or(i32::MAX)
}

/// The reply to `checkWatches` and `removeWatches`. `None` is an unknown watcher type.
fn found(found: Option<bool>) -> Result<Response, ErrorCode> {
    match found {
        None => Err(ErrorCode::MARSHALLING_ERROR),
        Some(false) => Err(ErrorCode::NO_WATCHER),
        Some(true) => Ok(Response::Empty),
    }
}
