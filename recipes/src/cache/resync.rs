//! Compares a cache with the tree, at the start and after each reconnect.
//!
//! Every cached znode is read, in the order of paths, many with one request. The children of a
//! znode are listed only if its pzxid or its czxid is another one, and those that are not cached
//! are read. Nothing is applied: the result is a list of entries for
//! [`Pending`](super::pending::Pending), in the order of zxids. Meanwhile the events of the watch
//! are queued there.
//!
//! Why nothing is missed: the watch is registered before the first of these reads. A change before
//! that is seen by the reads, a change after it has an event.
//!
//! This is a state machine without I/O: it says what to read, and is told of replies.

use std::collections::{BTreeMap, HashMap, VecDeque};

use zoolet_protocol::{Names, Stat, Zxid};

use super::limits::{
    BATCH_PATH_BYTES_MAX, BATCH_REPLY_BYTES_MAX, EXISTS_FROM_BYTES, EXISTS_IN_FLIGHT_MAX,
    READ_OVERHEAD_BYTES, UNKNOWN_DATA_BYTES, ZNODE_OVERHEAD_BYTES,
};
use super::pending::{Entry, What};
use super::selection::Selection;
use super::store::{Store, child_path};
use super::znode::Record;

/// One read in a multiRead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Read {
    Data(Box<str>),
    Children(Box<str>),
}

impl Read {
    pub(crate) fn path(&self) -> &str {
        match self {
            Self::Data(path) | Self::Children(path) => path,
        }
    }
}

/// A request of a resync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    Reads(Vec<Read>),
    /// A cached znode whose data is too long to be read for nothing.
    Exists(Box<str>),
}

/// How much room a batch of reads has, until one limit is reached.
#[derive(Debug)]
pub(crate) struct Room {
    reads: usize,
    path_bytes: usize,
    reply_bytes: usize,
}

impl Room {
    pub(crate) fn new(reads: usize) -> Self {
        Self { reads, path_bytes: BATCH_PATH_BYTES_MAX, reply_bytes: BATCH_REPLY_BYTES_MAX }
    }

    pub(crate) fn is_used_up(&self) -> bool {
        self.reads == 0 || self.path_bytes == 0 || self.reply_bytes == 0
    }

    /// Counts a read with the bytes that are expected of its result.
    pub(crate) fn take(&mut self, path: &str, bytes: usize) {
        self.reads -= 1;
        self.path_bytes = self.path_bytes.saturating_sub(READ_OVERHEAD_BYTES + path.len());
        self.reply_bytes = self.reply_bytes.saturating_sub(READ_OVERHEAD_BYTES + bytes);
    }
}

/// The length that is expected of the data of a path.
pub(crate) fn expected_bytes(store: &Store, path: &str) -> usize {
    store.get(path).map_or(UNKNOWN_DATA_BYTES, Record::data_length)
}

/// Reads that are put together in one request.
#[derive(Debug)]
struct Batch {
    reads: Vec<Read>,
    room: Room,
}

impl Batch {
    fn new(reads_max: usize) -> Self {
        Self { reads: Vec::new(), room: Room::new(reads_max) }
    }

    fn is_full(&self) -> bool {
        self.room.is_used_up()
    }

    fn add(&mut self, read: Read, data_bytes: usize) {
        self.room.take(read.path(), data_bytes);
        self.reads.push(read);
    }
}

/// The comparison of a cache with the tree.
#[derive(Debug)]
pub(crate) struct Resync {
    selection: Selection,
    /// Whether znodes are cached with their data.
    keeps_data: KeepsData,
    /// The last cached path that was put into a request.
    cursor: Option<Box<str>>,
    has_read_cached: bool,
    /// What else is to be read.
    queue: VecDeque<Read>,
    exists: VecDeque<Box<str>>,
    found: Vec<Entry>,
    found_bytes: usize,
    /// The cached znodes that do not exist, and when they were read.
    absent: BTreeMap<Box<str>, Zxid>,
    /// The pzxids of the znodes whose list of children is another one.
    pzxids: HashMap<Box<str>, Zxid>,
    /// How many requests have no reply.
    unanswered: usize,
    batch_reads_max: usize,
    has_other_history: bool,
}

/// Whether a cache keeps the data of its znodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeepsData {
    Yes,
    No,
}

impl KeepsData {
    /// The form in which a znode is kept that was read.
    pub(crate) fn record(self, stat: &Stat, data: &[u8]) -> Record {
        Record::new(stat, if self == Self::Yes { data } else { &[] })
    }
}

