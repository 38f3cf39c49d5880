//! The tree of the model: a map of paths.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use zoolet_protocol::{
    Create, CreateFlags, CreateKind, ErrorCode, EventType, Expect, Lookup, MultiOp, MultiResult,
    Names, RawPath, Response, SessionId, Stat, Zxid,
};

/// The parent of the znodes that only the holder of a lock may write. Their data is a fencing
/// token.
pub(crate) const FENCES: &str = "/fence";

/// One change of one znode.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) event_type: EventType,
    pub(crate) path: String,
    /// The parent, if the list of its children changed.
    pub(crate) parent: Option<String>,
}

#[derive(Debug, Clone)]
struct Znode {
    data: Option<Bytes>,
    stat: Stat,
    /// How many children were created: the next sequence number.
    created: i32,
    /// Fields that a Stat does not show.
    is_container: bool,
}

/// The znodes by their paths, without checks of the root and the built-in ones.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tree {
    znodes: BTreeMap<String, Arc<Znode>>,
    /// The first write with an older token than the write before it.
    stale: Option<String>,
}

type Done = (MultiResult, Vec<Change>);

impl Tree {
    /// The paths, in order.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &String> {
        self.znodes.keys()
    }

    pub(crate) fn stat(&self, path: &str) -> Option<Stat> {
        self.znodes.get(path).map(|znode| znode.stat)
    }

    pub(crate) fn data(&self, path: &str) -> Option<Bytes> {
        self.znodes.get(path).and_then(|znode| znode.data.clone())
    }

    fn children(&self, path: &str) -> impl Iterator<Item = &str> {
        let prefix = format!("{}/", path.trim_end_matches('/'));
        let from = self.znodes.range(prefix.clone()..);
        let below = from.map_while({
            let prefix = prefix.clone();
            move |(path, _)| path.starts_with(&prefix).then_some(path)
        });
        let start = prefix.len();
        below.filter_map(move |path| path.get(start..).filter(|name| !name.contains('/')))
    }

    pub(crate) fn look_up(&self, lookup: &Lookup) -> Result<Response, ErrorCode> {
        let path = lookup.path().text().unwrap_or_default();
        if path == "/" {
            // Requests for ancestors use it, and no others.
            return Err(ErrorCode::UNIMPLEMENTED);
        }
        let znode = self.znodes.get(path).ok_or(ErrorCode::NO_NODE)?;
        let names = || -> Names { self.children(path).collect() };
        Ok(match lookup {
            Lookup::Exists(_) => Response::Stat(znode.stat),
            Lookup::GetData(_) => Response::Data(znode.data.clone(), znode.stat),
            Lookup::GetChildren(_) => Response::Names(names()),
            Lookup::GetChildren2(_) => Response::NamesStat(names(), znode.stat),
        })
    }

    pub(crate) fn descendants(&self, path: &str) -> Result<Response, ErrorCode> {
        self.znodes.get(path).ok_or(ErrorCode::NO_NODE)?;
        let prefix = format!("{path}/");
        let count = self.znodes.keys().filter(|path| path.starts_with(&prefix)).count();
        Ok(Response::Number(i32::try_from(count).unwrap_or(i32::MAX)))
    }

    /// The ephemerals of a session, in order.
    pub(crate) fn ephemerals(&self, session: SessionId) -> Vec<String> {
        let is_own = |(_, znode): &(&String, &Arc<Znode>)| znode.stat.ephemeral_owner == session;
        self.znodes.iter().filter(is_own).map(|(path, _)| path.clone()).collect()
    }

    /// All ephemerals, in order.
    pub(crate) fn all_ephemerals(&self) -> Vec<String> {
        let ephemerals = self.znodes.iter().filter(|(_, znode)| znode.is_ephemeral());
        ephemerals.map(|(path, _)| path.clone()).collect()
    }

    pub(crate) fn delete_ephemerals(&mut self, session: SessionId, zxid: Zxid) -> Vec<Change> {
        let paths = self.ephemerals(session);
        paths.iter().map(|path| self.remove(path, zxid)).collect()
    }

    /// Deletes a container that had children and has none.
    pub(crate) fn sweep(&mut self, path: &str, zxid: Zxid) -> Option<Change> {
        let znode = self.znodes.get(path)?;
        let is_due = znode.is_container && znode.stat.num_children == 0 && znode.created > 0;
        is_due.then(|| self.remove(path, zxid))
    }

    /// Checks that no write had an older fencing token than the one before it.
    pub(crate) fn check_fences(&self) -> Result<(), String> {
        match &self.stale {
            Some(stale) => Err(format!("a write with an old token was accepted: {stale}")),
            None => Ok(()),
        }
    }

    /// Carries out an operation, alone or in a multi.
    pub(crate) fn carry_out(
        &mut self,
        op: &MultiOp,
        session: SessionId,
        zxid: Zxid,
        wall_ms: i64,
    ) -> Result<Done, ErrorCode> {
        let path = op.path().text().unwrap_or_default();
        match op {
            MultiOp::Create(create) => self.create(create, path, session, zxid, wall_ms),
            MultiOp::Delete(delete) => {
                let znode = self.znodes.get(path).ok_or(ErrorCode::NO_NODE)?;
                check_version(znode, delete.version)?;
                if znode.stat.num_children > 0 {
                    return Err(ErrorCode::NOT_EMPTY);
                }
                Ok((MultiResult::Delete, vec![self.remove(path, zxid)]))
            }
            MultiOp::SetData(set) => {
                let znode = self.znodes.get_mut(path).ok_or(ErrorCode::NO_NODE)?;
                check_version(znode, set.version)?;
                if path.starts_with(FENCES) && token(&set.data) < token(&znode.data) {
                    self.stale = Some(format!("{path}: {:?} after {:?}", set.data, znode.data));
                }
                let znode = Arc::make_mut(znode);
                znode.data.clone_from(&set.data);
                znode.stat.data_length = length(&set.data);
                znode.stat.version += 1;
                (znode.stat.mzxid, znode.stat.mtime) = (zxid, wall_ms);
                let stat = znode.stat;
                let event_type = EventType::NODE_DATA_CHANGED;
                let change = Change { event_type, path: path.to_owned(), parent: None };
                Ok((MultiResult::SetData(stat), vec![change]))
            }
            MultiOp::Check(check) => {
                let znode = self.znodes.get(path).ok_or(ErrorCode::NO_NODE)?;
                check_version(znode, check.version)?;
                Ok((MultiResult::Check, Vec::new()))
            }
        }
    }

    fn create(
        &mut self,
        create: &Create,
        path: &str,
        session: SessionId,
        zxid: Zxid,
        wall_ms: i64,
    ) -> Result<Done, ErrorCode> {
        let parent = parent(path);
        let number = match self.znodes.get(parent) {
            Some(parent) => parent.created,
            None if parent == "/" => 0,
            None => return Err(ErrorCode::NO_NODE),
        };
        let is_sequential = create.flags.is_sequential();
        let path = if is_sequential { format!("{path}{number:010}") } else { path.to_owned() };
        if self.znodes.contains_key(&path) {
            return Err(ErrorCode::NODE_EXISTS);
        }
        if self.znodes.get(parent).is_some_and(|parent| parent.is_ephemeral()) {
            return Err(ErrorCode::NO_CHILDREN_FOR_EPHEMERALS);
        }
        let is_container =
            create.kind == CreateKind::Container || create.flags == CreateFlags::CONTAINER;
        let ephemeral_owner = match create.flags {
            flags if !is_container && flags.is_ephemeral() => session,
            _ => SessionId::NONE,
        };
        let stat = Stat {
            czxid: zxid,
            mzxid: zxid,
            pzxid: zxid,
            ctime: wall_ms,
            mtime: wall_ms,
            ephemeral_owner,
            data_length: length(&create.data),
            ..Stat::default()
        };
        if let Some(parent) = self.znodes.get_mut(parent).map(Arc::make_mut) {
            parent.created += 1;
            parent.stat.cversion += 1;
            parent.stat.num_children += 1;
            parent.stat.pzxid = zxid;
        }
        let znode = Znode { data: create.data.clone(), stat, created: 0, is_container };
        self.znodes.insert(path.clone(), Arc::new(znode));
        let result = match create.kind {
            CreateKind::Create if !is_container => MultiResult::Create(path.as_str().into()),
            _ => MultiResult::Create2(path.as_str().into(), stat),
        };
        let parent = Some(parent.to_owned());
        Ok((result, vec![Change { event_type: EventType::NODE_CREATED, path, parent }]))
    }

    fn remove(&mut self, path: &str, zxid: Zxid) -> Change {
        self.znodes.remove(path);
        let parent = parent(path);
        if let Some(parent) = self.znodes.get_mut(parent).map(Arc::make_mut) {
            parent.stat.cversion += 1;
            parent.stat.num_children -= 1;
            parent.stat.pzxid = zxid;
        }
        let (path, parent) = (path.to_owned(), Some(parent.to_owned()));
        Change { event_type: EventType::NODE_DELETED, path, parent }
    }
}

impl Znode {
    fn is_ephemeral(&self) -> bool {
        !self.stat.ephemeral_owner.is_none()
    }
}

fn check_version(znode: &Znode, expect: Expect) -> Result<(), ErrorCode> {
    if expect.admits(znode.stat.version) { Ok(()) } else { Err(ErrorCode::BAD_VERSION) }
}

fn length(data: &Option<Bytes>) -> i32 {
    data.as_ref().map_or(0, |data| i32::try_from(data.len()).unwrap_or(i32::MAX))
}

/// The fencing token in the data of a znode; none before the first write.
pub(crate) fn token(data: &Option<Bytes>) -> i64 {
    let text = data.as_ref().and_then(|data| std::str::from_utf8(data).ok());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

pub(crate) fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

/// A path as requests contain it.
pub(crate) fn raw(path: &str) -> RawPath {
    path.into()
}
