//! What durability costs: how long one write takes beside a write and sync of the bare disk; synced writes
//! of 1, 8, 64 and 1,000 clients beside the bare disk with batches of the same size; and how long a write
//! takes while a snapshot of a large tree is written.
//!
//! The disk alone writes to a file with holes, as ZooKeeper makes its logs, and to a file of zeros that were
//! written before. The floor of one write is a task that writes to such zeros and
//! syncs, and another that wakes it and waits for it: nothing else. All take turns.
//!
//! ```text
//! cargo bench -p zoolet-benches --bench durable -- [one] [many] [snapshot]
//! ```
//!
//! Under `cargo test` everything runs once and small. The files are below `target`, so the disk of that
//! directory is measured.

#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use zoolet::client::Client;
use zoolet::server::Server;
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
    /// How often ours and the disk alone take turns.
    rounds: usize,
    /// The time of a turn.
    turn: Duration,
    /// The writes of a turn, one after the other.
    writes: usize,
    /// The writes before a snapshot.
    quiet_writes: usize,
}

fn sizes() -> Sizes {
    if zoolet_benches::is_measured() {
        let turn = Duration::from_millis(250);
        let clients = &[1, 8, 64, 1_000];
        Sizes { znodes: 1_000_000, clients, rounds: 24, turn, writes: 200, quiet_writes: 3_000 }
    } else {
        let turn = Duration::from_millis(5);
        Sizes { znodes: 2_000, clients: &[1, 8], rounds: 2, turn, writes: 25, quiet_writes: 50 }
    }
}

fn main() {
    let sizes = Arc::new(sizes());
    let only: Vec<_> = std::env::args().skip(1).filter(|name| !name.starts_with('-')).collect();
    let wants = move |name: &str| only.is_empty() || only.iter().any(|only| only == name);
    let runtime = Runtime::new().expect("a runtime");
    // In a task, as the clients of a program are.
    let measured = runtime.spawn(async move {
        if wants("one") {
            one_write(&sizes).await;
        }
        if wants("many") {
            synced_writes(&sizes).await;
        }
        if wants("snapshot") {
            large_tree(&sizes).await;
        }
    });
    runtime.block_on(measured).expect("it does not panic");
}

/// A file to which the disk alone is written.
struct Bare {
    file: File,
    left: usize,
    zeros: Zeros,
    directory: TempDir,
}

/// What the zeros of a file are before records overwrite them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Zeros {
    /// The file is only longer, as ZooKeeper makes it: the file system takes space when the records
    /// are synced.
    Holes,
    /// They are on the disk.
    Written,
}

impl Bare {
    const BYTES: usize = 64 << 20;

    fn new(zeros: Zeros) -> Self {
        let directory = directory(env!("CARGO_TARGET_TMPDIR"));
        let file = Self::make(directory.path(), zeros);
        Self { file, left: Self::BYTES, zeros, directory }
    }

    fn make(directory: &Path, zeros: Zeros) -> File {
        let mut file = File::create(directory.join("bare")).expect("it can be made");
        match zeros {
            Zeros::Holes => file.set_len(Self::BYTES as u64).expect("there is room"),
            Zeros::Written => {
                for _ in 0..Self::BYTES >> 20 {
                    file.write_all(&[0; 1 << 20]).expect("there is room");
                }
                file.rewind().expect("it begins somewhere");
            }
        }
        file.sync_all().expect("the disk syncs");
        file
    }

    /// How long one write and sync takes. When the file is full another takes its place.
    fn write(&mut self, bytes: &[u8]) -> Duration {
        if self.left < bytes.len() {
            self.file = Self::make(self.directory.path(), self.zeros);
            self.left = Self::BYTES;
        }
        self.left -= bytes.len();
        let begin = Instant::now();
        self.file.write_all(bytes).expect("there is room");
        self.file.sync_data().expect("the disk syncs");
        begin.elapsed()
    }

