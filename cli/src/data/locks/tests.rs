//! What is told of the locks of common libraries, from their transactions.

mod counts;
mod long_log;
mod model;
mod semaphores;

use bytes::Bytes;
use zoolet_core::{Core, CreateTxn, Data, Settings, Txn, TxnOp};
use zoolet_layouts::Recipe;
use zoolet_protocol::{Acl, CreateKind, SessionId, Xid, ZPath, Zxid};
use zoolet_server::storage::history::{DeletedZnode, Moment};

use super::hold::{Cause, Hold, Lock};
use super::watch::Watch;
use crate::data::replay::Witness;
use crate::data::sessions::Closer;

fn path(text: &str) -> ZPath {
    ZPath::parse(text).expect("a legal path")
}

/// Holds with the paths of their locks, in the order of their ends.
type Holds = Vec<(String, Hold)>;

/// A log in the making: each transaction comes 100 ms after the one before.
struct Log {
    core: Core,
    txns: Vec<Txn>,
}

impl Log {
    fn new() -> Self {
        Self { core: Core::new(Settings::default()), txns: Vec::new() }
    }

    /// A mutex that one holds for which another one waits, until both have released it.
    fn handed_over() -> Self {
        Self::new()
            .create(0, "/a")
            .create(1, "/a/lock-0000000000")
            .create(2, "/a/lock-0000000001")
            .delete(1, "/a/lock-0000000000")
            .delete(2, "/a/lock-0000000001")
    }

    fn then(mut self, session: i64, cxid: i32, op: TxnOp) -> Self {
        let count = self.txns.len() as i64;
        let (zxid, time_ms) = (Zxid(count + 1), 100 * count);
        let txn = Txn { session: SessionId(session), cxid: Xid(cxid), zxid, time_ms, op };
        self.core.apply(&txn);
        self.txns.push(txn);
        self
    }

    fn create(self, session: i64, at: &str) -> Self {
        let op = creation(at, session != 0, "");
        self.then(session, 5, op)
    }

    fn delete(self, session: i64, at: &str) -> Self {
        self.then(session, 6, TxnOp::Delete { path: path(at) })
    }

    fn close(self, session: i64, paths: &[&str]) -> Self {
        let paths = paths.iter().copied().map(path).collect();
        self.then(session, 7, TxnOp::CloseSession { paths })
    }

    fn expire(self, session: i64, paths: &[&str]) -> Self {
        let paths = paths.iter().copied().map(path).collect();
        self.then(session, 0, TxnOp::CloseSession { paths })
    }

    /// What is told of it.
    fn told(&self) -> (Holds, Vec<(String, Lock)>) {
        self.told_after(0)
    }

    /// What is told with the first transactions in the snapshot only.
    fn told_after(&self, first: usize) -> (Holds, Vec<(String, Lock)>) {
        self.told_from(first, first, &[])
    }

    /// What is told with a snapshot that was begun after the first transactions, and holds more of them.
    fn told_from(
        &self,
        first: usize,
        held: usize,
        deleted: &[DeletedZnode],
    ) -> (Holds, Vec<(String, Lock)>) {
        let mut holds = Vec::new();
        let mut watch = Watch::new(
            "/",
            Some(Box::new(|path, hold| {
                holds.push((path.to_owned(), hold.clone()));
                Ok(())
            })),
        );
        let mut base = Core::new(Settings::default());
        self.txns[..held].iter().for_each(|txn| drop(base.apply(txn)));
        watch.begin(&base, Zxid(first as i64), deleted).expect("nothing is written");
        for txn in &self.txns[first..] {
            watch.txn(txn).expect("nothing is written");
        }
        let (locks, _) = watch.into_told();
        (holds, locks.into_iter().map(|told| (told.path, told.lock)).collect())
    }
}

fn creation(at: &str, ephemeral: bool, data: &str) -> TxnOp {
    TxnOp::Create(CreateTxn {
        kind: CreateKind::Create,
        path: path(at),
        data: Some(Data::copied(data.as_bytes())),
        acl: [Acl::open()].into(),
        ephemeral,
        parent_cversion: CreateTxn::PARENT_CVERSION_UNKNOWN,
    })
}

