//! What large numbers cost: the memory of each session and of each watch, the longest single operation
//! while their tables grow, and how long other clients wait while many sessions expire at once and while
//! a snapshot of many znodes is written; and how long a start takes with many sessions or znodes.
//!
//! ```text
//! cargo bench -p zoolet-benches --bench size -- [expiry] [sessions] [watches] [snapshot] [restart]
//! ```
//!
//! Under `cargo test` everything runs once and small. Sessions and watches are made in process, so that
//! no socket counts. A session begins on a connection that ends at once.

#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::task::JoinHandle;
use zoolet::client::Client;
use zoolet::protocol::{
    AddWatch, CreateFlags, ErrorCode, Lookup, Read, Request, Watch, WatchMode, Write,
};
use zoolet::server::storage::{Durability, StorageConfig};
use zoolet::server::{Config, Server};
use zoolet_benches::filled::{directory, fill, resident_bytes, start};
use zoolet_benches::{is_measured, tell};
use zoolet_test_support::{Local, create, set_data};

/// The size of a run.
struct Sizes {
    sessions: usize,
    watches: usize,
    connections: usize,
    expiring: usize,
    tick_ms: u32,
    znodes: [usize; 2],
}

const LARGE: Sizes = Sizes {
    sessions: 1_000_000,
    watches: 10_000_000,
    connections: 1_000,
    expiring: 100_000,
    tick_ms: 10_000,
    znodes: [1_000_000, 10_000_000],
};

const SMALL: Sizes = Sizes {
    sessions: 300,
    watches: 1_000,
    connections: 10,
    expiring: 100,
    tick_ms: 50,
    znodes: [100, 1_000],
};

/// So long lives a session that is not to expire, in milliseconds.
const LONG_MS: i32 = 3_600_000;

fn main() {
    let sizes = if is_measured() { LARGE } else { SMALL };
    let only: Vec<_> = std::env::args().skip(1).filter(|name| !name.starts_with('-')).collect();
    let wants = |name: &str| only.is_empty() || only.iter().any(|only| only == name);
    // The requests of other clients share two threads with the server's own tasks.
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    if wants("expiry") {
        runtime.block_on(expiry(&sizes));
    }
    if wants("sessions") {
        runtime.block_on(sessions(&sizes));
    }
    if wants("watches") {
        runtime.block_on(watches(&sizes));
    }
    for znodes in sizes.znodes.into_iter().filter(|_| wants("snapshot")) {
        runtime.block_on(snapshot(znodes));
    }
    if wants("restart") {
        runtime.block_on(restart(sizes.sessions));
    }
    if wants("expiry") {
        // The last, since others would get the memory that it frees.
        merge(sizes.expiring * FREED);
    }
}

async fn server(tick_ms: u32) -> Server {
    server_with(tick_ms, None).await
}

async fn server_with(tick_ms: u32, storage: Option<StorageConfig>) -> Server {
    let config = Config {
        storage,
        tick_time_ms: tick_ms,
        min_session_timeout_ms: Some(1),
        max_session_timeout_ms: Some(LONG_MS),
        ..Config::default()
    };
    Server::builder().config(config).start().await.expect("the server starts")
}

/// Times of operations.
#[derive(Default)]
struct Times(Vec<Duration>);

impl Times {
    fn add(&mut self, since: Instant) {
        self.0.push(since.elapsed());
    }

    fn quantile(&mut self, quantile: f64) -> Duration {
        self.0.sort_unstable();
        let place = (self.0.len() as f64 * quantile) as usize;
        self.0.get(place.min(self.0.len().saturating_sub(1))).copied().unwrap_or_default()
    }

    fn text(&mut self) -> String {
        let (p50, p99, longest) = (self.quantile(0.5), self.quantile(0.99), self.quantile(1.0));
        format!("p50 {p50:.1?}, p99 {p99:.1?}, longest {longest:.1?}")
    }
}

