//! Tests of recovery from damaged files: the server repairs what a crash causes, refuses any other
//! damage with the name of the file, and gives up no acknowledged write without an error.

#![allow(clippy::unwrap_used, reason = "what a test has written itself is there")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zoolet::client::Client;
use zoolet::server::storage::{
    Disk, LogError, LogReader, SimDisk, SnapshotFault, StorageConfig, StorageError,
    encode_log_record,
};
use zoolet::server::{Config, FourLetterWhitelist, Server, StartError};
use zoolet_core::TxnOp;
use zoolet_test_support::log_files::{self, record_offsets};

const SNAPSHOT: &str = "snapshot.0";
const LOG: &str = "log.1";

fn path(name: &str) -> PathBuf {
    Path::new("/data/version-2").join(name)
}

fn config(disk: &SimDisk) -> Config {
    let disk = Arc::new(disk.clone());
    let storage = StorageConfig { disk, allocate_bytes: 8_192, ..StorageConfig::at("/data") };
    Config { storage: Some(storage), ..Config::default() }
}

/// A disk on which a server has written ten znodes, `/0` to `/9`, and then was killed.
async fn written() -> SimDisk {
    let disk = SimDisk::default();
    let server = Server::builder().config(config(&disk)).start().await.unwrap();
    let client = Client::connect(server.dialer()).await.unwrap();
    for number in 0..10 {
        client.create(&format!("/{number}")).data(vec![b'x'; 300]).await.unwrap();
    }
    // Takes the disk before the server can end its log.
    let last = disk.content(&path(LOG)).unwrap();
    let names = [LOG, SNAPSHOT].map(|name| (name, disk.content(&path(name)).unwrap()));
    drop((server, client));
    assert_eq!(last.len(), 8_192 + 16, "room is set aside");
    let disk = SimDisk::default();
    for (name, content) in names {
        disk.put(&path(name), content);
    }
    disk
}

async fn start(disk: &SimDisk) -> Result<Server, StartError> {
    Server::builder().config(config(disk)).start().await
}

async fn names(server: &Server) -> Vec<String> {
    let client = Client::connect(server.dialer()).await.unwrap();
    let names = client.children("/").await.unwrap().to_vec();
    names.into_iter().filter(|name| name != "zookeeper").map(|name| name.to_string()).collect()
}

async fn refusal(disk: &SimDisk) -> StorageError {
    log_files::refusal(config(disk)).await
}

#[tokio::test(start_paused = true)]
async fn a_torn_last_record_is_cut_off_and_the_server_starts() {
    let log = written().await.content(&path(LOG)).unwrap();
    let offsets = record_offsets(&log);
    let (last, end) = (offsets[offsets.len() - 2], offsets[offsets.len() - 1]);
    for cut in [last + 7, last + 11, last + 100, end - 1] {
        let disk = written().await;
        let mut torn = log.clone();
        torn[cut..].fill(0);
        disk.put(&path(LOG), torn);
        let server = start(&disk).await.expect("the torn write was not acknowledged");
        assert_eq!(names(&server).await.len(), 9, "cut at {cut}");
        drop(server);
        let mended = disk.content(&path(LOG)).unwrap();
        assert!(mended[last..].is_empty(), "it was cut off");
        let server = start(&disk).await.expect("the first start repaired the log");
        assert_eq!(names(&server).await.len(), 9);
    }
}

