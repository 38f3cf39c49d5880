//! Tests of the durable mark: no crash removes what was synced before it, so damage below the mark
//! is refused even where it looks like a crash.

#![allow(clippy::unwrap_used, reason = "what a test has written itself is there")]

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zoolet::client::Client;
use zoolet::server::storage::{Disk, MemDisk, StorageConfig, StorageError};
use zoolet::server::{Config, Server, StartError};
use zoolet_test_support::log_files::{self, record_offsets};

const LOG: &str = "log.1";
const MARK: &str = "zoolet.durable";
const SECTOR_BYTES: usize = 512;

fn path(name: &str) -> PathBuf {
    Path::new("/data/version-2").join(name)
}

fn config(disk: &MemDisk) -> Config {
    let disk = Arc::new(disk.clone());
    let storage = StorageConfig { disk, allocate_bytes: 8_192, ..StorageConfig::at("/data") };
    Config { storage: Some(storage), ..Config::default() }
}

fn read(disk: &MemDisk, name: &str) -> Vec<u8> {
    let mut content = Vec::new();
    disk.open(&path(name)).unwrap().read_to_end(&mut content).unwrap();
    content
}

fn put(disk: &MemDisk, name: &str, content: &[u8]) {
    disk.create(&path(name)).unwrap().write_all(content).unwrap();
}

/// A copy of a disk as a killed server leaves it.
fn killed(disk: &MemDisk) -> MemDisk {
    let copy = MemDisk::default();
    for name in disk.list(&path("")).unwrap() {
        put(&copy, &name, &read(disk, &name));
    }
    copy
}

/// A disk on which a server created `/0` and so on, with a sync for each, before it was killed.
async fn written(znodes: usize) -> MemDisk {
    let disk = MemDisk::default();
    let server = Server::builder().config(config(&disk)).start().await.unwrap();
    let client = Client::connect(server.dialer()).await.unwrap();
    for number in 0..znodes {
        client.create(&format!("/{number}")).data(vec![b'x'; 300]).await.unwrap();
    }
    killed(&disk)
}

async fn start(disk: &MemDisk) -> Result<Server, StartError> {
    Server::builder().config(config(disk)).start().await
}

async fn refusal(disk: &MemDisk) -> StorageError {
    log_files::refusal(config(disk)).await
}

/// How many of the znodes the server has.
fn znodes(server: &Server) -> usize {
    server.totals().znodes - 5
}

/// The log with one sector overwritten by zeros.
fn without_sector(log: &[u8], sector: usize) -> Vec<u8> {
    let mut log = log.to_vec();
    let end = log.len().min((sector + 1) * SECTOR_BYTES);
    log[sector * SECTOR_BYTES..end].fill(0);
    log
}

