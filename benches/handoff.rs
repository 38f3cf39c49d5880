//! What a lock costs: to acquire and release it while nobody wants it, and to hand it to the next of
//! 2 to 10,000 who wait, in process and over TCP, beside the floors of the machine.
//!
//! ```text
//! cargo bench -p zoolet-benches --bench handoff
//! ```
//!
//! A hand-over takes from the beginning of the release until the next one knows that it holds the lock.
//! Who has held it goes to the end of the line, which is not part of that. Each who waits has a client
//! of its own, but for 10,000 over TCP, of whom ten share one. Server and clients are on one thread.
//!
//! In the line of the read-write lock writers and readers alternate. The semaphore has one permit.

#![allow(missing_docs, reason = "what criterion's macro makes has no docs")]
#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

use std::sync::Arc;
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, SamplingMode, criterion_group, criterion_main};
use zoolet::client::Parents;
use zoolet::{
    Client, InterProcessLock, InterProcessMutex, InterProcessReadWriteLock,
    InterProcessSemaphoreMutex,
};
use zoolet_benches::contest::{Contest, Make, PATH, Setting};
use zoolet_benches::{Way, connect, floors, runtime, server, sizes};

/// How many connections there are over TCP: two descriptors each.
const CONNECTIONS_MAX: usize = 1_001;

fn mutex(client: &Client, _: usize) -> Arc<dyn InterProcessLock> {
    Arc::new(InterProcessMutex::new(client, PATH).expect("a path"))
}

fn read_or_write(client: &Client, number: usize) -> Arc<dyn InterProcessLock> {
    let lock = InterProcessReadWriteLock::new(client, PATH).expect("a path");
    if number.is_multiple_of(2) { Arc::new(lock.write_lock()) } else { Arc::new(lock.read_lock()) }
}

fn semaphore(client: &Client, _: usize) -> Arc<dyn InterProcessLock> {
    Arc::new(InterProcessSemaphoreMutex::new(client, PATH).expect("a path"))
}

fn uncontended(criterion: &mut Criterion) {
    const KINDS: [(&str, usize, Make); 4] = [
        ("mutex", 0, mutex),
        ("to write", 0, read_or_write),
        ("to read", 1, read_or_write),
        ("semaphore", 0, semaphore),
    ];
    let mut group = criterion.benchmark_group("handoff: acquire and release");
    for (kind, number, make) in KINDS {
        for way in Way::BOTH {
            let runtime = runtime();
            let server = runtime.block_on(server());
            let client = runtime.block_on(connect(&server, way));
            let lock = make(&client, number);
            // The directories stay between two times.
            let stays = ["/stays", "/locks/stays", "/leases/stays"];
            for name in stays {
                let path = format!("{PATH}{name}");
                let create = async { client.create(&path).parents(Parents::Persistent).await };
                runtime.block_on(create).expect("it is new");
            }
            group.bench_function(BenchmarkId::new(kind, way.name()), |b| {
                b.iter_custom(|count| {
                    runtime.block_on(async {
                        let start = Instant::now();
                        for _ in 0..count {
                            let guard = lock.acquire().await.expect("it is free");
                            guard.release().await.expect("it is held");
                        }
                        start.elapsed()
                    })
                });
            });
        }
    }
    group.finish();
}

/// How many hand-overs are measured where more are asked for: between two, somebody goes to the end
/// of a line, which takes the longer the longer that is.
fn turns_max(waiters: usize) -> u64 {
    match waiters {
        ..=100 => 2_000,
        101..=1_000 => 200,
        _ => 20,
    }
}

fn hand_over(criterion: &mut Criterion) {
    // Two readers side by side would hold the lock at once.
    const KINDS: [(&str, Make, bool); 3] = [
        ("mutex", mutex, false),
        ("read-write", read_or_write, true),
        ("semaphore", semaphore, false),
    ];
    // Else TCP with a thousand waiters may be more than is allowed at first.
    let _ = zoolet_server::raise_descriptor_limit();
    for way in Way::BOTH {
        let mut group = criterion.benchmark_group(format!("handoff: to the next, {}", way.name()));
        group.sample_size(10).sampling_mode(SamplingMode::Flat);
        for (kind, make, is_in_order) in KINDS {
            for waiters in sizes(&[2, 10, 100, 1_000, 10_000], 10) {
                let clients_max = if way == Way::Tcp { CONNECTIONS_MAX } else { usize::MAX };
                let setting = Setting { way, waiters, clients_max, make, is_in_order };
                let mut contest = None;
                group.bench_function(BenchmarkId::new(kind, waiters), |b| {
                    let contest = contest.get_or_insert_with(|| Contest::new(setting));
                    b.iter_custom(|count| {
                        contest.time(count, turns_max(waiters), |turn| turn.next)
                    });
                });
            }
        }
        group.finish();
    }
}

fn floor(criterion: &mut Criterion) {
    floors::floors(criterion, "handoff");
}

criterion_group!(benches, floor, uncontended, hand_over);
criterion_main!(benches);
