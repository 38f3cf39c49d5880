//! The past that logs and snapshots tell: the same records as recovery reads, the state after each of them,
//! and what is missing.

use std::path::Path;
use std::sync::Arc;

use bytes::BytesMut;
use zoolet_core::{Core, CreateTxn, Data, Frozen, Settings, Txn, TxnOp, Znode};
use zoolet_protocol::{Acl, CreateKind, SessionId, Xid, ZPath, Zxid};
use zoolet_server::storage::history::{
    Damage, Ended, Gap, Gaps, History, HistoryError, Records, Until,
};
use zoolet_server::storage::{
    Disk, Inspection, LogReader, MemDisk, StorageConfig, StorageError, encode_log_record,
    write_snapshot,
};

/// A log that Apache ZooKeeper 3.8 wrote, with every kind of a record.
const APACHE: &[u8] = include_bytes!("data/apache-3.8.log");

const HEADER: &[u8] = b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0";

struct Files(Arc<MemDisk>);

impl Files {
    fn new() -> Self {
        Self(Arc::new(MemDisk::default()))
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        let path = Path::new("/data/version-2").join(name);
        self.0.create(&path).expect("memory takes it").write_all(bytes).expect("memory takes it");
    }

    fn remove(&self, name: &str) {
        self.0.remove(&Path::new("/data/version-2").join(name)).expect("it is there");
    }

    fn config(&self) -> StorageConfig {
        let disk: Arc<MemDisk> = Arc::clone(&self.0);
        StorageConfig { disk, ..StorageConfig::at("/data") }
    }

    fn history(&self) -> History {
        History::open(&self.config()).expect("the directory can be listed")
    }

    fn past(&self, zxid: i64) -> Result<Vec<Znode>, HistoryError> {
        Ok(owned(&self.history().past(Until::Zxid(Zxid(zxid)))?.state()))
    }
}

fn owned(state: &Frozen) -> Vec<Znode> {
    state.znodes().into_iter().cloned().collect()
}

fn path(path: &str) -> ZPath {
    ZPath::parse(path).expect("a legal path")
}

/// Transactions, and the state after each; the first state is that of a new server.
struct Tale {
    core: Core,
    txns: Vec<Txn>,
    states: Vec<Vec<Znode>>,
    frozen: Vec<Frozen>,
}

/// The time of the first transaction; each one comes a second after the one before.
const BEGIN_MS: i64 = 1_700_000_000_000;

impl Tale {
    fn new() -> Self {
        let core = Core::new(Settings::default());
        let frozen = core.freeze();
        Self { core, txns: Vec::new(), states: vec![owned(&frozen)], frozen: vec![frozen] }
    }

    fn then(mut self, session: i64, op: TxnOp) -> Self {
        let count = self.txns.len() as i64;
        let txn = Txn {
            session: SessionId(session),
            cxid: Xid(7),
            zxid: Zxid(count + 1),
            time_ms: BEGIN_MS + 1_000 * count,
            op,
        };
        self.core.apply(&txn);
        self.txns.push(txn);
        let frozen = self.core.freeze();
        self.states.push(owned(&frozen));
        self.frozen.push(frozen);
        self
    }

    fn session(self, session: i64) -> Self {
        self.then(session, TxnOp::CreateSession { timeout_ms: 30_000 })
    }

    fn create(self, session: i64, at: &str, ephemeral: bool) -> Self {
        let create = CreateTxn {
            kind: CreateKind::Create,
            path: path(at),
            data: Some(Data::copied(at.as_bytes())),
            acl: [Acl::open()].into(),
            ephemeral,
            parent_cversion: CreateTxn::PARENT_CVERSION_UNKNOWN,
        };
        self.then(session, TxnOp::Create(create))
    }

    fn delete(self, session: i64, at: &str) -> Self {
        self.then(session, TxnOp::Delete { path: path(at) })
    }

    fn log(&self, zxids: std::ops::RangeInclusive<usize>) -> Vec<u8> {
        let mut log = BytesMut::from(HEADER);
        for txn in &self.txns[zxids.start() - 1..*zxids.end()] {
            encode_log_record(txn, &mut log);
        }
        log.to_vec()
    }

    fn snapshot(&self, zxid: usize) -> Vec<u8> {
        let mut file = Vec::new();
        write_snapshot(&self.frozen[zxid], &mut file).expect("memory takes it");
        file
    }
}

