//! `zoolet data` tells the past of files that are damaged or incomplete: what stands before and behind, and what is
//! missing. Whatever the files are, each sub-command ends with an exit status, and takes no memory for what
//! a file only claims.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::BytesMut;
use tokio::process::Command;
use zoolet_core::{Core, CreateTxn, Data, Settings, Txn, TxnOp};
use zoolet_protocol::{Acl, CreateKind, SessionId, Xid, ZPath, Zxid};
use zoolet_server::storage::{encode_log_record, write_snapshot};

use crate::process::{Ended, Printing, directory, ended, run};

const HEADER: &[u8] = b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0";

async fn data(command: &str, directory: &Path, rest: &[&str]) -> Ended {
    let directory = directory.to_str().expect("the name is text");
    run(&[&["data", command, directory], rest].concat()).await
}

fn path(path: &str) -> ZPath {
    ZPath::parse(path).expect("a legal path")
}

fn create(at: &str, ephemeral: bool) -> TxnOp {
    TxnOp::Create(CreateTxn {
        kind: CreateKind::Create,
        path: path(at),
        data: Some(Data::copied(b"text")),
        acl: [Acl::open()].into(),
        ephemeral,
        parent_cversion: CreateTxn::PARENT_CVERSION_UNKNOWN,
    })
}

/// Twelve transactions of four sessions: the first and the second end as 0x5 and 0x8, the fourth as 0xc.
fn txns() -> Vec<Txn> {
    let session = || TxnOp::CreateSession { timeout_ms: 30_000 };
    let close = |at: &[&str]| TxnOp::CloseSession { paths: at.iter().map(|it| path(it)).collect() };
    let ops = [
        (1, session()),
        (2, session()),
        (2, create("/a", false)),
        (1, create("/a/lock-0000000000", true)),
        (1, close(&["/a/lock-0000000000"])),
        (3, session()),
        (3, create("/a/lock-0000000001", true)),
        (2, close(&[])),
        (4, session()),
        (4, create("/a/lock-0000000002", true)),
        (4, TxnOp::SetData { path: path("/a"), data: None, version: 1 }),
        (4, close(&["/a/lock-0000000002"])),
    ];
    let txn = |(zxid, (session, op)): (i64, (i64, TxnOp))| Txn {
        session: SessionId(session),
        cxid: Xid(7),
        zxid: Zxid(zxid),
        time_ms: 1_700_000_000_000 + zxid,
        op,
    };
    (1..).zip(ops).map(txn).collect()
}

/// The bytes of a log, and the offset of each record.
fn log(txns: &[Txn]) -> (Vec<u8>, Vec<usize>) {
    let (mut log, mut offsets) = (BytesMut::from(HEADER), Vec::new());
    for txn in txns {
        offsets.push(log.len());
        encode_log_record(txn, &mut log);
    }
    (log.to_vec(), offsets)
}

fn snapshot(txns: &[Txn]) -> Vec<u8> {
    let mut core = Core::new(Settings::default());
    txns.iter().for_each(|txn| drop(core.apply(txn)));
    let mut file = Vec::new();
    write_snapshot(&core.freeze(), &mut file).expect("memory takes it");
    file
}

fn written(name: &str, files: &[(&str, &[u8])]) -> PathBuf {
    let directory = directory(name);
    fs::create_dir_all(directory.join("version-2")).expect("it can be made");
    for (name, bytes) in files {
        fs::write(directory.join("version-2").join(name), bytes).expect("it can be written");
    }
    directory
}

/// The fourth transaction is damaged.
fn damaged(name: &str, snapshots: &[(&str, &[u8])]) -> PathBuf {
    let (mut first, offsets) = log(&txns()[..8]);
    first[offsets[3] + 30] ^= 1;
    let (second, _) = log(&txns()[8..]);
    let logs: [(&str, &[u8]); 2] = [("log.1", &first), ("log.9", &second)];
    written(name, &[&logs, snapshots].concat())
}