impl Resync {
    /// `batch_reads_max` is how many reads a request has at most.
    pub(crate) fn new(
        selection: Selection,
        keeps_data: KeepsData,
        store: &Store,
        batch_reads_max: usize,
    ) -> Self {
        let root: Box<str> = (*selection.root).into();
        let is_missing = !store.contains(&root);
        Self {
            selection,
            keeps_data,
            cursor: None,
            has_read_cached: false,
            queue: is_missing.then_some(Read::Data(root)).into_iter().collect(),
            exists: VecDeque::new(),
            found: Vec::new(),
            found_bytes: 0,
            absent: BTreeMap::new(),
            pzxids: HashMap::new(),
            unanswered: 0,
            batch_reads_max,
            has_other_history: false,
        }
    }

    /// Whether the server has not the history of the cache: a znode is older than it was.
    pub(crate) fn has_other_history(&self) -> bool {
        self.has_other_history
    }

    /// Whether a znode that is cached did not exist when it was read.
    pub(crate) fn is_absent(&self, path: &str) -> bool {
        self.absent.contains_key(path)
    }

    /// The memory of what was found, about.
    pub(crate) fn found_bytes(&self) -> usize {
        self.found_bytes
    }

    /// Whether everything was read.
    pub(crate) fn is_done(&self) -> bool {
        self.has_read_cached
            && self.unanswered == 0
            && self.queue.is_empty()
            && self.exists.is_empty()
    }

    /// The next request, which must be sent at once, and answered with [`Resync::read`] or
    /// [`Resync::exists`].
    pub(crate) fn next_request(&mut self, store: &Store) -> Option<Request> {
        let request = self.next(store)?;
        self.unanswered += 1;
        Some(request)
    }

    fn next(&mut self, store: &Store) -> Option<Request> {
        let mut batch = Batch::new(self.batch_reads_max);
        while !batch.is_full()
            && let Some(read) = self.queue.pop_front()
        {
            let bytes = expected_bytes(store, read.path());
            batch.add(read, bytes);
        }
        if !self.has_read_cached && !batch.is_full() && self.exists.len() < EXISTS_IN_FLIGHT_MAX {
            self.add_cached(store, &mut batch);
        }
        if !batch.reads.is_empty() {
            return Some(Request::Reads(batch.reads));
        }
        self.exists.pop_front().map(Request::Exists)
    }

    fn add_cached(&mut self, store: &Store, batch: &mut Batch) {
        let mut last = None;
        let mut count = 0;
        for (path, record) in store.iter_after(self.cursor.as_deref()).take(self.batch_reads_max) {
            let length = record.data_length();
            if length >= EXISTS_FROM_BYTES {
                self.exists.push_back(path.into());
            } else {
                batch.add(Read::Data(path.into()), length);
            }
            last = Some(path);
            count += 1;
            if batch.is_full() {
                break;
            }
        }
        self.has_read_cached = count < self.batch_reads_max && !batch.is_full();
        if let Some(last) = last {
            self.cursor = Some(last.into());
        }
    }

    /// Takes the reply to a multiRead, with the zxid in its header.
    pub(crate) fn read(
        &mut self,
        store: &Store,
        read_at: Zxid,
        results: impl Iterator<Item = (Read, ReadResult)>,
    ) {
        self.unanswered -= 1;
        for (read, result) in results {
            match (read, result) {
                (Read::Data(path), ReadResult::Data(data, stat)) => {
                    self.present(store, path, read_at, &stat, &data);
                }
                (Read::Data(path), ReadResult::Missing | ReadResult::Unreadable) => {
                    self.missing(store, path, read_at);
                }
                (Read::Children(path), ReadResult::Children(names)) => {
                    self.listed(store, &path, &names);
                }
                // It was deleted after its Stat was read: there is an event.
                (Read::Children(_), _) | (Read::Data(_), ReadResult::Children(_)) => {}
            }
        }
    }

    /// Takes the reply to an `exists`.
    pub(crate) fn exists(
        &mut self,
        store: &Store,
        path: Box<str>,
        read_at: Zxid,
        stat: Option<&Stat>,
    ) {
        self.unanswered -= 1;
        let Some(stat) = stat else { return self.missing(store, path, read_at) };
        let old = store.get(&path);
        self.compare_history(old, stat);
        match old {
            Some(old) if old.is_unchanged(stat) => {}
            Some(old) if old.czxid() == stat.czxid && old.mzxid() == stat.mzxid => {
                self.children_changed(path, stat);
            }
            _ => self.queue.push_back(Read::Data(path)),
        }
    }