    /// How many batches a second are written and synced.
    fn per_second(&mut self, bytes: &[u8], time: Duration) -> f64 {
        let (mut spent, mut batches) = (Duration::ZERO, 0);
        while spent < time {
            spent += self.write(bytes);
            batches += 1;
        }
        f64::from(batches) / spent.as_secs_f64()
    }
}

/// A task that writes and syncs when another wakes it, and wakes that one then.
struct SyncingTask {
    asked: Arc<Notify>,
    done: Arc<Notify>,
    task: JoinHandle<()>,
}

impl SyncingTask {
    fn start(record: Vec<u8>) -> Self {
        let (asked, done) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (of_asked, of_done) = (Arc::clone(&asked), Arc::clone(&done));
        let task = tokio::spawn(async move {
            let mut bare = Bare::new(Zeros::Written);
            loop {
                of_asked.notified().await;
                bare.write(&record);
                of_done.notify_one();
            }
        });
        Self { asked, done, task }
    }

    async fn write(&self) -> Duration {
        let begin = Instant::now();
        self.asked.notify_one();
        self.done.notified().await;
        begin.elapsed()
    }
}

impl Drop for SyncingTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn start_counted(directory: &Path, disk: &Counting) -> Server {
    let disk = Arc::new(disk.clone());
    // No snapshot is taken meanwhile.
    start(StorageConfig { disk, snap_count: u64::MAX, ..StorageConfig::at(directory) }).await
}

/// Measures how long one write takes by turns with the bare disk, and prints the ratio of the medians.
async fn one_write(sizes: &Sizes) {
    let directory = directory(env!("CARGO_TARGET_TMPDIR"));
    let disk = Counting::default();
    let server = start_counted(directory.path(), &disk).await;
    let client = Client::connect(server.dialer()).await.expect("it is there");
    client.create("/0").await.expect("it is new");
    let (mut holes, mut written) = (Bare::new(Zeros::Holes), Bare::new(Zeros::Written));
    let before = disk.counts().1;
    client.set("/0", DATA).await.expect("it is there");
    let record = vec![7; (disk.counts().1 - before) as usize];
    let syncing = SyncingTask::start(record.clone());
    let mut ours = Vec::new();
    let (mut of_holes, mut of_written, mut of_task) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        ours.extend(latencies(&client, |done| done < sizes.writes).await);
        of_holes.extend((0..sizes.writes).map(|_| holes.write(&record)));
        of_written.extend((0..sizes.writes).map(|_| written.write(&record)));
        for _ in 0..sizes.writes {
            of_task.push(syncing.write().await);
        }
    }
    server.shutdown().await;
    let told = |latencies: &[Duration]| {
        let [p50, p99] = [50, 99].map(|percent| percentile(latencies, percent));
        format!("p50 {p50:.1?}, p99 {p99:.1?}")
    };
    let times = |bare: &[Duration], percent| {
        percentile(&ours, percent).as_secs_f64() / percentile(bare, percent).as_secs_f64()
    };
    tell(&format!("one client, one synced write after the other: {}", told(&ours)));
    let floors = [
        ("the disk alone, as many bytes into a file with holes", &of_holes),
        ("the disk alone, as many bytes into a file of written zeros", &of_written),
        ("the same by a task that another wakes and waits for", &of_task),
    ];
    for (name, bare) in floors {
        tell(&format!(
            "{name}: {}; the client's p50 is {:.2} times as long, its p99 {:.2} times",
            told(bare),
            times(bare, 50),
            times(bare, 99)
        ));
    }
}