#[tokio::test]
async fn what_stands_before_and_behind_a_damage_is_told_with_its_place() {
    let snapshot = snapshot(&txns()[..8]);
    let directory = damaged("damage", &[("snapshot.8", &snapshot)]);
    let told = data("sessions", &directory, &[]).await;
    assert_eq!(told.code, Some(3), "{told:?}");
    let lines: Vec<_> = told.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(lines[0].starts_with("0x1 ") && lines[0].contains("its end is not known"), "{lines:?}");
    assert!(lines[1].starts_with("0x2 ") && lines[1].contains("its end is not known"), "{lines:?}");
    assert!(lines[2].starts_with("0x4 ") && lines[2].contains("(0xc), closed by"), "{lines:?}");
    assert!(lines[3].starts_with("0x3 ") && lines[3].contains("it is open at"), "{lines:?}");
    let messages = [
        "log.1: offset ",
        // No mark is here, as in a directory of Apache ZooKeeper.
        "had acknowledged what was written there, unless it crashed before it had synced that",
        "moving them away, with zoolet.durable if there is one",
        ": the checksum is ",
        "records are found again from offset ",
        "the transaction 0x4 is in no file\n",
        "the report goes on after 0x8, from a snapshot",
    ];
    for text in messages {
        assert_eq!(told.stderr.matches(text).count(), 1, "{text}: {}", told.stderr);
    }

    let told = data("locks", &directory, &["--holds"]).await;
    assert_eq!((told.code, told.stdout.lines().count()), (Some(3), 0), "{told:?}");
    let told = data("history", &directory, &["/a", "--recursive"]).await;
    assert_eq!((told.code, told.stdout.lines().count()), (Some(3), 6), "{told:?}");
    assert!(told.stderr.contains("the transaction 0x4 is in no file"), "{}", told.stderr);
    for (zxid, code) in [("3", 0), ("4", 1), ("7", 1), ("8", 0), ("10", 0)] {
        let told = data("at", &directory, &["--zxid", zxid]).await;
        assert_eq!(told.code, Some(code), "{zxid}: {told:?}");
    }
    let told = data("diff", &directory, &["3", "0xc"]).await;
    assert_eq!((told.code, told.stdout.lines().count()), (Some(0), 5), "{told:?}");

    let without = damaged("damage-to-the-end", &[]);
    let told = data("sessions", &without, &[]).await;
    assert_eq!((told.code, told.stdout.lines().count()), (Some(3), 2), "{told:?}");
    assert!(told.stderr.contains("no snapshot has the state behind it"), "{}", told.stderr);
}

#[tokio::test]
async fn transactions_that_are_in_no_file_are_named() {
    let txns = txns();
    let (first, second) = (log(&txns[..4]).0, log(&txns[8..]).0);
    let files: [(&str, &[u8]); 3] =
        [("log.1", &first), ("log.9", &second), ("snapshot.8", &snapshot(&txns[..8]))];
    let directory = written("gap", &files);
    for command in ["sessions", "locks", "history"] {
        let rest: &[&str] = if command == "history" { &["/a"] } else { &[] };
        let told = data(command, &directory, rest).await;
        assert_eq!(told.code, Some(3), "{command}: {told:?}");
        let text = "the transactions from 0x5 to 0x8 are in no file\n";
        assert!(told.stderr.contains(text), "{command}: {}", told.stderr);
    }
    let told = data("at", &directory, &["--zxid", "9"]).await;
    assert_eq!(told.code, Some(0), "{told:?}");
    fs::remove_file(directory.join("version-2/snapshot.8")).expect("it is there");
    for (command, rest) in [("at", ["--zxid", "9"]), ("diff", ["2", "9"])] {
        let told = data(command, &directory, &rest).await;
        assert_eq!(told.code, Some(1), "{told:?}");
        let text = "the transaction 0x9 follows 0x4, and none between is in any file";
        assert!(told.stderr.contains(text), "{}", told.stderr);
    }
}

