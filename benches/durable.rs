//! What durability costs: synced writes of 1, 8, 64 and 1,000 clients beside the bare disk with batches of
//! the same size; how long one write takes beside a write and sync of the bare disk; and how long a write takes while a snapshot of a large tree is written.
//!
//! ```text
//! cargo bench -p zoolet-benches --bench durable
//! ```
//!
//! Under `cargo test` everything runs once and small. The files are below `target`, so the disk of that
//! directory is measured.

#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use zoolet::client::Client;
use zoolet::server::storage::{
    DirectoryLock, Disk, DiskFile, Durability, FsDisk, LockError, StorageConfig,
};
use zoolet_benches::filled::{count_snapshots, directory, fill, start};
use zoolet_benches::requests::DATA;
use zoolet_benches::tell;

/// The size of a run.
struct Sizes {
    znodes: usize,
    clients: &'static [usize],
    rounds: usize,
    each: Duration,
    writes: usize,
}

fn sizes() -> Sizes {
    if zoolet_benches::is_measured() {
        let each = Duration::from_secs(2);
        Sizes { znodes: 1_000_000, clients: &[1, 8, 64, 1_000], rounds: 3, each, writes: 3_000 }
    } else {
        let each = Duration::from_millis(20);
        Sizes { znodes: 2_000, clients: &[1, 8], rounds: 1, each, writes: 50 }
    }
}

fn main() {
    let sizes = sizes();
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(one_write(&sizes));
    runtime.block_on(synced_writes(&sizes));
    runtime.block_on(large_tree(&sizes));
}

/// Measures how long one write takes by turns with the bare disk, and prints the ratio of the medians.
async fn one_write(sizes: &Sizes) {
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        let directory = directory(env!("CARGO_TARGET_TMPDIR"));
        let disk = Counting::default();
        let storage =
            StorageConfig { disk: Arc::new(disk.clone()), ..StorageConfig::at(directory.path()) };
        let server = start(storage).await;
        let client = Client::connect(server.dialer()).await.expect("it is there");
        client.create("/0").await.expect("it is new");
        let before = disk.counts().1;
        ours.extend(latencies(&client, |done| done < sizes.writes).await);
        let record_bytes = (disk.counts().1 - before) as usize / sizes.writes;
        server.shutdown().await;
        floor.extend(disk_latencies(record_bytes, sizes.writes));
    }
    let [ours_p50, ours_p99] = [50, 99].map(|percent| percentile(&ours, percent));
    let [floor_p50, floor_p99] = [50, 99].map(|percent| percentile(&floor, percent));
    tell(&format!(
        "one client, one synced write after the other: p50 {ours_p50:.1?}, p99 {ours_p99:.1?}; the disk alone \
         with as many bytes: p50 {floor_p50:.1?}, p99 {floor_p99:.1?}; p50 {:.2} times as long",
        ours_p50.as_secs_f64() / floor_p50.as_secs_f64()
    ));
}

/// How long the disk takes to write and sync, one after the other.
fn disk_latencies(record_bytes: usize, writes: usize) -> Vec<Duration> {
    let directory = directory(env!("CARGO_TARGET_TMPDIR"));
    let mut file = floor_file(directory.path());
    let bytes = vec![7; record_bytes.max(1)];
    let once = |_| {
        let begin = Instant::now();
        file.write_all(&bytes).expect("there is room");
        file.sync_data().expect("the disk syncs");
        begin.elapsed()
    };
    (0..writes).map(once).collect()
}

/// A file as long as a log, to which the disk alone is written.
fn floor_file(directory: &Path) -> File {
    let file = File::create(directory.join("floor")).expect("it can be made");
    file.set_len(64 << 20).expect("there is room");
    file
}