/// Sessions begin, one after the other, and live on without a connection.
async fn sessions(sizes: &Sizes) {
    let server = server(3_000).await;
    let (before, mut times) = (resident_bytes(), Times(Vec::with_capacity(sizes.sessions)));
    for _ in 0..sizes.sessions {
        let since = Instant::now();
        let (client, _) = Local::connect(&server, LONG_MS).await;
        times.add(since);
        drop(client);
    }
    let bytes = resident_bytes().saturating_sub(before) / sizes.sessions as u64;
    let count = sizes.sessions;
    tell(&format!("{count} sessions without a connection: {bytes} bytes each"));
    tell(&format!("the begin of one of them: {}", times.text()));
    let mut other = Other::connect(&server).await;
    for _ in 0..count.min(20_000) {
        other.turn().await;
    }
    tell(&format!("a write and a read of another client beside them: {}", other.times.text()));
}

/// Connections watch as many paths each, which they share with no other.
async fn watches(sizes: &Sizes) {
    let server = server(3_000).await;
    let before = resident_bytes();
    let (mut clients, mut times) = (Vec::new(), Times(Vec::with_capacity(sizes.watches)));
    for _ in 0..sizes.connections {
        clients.push(Local::connect(&server, LONG_MS).await.0);
    }
    for number in 0..sizes.watches / sizes.connections {
        for (place, client) in clients.iter_mut().enumerate() {
            let path = format!("/watched/{place:04}/{number:010}");
            let watch =
                AddWatch { path: path.as_str().into(), mode: WatchMode::PERSISTENT_RECURSIVE };
            let request = match number % 2 {
                0 => Request::Watch(Watch::Add(watch)),
                _ => Request::Watch(Watch::Lookup(Lookup::Exists(path.as_str().into()))),
            };
            let since = Instant::now();
            let _ = client.call(&request).await;
            times.add(since);
        }
    }
    let bytes = resident_bytes().saturating_sub(before) / sizes.watches as u64;
    tell(&format!(
        "{} watches of {} connections: {bytes} bytes each",
        sizes.watches, sizes.connections
    ));
    tell(&format!("the request for one of them: {}", times.text()));
}

/// Another client, which writes and reads in turn.
struct Other {
    client: Local,
    times: Times,
}

impl Other {
    async fn connect(server: &Server) -> Self {
        let (mut client, _) = Local::connect(server, LONG_MS).await;
        let (header, _) = client.call(&create("/other", CreateFlags::PERSISTENT)).await;
        assert!(matches!(header.err, ErrorCode::OK | ErrorCode::NODE_EXISTS));
        Self { client, times: Times::default() }
    }

    async fn turn(&mut self) {
        let read = Request::Read(Read::Lookup(Lookup::GetData("/other".into())));
        for request in [Request::Write(Write::Op(set_data("/other", b"data"))), read] {
            let since = Instant::now();
            let (header, _) = self.client.call(&request).await;
            assert_eq!(header.err, ErrorCode::OK);
            self.times.add(since);
        }
    }
}

/// Sessions with an ephemeral each expire with the same tick.
async fn expiry(sizes: &Sizes) {
    let server = Arc::new(server(sizes.tick_ms).await);
    let (mut root, _) = Local::connect(&server, LONG_MS).await;
    root.call(&create("/owned", CreateFlags::PERSISTENT)).await;
    for _ in 0..sizes.expiring {
        let (mut client, _) = Local::connect(&server, 1).await;
        // The timeout begins with the last request. A slow machine may be late for some.
        let ephemeral = create("/owned/lock-", CreateFlags::EPHEMERAL_SEQUENTIAL);
        client.send(&ephemeral);
    }
    let ephemerals = || server.totals().ephemerals;
    let most = ephemerals();
    let mut quiet = Other::connect(&server).await;
    // Under `cargo test` the first ones may have expired by now.
    while most > 0 && ephemerals() == most {
        quiet.turn().await;
        tokio::time::sleep(PAUSE).await;
    }
    let others = Others::start(&server);
    let begin = Instant::now();
    while ephemerals() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let took = begin.elapsed();
    let mut times = others.stop().await;
    tell(&format!("{most} sessions with an ephemeral each expire within {took:.1?}"));
    tell(&format!("a write or a read of four other clients meanwhile: {}", times.text()));
    tell(&format!("of one client before: {}", quiet.times.text()));
}

