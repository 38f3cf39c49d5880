//! What is counted for one namespace: a top-level znode with all below it (`PathUtils`).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use zoolet_core::{Txn, TxnOp};
use zoolet_protocol::{ErrorCode, MultiOp, MultiReadOp, MultiResult, Names, Response, Write};

use crate::limits::NAMESPACES_MAX;
use crate::measure::{Counter, Repeats, Summary};

/// What ZooKeeper adds to the bytes of a read for the Stat (`DataTree.STAT_OVERHEAD_BYTES`).
const STAT_BYTES: usize = 68;

/// The counters of all namespaces, up to [`NAMESPACES_MAX`].
#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    counters: DashMap<Box<str>, Arc<NamespaceCounters>>,
    /// How many there are. The map's own count locks all its parts, and beyond the limit every request
    /// would ask for it.
    count: AtomicUsize,
    /// The reads and writes in namespaces beyond the limit.
    pub(crate) left_out: Counter,
}

/// The counters of one namespace.
#[derive(Debug)]
pub(crate) struct NamespaceCounters {
    name: Box<str>,
    /// The bytes of each read.
    pub(crate) reads: Summary,
    /// The bytes of each write.
    pub(crate) writes: Summary,
    pub(crate) quota_exceeded: Counter,
}

/// The namespace that a connection has used last: mostly it is the next one, too. What was counted is
/// told with the next other value, by [`LastNamespace::tell`], or when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct LastNamespace {
    counters: Option<Arc<NamespaceCounters>>,
    counted: Repeats<(Access, u64)>,
}

/// Which of the summaries of a namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Access {
    #[default]
    Read,
    Write,
}

impl LastNamespace {
    fn record(&mut self, access: Access, bytes: u64) {
        let before = self.counted.add((access, bytes), 1);
        self.tell_of(before);
    }

    /// Tells what was counted to those who read the counters.
    pub(crate) fn tell(&mut self) {
        let counted = self.counted.take();
        self.tell_of(counted);
    }

    fn tell_of(&self, counted: Option<((Access, u64), u64)>) {
        if let (Some(((access, bytes), times)), Some(counters)) = (counted, &self.counters) {
            let summary = match access {
                Access::Read => &counters.reads,
                Access::Write => &counters.writes,
            };
            summary.record_times(bytes, times);
        }
    }
}

impl Drop for LastNamespace {
    fn drop(&mut self) {
        self.tell();
    }
}

impl NamespaceCounters {
    fn new(name: &str) -> Self {
        let (reads, writes) = (Summary::default(), Summary::default());
        Self { name: name.into(), reads, writes, quota_exceeded: Counter::default() }
    }

    /// Whether a path is in this namespace.
    fn contains(&self, path: &str) -> bool {
        let (name, path) = (self.name.as_bytes(), path.as_bytes());
        let end = 1 + name.len();
        path.get(1..end) == Some(name) && path.get(end).is_none_or(|next| *next == b'/')
    }
}

/// The namespace of a path; `None` for the root.
fn namespace(path: &str) -> Option<&str> {
    let name = path.strip_prefix('/')?.split('/').next()?;
    (!name.is_empty()).then_some(name)
}

impl Namespaces {
    /// The counters of the namespace of a path; `None` for the root, and beyond the limit.
    fn of(&self, path: &str) -> Option<Arc<NamespaceCounters>> {
        let name = namespace(path)?;
        if let Some(known) = self.counters.get(name) {
            return Some(Arc::clone(&known));
        }
        if self.count.load(Ordering::Relaxed) < NAMESPACES_MAX {
            match self.counters.entry(name.into()) {
                Entry::Occupied(known) => return Some(Arc::clone(known.get())),
                Entry::Vacant(place) if self.count_one_more() => {
                    return Some(Arc::clone(&place.insert(Arc::new(NamespaceCounters::new(name)))));
                }
                Entry::Vacant(_) => {}
            }
        }
        self.left_out.add(1);
        None
    }

