//! How long a server takes to start again: from a log of many creates, from a snapshot of the same znodes,
//! and from a compressed snapshot; and how much memory each znode takes.
//!
//! ```text
//! cargo bench -p zoolet-benches --bench recover
//! ```
//!
//! The files are below `target` and in the system's cache, so the suite measures the work of the server,
//! not the disk.

#![allow(missing_docs, reason = "what criterion's macro makes has no docs")]
#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

use std::time::{Duration, Instant};

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use zoolet::client::Client;
use zoolet::server::storage::{Compression, Durability, StorageConfig};
use zoolet_benches::filled::{count_snapshots, directory, fill, resident_bytes, start};
use zoolet_benches::{runtime, tell};

fn znodes() -> usize {
    if zoolet_benches::is_measured() { 200_000 } else { 1_000 }
}

/// A data directory with this many znodes, in a log or in a snapshot.
fn filled(runtime: &Runtime, znodes: usize, snapshot: Option<Compression>) -> TempDir {
    let directory = directory(env!("CARGO_TARGET_TMPDIR"));
    runtime.block_on(async {
        // A snapshot is taken after the last znode, or never.
        let snap_count = if snapshot.is_some() { znodes as u64 } else { u64::MAX };
        let storage = StorageConfig {
            durability: Durability::Buffered,
            snap_count,
            snapshot_compression: snapshot.unwrap_or_default(),
            ..StorageConfig::at(directory.path())
        };
        let server = start(storage).await;
        let client = Client::connect(server.dialer()).await.expect("it is there");
        fill(&client, znodes).await;
        while snapshot.is_some() && count_snapshots(directory.path()) < 2 {
            client.set("/0", "again").await.expect("it is there");
        }
        server.shutdown().await;
    });
    directory
}

/// The configuration of a server that starts from the directory and writes no snapshot.
fn as_it_is(directory: &TempDir) -> StorageConfig {
    StorageConfig { snap_count: u64::MAX, ..StorageConfig::at(directory.path()) }
}

fn recover(criterion: &mut Criterion) {
    let znodes = znodes();
    let mut group = criterion.benchmark_group("recover: each znode");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.throughput(Throughput::Elements(znodes as u64));
    for (name, snapshot) in [
        ("from a log", None),
        ("from a snapshot", Some(Compression::None)),
        ("from a snapshot, gzip", Some(Compression::Gzip)),
        ("from a snapshot, snappy", Some(Compression::Snappy)),
    ] {
        let runtime = runtime();
        let mut made = None;
        group.bench_function(name, |b| {
            let directory = made.get_or_insert_with(|| filled(&runtime, znodes, snapshot));
            b.iter_custom(|count| {
                let mut total = Duration::ZERO;
                for _ in 0..count {
                    total += runtime.block_on(async {
                        let start_of_all = Instant::now();
                        let server = start(as_it_is(directory)).await;
                        let elapsed = start_of_all.elapsed();
                        assert!(server.totals().znodes >= znodes, "all are there");
                        server.shutdown().await;
                        elapsed
                    });
                }
                total
            });
        });
    }
    group.finish();
}

/// Measures how much memory the znodes take.
fn memory(_: &mut Criterion) {
    let (runtime, znodes) = (runtime(), znodes());
    let directory = filled(&runtime, znodes, None);
    runtime.block_on(async {
        let before = resident_bytes();
        let server = start(as_it_is(&directory)).await;
        let each = resident_bytes().saturating_sub(before) / znodes as u64;
        tell(&format!("{each} bytes resident more for each znode with 100 bytes of data"));
        server.shutdown().await;
    });
}

criterion_group!(benches, memory, recover);
criterion_main!(benches);