fn some_tale() -> Tale {
    Tale::new()
        .session(1)
        .create(1, "/a", false)
        .create(1, "/a/mine", true)
        .session(2)
        .create(2, "/a/other", true)
        .then(1, TxnOp::SetData { path: path("/a"), data: None, version: 1 })
        .then(1, TxnOp::CloseSession { paths: vec![path("/a/mine")] })
        .delete(2, "/a/other")
        .create(2, "/a/last", false)
}

#[test]
fn each_state_of_the_past_is_the_one_that_was() {
    let tale = some_tale();
    // By one log, by two and snapshots, and with a snapshot that is no base for what is before it.
    let whole = Files::new();
    whole.put("log.1", &tale.log(1..=9));
    let parts = Files::new();
    parts.put("snapshot.0", &tale.snapshot(0));
    parts.put("log.1", &tale.log(1..=4));
    parts.put("snapshot.4", &tale.snapshot(4));
    parts.put("log.5", &tale.log(5..=9));
    parts.put("snapshot.8", &tale.snapshot(8));
    for files in [whole, parts] {
        for zxid in 1..=9 {
            let past = files.past(zxid).expect("the files have it");
            assert_eq!(past, tale.states[zxid as usize], "after {zxid}");
            let time = Until::Time(BEGIN_MS + 1_000 * (zxid - 1) + 999);
            let past = files.history().past(time).expect("the files have it");
            assert_eq!(owned(&past.state()), tale.states[zxid as usize], "at the time of {zxid}");
            assert_eq!((past.zxid(), past.is_newest()), (Zxid(zxid), zxid == 9));
        }
    }
}

#[test]
fn what_the_files_do_not_have_is_an_error_that_names_what_they_have() {
    let tale = some_tale();
    let files = Files::new();
    let error = |files: &Files, until| match files.history().past(until) {
        Ok(past) => panic!("a state: {past:?}"),
        Err(error) => error.to_string(),
    };
    let empty = error(&files, Until::Zxid(Zxid(1)));
    assert!(empty.contains("neither logs nor snapshots in /data/version-2"), "{empty}");

    files.put("log.5", &tale.log(5..=9));
    let missing = error(&files, Until::Zxid(Zxid(6)));
    assert!(missing.contains("there is no snapshot, and the logs begin with 0x5, in"), "{missing}");

    files.put("snapshot.4", &tale.snapshot(4));
    let known = "the files have the states from 0x4 to 0x9 (2023-11-14T22:13:28.000Z)";
    let beyond = error(&files, Until::Zxid(Zxid(10)));
    assert_eq!(beyond, format!("there is no transaction 0xa yet: {known}"));
    let before = error(&files, Until::Zxid(Zxid(3)));
    assert!(
        before.starts_with(&format!("the files do not reach back to 0x3: {known}")),
        "{before}"
    );
    let before = error(&files, Until::Time(BEGIN_MS));
    assert!(before.contains("reach back to 2023-11-14T22:13:20.000Z: "), "{before}");

    // A log is missing between the snapshot and the rest.
    files.remove("log.5");
    files.put("log.7", &tale.log(7..=9));
    let gap = error(&files, Until::Zxid(Zxid(8)));
    assert!(gap.contains("the transaction 0x7 follows 0x4, and none between is in any"), "{gap}");
    let mut records = files.history().records(Zxid::ZERO, Gaps::Tell);
    let mut zxids = Vec::new();
    while let Some(record) = records.next_record().expect("it is told") {
        zxids.push(record.txn.zxid.0);
    }
    assert_eq!(zxids, [7, 8, 9]);
    let base = files.history().oldest_base();
    assert!(matches!(base, Err(HistoryError::NoSnapshot { .. })), "{base:?}");
}

#[test]
fn a_file_that_was_purged_meanwhile_is_named() {
    let tale = some_tale();
    let files = Files::new();
    files.put("log.1", &tale.log(1..=9));
    let history = files.history();
    files.remove("log.1");
    let error = history.past(Until::Zxid(Zxid(2))).expect_err("it is gone");
    assert!(
        matches!(&error, HistoryError::Vanished { path } if path.ends_with("log.1")),
        "{error}"
    );
}

/// The zxids of the records that have not been read yet.
fn zxids(records: &mut Records) -> Vec<i64> {
    let next = || records.next_record().expect("it can be read");
    std::iter::from_fn(next).map(|record| record.txn.zxid.0).collect()
}

