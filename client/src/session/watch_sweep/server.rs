//! A server's watches as ZooKeeper keeps them, in the way before 3.9 and in the way since.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};
use zoolet_protocol::{
    ConnectResponse, ErrorCode, EventType, Lookup, Names, Password, Read, ReplyHeader, Request,
    Response, SessionId, SetWatches, Stat, Watch, WatchMode, WatchedEvent, WatcherType, Xid, Zxid,
    decode_request, encode_event, encode_reply,
};

/// The ways in which servers keep the modes of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// One mode a table and path: the last registration replaces the others, and a removal takes
    /// whichever there is.
    Before39,
    /// A set of modes.
    Since39,
}

const STANDARD: u8 = 1;
const PERSISTENT: u8 = 2;
const RECURSIVE: u8 = 4;

const DATA: usize = 0;
const CHILD: usize = 1;

/// What a znode is for a watch: when it and its list of children changed last.
#[derive(Debug, Clone, Copy)]
struct Znode {
    mzxid: Zxid,
    pzxid: Zxid,
}

/// A server with one connection.
#[derive(Debug)]
pub(super) struct FakeServer {
    version: Version,
    zxid: Zxid,
    znodes: BTreeMap<String, Znode>,
    /// The modes of each path in the data table and in the child table.
    tables: [BTreeMap<String, u8>; 2],
    /// Requests that have not come yet.
    pub(super) requests: VecDeque<Bytes>,
    /// What the client has not received yet.
    pub(super) answers: VecDeque<Bytes>,
    /// Paths of which `addWatch` is refused.
    pub(super) refuses_to_add: bool,
}

impl FakeServer {
    pub(super) fn new(version: Version) -> Self {
        let znode = Znode { mzxid: Zxid::ZERO, pzxid: Zxid::ZERO };
        Self {
            version,
            zxid: Zxid(1),
            znodes: [("/".to_owned(), znode)].into(),
            tables: [BTreeMap::new(), BTreeMap::new()],
            requests: VecDeque::new(),
            answers: VecDeque::new(),
            refuses_to_add: false,
        }
    }

    pub(super) fn zxid(&self) -> Zxid {
        self.zxid
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.znodes.contains_key(path)
    }

    pub(super) fn is_leaf(&self, path: &str) -> bool {
        let below = format!("{path}/");
        !self.znodes.keys().any(|other| other.starts_with(&below))
    }

    /// Everything that is registered.
    pub(super) fn watches(&self) -> Vec<(&str, u8)> {
        let all = self.tables.iter().flatten();
        all.map(|(path, modes)| (path.as_str(), *modes)).collect()
    }

    /// The connection is gone, and a new one is there: its answer to the handshake.
    pub(super) fn reconnect(&mut self) -> Bytes {
        self.requests.clear();
        self.answers.clear();
        self.tables = [BTreeMap::new(), BTreeMap::new()];
        super::super::encoded(&ConnectResponse {
            protocol_version: 0,
            timeout_ms: 30_000,
            session: SessionId(1),
            password: Password::zero(),
            read_only: Some(false),
        })
    }

    /// Creates, deletes or sets a znode whose parent is there.
    pub(super) fn change(&mut self, path: &str, event_type: EventType) {
        self.zxid = Zxid(self.zxid.0 + 1);
        let (zxid, parent) = (self.zxid, parent(path));
        match event_type {
            EventType::NODE_DELETED => {
                self.znodes.remove(path);
            }
            EventType::NODE_CREATED => {
                self.znodes.insert(path.to_owned(), Znode { mzxid: zxid, pzxid: zxid });
            }
            _ => self.znodes.get_mut(path).expect("it is there").mzxid = zxid,
        }
        let is_told = self.trigger(DATA, path, event_type);
        if event_type == EventType::NODE_DATA_CHANGED {
            return;
        }
        if event_type == EventType::NODE_DELETED {
            let answers = self.answers.len();
            if self.trigger(CHILD, path, event_type) && is_told {
                self.answers.truncate(answers);
            }
        }
        self.znodes.get_mut(parent).expect("a parent is there").pzxid = zxid;
        self.trigger(CHILD, parent, EventType::NODE_CHILDREN_CHANGED);
    }

    /// Sends the event if the connection watches, and tells whether it does.
    fn trigger(&mut self, table: usize, path: &str, event_type: EventType) -> bool {
        let is_of_children = event_type == EventType::NODE_CHILDREN_CHANGED;
        let modes = self.tables[table].get(path).copied().unwrap_or_default();
        let mut is_told =
            if is_of_children { modes & (STANDARD | PERSISTENT) != 0 } else { modes != 0 };
        self.keep(table, path, modes & !STANDARD);
        let mut ancestor = path;
        while ancestor != "/" && !is_of_children {
            ancestor = parent(ancestor);
            let modes = self.tables[table].get(ancestor).copied().unwrap_or_default();
            is_told |= modes & RECURSIVE != 0;
        }
        if is_told {
            let zxid = match self.version {
                Version::Before39 => Zxid(-1),
                Version::Since39 => self.zxid,
            };
            self.answers.push_back(encode_event(zxid, &WatchedEvent::new(event_type, path)));
        }
        is_told
    }

    fn keep(&mut self, table: usize, path: &str, modes: u8) {
        if modes == 0 {
            self.tables[table].remove(path);
        } else {
            self.tables[table].insert(path.to_owned(), modes);
        }
    }