/// Measures writes per second by turns with the bare disk, and prints their ratio.
async fn synced_writes(sizes: &Sizes) {
    println!(
        "synced writes of 100 bytes, beside batches of the same size that are written and synced"
    );
    for &clients in sizes.clients {
        let writers = Writers::start(clients).await;
        let (mut holes, mut written) = (Bare::new(Zeros::Holes), Bare::new(Zeros::Written));
        let (mut of_holes, mut of_written) = (Vec::new(), Vec::new());
        let (mut rates, mut batches) = (Vec::new(), Vec::new());
        for _ in 0..sizes.rounds {
            let ours = writers.turn(sizes.turn).await;
            let bytes = vec![7; (ours.batch * ours.record_bytes) as usize];
            let share = |bare: &mut Bare| {
                ours.per_second / ours.batch / bare.per_second(&bytes, sizes.turn) * 100.0
            };
            of_holes.push(share(&mut holes));
            of_written.push(share(&mut written));
            rates.push(ours.per_second);
            batches.push(ours.batch);
        }
        writers.server.shutdown().await;
        tell(&format!(
            "{clients} clients write and sync {:.0} times a second together, {:.1} a sync: as often as {:.0} % \
             of what the disk alone does with as many bytes into a file with holes, {:.0} % of written zeros \
             (medians of {})",
            median(&mut rates),
            median(&mut batches),
            median(&mut of_holes),
            median(&mut of_written),
            sizes.rounds
        ));
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A server and clients, each of which has a znode.
struct Writers {
    server: Server,
    clients: Vec<(Arc<Client>, String)>,
    disk: Counting,
    _directory: TempDir,
}

struct Written {
    per_second: f64,
    /// How many writes shared a sync.
    batch: f64,
    record_bytes: f64,
}

impl Writers {
    async fn start(count: usize) -> Self {
        let directory = directory(env!("CARGO_TARGET_TMPDIR"));
        let disk = Counting::default();
        let server = start_counted(directory.path(), &disk).await;
        let mut clients = Vec::new();
        for number in 0..count {
            let client = Client::connect(server.dialer()).await.expect("it is there");
            let path = format!("/{number}");
            client.create(&path).await.expect("it is new");
            clients.push((Arc::new(client), path));
        }
        Self { server, clients, disk, _directory: directory }
    }

    /// Each client writes again and again for some time.
    async fn turn(&self, time: Duration) -> Written {
        let (syncs, bytes) = self.disk.counts();
        let begin = Instant::now();
        let write = |(client, path): &(Arc<Client>, String)| {
            let (client, path) = (Arc::clone(client), path.clone());
            tokio::spawn(async move {
                let mut count = 0_u64;
                while begin.elapsed() < time {
                    client.set(&path, DATA).await.expect("it is there");
                    count += 1;
                }
                count
            })
        };
        let tasks: Vec<_> = self.clients.iter().map(write).collect();
        let mut count = 0;
        for task in tasks {
            count += task.await.expect("the task ends");
        }
        let elapsed = begin.elapsed();
        let (syncs, bytes) = (self.disk.counts().0 - syncs, self.disk.counts().1 - bytes);
        Written {
            per_second: count as f64 / elapsed.as_secs_f64(),
            batch: count as f64 / syncs.max(1) as f64,
            record_bytes: bytes as f64 / count.max(1) as f64,
        }
    }
}

/// Measures writes while a snapshot of a large tree is written.
async fn large_tree(sizes: &Sizes) {
    let directory = directory(env!("CARGO_TARGET_TMPDIR"));
    let znodes = sizes.znodes;
    // The snapshot is taken in the middle of the measured writes.
    let snap_count = (znodes + 10 + 2 * sizes.quiet_writes) as u64;
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
    let quiet = latencies(&client, |done| done < sizes.quiet_writes).await;
    assert_eq!(snapshots(), 1, "no snapshot was taken meanwhile");
    // Up to the write that starts the snapshot.
    let _ = latencies(&client, |done| done < sizes.quiet_writes).await;
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
    fn create_directory(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
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

    fn reserve(&mut self, part: Range<u64>) -> io::Result<()> {
        self.file.reserve(part)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.counting.syncs.fetch_add(1, Ordering::Relaxed);
        self.file.sync()
    }
}