#[tokio::test(start_paused = true)]
async fn each_lost_sector_of_a_synced_log_is_refused() {
    let disk = written(20).await;
    let log = read(&disk, LOG);
    let end = *record_offsets(&log).last().unwrap();
    for sector in 0..end.div_ceil(SECTOR_BYTES) {
        let disk = killed(&disk);
        put(&disk, LOG, &without_sector(&log, sector));
        let text = refusal(&disk).await.to_string();
        assert!(text.contains("/data/version-2/log.1"), "sector {sector}: {text}");
        assert_eq!(read(&disk, LOG), without_sector(&log, sector), "nothing is cut off");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_sector_among_20_000_synced_writes_is_refused() {
    let disk = MemDisk::default();
    let server = Server::builder().config(config(&disk)).start().await.unwrap();
    let client = Client::connect(server.dialer()).await.unwrap();
    client.create("/a").await.unwrap();
    for _ in 0..20_000 {
        client.set("/a", vec![b'x'; 100]).await.unwrap();
    }
    drop(server);
    let log = read(&disk, LOG);
    let tenth = log.len() / 10 / SECTOR_BYTES;
    for sector in tenth..tenth + 20 {
        put(&disk, LOG, &without_sector(&log, sector));
        let error = refusal(&disk).await;
        let StorageError::Lost { offset, end, durable, .. } = error else { panic!("{error}") };
        assert!(offset < (sector as u64 + 1) * 512, "sector {sector}");
        assert_eq!((end, durable.0), (log.len() as u64, 20_002));
    }
}

#[tokio::test(start_paused = true)]
async fn the_refusal_names_the_synced_zxid_and_the_cure() {
    let disk = written(10).await;
    let log = read(&disk, LOG);
    let offsets = record_offsets(&log);
    let (fourth, end) = (offsets[4], offsets[offsets.len() - 1]);
    put(&disk, LOG, &[&log[..fourth], &vec![0; log.len() - fourth]].concat());
    // The file looks as if nothing had ever been written there.
    let text = refusal(&disk).await.to_string();
    assert!(text.contains("the last transaction in any file is 0x4"), "{text}");
    assert!(text.contains("synced up to 0xb"), "{text}");
    let torn = without_sector(&log, fourth / SECTOR_BYTES + 1);
    put(&disk, LOG, &torn);
    let error = refusal(&disk).await;
    let StorageError::Lost { offset, end: synced, durable, mark, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!((*synced as usize, durable.0, mark), (end, 11, &path(MARK)));
    assert!(error.to_string().contains("by moving zoolet.durable away"), "{error}");
    let offset = *offset as usize;

    disk.remove(&path(MARK)).unwrap();
    let server = start(&disk).await.expect("the mark is removed");
    assert_eq!(znodes(&server), offsets.iter().position(|&at| at == offset).unwrap() - 1);
    let kept = read(&disk, &format!("torn-log.1.{offset}"));
    assert_eq!(kept, torn[offset..end], "what was cut off is kept");
}

#[tokio::test(start_paused = true)]
async fn a_torn_record_behind_the_durable_mark_is_cut_off_and_kept_in_a_file() {
    let disk = written(9).await;
    let later = written(10).await;
    let log = read(&later, LOG);
    let offsets = record_offsets(&log);
    let (last, end) = (offsets[offsets.len() - 2], offsets[offsets.len() - 1]);
    for cut in [last + 7, last + 100, end - 1] {
        let disk = killed(&disk);
        let torn = [&log[..cut], &vec![0; log.len() - cut]].concat();
        put(&disk, LOG, &torn);
        let server = start(&disk).await.expect("the torn write was not acknowledged");
        assert_eq!(znodes(&server), 9);
        assert_eq!(read(&disk, &format!("torn-log.1.{last}")), torn[last..cut], "cut at {cut}");
        drop(server);
        let names = disk.list(&path("")).unwrap();
        drop(start(&disk).await.expect("the first start repaired the log"));
        assert_eq!(disk.list(&path("")).unwrap(), names, "and nothing is kept twice");
    }
}

#[tokio::test(start_paused = true)]
async fn the_cut_tails_of_repeated_crashes_are_kept_in_files_of_their_own() {
    let disk = written(0).await;
    let log = read(&disk, LOG);
    disk.remove(&path(MARK)).unwrap();
    for (round, name) in ["torn-log.1.16", "torn-log.1.16.2", "torn-log.1.16.3"].iter().enumerate()
    {
        let torn = [&log[..30 + round], &[0; 100]].concat();
        put(&disk, LOG, &torn);
        drop(start(&disk).await.expect("the torn write was not acknowledged"));
        assert!(torn[16..].starts_with(&read(&disk, name)), "{name}");
        disk.remove(&path(MARK)).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn deleted_files_are_reported_as_missing() {
    let disk = written(10).await;
    for name in disk.list(&path("")).unwrap() {
        if name != MARK {
            disk.remove(&path(&name)).unwrap();
        }
    }
    let error = refusal(&disk).await;
    let StorageError::Missing { reached, durable, .. } = &error else { panic!("{error}") };
    assert_eq!((reached.0, durable.0), (0, 11));
    assert!(error.to_string().contains("which was in /data/version-2/log.1"), "{error}");
    disk.remove(&path(MARK)).unwrap();
    assert_eq!(
        znodes(&start(&disk).await.expect("without a mark an empty directory is a new one")),
        0
    );
}

#[tokio::test(start_paused = true)]
async fn the_durable_mark_survives_the_loss_of_either_copy() {
    let good = written(10).await;
    let mark = read(&good, MARK);
    let log = read(&good, LOG);
    for (lost, is_refused) in [(vec![0], true), (vec![1], true), (vec![0, 1], false)] {
        let disk = killed(&good);
        let changed = lost.iter().fold(mark.clone(), |mark, &sector| without_sector(&mark, sector));
        put(&disk, MARK, &changed);
        // Loses the fifth of the ten creates.
        put(&disk, LOG, &without_sector(&log, record_offsets(&log)[5] / SECTOR_BYTES));
        assert_eq!(start(&disk).await.is_err(), is_refused, "{lost:?}");
    }
    for changed in [Vec::new(), b"some notes".to_vec(), mark[..20].to_vec()] {
        let disk = killed(&good);
        put(&disk, MARK, &changed);
        assert_eq!(
            znodes(&start(&disk).await.expect("an unreadable mark is ignored")),
            10,
            "{changed:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_durable_mark_accepts_a_newer_snapshot_of_zookeeper() {
    // ZooKeeper takes a snapshot when it starts and when it joins others, writes to logs of its
    // own, and may have truncated our log where it differed from the leader's.
    let disk = written(10).await;
    let whole = killed(&disk);
    drop(start(&whole).await.unwrap());
    let log = read(&disk, LOG);
    put(&disk, LOG, &log[..record_offsets(&log)[8]]);
    refusal(&disk).await;
    let config = config(&whole);
    zoolet::server::storage::compact(config.storage.as_ref().unwrap()).unwrap();
    put(&disk, "snapshot.b", &read(&whole, "snapshot.b"));
    assert_eq!(znodes(&start(&disk).await.expect("the snapshot has everything")), 10);
}

#[tokio::test]
async fn a_copy_of_the_files_of_a_running_server_starts() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let config = |directory: &Path| {
        let storage = StorageConfig { allocate_bytes: 8_192, ..StorageConfig::at(directory) };
        Config { storage: Some(storage), ..Config::default() }
    };
    let server = Server::builder().config(config(from.path())).start().await.unwrap();
    let client = Client::connect(server.dialer()).await.unwrap();
    client.create("/a").await.unwrap();
    let (from, copy) = (from.path().join("version-2"), to.path().join("version-2"));
    std::fs::create_dir(&copy).unwrap();
    let names = std::fs::read_dir(&from).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.collect();
    // The mark is copied last, and covers changes that the copy of the log does not have.
    names.sort();
    for name in names {
        std::fs::copy(from.join(&name), copy.join(&name)).unwrap();
        client.set("/a", "x").await.unwrap();
    }
    let server = Server::builder().config(config(to.path())).start().await.unwrap();
    let client = Client::connect(server.dialer()).await.unwrap();
    assert!(client.exists("/a").await.unwrap().is_some());
}
