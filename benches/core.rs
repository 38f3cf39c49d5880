//! How long the state machine takes, without lock, session and encoding: reads, `prepare`, `apply` and
//! watches. Writes take the general way, as those of a multi do.
//!
//! ```text
//! cargo bench -p zoolet-benches --bench core
//! ```

#![allow(missing_docs, reason = "what criterion's macro makes has no docs")]
#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{
    BatchSize, BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main,
};
use zoolet::protocol::{
    CreateFlags, Delete, Expect, Lookup, MultiOp, Response, SessionId, Watch, Write, Xid,
};
use zoolet_benches::requests::{create, create_op, delete, lookup, set_data};
use zoolet_benches::sizes;
use zoolet_core::{ConnectionId, Core, Effects, Requester, Settings};

const SESSION: SessionId = SessionId(1);

fn requester(connection: u64) -> Requester {
    Requester::new(SESSION, ConnectionId(connection), Xid(1))
}

/// A state machine with the znode `/dir`, which has this many children.
fn core_with(children: usize) -> Core {
    let mut core = Core::new(Settings::default());
    core.apply(&core.prepare_create_session(SESSION, 30_000, 0));
    apply(&mut core, &create("/dir", CreateFlags::PERSISTENT));
    for _ in 0..children {
        apply(&mut core, &create("/dir/lock-", CreateFlags::PERSISTENT_SEQUENTIAL));
    }
    core
}

fn apply(core: &mut Core, write: &Write) -> Effects {
    let decided = core.decide(write, &requester(1), 0);
    core.apply_decided(&decided)
}

/// What a lock costs: an ephemeral sequential create and its delete.
fn pairs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("core: create and delete of an ephemeral sequential");
    let sequential = create("/dir/lock-", CreateFlags::EPHEMERAL_SEQUENTIAL);
    for siblings in sizes(&[10, 100_000, 1_000_000], 10) {
        let mut core = core_with(siblings);
        group.bench_function(BenchmarkId::new("siblings", siblings), |b| {
            b.iter(|| {
                let created = apply(&mut core, black_box(&sequential));
                let Ok(Response::Path(path)) = created.reply else { panic!("{created:?}") };
                let version = Expect::Any;
                let delete = Write::Op(MultiOp::Delete(Delete { path, version }));
                black_box(apply(&mut core, &delete))
            });
        });
    }
    group.finish();
}

fn reads(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("core: read");
    let asker = requester(1);
    let core = core_with(1_000);
    for (name, read) in
        [("exists", lookup("/dir", Lookup::Exists)), ("getData", lookup("/dir", Lookup::GetData))]
    {
        group.bench_function(name, |b| b.iter(|| black_box(core.read(black_box(&read), &asker))));
    }
    let list = lookup("/dir", Lookup::GetChildren);
    for children in sizes(&[10, 1_000, 100_000], 10) {
        let core = core_with(children);
        let name = format!("getChildren of {children}");
        group.bench_function(name, |b| b.iter(|| black_box(core.read(&list, &asker))));
    }
    // The change is not measured: a child in the middle comes and goes.
    let middle = |children: usize| format!("/dir/lock-{:010}x", children / 2);
    for children in sizes(&[10, 1_000, 100_000], 10) {
        let mut core = core_with(children);
        let path = middle(children);
        let changes = [create(&path, CreateFlags::PERSISTENT), delete(&path)];
        let mut is_there = false;
        let name = format!("getChildren of {children} after one has changed");
        group.bench_function(name, |b| {
            b.iter_custom(|count| {
                let mut total = Duration::ZERO;
                for _ in 0..count {
                    let change = &changes[usize::from(is_there)];
                    is_there = !is_there;
                    apply(&mut core, change);
                    let start = Instant::now();
                    drop(black_box(core.read(&list, &asker)));
                    total += start.elapsed();
                }
                total
            });
        });
    }
    group.finish();
}

fn writes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("core: write");
    let mut core = core_with(1_000);
    let asker = requester(1);
    let set = set_data("/dir");
    let cycle =
        [create("/dir/x", CreateFlags::EPHEMERAL), delete("/dir/x")].map(|write| match write {
            Write::Op(op) => op,
            other => panic!("one operation: {other:?}"),
        });
    let multi = Write::Multi(cycle.to_vec());
    for (name, write) in [("setData", &set), ("multi of create and delete", &multi)] {
        group.bench_function(BenchmarkId::new(name, "prepare"), |b| {
            b.iter(|| black_box(core.prepare(black_box(write), &asker, 0)));
        });
        group.bench_function(BenchmarkId::new(name, "prepare and apply"), |b| {
            b.iter(|| black_box(apply(&mut core, write)));
        });
    }
    let sequential = create("/dir/lock-", CreateFlags::PERSISTENT_SEQUENTIAL);
    group.bench_function(BenchmarkId::new("create, beside 1,000", "prepare"), |b| {
        b.iter(|| black_box(core.prepare(black_box(&sequential), &asker, 0)));
    });
    let creates = if zoolet_benches::is_measured() { 1_000 } else { 10 };
    group.throughput(Throughput::Elements(creates as u64));
    let batch =
        Write::Multi(vec![create_op("/dir/lock-", CreateFlags::PERSISTENT_SEQUENTIAL); creates]);
    for (name, writes) in [
        ("create, beside 1,000", vec![sequential; creates]),
        ("create, a thousand in a multi", vec![batch]),
    ] {
        group.bench_function(BenchmarkId::new(name, "prepare and apply"), |b| {
            b.iter_batched_ref(
                || core_with(creates),
                |core| {
                    for write in &writes {
                        black_box(apply(core, write));
                    }
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

fn watches(criterion: &mut Criterion) {
    let watch = Watch::Lookup(Lookup::GetData("/dir".into()));
    let set = set_data("/dir");
    let set_watches = |core: &mut Core, watchers: usize| {
        for connection in 0..watchers as u64 {
            core.watch(&watch, &requester(connection));
        }
    };
    let mut group = criterion.benchmark_group("core: watches");
    group.sampling_mode(SamplingMode::Flat);
    for watchers in sizes(&[1, 100, 10_000], 100) {
        let mut core = core_with(0);
        group.throughput(Throughput::Elements(watchers as u64));
        group.bench_function(BenchmarkId::new("set a watch", watchers), |b| {
            b.iter_custom(|count| {
                let mut total = Duration::ZERO;
                for _ in 0..count {
                    let start = Instant::now();
                    set_watches(&mut core, watchers);
                    total += start.elapsed();
                    apply(&mut core, &set);
                }
                total
            });
        });
        group.bench_function(BenchmarkId::new("fire all by one setData", watchers), |b| {
            b.iter_custom(|count| {
                let mut total = Duration::ZERO;
                for _ in 0..count {
                    set_watches(&mut core, watchers);
                    let start = Instant::now();
                    black_box(apply(&mut core, &set));
                    total += start.elapsed();
                }
                total
            });
        });
    }
    group.finish();
}

criterion_group!(benches, pairs, reads, writes, watches);
criterion_main!(benches);