    fn register(&mut self, table: usize, path: &str, mode: u8) {
        let before = self.tables[table].get(path).copied().unwrap_or_default();
        let modes = match self.version {
            Version::Before39 => mode,
            Version::Since39 => before | mode,
        };
        self.keep(table, path, modes);
    }

    fn register_lasting(&mut self, path: &str, mode: WatchMode) {
        if mode == WatchMode::PERSISTENT {
            self.register(DATA, path, PERSISTENT);
            self.register(CHILD, path, PERSISTENT);
        } else {
            self.register(DATA, path, RECURSIVE);
            if self.version == Version::Before39 {
                self.register(CHILD, path, RECURSIVE);
            }
        }
    }

    fn remove(&mut self, table: usize, path: &str, is_any: bool) -> bool {
        let before = self.tables[table].get(path).copied().unwrap_or_default();
        let gone = if is_any || self.version == Version::Before39 { u8::MAX } else { STANDARD };
        self.keep(table, path, before & !gone);
        before & gone != 0
    }

    /// Carries out the next request that has come.
    pub(super) fn serve(&mut self) {
        let Some(frame) = self.requests.pop_front() else { return };
        let (header, request) = decode_request(&frame).expect("the client sends headers");
        let request = request.expect("the client sends requests");
        let (err, response) = match request {
            Request::Read(Read::Lookup(lookup)) => self.look(&lookup),
            Request::Watch(Watch::Lookup(lookup)) => self.look_and_watch(&lookup),
            Request::Watch(Watch::Add(add)) => {
                let path = add.path.text().expect("it has a path").to_owned();
                if self.refuses_to_add {
                    (ErrorCode::NO_AUTH, Response::Empty)
                } else {
                    self.register_lasting(&path, add.mode);
                    (ErrorCode::OK, Response::Number(0))
                }
            }
            Request::Watch(Watch::Remove(remove)) => {
                let path = remove.path.text().expect("it has a path").to_owned();
                let is_any = remove.watcher_type == WatcherType::ANY;
                let data = remove.watcher_type != WatcherType::CHILDREN;
                let child = remove.watcher_type != WatcherType::DATA;
                let found = (data && self.remove(DATA, &path, is_any))
                    | (child && self.remove(CHILD, &path, is_any));
                (if found { ErrorCode::OK } else { ErrorCode::NO_WATCHER }, Response::Empty)
            }
            Request::Watch(Watch::Set(lists) | Watch::Set2(lists)) => {
                self.set_watches(&lists);
                (ErrorCode::OK, Response::Empty)
            }
            request => panic!("nobody sends {request:?}"),
        };
        self.answer(header.xid, err, &response);
    }

    fn answer(&mut self, xid: Xid, err: ErrorCode, response: &Response) {
        let header = ReplyHeader { xid, zxid: self.zxid, err };
        let mut frame = BytesMut::new();
        encode_reply(&header, response, &mut frame);
        self.answers.push_back(frame.freeze());
    }

    fn look(&self, lookup: &Lookup) -> (ErrorCode, Response) {
        let path = lookup.path().text().expect("it has a path");
        if !self.has(path) {
            return (ErrorCode::NO_NODE, Response::Empty);
        }
        let names: Names = std::iter::empty().collect();
        let response = match lookup {
            Lookup::Exists(_) => Response::Stat(Stat::default()),
            Lookup::GetData(_) => Response::Data(None, Stat::default()),
            Lookup::GetChildren(_) => Response::Names(names),
            Lookup::GetChildren2(_) => Response::NamesStat(names, Stat::default()),
        };
        (ErrorCode::OK, response)
    }

    fn look_and_watch(&mut self, lookup: &Lookup) -> (ErrorCode, Response) {
        let found = self.look(lookup);
        let path = lookup.path().text().expect("it has a path").to_owned();
        let table = match lookup {
            Lookup::Exists(_) | Lookup::GetData(_) => DATA,
            Lookup::GetChildren(_) | Lookup::GetChildren2(_) => CHILD,
        };
        if found.0.is_ok() || matches!(lookup, Lookup::Exists(_)) {
            self.register(table, &path, STANDARD);
        }
        found
    }

    fn set_watches(&mut self, lists: &SetWatches) {
        let seen = lists.relative_zxid;
        let mut missed = Vec::new();
        for (table, paths) in [(DATA, &lists.data), (DATA, &lists.exist), (CHILD, &lists.child)] {
            let is_of_exist = std::ptr::eq(paths, &lists.exist);
            for path in paths.iter() {
                let event_type = match self.znodes.get(path) {
                    Some(_) if is_of_exist => EventType::NODE_CREATED,
                    None if !is_of_exist => EventType::NODE_DELETED,
                    Some(znode) if table == DATA && znode.mzxid > seen => {
                        EventType::NODE_DATA_CHANGED
                    }
                    Some(znode) if table == CHILD && znode.pzxid > seen => {
                        EventType::NODE_CHILDREN_CHANGED
                    }
                    _ => {
                        self.register(table, path, STANDARD);
                        continue;
                    }
                };
                missed.push(WatchedEvent::new(event_type, path));
            }
        }
        self.answers.extend(missed.iter().map(|event| encode_event(Zxid(-1), event)));
        for path in lists.persistent.iter() {
            self.register_lasting(path, WatchMode::PERSISTENT);
        }
        for path in lists.persistent_recursive.iter() {
            self.register_lasting(path, WatchMode::PERSISTENT_RECURSIVE);
        }
    }
}

/// The parent of a path.
pub(super) fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}