#[test]
fn a_torn_end_is_told_and_what_is_written_later_is_read_on() {
    let tale = some_tale();
    let files = Files::new();
    let log = tale.log(1..=4);
    files.put("log.1", &log[..log.len() - 3]);
    let mut records = files.history().records(Zxid::ZERO, Gaps::Refuse);
    assert_eq!(zxids(&mut records), [1, 2, 3]);
    assert!(matches!(records.ended(), Ended::Torn { .. }), "{records:?}");
    files.put("log.1", &[&log[..], &[0; 5_000]].concat());
    records.resume().expect("it is there");
    assert_eq!(zxids(&mut records), [4]);
    assert_eq!(*records.ended(), Ended::Whole);
    records.resume().expect("it is there");
    assert_eq!(zxids(&mut records), [0_i64; 0]);
    files.put("log.1", &tale.log(1..=5));
    files.put("log.6", &tale.log(6..=9));
    records.resume().expect("it is there");
    assert_eq!(zxids(&mut records), [5, 6, 7, 8, 9]);
}

/// A server creates the file of a log before it writes to it.
#[test]
fn a_log_that_is_not_written_yet_is_read_when_it_is() {
    let tale = some_tale();
    let files = Files::new();
    files.put("log.1", &tale.log(1..=4));
    files.put("log.5", &[]);
    let mut records = files.history().records(Zxid::ZERO, Gaps::Refuse);
    assert_eq!(zxids(&mut records), [1, 2, 3, 4]);
    for (name, bytes, expected) in [
        ("log.5", vec![0; 64], vec![]),
        ("log.5", tale.log(5..=6), vec![5, 6]),
        ("log.7", tale.log(7..=9), vec![7, 8, 9]),
    ] {
        files.put(name, &bytes);
        records.resume().expect("it is there");
        assert_eq!(zxids(&mut records), expected, "{name}");
    }
}

#[test]
fn the_oldest_state_is_that_before_the_first_transaction_if_the_logs_have_it() {
    let tale = some_tale();
    let files = Files::new();
    files.put("log.1", &tale.log(1..=9));
    files.put("snapshot.4", &tale.snapshot(4));
    let base = files.history().oldest_base().expect("there is one");
    assert_eq!((base.after, base.snapshot), (Zxid::ZERO, None));
    files.put("snapshot.0", b"no snapshot");
    let base = files.history().oldest_base().expect("there is one");
    assert_eq!((base.after, base.unusable.len()), (Zxid::ZERO, 1));
    let base = files.history().base_from(Zxid(3)).expect("there is one");
    assert_eq!(base.after, Zxid(4));
}

/// The state at a time is that before the first transaction that was decided later, by whatever clock.
#[test]
fn a_clock_that_goes_back_leads_to_no_later_state() {
    let mut tale = some_tale();
    for (txn, seconds) in tale.txns.iter_mut().zip([0, 1, 2, 30, 4, 5, 6, 7, 8]) {
        txn.time_ms = BEGIN_MS + 1_000 * seconds;
    }
    let files = Files::new();
    files.put("log.1", &tale.log(1..=4));
    files.put("log.5", &tale.log(5..=9));
    let at = |seconds: i64| {
        let past = files.history().past(Until::Time(BEGIN_MS + 1_000 * seconds));
        let past = past.expect("the logs go back to it");
        (past.zxid().0, past.went_back().map(|back| back.zxid.0))
    };
    assert_eq!(at(1), (2, None));
    assert_eq!(at(3), (3, None));
    assert_eq!(at(5), (3, Some(6)), "0x4 was decided after that");
    assert_eq!(at(29), (3, Some(9)));
    assert_eq!(at(30), (9, None));
}

/// As in the log of a leader that was cut off, and got the state of the next epoch as a snapshot.
#[test]
fn an_epoch_that_does_not_begin_with_its_first_transaction_lacks_some() {
    let gaps = |zxids: &[i64]| {
        let mut tale = some_tale();
        for (txn, zxid) in tale.txns.iter_mut().zip(zxids) {
            txn.zxid = Zxid(*zxid);
        }
        let files = Files::new();
        files.put("log.1", &tale.log(1..=zxids.len()));
        salvaged(&files).2
    };
    let second = 1 << 32;
    assert_eq!(gaps(&[1, 2, second + 1, second + 2]), []);
    let gap = Gap { after: Zxid(2), found: Zxid(second + 6) };
    assert_eq!(gaps(&[1, 2, second + 6, second + 7]), [gap]);
}