#[tokio::test]
async fn a_session_that_was_there_before_and_behind_missing_transactions_is_told_once() {
    let txns = txns();
    let (first, second) = (log(&txns[..7]).0, log(&txns[9..]).0);
    let files: [(&str, &[u8]); 3] =
        [("log.1", &first), ("log.a", &second), ("snapshot.9", &snapshot(&txns[..9]))];
    let told = data("sessions", &written("session-over-a-gap", &files), &[]).await;
    assert_eq!(told.code, Some(3), "{told:?}");
    let expected = [
        ("0x1 ", "(0x5), closed by its client"),
        ("0x2 ", "(0x2) its end is not known"),
        ("0x4 ", "(0xc), closed by its client  1 ephemeral created"),
        (
            "0x3 ",
            "(0x6) it is open at the end of the logs  1 ephemeral created, has: /a/lock-0000000001",
        ),
    ];
    let lines: Vec<_> = told.stdout.lines().collect();
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for (line, (begin, text)) in lines.iter().zip(expected) {
        assert!(line.starts_with(begin) && line.contains(text), "{line}");
    }

    // Without a state behind them nothing is known of those that lived.
    let files: [(&str, &[u8]); 2] = [("log.1", &first), ("log.a", &second)];
    let told = data("sessions", &written("sessions-before-a-gap", &files), &[]).await;
    assert_eq!((told.code, told.stdout.lines().count()), (Some(3), 3), "{told:?}");
    assert_eq!(told.stdout.matches("its end is not known").count(), 2, "{told:?}");
}

#[tokio::test]
async fn a_clock_that_went_back_is_told_once_with_its_place() {
    let mut txns = txns();
    let text = "the clock of the servers went back";
    let directory = |name: &str, txns: &[Txn]| written(name, &[("log.1", &log(txns).0)]);
    let straight = directory("clock-forward", &txns);
    txns[4..].iter_mut().for_each(|txn| txn.time_ms -= 1_000);
    let once = directory("clock-back-once", &txns);
    txns[8..].iter_mut().for_each(|txn| txn.time_ms -= 60_000);
    let twice = directory("clock-back-twice", &txns);
    for command in ["sessions", "locks"] {
        let told = data(command, &straight, &[]).await;
        assert!(told.code == Some(0) && !told.stderr.contains(text), "{told:?}");
        let told = data(command, &once, &[]).await;
        let place = "once from 2023-11-14T22:13:20.004Z (0x4) to 2023-11-14T22:13:19.005Z (0x5)";
        assert_eq!(told.stderr.matches(&format!("{text} {place}")).count(), 1, "{}", told.stderr);
        let told = data(command, &twice, &[]).await;
        let place = "2 times, furthest from 2023-11-14T22:13:19.008Z (0x8) to 2023-11-14T22:12:19.009Z (0x9)";
        assert!(told.stderr.contains(&format!("{text} {place}")), "{}", told.stderr);
        assert_eq!((told.code, told.stderr.matches(text).count()), (Some(0), 1), "{told:?}");
    }
}

/// A name, and what it holds.
type File<'a> = (&'a str, &'a [u8]);