#[tokio::test]
async fn mntr_counts_the_log_tails_that_were_cut_off() {
    let disk = written().await;
    let mut torn = disk.content(&path(LOG)).unwrap();
    let end = *record_offsets(&torn).last().unwrap();
    torn[end - 1..].fill(0);
    disk.put(&path(LOG), torn);
    for cut in [1, 0] {
        let words = FourLetterWhitelist::all();
        let config = Config { four_letter_words: words, ..config(&disk) };
        let listen = ([127, 0, 0, 1], 0).into();
        let server = Server::builder().config(config).listen(listen).start().await.unwrap();
        let mut stream = TcpStream::connect(server.local_addr().unwrap()).await.unwrap();
        stream.write_all(b"mntr").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.contains(&format!("zk_zoolet_log_tails_cut\t{cut}\n")), "{answer}");
        server.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn unwritten_sectors_of_the_last_batch_are_cut_off() {
    let disk = written().await;
    let mut log = disk.content(&path(LOG)).unwrap();
    let last = record_offsets(&log).iter().rev().nth(2).copied().unwrap();
    let sector = last.next_multiple_of(512) - 512;
    let from = sector.max(last);
    log[from..sector + 512].fill(0);
    disk.put(&path(LOG), log);
    let server = start(&disk).await.expect("the sectors may belong to the last batch");
    assert_eq!(names(&server).await.len(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_changed_byte_before_intact_records_is_refused_with_its_offset() {
    let disk = written().await;
    let mut log = disk.content(&path(LOG)).unwrap();
    let offset = record_offsets(&log)[4];
    log[offset + 60] ^= 1;
    disk.put(&path(LOG), log);
    let error = refusal(&disk).await;
    let StorageError::Damaged { error: LogError::Checksum { offset: found, .. }, .. } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(*found, offset as u64);
    let text = error.to_string();
    assert!(text.starts_with(&format!("/data/version-2/log.1: offset {offset}: ")), "{text}");
    assert!(
        text.contains("moving them away, with zoolet.durable if there is one"),
        "the cure is named: {text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_changed_byte_in_the_last_record_is_refused() {
    let disk = written().await;
    let mut log = disk.content(&path(LOG)).unwrap();
    let last = record_offsets(&log).iter().rev().nth(1).copied().unwrap();
    log[last + 60] ^= 1;
    disk.put(&path(LOG), log);
    assert!(matches!(refusal(&disk).await, StorageError::Damaged { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_hole_in_the_log_is_refused_with_its_offset() {
    let disk = written().await;
    let mut log = disk.content(&path(LOG)).unwrap();
    let offsets = record_offsets(&log);
    // A disk loses whole sectors; this is less than a sector.
    log[offsets[3]..offsets[3] + 20].fill(0);
    disk.put(&path(LOG), log);
    let error = refusal(&disk).await;
    let StorageError::Hole { offset, .. } = error else { panic!("{error}") };
    assert_eq!(offset, offsets[3] as u64);
}

#[tokio::test(start_paused = true)]
async fn an_impossible_record_length_is_refused() {
    for length in [-1_i32, i32::MAX] {
        let disk = written().await;
        let mut log = disk.content(&path(LOG)).unwrap();
        let offset = record_offsets(&log)[4];
        log[offset + 8..offset + 12].copy_from_slice(&length.to_be_bytes());
        disk.put(&path(LOG), log);
        let text = refusal(&disk).await.to_string();
        assert!(text.contains(&format!("a record of {length} bytes")), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_with_another_magic_number_is_refused() {
    let disk = written().await;
    disk.put(&path("log.20"), b"some notes in plain text".to_vec());
    let text = refusal(&disk).await.to_string();
    assert!(text.contains("log.20: not a transaction log: it begins with 736f6d65"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn the_server_starts_with_an_empty_log() {
    for content in [Vec::new(), b"ZKLG".to_vec(), vec![0; 8_192], b"ZKLG\0\0\0\x02".to_vec()] {
        let disk = written().await;
        disk.put(&path("log.c"), content.clone());
        let server = start(&disk).await.expect("nothing is missing");
        assert_eq!(names(&server).await.len(), 10, "{content:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn files_of_other_programs_are_kept() {
    let disk = written().await;
    let others = ["notes.txt", "log", "log.", "log.zz", "snapshot", "snapshot.x", "acceptedEpoch"];
    for name in others {
        disk.put(&path(name), b"?".to_vec());
    }
    drop(start(&disk).await.expect("the server ignores these files"));
    for name in others {
        assert_eq!(disk.content(&path(name)).unwrap(), b"?", "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_snapshot_is_skipped_for_an_older_one() {
    let good = written().await.content(&path(SNAPSHOT)).unwrap();
    let mut changed = good.clone();
    changed[100] ^= 1;
    for bad in [good[..good.len() - 1].to_vec(), changed, Vec::new(), b"PK\x03\x04".to_vec()] {
        let disk = written().await;
        disk.put(&path("snapshot.5"), bad);
        let server = start(&disk).await.expect("the older one and the log have everything");
        assert_eq!(names(&server).await.len(), 10);
    }
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_lacks_a_parent_is_refused() {
    let disk = written().await;
    let snapshot = disk.content(&path(SNAPSHOT)).unwrap();
    // Changes the path of /zookeeper/quota into one below a znode that does not exist.
    let name = b"/zookeeper/quota";
    let at = snapshot.windows(name.len()).position(|window| window == name).unwrap();
    let mut orphan = snapshot[..snapshot.len() - 13].to_vec();
    orphan[at..at + name.len()].copy_from_slice(b"/nobody/is/there");
    let sum = simd_adler32(&orphan);
    orphan.extend_from_slice(&u64::from(sum).to_be_bytes());
    orphan.extend_from_slice(b"\0\0\0\x01/");
    disk.put(&path(SNAPSHOT), orphan);
    let error = refusal(&disk).await;
    let StorageError::NoUsableSnapshot(unusable) = &error else { panic!("{error}") };
    assert!(matches!(unusable[0].reason, SnapshotFault::Tree(_)));
    assert!(error.to_string().contains("has /nobody/is/there before its parent"), "{error}");
}

fn simd_adler32(bytes: &[u8]) -> u32 {
    let (a, b) = bytes.iter().fold((1_u32, 0_u32), |(a, b), &byte| {
        let a = (a + u32::from(byte)) % 65_521;
        (a, (b + a) % 65_521)
    });
    (b << 16) | a
}

#[tokio::test(start_paused = true)]
async fn the_server_does_not_start_empty_when_no_snapshot_is_readable() {
    let disk = written().await;
    disk.put(&path(SNAPSHOT), vec![0; 100]);
    let text = refusal(&disk).await.to_string();
    assert!(text.starts_with("no snapshot can be used:\n  /data/version-2/snapshot.0: "), "{text}");
    assert!(text.contains("or move all of them away"), "{text}");
    let disk = written().await;
    disk.fail_to_read(&path(SNAPSHOT));
    let text = refusal(&disk).await.to_string();
    assert!(text.contains("cannot be read: the disk does not read"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_log_is_refused() {
    let disk = written().await;
    disk.fail_to_read(&path(LOG));
    let text = refusal(&disk).await.to_string();
    assert_eq!(text, "cannot read /data/version-2/log.1: the disk does not read");
}

#[tokio::test(start_paused = true)]
async fn logs_from_the_first_transaction_need_no_snapshot() {
    let disk = written().await;
    disk.remove(&path(SNAPSHOT)).unwrap();
    let server = start(&disk).await.expect("the log has everything");
    assert_eq!(names(&server).await.len(), 10);
    assert!(disk.content(&path("snapshot.b")).is_some(), "ZooKeeper would not start without one");
}

#[tokio::test(start_paused = true)]
async fn logs_from_a_later_transaction_need_a_snapshot_or_trust_empty() {
    let disk = without_beginning().await;
    disk.remove(&path(SNAPSHOT)).unwrap();
    let error = refusal(&disk).await;
    assert!(matches!(error, StorageError::SnapshotMissing { .. }), "{error}");
    assert!(error.to_string().contains("snapshot.trust.empty=true"), "{error}");
    let mut config = config(&disk);
    config.storage.as_mut().unwrap().trust_empty_snapshot = true;
    let server =
        Server::builder().config(config).start().await.expect("the configuration allows it");
    assert_eq!(names(&server).await.len(), 7);
}

/// A disk whose log begins with the third znode.
async fn without_beginning() -> SimDisk {
    let disk = written().await;
    let log = disk.content(&path(LOG)).unwrap();
    let third = record_offsets(&log)[4];
    let mut later = log[..16].to_vec();
    later.extend_from_slice(&log[third..]);
    disk.remove(&path(LOG)).unwrap();
    disk.put(&path("log.5"), later);
    disk
}

#[tokio::test(start_paused = true)]
async fn logs_of_a_later_epoch_need_a_snapshot() {
    let disk = written().await;
    let log = disk.content(&path(LOG)).unwrap();
    let mut reader = LogReader::new(&log[..]).unwrap();
    let mut later = BytesMut::from(&log[..16]);
    while let Some(mut record) = reader.next_record().unwrap() {
        record.txn.zxid.0 += 5 << 32;
        encode_log_record(&record.txn, &mut later);
    }
    disk.remove(&path(LOG)).unwrap();
    disk.remove(&path(SNAPSHOT)).unwrap();
    disk.put(&path("log.500000001"), later.to_vec());
    let error = refusal(&disk).await;
    assert!(matches!(error, StorageError::SnapshotMissing { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_gap_between_snapshot_and_log_is_refused() {
    let disk = without_beginning().await;
    let error = refusal(&disk).await;
    let StorageError::Gap { after, found, .. } = &error else { panic!("{error}") };
    assert_eq!((after.0, found.0), (0, 5));
    assert!(error.to_string().contains("put the missing log back"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn two_logs_with_the_same_transactions_are_refused() {
    let disk = written().await;
    let log = disk.content(&path(LOG)).unwrap();
    disk.put(&path("log.2"), log);
    let error = refusal(&disk).await;
    assert!(matches!(error, StorageError::Misnamed { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_unfinished_snapshot_is_deleted() {
    let disk = written().await;
    disk.put(&path("unfinished-snapshot.7"), b"half of".to_vec());
    let server = start(&disk).await.expect("it is not needed");
    assert_eq!(names(&server).await.len(), 10);
    assert!(disk.content(&path("unfinished-snapshot.7")).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_log_of_zookeeper_is_continued_where_it_ended() {
    let disk = SimDisk::default();
    let log = include_bytes!("../../server/tests/data/apache-3.8.log");
    disk.put(&path(LOG), log.to_vec());
    let server = start(&disk).await.expect("a log of the original");
    assert_eq!(names(&server).await, ["app", "box", "soon"]);
    drop(server);
    let log = disk.content(&path("log.11")).expect("the new log begins after 0x10");
    let first = LogReader::new(&log[..]).unwrap().next_record().unwrap().unwrap();
    assert!(matches!(first.txn.op, TxnOp::CreateSession { .. }));
}

#[tokio::test(start_paused = true)]
async fn swapped_or_renamed_logs_are_refused() {
    let log = written().await.content(&path(LOG)).unwrap();
    let offsets = record_offsets(&log);
    let header = &log[..16];
    let first = [header, &log[16..offsets[5]]].concat();
    let second = [header, &log[offsets[5]..]].concat();
    let cases: [&[(&str, &[u8])]; 5] = [
        &[("log.1", &second), ("log.6", &first)],
        &[("log.1", &first), ("log.7", &second)],
        &[("log.1", &first), ("log.5", &second)],
        &[("log.2", &first), ("log.6", &second)],
        // The name of the second file excludes it, although it contains the transactions that are
        // needed.
        &[("log.1", &second), ("log.2", &first)],
    ];
    for files in cases {
        let disk = written().await;
        disk.remove(&path(LOG)).unwrap();
        for (name, content) in files {
            disk.put(&path(name), content.to_vec());
        }
        let error = refusal(&disk).await;
        assert!(matches!(error, StorageError::Misnamed { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("name it log.1") || text.contains("name it log.6"), "{text}");
    }
    let disk = written().await;
    disk.put(&path("log.1"), first);
    disk.put(&path("log.6"), second);
    assert_eq!(names(&start(&disk).await.expect("the names are right")).await.len(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_under_the_name_of_another_is_skipped() {
    let disk = written().await;
    let empty = disk.content(&path(SNAPSHOT)).unwrap();
    // The server would skip all ten transactions if it trusted the name of the snapshot.
    disk.put(&path("snapshot.b"), empty.clone());
    assert_eq!(names(&start(&disk).await.expect("the older one is right")).await.len(), 10);

    let disk = written().await;
    disk.remove(&path(SNAPSHOT)).unwrap();
    disk.put(&path("snapshot.b"), empty);
    let text = refusal(&disk).await.to_string();
    assert!(
        text.contains("snapshot.b: it was taken at 0x0, which its name does not say"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_of_zookeeper_may_contain_more_than_its_name_says_but_not_less() {
    let snapshot = written().await.content(&path(SNAPSHOT)).unwrap();
    // `zookeeper.digest.enabled` may be false.
    for digest in [Digest::Written, Digest::Disabled] {
        let snapshot = as_by_the_original(&snapshot, digest, 10);
        for (name, is_right) in [("snapshot.9", true), ("snapshot.a", true), ("snapshot.b", false)]
        {
            let disk = SimDisk::default();
            disk.put(&path(name), snapshot.clone());
            assert_eq!(start(&disk).await.is_ok(), is_right, "{name}, {digest:?}");
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Digest {
    Written,
    Disabled,
}

/// The snapshot as ZooKeeper 3.9 writes it, with `last` as the last zxid at its end.
fn as_by_the_original(snapshot: &[u8], digest: Digest, last: i64) -> Vec<u8> {
    // Three seals, the digest and the zxid.
    let mut bytes = snapshot[..snapshot.len() - (3 * 13 + 20 + 8)].to_vec();
    bytes[8..16].fill(0xff);
    let seal = |bytes: &mut Vec<u8>| {
        let sum = u64::from(simd_adler32(bytes));
        bytes.extend_from_slice(&sum.to_be_bytes());
        bytes.extend_from_slice(b"\0\0\0\x01/");
    };
    seal(&mut bytes);
    if digest == Digest::Written {
        // A digest without content.
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&2_i32.to_be_bytes());
        bytes.extend_from_slice(&[0; 8]);
        seal(&mut bytes);
    }
    bytes.extend_from_slice(&last.to_be_bytes());
    seal(&mut bytes);
    bytes
}

#[tokio::test(start_paused = true)]
async fn files_with_the_greatest_zxid_are_refused() {
    let last = format!("{:x}", i64::MAX);
    let log = written().await.content(&path(LOG)).unwrap();
    let snapshot = written().await.content(&path(SNAPSHOT)).unwrap();

    let disk = written().await;
    disk.put(&path(&format!("snapshot.{last}")), snapshot.clone());
    assert_eq!(names(&start(&disk).await.expect("the server skips this snapshot")).await.len(), 10);

    let disk = SimDisk::default();
    let foreign = include_bytes!("../../server/tests/data/apache-3.8.snapshot");
    disk.put(&path(&format!("snapshot.{last}")), foreign.to_vec());
    let text = refusal(&disk).await.to_string();
    assert!(
        text.contains("it has the zxid 0x7fffffffffffffff, after which no server can go on"),
        "{text}"
    );

    let disk = written().await;
    disk.put(&path(&format!("log.{last}")), log.clone());
    assert!(matches!(refusal(&disk).await, StorageError::Misnamed { .. }));

    let mut record = LogReader::new(&log[..]).unwrap().next_record().unwrap().unwrap();
    record.txn.zxid.0 = i64::MAX;
    let mut content = BytesMut::from(&log[..16]);
    encode_log_record(&record.txn, &mut content);
    let disk = written().await;
    disk.put(&path(&format!("log.{last}")), content.to_vec());
    let error = refusal(&disk).await;
    assert!(matches!(error, StorageError::LastZxid { offset: 16, .. }), "{error}");
}