/// All that can be read of a log, however it is damaged.
fn salvaged(files: &Files) -> (Vec<i64>, Vec<Damage>, Vec<Gap>) {
    let (mut zxids, mut damages) = (Vec::new(), Vec::new());
    let mut records = files.history().records(Zxid::ZERO, Gaps::Tell);
    loop {
        match records.next_record() {
            Ok(Some(record)) => zxids.push(record.txn.zxid.0),
            Ok(None) => return (zxids, damages, records.gaps().to_vec()),
            Err(error) => match records.pass_over(&error).expect("it can be read") {
                Some(damage) => damages.push(damage),
                None => return (zxids, damages, records.gaps().to_vec()),
            },
        }
    }
}

#[test]
fn the_records_behind_a_damage_are_found_again() {
    let tale = some_tale();
    let files = Files::new();
    let log = tale.log(1..=7);
    let places = records_of(&log);
    let gap = |after, found| Gap { after: Zxid(after), found: Zxid(found) };
    files.put("log.8", &tale.log(8..=9));
    // A byte of a record, a length, and zeros over two records.
    for (from, to, lost) in [
        (places[3].0 + 20, places[3].0 + 21, 4..=4),
        (places[3].0 + 9, places[3].0 + 10, 4..=4),
        (places[2].0 + 5, places[3].0 + 30, 3..=4),
        (places[6].0 + 20, places[6].0 + 21, 7..=7),
    ] {
        let mut damaged = log.clone();
        damaged[from..to].iter_mut().for_each(|byte| *byte ^= 0x55);
        files.put("log.1", &damaged);
        let (zxids, damages, gaps) = salvaged(&files);
        let expected: Vec<i64> = (1..=9).filter(|zxid| !lost.contains(zxid)).collect();
        assert_eq!(zxids, expected, "{from}");
        let behind = places.get(*lost.end() as usize).map(|(at, _)| *at as u64);
        let [damage] = &damages[..] else { panic!("{damages:?}") };
        assert_eq!(
            (damage.offset, damage.behind),
            (places[*lost.start() as usize - 1].0 as u64, behind)
        );
        assert_eq!(gaps, [gap(lost.start() - 1, lost.end() + 1)]);
    }
    files.put("log.1", &[b"PK34", &log[4..]].concat());
    let (zxids, damages, gaps) = salvaged(&files);
    assert_eq!((zxids.len(), damages.len(), gaps.len()), (9, 1, 0), "the header alone is damaged");
    // A snapshot behind the damage has what was lost.
    let mut damaged = tale.log(1..=9);
    damaged[places[3].0 + 20] ^= 1;
    files.remove("log.8");
    files.put("log.1", &damaged);
    assert!(files.past(3).is_ok() && files.past(5).is_err() && files.past(7).is_err());
    files.put("snapshot.6", &tale.snapshot(6));
    for zxid in [3, 6, 7, 9] {
        assert_eq!(files.past(zxid).expect("it can be told"), tale.states[zxid as usize], "{zxid}");
    }
    let error = files.past(5).expect_err("the fourth is lost");
    assert!(error.to_string().contains("checksum"), "{error}");
}

/// Whatever the bytes are: the search ends, and what it finds is in order.
#[test]
fn whatever_is_damaged_the_rest_is_in_order() {
    let files = Files::new();
    for byte in 0..APACHE.len() {
        for length in [1, 40] {
            let mut log = APACHE.to_vec();
            log.iter_mut().skip(byte).take(length).for_each(|it| *it ^= 0xa5);
            files.put("log.1", &log);
            let (zxids, damages, _) = salvaged(&files);
            assert!(zxids.is_sorted_by(|a, b| a < b), "{byte}: {zxids:?}");
            assert!(damages.len() <= 2, "{byte}: {damages:?}");
        }
    }
}

/// The bytes of a snapshot as ZooKeeper before 3.6 writes it, which does not say where it ends.
fn as_of_apache(ours: &[u8]) -> Vec<u8> {
    const SEAL: usize = 8 + 5;
    const SECTIONS: usize = (8 + 4 + 8 + SEAL) + (8 + SEAL) + SEAL;
    let mut bytes = ours[..ours.len() - SECTIONS].to_vec();
    bytes[8..16].copy_from_slice(&(-1_i64).to_be_bytes());
    let sum = u64::from(simd_adler32::adler32(&bytes.as_slice()));
    bytes.extend_from_slice(&sum.to_be_bytes());
    bytes.extend_from_slice(b"\0\0\0\x01/");
    bytes
}

