//! Answers: what a look at the tree finds, and what watches it leaves
//! (`FinalRequestProcessor`, `DataTree.setWatches`).

#[cfg(feature = "planted-bugs")]
use zoolet_planted_bugs::PlantedBug;
use zoolet_protocol::{
    CheckWatches, Encode, ErrorCode, EventType, Lookup, MultiReadOp, MultiResult, Names,
    Permissions, RawPath, Read, Response, SetWatches, Watch, WatchedEvent,
};

use crate::acl::Judge;
use crate::core::{Core, Requester};
use crate::limits::MULTI_READ_BYTES_MAX;
use crate::tree::Znode;
use crate::watches::{Kind, Modes, Watched, event};

impl Core {
    /// Answers what changes nothing.
    ///
    /// # Errors
    ///
    /// The code of the answer's header.
    pub fn read(&self, read: &Read, requester: &Requester) -> Result<Response, ErrorCode> {
        match read {
            Read::Lookup(lookup) => self.look_up(lookup, &self.judge(requester)),
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

    /// Answers what leaves or takes back watches.
    pub fn watch(&mut self, watch: &Watch, requester: &Requester) -> Watched {
        let mut events = Vec::new();
        let reply = match watch {
            Watch::Lookup(lookup) => self.look_up_and_watch(lookup, requester),
            Watch::Add(add) => {
                // Null is a path like another here, and nothing ever happens there.
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
        Watched { reply, events }
    }

    fn look_up(&self, lookup: &Lookup, judge: &Judge<'_>) -> Result<Response, ErrorCode> {
        let path = lookup.path().text().ok_or(ErrorCode::MARSHALLING_ERROR)?;
        if let Lookup::Exists(_) = lookup
            && path.contains('\0')
        {
            return Err(ErrorCode::BAD_ARGUMENTS);
        }
        let znode = self.readable(path, judge)?;
        Ok(match lookup {
            Lookup::Exists(_) => Response::Stat(znode.stat()),
            Lookup::GetData(_) => Response::Data(znode.data.clone(), znode.stat()),
            Lookup::GetChildren(_) => Response::Names(self.tree.child_names(path)),
            Lookup::GetChildren2(_) => {
                Response::NamesStat(self.tree.child_names(path), znode.stat())
            }
        })
    }

    /// The znode at `path`, if there is one and the requester may read it.
    fn readable(&self, path: &str, judge: &Judge<'_>) -> Result<&Znode, ErrorCode> {
        let znode = self.tree.get(path).ok_or(ErrorCode::NO_NODE)?;
        judge.permits(&znode.acl, Permissions::READ)?;
        Ok(znode)
    }

    /// A watch is left where something was found, and by `exists` also where nothing was.
    fn look_up_and_watch(
        &mut self,
        lookup: &Lookup,
        requester: &Requester,
    ) -> Result<Response, ErrorCode> {
        let reply = self.look_up(lookup, &self.judge(requester));
        let kind = match lookup {
            Lookup::Exists(_) | Lookup::GetData(_) => Kind::Data,
            Lookup::GetChildren(_) | Lookup::GetChildren2(_) => Kind::Child,
        };
        let leaves_watch = match (&reply, lookup) {
            (Ok(_), _) | (Err(ErrorCode::NO_NODE), Lookup::Exists(_)) => true,
            (Err(_), _) => false,
        };
        if leaves_watch && let Some(path) = lookup.path().text() {
            self.watches.add(requester.connection, path, kind, Modes::STANDARD);
        }
        reply
    }

    fn acl(&self, path: &RawPath, requester: &Requester) -> Result<Response, ErrorCode> {
        let path = path.text().ok_or(ErrorCode::MARSHALLING_ERROR)?;
        let znode = self.tree.get(path).ok_or(ErrorCode::NO_NODE)?;
        let judge = self.judge(requester);
        judge.permits(&znode.acl, Permissions::READ | Permissions::ADMIN)?;
        let acl = match judge.permits(&znode.acl, Permissions::ADMIN) {
            Ok(()) => znode.acl.to_vec(),
            Err(_) => znode.acl.to_masked_vec(),
        };
        Ok(Response::Acl(Some(acl), znode.stat()))
    }

    /// How many descendants a znode has, if they need not be looked for among all znodes. `None` if
    /// they must, which [`FrozenTree::descendants`](crate::FrozenTree::descendants) does without holding up
    /// anyone.
    ///
    /// # Errors
    ///
    /// The code of the answer's header.
    pub fn few_descendants(
        &self,
        path: &RawPath,
        requester: &Requester,
    ) -> Result<Option<i32>, ErrorCode> {
        let path = path.text().ok_or(ErrorCode::MARSHALLING_ERROR)?;
        self.readable(path, &self.judge(requester))?;
        Ok(match path {
            // By the name of the empty string the root is a descendant of itself.
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

    /// Several reads, as far as what they find has its limit.
    fn read_multi(
        &self,
        ops: &[MultiReadOp],
        requester: &Requester,
    ) -> Result<Response, ErrorCode> {
        let mut bytes = 0;
        let mut results = Vec::new();
        let judge = self.judge(requester);
        for op in ops {
            let result = self.read_in_multi(op, &judge);
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

    fn read_in_multi(&self, op: &MultiReadOp, judge: &Judge<'_>) -> MultiResult {
        match self.look_up(&op.to_lookup(), judge) {
            Ok(Response::Data(data, stat)) => MultiResult::Data(data, stat),
            Ok(Response::Names(names)) => MultiResult::Children(names),
            Ok(other) => unreachable!("a read in a multi does not answer {other:?}"),
            Err(code) => MultiResult::Error(code),
        }
    }

    /// Registers the watches of a client that comes back, and tells what it missed: a sent event
    /// means that the watch is not registered. What is told here is told without asking for
    /// permission, as in ZooKeeper.
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
        let missed = |core: &Self, path: &str, kind: Kind| match core.tree.get(path) {
            None => Some(EventType::NODE_DELETED),
            Some(znode) if kind == Kind::Data && znode.stat.mzxid > seen => {
                Some(EventType::NODE_DATA_CHANGED)
            }
            Some(znode) if kind == Kind::Child && znode.stat.pzxid > seen => {
                Some(EventType::NODE_CHILDREN_CHANGED)
            }
            Some(_) => None,
        };
        for path in lists.data.iter() {
            match missed(self, path, Kind::Data) {
                Some(event_type) => events.push(event(event_type, path)),
                None => self.watches.add(connection, path, Kind::Data, Modes::STANDARD),
            }
        }
        for path in lists.exist.iter() {
            match self.tree.get(path) {
                Some(_) => events.push(event(EventType::NODE_CREATED, path)),
                None => self.watches.add(connection, path, Kind::Data, Modes::STANDARD),
            }
        }
        for path in lists.child.iter() {
            match missed(self, path, Kind::Child) {
                Some(event_type) => events.push(event(event_type, path)),
                None => self.watches.add(connection, path, Kind::Child, Modes::STANDARD),
            }
        }
        #[cfg(feature = "planted-bugs")]
        if zoolet_planted_bugs::is_planted(PlantedBug::EventLostOnReconnect) {
            events.clear();
        }
        self.add_all(requester, &lists.persistent, zoolet_protocol::WatchMode::PERSISTENT);
        let recursive = zoolet_protocol::WatchMode::PERSISTENT_RECURSIVE;
        self.add_all(requester, &lists.persistent_recursive, recursive);
        Ok(Response::Empty)
    }

    fn add_all(&mut self, requester: &Requester, paths: &Names, mode: zoolet_protocol::WatchMode) {
        for path in paths.iter() {
            let added = self.watches.add_mode(requester.connection, path, mode);
            assert!(added.is_some(), "{mode} is a mode");
        }
    }
}

/// A number of znodes as a client is told it.
pub(crate) fn number(znodes: usize) -> i32 {
    i32::try_from(znodes).unwrap_or(i32::MAX)
}

/// The answer of `checkWatches` and `removeWatches`.
fn found(found: Option<bool>) -> Result<Response, ErrorCode> {
    match found {
        None => Err(ErrorCode::MARSHALLING_ERROR),
        Some(false) => Err(ErrorCode::NO_WATCHER),
        Some(true) => Ok(Response::Empty),
    }
}