/// The records of ZooKeeper before 3.6 do not name the znodes that the end of a session deletes.
#[tokio::test]
async fn the_end_of_a_session_deletes_no_znode_that_may_be_gone_in_missing_transactions() {
    let mut txns = txns();
    txns.truncate(4);
    txns[0].op = TxnOp::CreateSession { timeout_ms: 30_000 };
    txns[1].op = create("/a", true);
    txns[2].op = TxnOp::Delete { path: path("/a") };
    txns[3].op = TxnOp::CloseSession { paths: Vec::new() };
    txns.iter_mut().for_each(|txn| txn.session = SessionId(1));
    let mut undeleted = [&txns[..2], &txns[3..]].concat();
    undeleted[2].zxid = Zxid(3);
    let undeleted = log(&undeleted).0;
    let damaged = |from: usize| {
        let (mut log, offsets) = log(&txns[from..]);
        log[offsets[2 - from] + 30] ^= 1;
        log
    };
    let (begin, end) = (log(&txns[..2]).0, log(&txns[3..]).0);
    let snapshot = snapshot(&txns[..2]);
    let scenes: [(&str, &[File<'_>], usize, i32); 4] = [
        ("end-in-whole-logs", &[("log.1", &undeleted)], 1, 0),
        ("end-behind-a-gap", &[("log.1", &begin), ("log.4", &end)], 0, 3),
        ("end-behind-a-damage", &[("log.1", &damaged(0))], 0, 3),
        ("end-behind-a-lost-begin", &[("log.3", &damaged(2)), ("snapshot.2", &snapshot)], 0, 3),
    ];
    for (name, files, deletions, code) in scenes {
        let told = data("history", &written(name, files), &["/a"]).await;
        assert_eq!(told.stdout.matches("created /a").count(), 1, "{name}: {told:?}");
        let count = told.stdout.matches("deleted /a, because its session ended").count();
        assert_eq!((count, told.code), (deletions, Some(code)), "{name}: {told:?}");
    }
}

#[tokio::test]
async fn where_a_report_begins_is_told() {
    let txns = txns();
    let whole = log(&txns).0;
    let later = snapshot(&txns[..8]);
    let directory = written("complete", &[("log.1", &whole), ("snapshot.8", &later)]);
    let told = data("sessions", &directory, &[]).await;
    assert_eq!((told.code, told.stdout.lines().count()), (Some(0), 4), "{told:?}");
    assert!(!told.stdout.contains("before the logs"), "{told:?}");
    // The first transactions are missing.
    let directory = written("begun", &[("log.3", &log(&txns[2..]).0), ("snapshot.8", &later)]);
    for command in ["sessions", "locks"] {
        let told = data(command, &directory, &[]).await;
        assert_eq!(told.code, Some(0), "{told:?}");
        let text =
            "the report begins after 0x8, with snapshot.8: the transactions from 0x3 on are in";
        assert!(told.stderr.contains(text), "{}", told.stderr);
    }
}

#[tokio::test]
async fn a_directory_without_logs_is_followed_and_its_snapshot_told_once() {
    let txns = txns();
    let directory = written("followed", &[("snapshot.8", &snapshot(&txns[..8]))]);
    let dir = directory.to_str().expect("the name is text");
    let mut followed = Printing::start(&["data", "history", dir, "/a", "--follow"]);
    assert!(followed.next_line().await.ends_with("created /a (as snapshot.8 has it)"));
    // As a server does: the file is there before its first record is.
    fs::write(directory.join("version-2/log.9"), HEADER).expect("it can be written");
    fs::write(directory.join("version-2/log.9"), log(&txns[8..]).0).expect("it can be written");
    assert!(followed.next_line().await.ends_with("set /a (null, version 1)"));
}

#[tokio::test]
async fn sessions_that_end_meanwhile_are_told() {
    let txns = txns();
    let directory = written("followed-sessions", &[("log.1", &log(&txns[..5]).0)]);
    let dir = directory.to_str().expect("the name is text");
    let mut followed = Printing::start(&["data", "sessions", dir, "--follow"]);
    assert!(followed.next_line().await.starts_with("0x1 "));
    fs::write(directory.join("version-2/log.6"), log(&txns[5..]).0).expect("it can be written");
    assert!(followed.next_line().await.starts_with("0x2 "));
    assert!(followed.next_line().await.starts_with("0x4 "));
}

/// Times are what the files say, however far apart.
#[tokio::test]
async fn impossible_times_are_no_failure() {
    let mut txns = txns();
    for (txn, time_ms) in txns.iter_mut().zip([i64::MAX, i64::MIN, 0, -1].into_iter().cycle()) {
        txn.time_ms = time_ms;
    }
    let directory = written("times", &[("log.1", &log(&txns).0)]);
    for (command, rest) in [
        ("sessions", &[][..]),
        ("sessions", &["--json"]),
        ("history", &["/a", "-r"]),
        ("at", &["--zxid", "9"]),
        ("diff", &["1", "9"]),
    ] {
        let told = data(command, &directory, rest).await;
        assert_eq!(told.code, Some(0), "{command}: {told:?}");
    }
    let told = data("at", &directory, &["--time", "2020-01-01"]).await;
    assert!(told.code == Some(1) && told.stderr.contains("do not reach back to"), "{told:?}");
}

/// A command that may have half a gigabyte.
async fn limited(args: &[&str]) -> Ended {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -v 500000 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_zoolet")]);
    shell.args(args).kill_on_drop(true);
    ended(shell).await
}

/// Numbers that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

const CHANGED_DIRECTORIES: u64 = 24;

#[tokio::test]
async fn whatever_the_files_are_each_command_ends_with_a_status() {
    let txns = txns();
    let parts: [(&str, Vec<u8>); 4] = [
        ("log.1", log(&txns[..8]).0),
        ("log.9", log(&txns[8..]).0),
        ("snapshot.0", snapshot(&[])),
        ("snapshot.8", snapshot(&txns[..8])),
    ];
    let mut codes = Vec::new();
    for seed in 0..CHANGED_DIRECTORIES {
        let mut numbers = Numbers(seed);
        let mut files = parts.clone();
        for _ in 0..=numbers.below(3) {
            let (_, bytes) = &mut files[numbers.below(4)];
            change(bytes, &mut numbers);
        }
        let files: Vec<(&str, &[u8])> = files.iter().map(|(name, it)| (*name, &it[..])).collect();
        let directory = written(&format!("changed-{seed}"), &files);
        let at = |name: &str| directory.join(name).to_str().expect("the name is text").to_owned();
        let (dir, log, snapshot) = (at(""), at("version-2/log.1"), at("version-2/snapshot.8"));
        let commands: [&[&str]; 12] = [
            &["check", &dir],
            &["dump-log", &log],
            &["dump-snapshot", &snapshot],
            &["export", &dir],
            &["at", &dir, "--zxid", "7"],
            &["at", &dir, "--time", "1700000000010"],
            &["history", &dir, "/a", "--recursive", "--json"],
            &["sessions", &dir, "--json"],
            &["sessions", &dir],
            &["locks", &dir],
            &["locks", &dir, "--holds", "--json"],
            &["diff", &dir, "2", "11"],
        ];
        for args in commands {
            let told = limited(&[&["data"], args].concat()).await;
            let is_told = matches!(told.code, Some(0 | 1 | 3));
            assert!(is_told && !told.stderr.contains("panicked"), "{seed} {args:?}: {told:?}");
            assert!(told.code == Some(0) || !told.stderr.is_empty() || !told.stdout.is_empty());
            codes.push(told.code);
        }
        fs::remove_dir_all(&directory).expect("it is there");
    }
    for code in [0, 1, 3] {
        assert!(codes.contains(&Some(code)), "no command has ended with {code}");
    }
}

/// Changes some bytes, cuts, repeats or lengthens. Some changes have a right checksum, so that they reach the decoder.
fn change(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    if bytes.len() < 40 {
        return;
    }
    let at = numbers.below(bytes.len() - 20);
    match numbers.below(6) {
        0 => bytes.truncate(at),
        1 => bytes[at..at + 4].copy_from_slice(&i32::MAX.to_be_bytes()),
        2 => bytes[at..at + 8].copy_from_slice(&i64::MIN.to_be_bytes()),
        3 => bytes[at..].fill(0),
        4 => {
            let piece = bytes[at..].to_vec();
            bytes.extend(piece);
        }
        _ => bytes[at] ^= 1 << numbers.below(8),
    }
    // The first record gets the checksum of what it is now.
    let length =
        bytes.get(24..28).and_then(|it| it.first_chunk()).map(|it| i32::from_be_bytes(*it));
    let length = length.and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
    if bytes.starts_with(HEADER)
        && let Some(record) = bytes.get(28..28 + length)
    {
        let sum = adler32(record);
        bytes[16..24].copy_from_slice(&sum.to_be_bytes());
    }
}

fn adler32(bytes: &[u8]) -> u64 {
    let add = |(a, b), &byte| {
        let a = (a + u64::from(byte)) % 65_521;
        (a, (b + a) % 65_521)
    };
    let (a, b): (u64, u64) = bytes.iter().fold((1, 0), add);
    (b << 16) | a
}
