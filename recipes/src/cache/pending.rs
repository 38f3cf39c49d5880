//! The changes that a cache knows of and has not applied yet, in the order of their zxids.
//!
//! An event tells that a znode was created or changed, and not what it is now: its path is read.
//! The entry of the event is applied when such a read has been answered, and no later entry before
//! it.
//!
//! One read serves many entries of a path. It shows at least what happened before it was sent, and
//! everything up to the zxid of its reply.
//!
//! This is a state machine without I/O: it is told of events and replies, and says what to read.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use zoolet_protocol::{EventType, Zxid};

use super::apply::{Applying, ChildrenKnown, Position};
use super::event::CacheEvent;
use super::limits::ZNODE_OVERHEAD_BYTES;
use super::store::Store;
use super::znode::Record;

/// Something that is applied in its turn.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The zxid of the change; `None` from servers before 3.9.
    pub(crate) zxid: Option<Zxid>,
    pub(crate) what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    /// A change whose result is read. The serial number is its place among all events.
    Read { path: Box<str>, event_type: EventType, serial: u64 },
    /// The event of a deletion with its zxid.
    Deleted { path: Box<str> },
    /// What a resync has read: a state, or that there is no znode.
    Found { path: Box<str>, read_at: Zxid, state: Option<Record> },
    /// All changes of the children of a znode up to this zxid are in the cache when all entries up
    /// to it are applied.
    ChildrenKnown { path: Box<str>, czxid: Zxid },
    /// All changes up to this zxid are in the cache when it is reached.
    Mark { zxid: Zxid, means: Mark },
}

/// What is reached with a [`What::Mark`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The end of a resync.
    Resynced,
    /// The answer to a question how far the server is.
    Probed,
}

/// The reads of one path that has entries.
#[derive(Debug, Default)]
struct PathReads {
    /// How many entries wait for a read.
    entries: usize,
    /// The last of them.
    last_serial: u64,
    last_zxid: Option<Zxid>,
    /// The last deletion of which an event has told.
    last_deletion: Option<Zxid>,
    /// The path is in the queue of those to be read.
    is_queued: bool,
    /// The serial number up to which events had arrived when the read in flight was sent.
    in_flight: Option<u64>,
    /// The last answer.
    answer: Option<Answer>,
}

#[derive(Debug)]
struct Answer {
    /// It shows all events up to this serial number.
    serial: u64,
    /// It shows all transactions up to this zxid, and none after it.
    at: Zxid,
    seen: Seen,
}

/// What a read has shown of a path.
#[derive(Debug)]
pub(crate) enum Seen {
    Znode(Record),
    /// There is no znode.
    Nothing,
    /// The session may not read the znode.
    Unreadable,
}

impl Answer {
    /// The memory that it takes, about.
    fn bytes(&self) -> usize {
        match &self.seen {
            Seen::Znode(state) => ZNODE_OVERHEAD_BYTES + state.len(),
            Seen::Nothing | Seen::Unreadable => 0,
        }
    }

    fn shows(&self, serial: u64, zxid: Option<Zxid>) -> bool {
        self.serial >= serial || zxid.is_some_and(|zxid| zxid <= self.at)
    }
}

/// The entries of one connection.
#[derive(Debug)]
pub(crate) struct Pending {
    /// The root of the cache.
    root: Arc<str>,
    entries: VecDeque<Entry>,
    paths: HashMap<Box<str>, PathReads>,
    to_read: VecDeque<Box<str>>,
    serial: u64,
    /// What is noted when no entry of the same zxid is left.
    children_known: VecDeque<ChildrenKnown>,
    /// All events up to this zxid have arrived.
    arrived: Zxid,
    /// The order of entries is that of zxids.
    has_zxids: bool,
    /// An event with a zxid has come over this connection.
    server_sends_zxids: bool,
    /// The memory of the answers.
    answer_bytes: usize,
    /// A znode has come to light of whose children no event tells: it could not be read before.
    must_resync: bool,
}