    fn present(&mut self, store: &Store, path: Box<str>, read_at: Zxid, stat: &Stat, data: &[u8]) {
        let old = store.get(&path);
        if old.is_some_and(|old| old.is_unchanged(stat)) {
            return;
        }
        self.compare_history(old, stat);
        let is_same = old.is_some_and(|old| old.czxid() == stat.czxid);
        let has_other_data = old.is_none_or(|old| !is_same || old.mzxid() != stat.mzxid);
        let has_other_children = match old {
            Some(old) => !is_same || old.pzxid() != stat.pzxid,
            None => stat.num_children > 0,
        };
        if has_other_data {
            let zxid = if is_same { stat.mzxid } else { stat.czxid };
            let state = self.keeps_data.record(stat, data);
            self.found_bytes += ZNODE_OVERHEAD_BYTES + path.len() + state.len();
            let what = What::Found { path: path.clone(), read_at, state: Some(state) };
            self.found.push(Entry { zxid: Some(zxid), what });
        }
        if has_other_children {
            self.children_changed(path, stat);
        }
    }

    /// The server has applied all that is in the cache, so that a znode gets no older.
    fn compare_history(&mut self, old: Option<&Record>, stat: &Stat) {
        self.has_other_history |= old.is_some_and(|old| {
            stat.czxid < old.czxid() || stat.czxid == old.czxid() && stat.mzxid < old.mzxid()
        });
    }

    fn missing(&mut self, store: &Store, path: Box<str>, read_at: Zxid) {
        if store.contains(&path) {
            self.absent.insert(path, read_at);
        }
    }

    /// Has the children listed, and notes that they are known once all that was found is applied.
    fn children_changed(&mut self, path: Box<str>, stat: &Stat) {
        if stat.num_children > 0 && self.selection.traverses(&path) {
            self.queue.push_back(Read::Children(path.clone()));
        }
        let what = What::ChildrenKnown { path: path.clone(), czxid: stat.czxid };
        self.found.push(Entry { zxid: Some(stat.pzxid), what });
        self.pzxids.insert(path, stat.pzxid);
    }

    fn listed(&mut self, store: &Store, path: &str, names: &Names) {
        for name in names.iter() {
            let child = child_path(path, name);
            if !store.contains(&child) && self.selection.includes_child(&child) {
                self.queue.push_back(Read::Data(child.into()));
            }
        }
    }

    /// What was found, in the order in which it is to be applied. `deleted` are the deletions of
    /// which events have told.
    pub(crate) fn finish<'a>(
        mut self,
        store: &Store,
        deleted: impl Iterator<Item = (&'a str, Zxid)>,
    ) -> Vec<Entry> {
        // The first deletion of a path after its creation is that of the znode that is cached.
        let mut first: HashMap<&str, Zxid> = HashMap::new();
        for (path, zxid) in deleted {
            if store.get(path).is_some_and(|old| old.czxid() < zxid) {
                first.entry(path).or_insert(zxid);
            }
        }
        for (path, &read_at) in &self.absent {
            // The event has the zxid of the deletion.
            if first.get(&**path).is_some_and(|zxid| *zxid <= read_at) {
                continue;
            }
            let zxid = self.deletion_bound(store, path, read_at);
            let what = What::Found { path: path.clone(), read_at, state: None };
            self.found.push(Entry { zxid: Some(zxid), what });
        }
        self.found.sort_by_cached_key(|entry| (entry.zxid, rank(&entry.what)));
        self.found
    }

    /// A zxid that is not before the deletion of a path, and as near as is known: the pzxid of the
    /// nearest ancestor that still exists.
    fn deletion_bound(&self, store: &Store, path: &str, read_at: Zxid) -> Zxid {
        let mut below = path;
        while let Some(ancestor) = self.selection.parent(below) {
            below = ancestor;
            if self.absent.contains_key(ancestor) {
                continue;
            }
            let pzxid = match (self.pzxids.get(ancestor), store.get(ancestor)) {
                (Some(pzxid), _) => *pzxid,
                (None, Some(record)) => record.pzxid(),
                (None, None) => read_at,
            };
            return pzxid.min(read_at);
        }
        read_at
    }
}

/// The order of entries with the same zxid: a znode is deleted after its descendants and created
/// before them. The path of a descendant is longer.
fn rank(what: &What) -> (u8, i64) {
    let length = |path: &str| i64::try_from(path.len()).unwrap_or(i64::MAX);
    match what {
        What::Deleted { path } | What::Found { path, state: None, .. } => (0, -length(path)),
        What::Read { path, .. } | What::Found { path, .. } => (1, length(path)),
        What::ChildrenKnown { path, .. } => (2, length(path)),
        What::Mark { .. } => (3, 0),
    }
}

/// The result of one read of a multiRead.
#[derive(Debug)]
pub(crate) enum ReadResult {
    Data(bytes::Bytes, Stat),
    Children(Names),
    /// The znode does not exist.
    Missing,
    /// The session may not read the znode.
    Unreadable,
}