/// Session, time since which it held, time until, and the session that had it next.
fn short(holds: &[(String, Hold)]) -> Vec<(i64, i64, i64, i64)> {
    let of = |(_, hold): &(String, Hold)| {
        let since = hold.held.since.map_or(-1, |since| since.time_ms);
        (hold.held.session.0, since, hold.until.time_ms, hold.next.map_or(0, |next| next.0))
    };
    holds.iter().map(of).collect()
}

#[test]
fn a_mutex_goes_from_one_to_the_next() {
    let log = Log::new()
        .create(0, "/a")
        .create(1, "/a/lock-0000000000")
        .create(2, "/a/lock-0000000001")
        .create(3, "/a/lock-0000000002")
        .create(4, "/a/lock-0000000003")
        .delete(1, "/a/lock-0000000000")
        // The third gives up, and the second loses its session: the fourth has it.
        .delete(3, "/a/lock-0000000002")
        .expire(2, &["/a/lock-0000000001"])
        .delete(9, "/a/lock-0000000003")
        .create(1, "/a/lock-0000000004")
        .close(1, &["/a/lock-0000000004"])
        .create(5, "/a/lock-0000000005");
    let (holds, locks) = log.told();
    let expected = [(1, 100, 500, 2), (2, 500, 700, 4), (4, 700, 800, 0), (1, 900, 1_000, 0)];
    assert_eq!(short(&holds), expected);
    let causes: Vec<_> = holds.iter().map(|(_, hold)| hold.cause).collect();
    let expected = [
        Cause::Released,
        Cause::Ended(Closer::Server),
        Cause::Removed(SessionId(9)),
        Cause::Ended(Closer::Client),
    ];
    assert_eq!(causes, expected);
    let [(at, lock)] = &locks[..] else { panic!("one lock: {locks:?}") };
    assert_eq!((at.as_str(), lock.recipe, lock.holds), ("/a", Recipe::Mutex, 5));
    assert_eq!((lock.waits.count, lock.waits.max_ms(), lock.held.count), (5, 300, 4));
    assert_eq!((lock.handed_over, lock.free.count, lock.free.max_ms()), (2, 2, 100));
    assert_eq!((lock.aborted.count, lock.aborted.max_ms(), lock.aborted_by_end), (1, 300, 0));
    assert_eq!((lock.expired, lock.removed, lock.expiries.len()), (1, 1, 1));
    assert_eq!(lock.holding.len(), 1);
    assert_eq!(lock.longest_held[0].held_ms(), Some(400));
    assert_eq!(lock.longest_waited[0].waited_ms(), Some(300));
}

#[test]
fn one_that_waits_behind_a_closed_session_does_not_hold_before_its_turn() {
    let log = Log::new()
        .create(0, "/a")
        .create(1, "/a/lock-0000000000")
        .create(2, "/a/lock-0000000001")
        .expire(2, &["/a/lock-0000000001"]);
    let (holds, locks) = log.told();
    assert!(holds.is_empty(), "{holds:?}");
    let lock = &locks[0].1;
    assert_eq!((lock.aborted.count, lock.aborted_by_end, lock.expired), (1, 1, 0));
}

/// ZooKeeper before 3.6 does not log what the end of a session deletes.
#[test]
fn the_end_of_a_session_deletes_its_places_though_the_record_names_none() {
    let log = Log::new()
        .create(0, "/a")
        .create(1, "/a/lock-0000000000")
        .create(2, "/a/lock-0000000001")
        .expire(1, &[])
        .close(2, &[]);
    assert_eq!(short(&log.told().0), [(1, 100, 300, 2), (2, 300, 400, 0)]);
    assert_eq!(short(&log.told_after(3).0), [(1, -1, 300, 2), (2, 300, 400, 0)]);
}