impl Pending {
    pub(crate) fn new(root: Arc<str>) -> Self {
        Self {
            root,
            entries: VecDeque::new(),
            paths: HashMap::new(),
            to_read: VecDeque::new(),
            serial: 0,
            children_known: VecDeque::new(),
            arrived: Zxid::ZERO,
            has_zxids: true,
            server_sends_zxids: false,
            answer_bytes: 0,
            must_resync: false,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether changes of a path that are read wait to be applied.
    pub(crate) fn has_entries(&self, path: &str) -> bool {
        self.paths.get(path).is_some_and(|reads| reads.entries > 0)
    }

    /// The memory of the answers that wait to be applied, about.
    pub(crate) fn answer_bytes(&self) -> usize {
        self.answer_bytes
    }

    /// Whether the children of a znode in the cache are known neither from a list nor from events.
    pub(crate) fn must_resync(&self) -> bool {
        self.must_resync
    }

    /// Takes an event of the watch.
    pub(crate) fn event(&mut self, event_type: EventType, path: &str, zxid: Zxid) {
        let zxid = (zxid > Zxid::ZERO).then_some(zxid);
        match zxid {
            Some(_) if !self.server_sends_zxids => {
                self.server_sends_zxids = true;
                self.drop_repeated();
            }
            Some(_) => {}
            None if self.server_sends_zxids => return,
            None => self.has_zxids = false,
        }
        self.serial += 1;
        if event_type == EventType::NODE_DELETED && zxid.is_some() {
            if let Some(reads) = self.paths.get_mut(path) {
                reads.last_deletion = zxid;
            }
            let what = What::Deleted { path: path.into() };
            return self.entries.push_back(Entry { zxid, what });
        }
        let serial = self.serial;
        let what = What::Read { path: path.into(), event_type, serial };
        self.entries.push_back(Entry { zxid, what });
        let reads = self.paths.entry(path.into()).or_default();
        reads.entries += 1;
        (reads.last_serial, reads.last_zxid) = (serial, zxid);
        let is_shown = reads.answer.as_ref().is_some_and(|answer| answer.shows(serial, zxid));
        if !is_shown && reads.in_flight.is_none() && !reads.is_queued {
            reads.is_queued = true;
            self.to_read.push_back(path.into());
        }
    }

    /// Drops the entries of events without a zxid, from a server that sends zxids.
    ///
    /// Such a server reports without a zxid, in answer to `setWatches`, what one-shot watches of other
    /// parts of the program have missed. The resync finds these changes, or an event with a zxid has
    /// told of them. Applied in the order of arrival they would come before older changes.
    fn drop_repeated(&mut self) {
        if self.has_zxids {
            return;
        }
        self.has_zxids = true;
        let mut without_entries = Vec::new();
        let paths = &mut self.paths;
        self.entries.retain(|entry| {
            let (None, What::Read { path, .. }) = (entry.zxid, &entry.what) else { return true };
            let reads = paths.get_mut(path).expect("a path with entries has reads");
            reads.entries -= 1;
            if reads.entries == 0 && reads.in_flight.is_none() && !reads.is_queued {
                without_entries.push(path.clone());
            }
            false
        });
        for path in without_entries {
            self.forget_reads(&path);
        }
    }

    /// Adds a mark behind all changes up to its zxid. All of their events have arrived.
    pub(crate) fn mark(&mut self, zxid: Zxid, means: Mark) {
        self.arrived = self.arrived.max(zxid);
        let entry = Entry { zxid: Some(zxid), what: What::Mark { zxid, means } };
        // Events after the reply may have arrived too.
        let later = |entry: &Entry| entry.zxid.is_some_and(|other| other > zxid);
        let behind = self.entries.iter().rev().take_while(|entry| later(entry)).count();
        self.entries.insert(self.entries.len() - behind, entry);
    }

    /// The path that is to be read next. The read must be sent at once.
    pub(crate) fn next_read(&mut self) -> Option<Box<str>> {
        loop {
            let path = self.to_read.pop_front()?;
            match self.paths.get_mut(&path) {
                // A later answer than the one that was to come has served all entries.
                Some(reads) if reads.entries == 0 => self.forget_reads(&path),
                Some(reads) => {
                    reads.is_queued = false;
                    reads.in_flight = Some(self.serial);
                    return Some(path);
                }
                None => {}
            }
        }
    }

    /// Takes the answer to a read, after all events that came before it.
    pub(crate) fn answered(&mut self, path: &str, at: Zxid, seen: Seen) {
        self.arrived = self.arrived.max(at);
        let Some(reads) = self.paths.get_mut(path) else { return };
        let Some(serial) = reads.in_flight.take() else { return };
        let answer = Answer { serial, at, seen };
        if reads.entries == 0 {
            return self.forget_reads(path);
        }
        if !answer.shows(reads.last_serial, reads.last_zxid) {
            reads.is_queued = true;
            self.to_read.push_back(path.into());
        }
        self.answer_bytes += answer.bytes();
        self.answer_bytes -= reads.answer.replace(answer).as_ref().map_or(0, Answer::bytes);
    }

    fn forget_reads(&mut self, path: &str) {
        let reads = self.paths.remove(path);
        let answer = reads.and_then(|reads| reads.answer);
        self.answer_bytes -= answer.as_ref().map_or(0, Answer::bytes);
    }

    /// The paths of the deletions of which events have told, with their zxids.
    pub(crate) fn deleted_paths(&self) -> impl Iterator<Item = (&str, Zxid)> {
        self.entries.iter().filter_map(|entry| match (&entry.what, entry.zxid) {
            (What::Deleted { path }, Some(zxid)) => Some((&**path, zxid)),
            _ => None,
        })
    }

    /// Adds what a resync has found, in the order of zxids, among the events that came meanwhile.
    pub(crate) fn merge(&mut self, found: Vec<Entry>) {
        for entry in &found {
            if let What::Found { path, read_at, state: None } = &entry.what {
                self.forget_older_answer(path, *read_at);
            }
        }
        let events = std::mem::take(&mut self.entries);
        self.entries.reserve(events.len() + found.len());
        let mut found = found.into_iter().peekable();
        for event in events {
            // An event without a zxid arrived during the resync, and is applied after it.
            if let Some(zxid) = event.zxid {
                while let Some(entry) = found.next_if(|entry| entry.zxid <= Some(zxid)) {
                    self.entries.push_back(entry);
                }
            } else {
                self.entries.extend(found.by_ref());
            }
            self.entries.push_back(event);
        }
        self.entries.extend(found);
    }

    /// Forgets an answer that shows a znode which was not there any more when the resync read it.
    /// The event of its deletion may have no zxid, so that the answer would be applied after that.
    fn forget_older_answer(&mut self, path: &str, read_at: Zxid) {
        let Some(reads) = self.paths.get_mut(path) else { return };
        let Some(older) = reads.answer.take_if(|answer| answer.at <= read_at) else { return };
        self.answer_bytes -= older.bytes();
        if reads.in_flight.is_none() && !reads.is_queued {
            reads.is_queued = true;
            self.to_read.push_back(path.into());
        }
    }

    /// Applies the entries that are resolved: up to a mark, which is returned, or up to a number of
    /// them. Returns whether there may be more to apply, too.
    pub(crate) fn apply(
        &mut self,
        store: &mut Store,
        events: &mut Vec<CacheEvent>,
        count_max: usize,
    ) -> (Option<(Zxid, Mark)>, bool) {
        for _ in 0..count_max {
            let Some(entry) = self.pop_resolved() else {
                if self.entries.is_empty() {
                    self.note_children_known(store, self.arrived);
                }
                return (None, false);
            };
            if let What::Mark { zxid, means } = entry.what {
                self.note_children_known(store, zxid);
                return (Some((zxid, means)), true);
            }
            if let (Some(zxid), true) = (entry.zxid, self.has_zxids) {
                self.note_children_known(store, Zxid(zxid.0 - 1));
            }
            self.apply_entry(store, events, entry);
            if self.must_resync {
                // No mark is reached: the cache does not have everything up to it.
                return (None, false);
            }
        }
        (None, true)
    }

    /// Notes which children are all in the cache, of changes up to this zxid.
    fn note_children_known(&mut self, store: &mut Store, applied: Zxid) {
        while self.children_known.front().is_some_and(|known| known.pzxid <= applied)
            && let Some(known) = self.children_known.pop_front()
        {
            store.raise_pzxid(&known.path, known.pzxid);
        }
    }

    fn apply_entry(&mut self, store: &mut Store, events: &mut Vec<CacheEvent>, entry: Entry) {
        let Self { root, children_known, paths, must_resync, .. } = self;
        let mut applying = Applying { root, store, events, children_known };
        match (entry.what, entry.zxid) {
            (What::Deleted { path }, Some(zxid)) => applying.deletion(&path, zxid),
            (What::Read { path, event_type, .. }, zxid) => {
                let reads = paths.get_mut(&path).expect("a path with entries has reads");
                *must_resync |= apply_read(&mut applying, reads, &path, event_type, zxid);
                if reads.entries == 0 && reads.in_flight.is_none() && !reads.is_queued {
                    self.forget_reads(&path);
                }
            }
            (What::Found { path, read_at, state }, zxid) => {
                let position = Position { zxid, read_at };
                match state {
                    Some(state) => applying.state(&path, position, &state),
                    None => applying.absence(&path, position),
                }
            }
            (What::ChildrenKnown { path, czxid }, Some(pzxid)) => {
                if applying.store.get(&path).is_some_and(|record| record.czxid() == czxid) {
                    applying.children_known.push_back(ChildrenKnown { path, pzxid });
                }
            }
            (What::Deleted { .. } | What::ChildrenKnown { .. }, None) => {
                unreachable!("these are made with a zxid only")
            }
            (What::Mark { .. }, _) => {}
        }
    }

    /// Takes the first entry, if it can be applied.
    fn pop_resolved(&mut self) -> Option<Entry> {
        let entry = self.entries.front()?;
        if let What::Read { path, serial, .. } = &entry.what {
            let reads = self.paths.get(path).expect("a path with entries has reads");
            let is_shown =
                reads.answer.as_ref().is_some_and(|answer| answer.shows(*serial, entry.zxid));
            if !is_shown {
                return None;
            }
        }
        self.entries.pop_front()
    }
}

/// Applies an event whose path was read. Returns whether this shows a znode whose children are not
/// known.
fn apply_read(
    applying: &mut Applying<'_>,
    reads: &mut PathReads,
    path: &str,
    event_type: EventType,
    zxid: Option<Zxid>,
) -> bool {
    reads.entries -= 1;
    let Some(answer) = &reads.answer else { return false };
    let position = Position { zxid, read_at: answer.at };
    match (&answer.seen, zxid) {
        (Seen::Znode(state), _) => {
            let was_cached = applying.store.contains(path);
            applying.state(path, position, state);
            // The creation of a znode comes before the events of its children, and before its own
            // changes.
            let is_new = !was_cached && applying.store.contains(path);
            return is_new && event_type == EventType::NODE_DATA_CHANGED && state.has_children();
        }
        // The event of the deletion stands behind. There is none if the session was not allowed to
        // read the znode any more.
        (Seen::Nothing, Some(zxid)) if reads.last_deletion.is_some_and(|it| it >= zxid) => {}
        (Seen::Nothing | Seen::Unreadable, _) => applying.absence(path, position),
    }
    false
}