#[test]
fn a_snapshot_with_later_transactions_is_no_state_before_them() {
    // A change of data, a creation, a deletion, and an end of a session: each is in the snapshot already.
    let tale = some_tale();
    for (named, held) in [(5, 6), (8, 9), (7, 8), (6, 7)] {
        let files = Files::new();
        files.put("log.1", &tale.log(1..=9));
        files.put(&format!("snapshot.{named}"), &as_of_apache(&tale.snapshot(held)));
        for zxid in 1..=9 {
            let past = files.past(zxid as i64).expect("the log has it");
            assert_eq!(past, tale.states[zxid], "after {zxid}, a snapshot {named} with {held}");
        }
        // Without the older log, the states before cannot be told.
        let files = Files::new();
        files.put(&format!("snapshot.{named}"), &as_of_apache(&tale.snapshot(held)));
        files.put(&format!("log.{}", named + 1), &tale.log(named + 1..=9));
        let error = files.past(named as i64).expect_err("the snapshot holds more");
        let HistoryError::Fuzzy { later, .. } = error else { panic!("{error}") };
        assert_eq!(later, Zxid(held as i64), "a snapshot {named} with {held}");
        for zxid in held..=9 {
            let past = files.past(zxid as i64).expect("the files have it");
            assert_eq!(past, tale.states[zxid], "after {zxid}, a snapshot {named} with {held}");
        }
    }
}

/// The bytes of a snapshot as ZooKeeper 3.6 to 3.8 writes it: behind the znodes it has the last transaction, with their
/// digest.
fn with_digest(ours: &[u8], last: i64) -> Vec<u8> {
    let mut bytes = as_of_apache(ours);
    bytes.extend_from_slice(&last.to_be_bytes());
    bytes.extend_from_slice(&2_i32.to_be_bytes());
    bytes.extend_from_slice(&0x5EED_i64.to_be_bytes());
    let sum = u64::from(simd_adler32::adler32(&bytes.as_slice()));
    bytes.extend_from_slice(&sum.to_be_bytes());
    bytes.extend_from_slice(b"\0\0\0\x01/");
    bytes
}

#[test]
fn a_znode_that_was_deleted_while_a_snapshot_was_written_is_known_to_have_been_there() {
    let tale = some_tale();
    let by_close = ("/a/mine", 1, true, 7);
    let by_delete = ("/a/other", 2, false, 8);
    for (named, held, expected) in [
        (6, 6, vec![]),
        (6, 7, vec![by_close]),
        (5, 8, vec![by_close, by_delete]),
        (7, 8, vec![by_delete]),
        // They were created in the meantime as well, and the records say so.
        (2, 8, vec![]),
        (3, 8, vec![by_close]),
        (8, 9, vec![]),
    ] {
        let ours = tale.snapshot(held);
        for bytes in [as_of_apache(&ours), with_digest(&ours, held as i64)] {
            let files = Files::new();
            files.put(&format!("snapshot.{named}"), &bytes);
            files.put(&format!("log.{}", named + 1), &tale.log(named + 1..=9));
            let history = files.history();
            let base = history.oldest_base().expect("it is usable");
            let deleted = history.deleted_while_written(&base);
            let deleted: Vec<_> = deleted
                .iter()
                .map(|it| (it.path.as_str(), it.session.0, it.is_by_end_of_session, it.at.zxid.0))
                .collect();
            assert_eq!(deleted, expected, "a snapshot {named} with {held}");
        }
    }
}

/// What recovery reads of a log, as far as it gets.
fn by_recovery(log: &[u8]) -> (Vec<Txn>, bool) {
    let mut txns = Vec::new();
    let Ok(mut reader) = LogReader::new(log) else { return (txns, false) };
    loop {
        match reader.next_record() {
            Ok(Some(record)) => txns.push(record.txn),
            Ok(None) => return (txns, true),
            Err(_) => return (txns, false),
        }
    }
}