/// Measures writes per second by turns with the bare disk, and prints their ratio.
async fn synced_writes(sizes: &Sizes) {
    println!(
        "synced writes of 100 bytes, beside batches of the same size that are written and synced"
    );
    for &clients in sizes.clients {
        let (mut shares, mut rates) = (Vec::new(), Vec::new());
        for _ in 0..sizes.rounds {
            let ours = writes_per_second(clients, sizes.each).await;
            let floor = disk_per_second(ours.batch, ours.record_bytes, sizes.each);
            let share = ours.per_second / floor;
            println!(
                "  {clients:>3} clients: {:>8.0}/s, {:>5.1} a sync; the disk alone: {floor:>8.0}/s; \
                 share {:>3.0} %",
                ours.per_second,
                ours.batch,
                share * 100.0
            );
            shares.push(share);
            rates.push(ours.per_second);
        }
        tell(&format!(
            "{clients} clients write and sync {:.0} times a second together, {:.0} % of what the disk \
             does with batches as large (medians of {})",
            median(&mut rates),
            median(&mut shares) * 100.0,
            sizes.rounds
        ));
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

struct Written {
    per_second: f64,
    /// How many writes shared a sync.
    batch: f64,
    record_bytes: usize,
}

async fn writes_per_second(clients: usize, time: Duration) -> Written {
    let directory = directory(env!("CARGO_TARGET_TMPDIR"));
    let disk = Counting::default();
    let storage =
        StorageConfig { disk: Arc::new(disk.clone()), ..StorageConfig::at(directory.path()) };
    let server = start(storage).await;
    let mut writers = Vec::new();
    for number in 0..clients {
        let client = Client::connect(server.dialer()).await.expect("it is there");
        let path = format!("/{number}");
        client.create(&path).await.expect("it is new");
        writers.push((client, path));
    }
    let (syncs, bytes) = disk.counts();
    let begin = Instant::now();
    let tasks: Vec<_> = writers
        .into_iter()
        .map(|(client, path)| {
            tokio::spawn(async move {
                let mut count = 0_u64;
                while begin.elapsed() < time {
                    client.set(&path, DATA).await.expect("it is there");
                    count += 1;
                }
                count
            })
        })
        .collect();
    let mut count = 0;
    for task in tasks {
        count += task.await.expect("the task ends");
    }
    let elapsed = begin.elapsed();
    let (syncs, bytes) = (disk.counts().0 - syncs, disk.counts().1 - bytes);
    server.shutdown().await;
    Written {
        per_second: count as f64 / elapsed.as_secs_f64(),
        batch: count as f64 / syncs.max(1) as f64,
        record_bytes: (bytes / count.max(1)) as usize,
    }
}

/// Measures how many records per second the disk writes in synced batches.
fn disk_per_second(batch: f64, record_bytes: usize, time: Duration) -> f64 {
    let directory = directory(env!("CARGO_TARGET_TMPDIR"));
    let mut file = floor_file(directory.path());
    let bytes = vec![7; (batch * record_bytes as f64).max(1.0) as usize];
    let begin = Instant::now();
    let mut batches = 0_u64;
    while begin.elapsed() < time {
        file.write_all(&bytes).expect("there is room");
        file.sync_data().expect("the disk syncs");
        batches += 1;
    }
    batches as f64 * batch / begin.elapsed().as_secs_f64()
}

/// Measures writes while a snapshot of a large tree is written.
async fn large_tree(sizes: &Sizes) {
    let directory = directory(env!("CARGO_TARGET_TMPDIR"));
    let znodes = sizes.znodes;
    // The snapshot is taken in the middle of the measured writes.
    let snap_count = (znodes + 10 + 2 * sizes.writes) as u64;
    let storage = StorageConfig { snap_count, ..StorageConfig::at(directory.path()) };
    let filling = StorageConfig { durability: Durability::Buffered, ..storage.clone() };
    let server = start(filling).await;
    let client = Client::connect(server.dialer()).await.expect("it is there");
    fill(&client, znodes).await;
    server.shutdown().await;
    drop(client);

    let server = start(storage).await;
    let client = Client::connect(server.dialer()).await.expect("it is there");
    let snapshots = || count_snapshots(directory.path());
    let quiet = latencies(&client, |done| done < sizes.writes).await;
    assert_eq!(snapshots(), 1, "no snapshot was taken meanwhile");
    // Up to the write that starts the snapshot.
    let _ = latencies(&client, |done| done < sizes.writes).await;
    let busy = latencies(&client, |_| snapshots() < 2).await;
    let (quiet_p99, busy_p99) = (percentile(&quiet, 99), percentile(&busy, 99));
    let told = |latencies: &[Duration]| {
        let [p50, p99, longest] = [50, 99, 100].map(|percent| percentile(latencies, percent));
        format!("p50 {p50:.0?}, p99 {p99:.0?}, longest {longest:.0?}")
    };
    tell(&format!("one client, synced writes one after the other: {}", told(&quiet)));
    tell(&format!(
        "the same while a snapshot of {znodes} znodes is written, {} writes: {}; p99 {:.1} times as long",
        busy.len(),
        told(&busy),
        busy_p99.as_secs_f64() / quiet_p99.as_secs_f64()
    ));
    server.shutdown().await;
}

/// The times of writes, one after the other, while a condition holds; at least one.
async fn latencies(client: &Client, mut goes_on: impl FnMut(usize) -> bool) -> Vec<Duration> {
    let mut latencies = Vec::new();
    loop {
        let begin = Instant::now();
        client.set("/0", DATA).await.expect("it is there");
        latencies.push(begin.elapsed());
        if !goes_on(latencies.len()) {
            return latencies;
        }
    }
}

fn percentile(latencies: &[Duration], percent: usize) -> Duration {
    let mut sorted = latencies.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

/// The machine's disk, with the syncs and bytes of its files counted.
#[derive(Debug, Clone, Default)]
struct Counting {
    syncs: Arc<AtomicU64>,
    bytes: Arc<AtomicU64>,
}

impl Counting {
    fn counts(&self) -> (u64, u64) {
        (self.syncs.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

impl Disk for Counting {
    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        FsDisk.create_directory(directory)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        FsDisk.list(directory)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        FsDisk.open(path)
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        FsDisk.length(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(CountedFile { file: FsDisk.create(path)?, counting: self.clone() }))
    }

    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        FsDisk.truncate(path, length)
    }

    fn rewrite(&self, path: &Path, part: Range<u64>) -> io::Result<()> {
        FsDisk.rewrite(path, part)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        FsDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        FsDisk.remove(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        FsDisk.sync_directory(directory)
    }

    fn lock(&self, directory: &Path) -> Result<Box<dyn DirectoryLock>, LockError> {
        FsDisk.lock(directory)
    }
}

#[derive(Debug)]
struct CountedFile {
    file: Box<dyn DiskFile>,
    counting: Counting,
}

impl Write for CountedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.counting.bytes.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl DiskFile for CountedFile {
    fn write_at(&mut self, position: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(position, bytes)
    }

    fn set_length(&mut self, length: u64) -> io::Result<()> {
        self.file.set_length(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.counting.syncs.fetch_add(1, Ordering::Relaxed);
        self.file.sync()
    }
}
