//! What a request costs in process, from frame to frame, without a client: one after the other, and from
//! several threads at once with different shares of writes.
//!
//! ```text
//! cargo bench -p zoolet-benches --bench engine
//! ```
//!
//! More threads than cores show what contention costs, not how the server scales.

#![allow(missing_docs, reason = "what criterion's macro makes has no docs")]
#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use zoolet::protocol::{CreateFlags, Lookup, Request, Watch};
use zoolet_benches::requests::{create, delete, lookup, set_data};
use zoolet_benches::{runtime, server, sizes};
use zoolet_test_support::blocking::Frames;

fn one_after_the_other(criterion: &mut Criterion) {
    let runtime = runtime();
    let server = runtime.block_on(server());
    let mut group = criterion.benchmark_group("engine: one request");
    let client = runtime.block_on(Frames::connect(server.dialer()));
    client.call(&Request::Write(create("/dir", CreateFlags::PERSISTENT)));
    for _ in 0..1_000 {
        client.call(&Request::Write(create("/dir/n-", CreateFlags::PERSISTENT_SEQUENTIAL)));
    }
    // What a lock costs. The reply has the path after the three fields of its header and a length.
    let sequential = Request::Write(create("/dir/lock-", CreateFlags::EPHEMERAL_SEQUENTIAL));
    group.bench_function("ephemeral sequential create and its delete", |b| {
        b.iter(|| {
            let reply = client.call(&sequential);
            let path = std::str::from_utf8(&reply[20..]).expect("a path is text");
            assert!(path.starts_with("/dir/lock-"), "{path}");
            black_box(client.call(&Request::Write(delete(path))))
        });
    });
    for (name, request) in [
        ("exists", Request::Read(lookup("/dir", Lookup::Exists))),
        ("getData", Request::Read(lookup("/dir", Lookup::GetData))),
        ("setData", Request::Write(set_data("/dir"))),
        ("getChildren of 1,000", Request::Read(lookup("/dir", Lookup::GetChildren))),
    ] {
        group.bench_function(name, |b| b.iter(|| black_box(client.call(&request))));
    }
    let cycle = [create("/dir/x", CreateFlags::EPHEMERAL), delete("/dir/x")].map(Request::Write);
    group.bench_function("create and delete", |b| {
        b.iter(|| cycle.each_ref().map(|request| black_box(client.call(request))));
    });
    group.finish();
}

fn watches(criterion: &mut Criterion) {
    let runtime = runtime();
    let server = runtime.block_on(server());
    let writer = runtime.block_on(Frames::connect(server.dialer()));
    writer.call(&Request::Write(create("/dir", CreateFlags::PERSISTENT)));
    let (set, watch) =
        (set_data("/dir"), Request::Watch(Watch::Lookup(Lookup::GetData("/dir".into()))));
    let set = Request::Write(set);
    let mut group = criterion.benchmark_group("engine: watches");
    for watchers in sizes(&[1, 100, 10_000], 100) {
        let clients: Vec<_> =
            (0..watchers).map(|_| runtime.block_on(Frames::connect(server.dialer()))).collect();
        group.throughput(Throughput::Elements(watchers as u64));
        group.bench_function(BenchmarkId::new("set, and fired", watchers), |b| {
            b.iter(|| {
                for client in &clients {
                    client.call(&watch);
                }
                writer.call(&set);
                for client in &clients {
                    black_box(client.receive());
                }
            });
        });
    }
    group.finish();
}

/// The time that all threads together take for `count` requests, of which a share are writes.
fn time(clients: &[Frames], count: u64, write_percent: u64, [get, set]: [&Request; 2]) -> Duration {
    let barrier = Barrier::new(clients.len() + 1);
    let each = count.div_ceil(clients.len() as u64);
    std::thread::scope(|scope| {
        let threads: Vec<_> = clients
            .iter()
            .map(|client| {
                scope.spawn(|| {
                    barrier.wait();
                    for number in 0..each {
                        // Spread evenly: a write is due when there are too few so far.
                        let before = number * write_percent / 100;
                        let is_write = (number + 1) * write_percent / 100 > before;
                        black_box(client.call(if is_write { set } else { get }));
                    }
                    Instant::now()
                })
            })
            .collect();
        barrier.wait();
        let start = Instant::now();
        let ends = threads.into_iter().map(|thread| thread.join().expect("it does its part"));
        let end = ends.max().expect("there is a thread");
        let share = count as f64 / (each * clients.len() as u64) as f64;
        end.saturating_duration_since(start).mul_f64(share)
    })
}

fn threads(criterion: &mut Criterion) {
    let runtime = runtime();
    let server = runtime.block_on(server());
    let setup = runtime.block_on(Frames::connect(server.dialer()));
    setup.call(&Request::Write(create("/a", CreateFlags::PERSISTENT)));
    let get = Request::Read(lookup("/a", Lookup::GetData));
    let set = Request::Write(set_data("/a"));
    let mut group = criterion.benchmark_group("engine: requests by threads");
    group.throughput(Throughput::Elements(1));
    for threads in [1, 2, 4] {
        let clients: Vec<_> =
            (0..threads).map(|_| runtime.block_on(Frames::connect(server.dialer()))).collect();
        for write_percent in [0, 10, 50, 100] {
            let name = match threads {
                1 => "1 thread".to_owned(),
                threads => format!("{threads} threads"),
            };
            let id = BenchmarkId::new(name, format!("{write_percent} % writes"));
            group.bench_function(id, |b| {
                b.iter_custom(|count| time(&clients, count, write_percent, [&get, &set]));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, one_after_the_other, watches, threads);
criterion_main!(benches);