#[test]
fn readers_hold_together_and_writers_alone() {
    let log = Log::new()
        .create(0, "/rw")
        .create(1, "/rw/__READ__0000000000")
        .create(2, "/rw/__READ__0000000001")
        .create(3, "/rw/__WRIT__0000000002")
        .create(4, "/rw/__READ__0000000003")
        .delete(1, "/rw/__READ__0000000000")
        .delete(2, "/rw/__READ__0000000001")
        .delete(3, "/rw/__WRIT__0000000002")
        .delete(4, "/rw/__READ__0000000003");
    let (holds, locks) = log.told();
    let expected = [(1, 100, 500, 0), (2, 200, 600, 3), (3, 600, 700, 4), (4, 700, 800, 0)];
    assert_eq!(short(&holds), expected);
    assert_eq!((locks.len(), locks[0].1.recipe), (1, Recipe::ReadWriteLock));
}

/// A snapshot of ZooKeeper's may hold what the records after it do once more.
#[test]
fn what_a_snapshot_holds_too_early_is_told_once() {
    let log = Log::handed_over();
    for held in 1..=5 {
        let (holds, _) = log.told_from(1, held, &[]);
        assert_eq!(holds.len(), 2, "a snapshot that holds {held}");
    }
}

/// As in a snapshot that ZooKeeper wrote while the holder released the lock.
#[test]
fn a_holder_that_a_snapshot_lacks_held_until_it_released() {
    let log = Log::handed_over();
    let released = DeletedZnode {
        path: path("/a/lock-0000000000"),
        session: SessionId(1),
        is_by_end_of_session: false,
        at: Moment::of(&log.txns[3]),
    };
    let (holds, _) = log.told_from(3, 4, &[released]);
    assert_eq!(short(&holds), short(&log.told_after(3).0));
}

#[test]
fn many_locks_of_few_holds_are_told_together() {
    let mut log = Log::new().create(0, "/a");
    for number in 0..4_100 {
        log = log.create(1, &format!("/order-{number}/lock-0000000000"));
        log = log.delete(1, &format!("/order-{number}/lock-0000000000"));
    }
    let mut watch = Watch::new("/", None);
    for txn in &log.txns {
        watch.txn(txn).expect("nothing is written");
    }
    let (locks, others) = watch.into_told();
    let (count, others) = others.expect("there are too many");
    assert!(locks.len() < 4_000 && others.holds == count.locks);
    assert_eq!(locks.len() as u64 + count.locks, 4_100);
}

/// Each change costs about its own size: with all pairs, this takes minutes.
#[test]
fn many_readers_and_many_permits_come_and_go() {
    const MANY: i64 = 20_000;
    let mut log = Log::new().create(0, "/rw").create(0, "/pool").create(0, "/pool/leases");
    let places = |session: i64| {
        let reader = format!("/rw/__READ__{session:010}");
        [reader, format!("/pool/leases/lease-{session:010}")]
    };
    for session in 1..=MANY {
        for at in places(session) {
            log = log.create(session, &at);
        }
    }
    log = log.create(MANY + 1, "/rw/__WRIT__0000030000");
    for session in 1..=MANY {
        for at in places(session) {
            log = log.delete(session, &at);
        }
    }
    let (holds, locks) = log.told();
    assert_eq!(holds.len() as i64, 2 * MANY);
    let last_reader = holds.iter().rfind(|(at, _)| at == "/rw").expect("there are some");
    assert_eq!(last_reader.1.next, Some(SessionId(MANY + 1)));
    let left = holds.iter().filter(|(at, hold)| at == "/rw" && hold.left.holding == 0).count();
    assert_eq!((left, locks.len()), (1, 2));
}

#[test]
fn many_locks_that_are_held_are_all_told() {
    let mut log = Log::new().create(0, "/a");
    for number in 0..12_000 {
        log = log.create(1, &format!("/order-{number}/lock-0000000000"));
    }
    assert_eq!(log.told().1.len(), 12_000);
}

/// A damaged or malicious file may have any time.
#[test]
fn the_greatest_times_are_no_error() {
    let mut log = Log::handed_over();
    for (txn, time_ms) in log.txns.iter_mut().zip([0, i64::MIN, i64::MIN, i64::MAX, i64::MIN]) {
        txn.time_ms = time_ms;
    }
    let (holds, locks) = log.told();
    assert_eq!((holds.len(), locks[0].1.held.max_ms()), (2, i64::MAX as u64));
}
