//! What a lock costs: to acquire and release it without contention, and to hand it to the next of 2 to
//! 10,000 waiters, in process and over TCP, beside the floors of the machine.
//!
//! ```text
//! cargo bench -p zoolet-benches --bench handoff
//! ```
//!
//! A hand-over takes from the beginning of the release until the next waiter knows that it holds the lock.
//! Then the last holder enters the line again, which is not measured. Each waiter has a client of its own,
//! except for 10,000 over TCP, of which ten share one. Server and clients run on one thread.
//!
//! In the line of the read-write lock, writers and readers alternate. The semaphore has one permit.
//!
//! The floor of a hand-over is the wake-up of one of as many tasks, each of which is woken as seldom as a member
//! gets the lock.

#![allow(missing_docs, reason = "what criterion's macro makes has no docs")]
#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

use std::sync::Arc;
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, SamplingMode, criterion_group, criterion_main};
use zoolet::client::{Client, Parents};
use zoolet::recipes::{
    InterProcessLock, InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphoreMutex,
};
use zoolet_benches::contest::{Contest, Make, PATH, Setting};
use zoolet_benches::{TransportKind, connect, floors, runtime, server, sizes};

/// The most connections over TCP, of two descriptors each.
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
        for transport in TransportKind::BOTH {
            let runtime = runtime();
            let server = runtime.block_on(server());
            let client = runtime.block_on(connect(&server, transport));
            let lock = make(&client, number);
            // The directories stay between two acquisitions.
            let stays = ["/stays", "/locks/stays", "/leases/stays"];
            for name in stays {
                let path = format!("{PATH}{name}");
                let create = async { client.create(&path).parents(Parents::Persistent).await };
                runtime.block_on(create).expect("it is new");
            }
            group.bench_function(BenchmarkId::new(kind, transport.name()), |b| {
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

/// The floor of a hand-over among as many: a wake-up in the line of the mutex, in turn with the hand-overs.
const IN_RHYTHM: &str = "wake-up in this line";

/// The most hand-overs that are measured. After each the last holder enters the line again, which takes the
/// longer the longer the line is.
fn turns_max(waiters: usize) -> u64 {
    match waiters {
        ..=100 => 2_000,
        101..=1_000 => 200,
        _ => 20,
    }
}

fn hand_over(criterion: &mut Criterion) {
    // Two readers in succession would hold the lock together.
    const KINDS: [(&str, Make, bool); 3] = [
        ("mutex", mutex, false),
        ("read-write", read_or_write, true),
        ("semaphore", semaphore, false),
    ];
    // A thousand waiters over TCP need more descriptors than the usual limit.
    let _ = zoolet_server::raise_descriptor_limit();
    for transport in TransportKind::BOTH {
        let mut group =
            criterion.benchmark_group(format!("handoff: to the next, {}", transport.name()));
        group.sample_size(10).sampling_mode(SamplingMode::Flat);
        for (kind, make, is_in_order) in KINDS {
            for waiters in sizes(&[2, 10, 100, 1_000, 10_000], 10) {
                let clients_max =
                    if transport == TransportKind::Tcp { CONNECTIONS_MAX } else { usize::MAX };
                let setting = Setting { transport, waiters, clients_max, make, is_in_order };
                let mut contest = None;
                group.bench_function(BenchmarkId::new(kind, waiters), |b| {
                    let contest = contest.get_or_insert_with(|| Contest::new(setting));
                    b.iter_custom(|count| {
                        contest.time(count, turns_max(waiters), |turn| turn.next)
                    });
                });
                let Some(contest) = contest.as_mut().filter(|_| kind == "mutex") else { continue };
                group.bench_function(BenchmarkId::new(IN_RHYTHM, waiters), |b| {
                    b.iter_custom(|count| {
                        contest.time(count, turns_max(waiters), |turn| turn.wake_up)
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