/// Compares what history and recovery make of a log.
fn compare(log: &[u8], what: &str) {
    let files = Files::new();
    files.put("log.1", log);
    let mut records = files.history().records(Zxid::ZERO, Gaps::Tell);
    let mut read = Vec::new();
    let end = loop {
        match records.next_record() {
            Ok(Some(record)) => read.push(record.txn),
            Ok(None) => break Ok(()),
            Err(error) => break Err(error.to_string()),
        }
    };
    let (expected, _) = by_recovery(log);
    let recovered = Inspection::new(&files.config()).expect("it can be listed").open();
    match (recovered, end) {
        (Ok(opened), Ok(())) => {
            assert_eq!(read, expected, "{what}");
            let mut core = Core::new(Settings::default());
            read.iter().for_each(|txn| drop(core.apply(txn)));
            for txn in core.prepare_orphan_removal() {
                core.apply(&txn);
            }
            assert_eq!(owned(&core.freeze()), owned(&opened.state), "{what}");
        }
        // Up to the damage it reads the same.
        (Err(refused), Err(error)) => {
            assert_eq!(error, refused.to_string(), "{what}");
            assert!(expected.starts_with(&read), "{what}");
        }
        (Err(StorageError::SnapshotMissing { .. }), Ok(())) => assert!(read.is_empty(), "{what}"),
        (recovered, end) => panic!("{what}: recovery has {recovered:?}, history {end:?}"),
    }
}

/// The offsets and lengths of the records of a log.
fn records_of(log: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = HEADER.len();
    while let Some(length) = log.get(at + 8..at + 12) {
        let length = i32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
        if length == 0 {
            break;
        }
        found.push((at, length));
        at += 12 + length + 1;
    }
    found
}

/// A record with a right checksum may hold anything: a parser of its own would refuse or accept others than
/// recovery does.
#[test]
fn changed_records_are_read_as_recovery_reads_them() {
    let mut compared = 0;
    for (at, length) in records_of(APACHE) {
        for byte in at + 12..at + 12 + length {
            for change in [0x01_u8, 0x80, 0xff] {
                let mut log = APACHE.to_vec();
                log[byte] ^= change;
                let sum = u64::from(simd_adler32::adler32(&&log[at + 12..at + 12 + length]));
                log[at..at + 8].copy_from_slice(&sum.to_be_bytes());
                compare(&log, &format!("byte {byte} changed by {change:#x}"));
                compared += 1;
            }
        }
    }
    assert!(compared > 2_000, "{compared}");
}

#[test]
fn changed_bits_and_cut_logs_are_read_as_recovery_reads_them() {
    for byte in 0..APACHE.len() {
        let mut log = APACHE.to_vec();
        log[byte] ^= 1 << (byte % 8);
        compare(&log, &format!("a bit of byte {byte}"));
        compare(&APACHE[..byte], &format!("cut at {byte}"));
        let mut log = APACHE.to_vec();
        log[byte..].fill(0);
        compare(&log, &format!("zeros from {byte} on"));
    }
}

#[test]
fn records_longer_than_a_block_are_read() {
    let data = |bytes: usize| TxnOp::SetData {
        path: path("/a"),
        data: Some(vec![7; bytes].into()),
        version: 1,
    };
    let tale = Tale::new().session(1).create(1, "/a", false);
    let tale = [1 << 20, 3, 300_000, 255 << 10]
        .into_iter()
        .fold(tale, |tale, bytes| tale.then(1, data(bytes)));
    compare(&tale.log(1..=6), "long records");
}

/// The reader has a block of the log, with zeros behind its records, when the server writes there.
#[test]
fn what_a_server_writes_while_its_log_is_read_is_no_damage() {
    let tale = Tale::new().session(1).create(1, "/a", false).create(1, "/b", false);
    let tale = tale.create(1, "/c", false).create(1, "/d", false);
    let padded = |zxids| {
        let mut log = tale.log(zxids);
        log.resize(64 << 10, 0);
        log
    };
    let files = Files::new();
    files.put("log.1", &padded(1..=3));
    let mut records = files.history().records(Zxid::ZERO, Gaps::Refuse);
    let first = records.next_record().expect("it is whole").expect("it is there");
    assert_eq!(first.txn.zxid, Zxid(1));
    files.put("log.1", &padded(1..=5));
    let mut read = vec![1];
    while let Some(record) = records.next_record().expect("a server may write meanwhile") {
        read.push(record.txn.zxid.0);
    }
    assert_eq!(read, [1, 2, 3, 4, 5]);
}