/// How many blocks the expiry of a session with an ephemeral frees, as callgrind counts them.
const FREED: usize = 10;

/// The floor of the longest request: as many small blocks are freed as by the sessions, and the next
/// larger one waits until the allocator has merged them. Half of them are as long as a path, and half as
/// an entry of a table.
fn merge(blocks: usize) {
    let lengths = [48, 96].into_iter().cycle();
    let held: Vec<_> = lengths.take(blocks).map(|length| vec![1_u8; length]).collect();
    // As sessions do, which began one after the other.
    held.into_iter().for_each(drop);
    let begin = Instant::now();
    drop(black_box(Vec::<u8>::with_capacity(4 << 10)));
    let took = begin.elapsed();
    tell(&format!(
        "{blocks} small blocks are freed without a server, and one of 4 KiB is asked for, which takes {took:.1?}"
    ));
}

/// Files that only [`Server::take_snapshot`] makes snapshots of.
fn storage(directory: &Path) -> StorageConfig {
    StorageConfig {
        durability: Durability::Buffered,
        snap_count: u64::MAX,
        ..StorageConfig::at(directory)
    }
}

/// A server starts with the sessions of its snapshot, none of which has a connection.
async fn restart(sessions: usize) {
    let directory = directory(env!("CARGO_TARGET_TMPDIR"));
    let server = server_with(3_000, Some(storage(directory.path()))).await;
    for _ in 0..sessions {
        drop(Local::connect(&server, LONG_MS).await);
    }
    let snapshot = server.take_snapshot().await.expect("the disk has room");
    drop(server);
    let begin = Instant::now();
    let server = server_with(3_000, Some(storage(directory.path()))).await;
    let (took, bytes) = (begin.elapsed(), snapshot.length());
    assert_eq!(server.totals().sessions, sessions, "all are in the snapshot");
    tell(&format!(
        "a start with {sessions} sessions, from a snapshot of {bytes} bytes: {took:.1?}"
    ));
}

/// A snapshot is written while others write and read, and a server starts from it.
async fn snapshot(znodes: usize) {
    let directory = directory(env!("CARGO_TARGET_TMPDIR"));
    let server = Arc::new(start(storage(directory.path())).await);
    let client = Client::connect(server.dialer()).await.expect("it is there");
    fill(&client, znodes).await;
    let mut quiet = Other::connect(&server).await;
    for _ in 0..1_000 {
        quiet.turn().await;
        tokio::time::sleep(PAUSE).await;
    }
    let others = Others::start(&server);
    let begin = Instant::now();
    let snapshot = server.take_snapshot().await.expect("the disk has room");
    let took = begin.elapsed();
    let mut times = others.stop().await;
    let bytes = snapshot.length();
    tell(&format!("a snapshot of {znodes} znodes, {bytes} bytes, is written within {took:.1?}"));
    tell(&format!("a write or a read of four other clients meanwhile: {}", times.text()));
    tell(&format!("of one client before: {}", quiet.times.text()));
    drop((client, quiet, server));
    let begin = Instant::now();
    drop(start(storage(directory.path())).await);
    tell(&format!("a start from it and the log behind it: {:.1?}", begin.elapsed()));
}

/// The time between two turns of a client.
const PAUSE: Duration = Duration::from_micros(200);

/// Four clients that write and read.
struct Others {
    is_over: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Times>>,
}

impl Others {
    fn start(server: &Arc<Server>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let tasks = (0..4).map(|_| {
            let (server, is_over) = (Arc::clone(server), Arc::clone(&is_over));
            tokio::spawn(async move {
                let mut other = Other::connect(&server).await;
                while !is_over.load(Ordering::Relaxed) {
                    other.turn().await;
                    tokio::time::sleep(PAUSE).await;
                }
                other.times
            })
        });
        Self { tasks: tasks.collect(), is_over }
    }

    async fn stop(self) -> Times {
        self.is_over.store(true, Ordering::Relaxed);
        let mut times = Times::default();
        for task in self.tasks {
            times.0.append(&mut task.await.expect("no request fails").0);
        }
        times
    }
}