    /// Counts a namespace that is about to be added, unless there are as many as there may be.
    fn count_one_more(&self) -> bool {
        let one_more = |count: usize| (count < NAMESPACES_MAX).then_some(count + 1);
        self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// Counts the lookups of a multiRead.
    pub(crate) fn read_multi(
        &self,
        last: &mut LastNamespace,
        ops: &[MultiReadOp],
        reply: &Response,
    ) {
        let Response::Multi(results) = reply else { return };
        for (op, result) in ops.iter().zip(results) {
            let bytes = match result {
                MultiResult::Data(data, _) => data.as_ref().map_or(0, bytes::Bytes::len),
                MultiResult::Children(names) => name_bytes(names),
                _ => continue,
            };
            self.looked_up(last, op.path().text().unwrap_or_default(), bytes);
        }
    }

    /// Counts a lookup that was answered with so many [`bytes_of`] a znode.
    pub(crate) fn looked_up(&self, last: &mut LastNamespace, path: &str, bytes: usize) {
        if self.is_known(last, path) {
            last.record(Access::Read, (path.len() + bytes + STAT_BYTES) as u64);
        }
    }

    /// Whether the namespace of a path has counters. Then it becomes the last one of the connection.
    #[inline]
    fn is_known(&self, last: &mut LastNamespace, path: &str) -> bool {
        if last.counters.as_ref().is_some_and(|known| known.contains(path)) {
            return true;
        }
        let Some(counters) = self.of(path) else { return false };
        last.tell();
        last.counters = Some(counters);
        true
    }

    /// Counts what a transaction writes.
    pub(crate) fn wrote(&self, last: &mut LastNamespace, txn: &Txn) {
        match &txn.op {
            TxnOp::CloseSession { paths } => {
                paths.iter().for_each(|path| self.write(last, path, 0));
            }
            // The others are one operation each, which need not be made a list.
            TxnOp::Multi(_) => {
                txn.op.single_operations().iter().for_each(|op| self.wrote_op(last, op));
            }
            op => self.wrote_op(last, op),
        }
    }

    fn wrote_op(&self, last: &mut LastNamespace, op: &TxnOp) {
        let length = |data: Option<&[u8]>| data.map_or(0, <[u8]>::len);
        match op {
            TxnOp::Create(create) => self.write(last, &create.path, length(create.data.as_deref())),
            TxnOp::SetData { path, data, .. } => self.write(last, path, length(data.as_deref())),
            TxnOp::Delete { path } | TxnOp::DeleteContainer { path } => self.write(last, path, 0),
            _ => {}
        }
    }

    fn write(&self, last: &mut LastNamespace, path: &str, bytes: usize) {
        if self.is_known(last, path) {
            last.record(Access::Write, (path.len() + bytes) as u64);
        }
    }

    /// Counts a write that a quota refuses.
    pub(crate) fn refused(&self, write: &Write, txn: &Txn) {
        let is_exceeded = |op: &TxnOp| matches!(op, TxnOp::Error(ErrorCode::QUOTA_EXCEEDED));
        let op = match (write, &txn.op) {
            (Write::Op(op), txn) if is_exceeded(txn) => op,
            (Write::Multi(ops), TxnOp::Multi(decided)) => {
                let refused = ops.iter().zip(decided).find(|(_, txn)| is_exceeded(txn));
                let Some((op, _)) = refused else { return };
                op
            }
            _ => return,
        };
        if let Some(counters) = self.of(MultiOp::path(op).text().unwrap_or_default()) {
            counters.quota_exceeded.add(1);
        }
    }

    /// All namespaces, by name.
    pub(crate) fn all(&self) -> Vec<(String, Arc<NamespaceCounters>)> {
        let all = self.counters.iter();
        let mut all: Vec<_> =
            all.map(|entry| (entry.key().to_string(), Arc::clone(entry.value()))).collect();
        all.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        all
    }

    /// Calls `visit` with each summary.
    pub(super) fn each(&self, visit: impl Fn(&Summary)) {
        for entry in &self.counters {
            visit(&entry.reads);
            visit(&entry.writes);
        }
    }

    pub(super) fn reset(&self) {
        self.each(Summary::reset);
        self.left_out.reset();
        for entry in &self.counters {
            entry.quota_exceeded.reset();
        }
    }
}

/// The bytes of a znode that the reply to a lookup shows.
pub(crate) fn bytes_of(response: &Response) -> usize {
    match response {
        Response::Data(data, _) => data.as_ref().map_or(0, bytes::Bytes::len),
        Response::Names(names) | Response::NamesStat(names, _) => name_bytes(names),
        _ => 0,
    }
}

/// The bytes of all names of a list.
fn name_bytes(names: &Names) -> usize {
    use zoolet_protocol::Encode;

    // The list and each name begin with a length of four bytes.
    names.encoded_len() - 4 * (names.len() + 1)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn a_namespace_is_the_first_name_of_a_path() {
        assert_eq!(namespace("/a/b/c"), Some("a"));
        assert_eq!(namespace("/a"), Some("a"));
        assert_eq!(namespace("/"), None);
        assert_eq!(namespace(""), None);
    }

    #[test]
    fn clients_cannot_make_the_server_count_any_number_of_namespaces() {
        let namespaces = Namespaces::default();
        for number in 0..NAMESPACES_MAX + 7 {
            namespaces.write(&mut LastNamespace::default(), &format!("/job-{number}"), 1);
        }
        assert_eq!(namespaces.all().len(), NAMESPACES_MAX);
        assert_eq!(namespaces.left_out.value(), 7);
    }

    #[test]
    fn the_limit_holds_for_namespaces_that_are_used_first_at_the_same_time() {
        const THREADS: usize = 8;
        for _ in 0..100 {
            let namespaces = Namespaces::default();
            for number in 0..NAMESPACES_MAX - 1 {
                namespaces.write(&mut LastNamespace::default(), &format!("/job-{number}"), 1);
            }
            let start = Barrier::new(THREADS);
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    let (namespaces, start) = (&namespaces, &start);
                    scope.spawn(move || {
                        start.wait();
                        namespaces.write(
                            &mut LastNamespace::default(),
                            &format!("/new-{thread}"),
                            1,
                        );
                    });
                }
            });
            assert_eq!(namespaces.all().len(), NAMESPACES_MAX);
            assert_eq!(namespaces.left_out.value(), THREADS as u64 - 1);
        }
    }

    #[test]
    fn a_connection_changes_its_namespace() {
        let (namespaces, mut last) = (Namespaces::default(), LastNamespace::default());
        for path in ["/a", "/a/b", "/ab", "/a", "/"] {
            namespaces.looked_up(&mut last, path, 10);
        }
        last.tell();
        let all = namespaces.all();
        let sums = all.iter().map(|(name, counters)| {
            let reads = counters.reads.summarise(crate::measure::Window::All);
            (name.as_str(), reads.count, reads.sum)
        });
        assert_eq!(sums.collect::<Vec<_>>(), [("a", 3, 3 * 78 + 2 + 4 + 2), ("ab", 1, 78 + 3)]);
    }
}
