//! What the herd effect costs: a hand-over with 10, 100 and 1,000 waiters, by the two locks whose release
//! wakes every waiter, and by the mutex, whose waiters each watch the one ahead.
//!
//! ```text
//! cargo bench -p zoolet-benches --bench herd
//! ```
//!
//! *To the next* is the time from the beginning of a release until the next waiter knows that it holds the
//! lock. *A full turn* is the time until all others wait again, the last holder among them: the whole work
//! of the machine. Each waiter has a client of its own, except in the last row.

#![allow(missing_docs, reason = "what criterion's macro makes has no docs")]

use std::sync::Arc;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, SamplingMode, criterion_group, criterion_main};
use zoolet::client::Client;
use zoolet::recipes::{HerdLock, InterProcessLock, InterProcessMutex};
use zoolet_benches::contest::{Contest, Make, PATH, Setting, Turn};
use zoolet_benches::{TransportKind, floors, sizes};

fn one_znode(client: &Client, _: usize) -> Arc<dyn InterProcessLock> {
    Arc::new(HerdLock::watching_one_znode(client, PATH).expect("a path"))
}

fn all_children(client: &Client, _: usize) -> Arc<dyn InterProcessLock> {
    Arc::new(HerdLock::watching_all_children(client, PATH).expect("a path"))
}

fn mutex(client: &Client, _: usize) -> Arc<dyn InterProcessLock> {
    Arc::new(InterProcessMutex::new(client, PATH).expect("a path"))
}

const KINDS: [(&str, usize, Make); 4] = [
    ("all watch one znode", usize::MAX, one_znode),
    ("all watch the children", usize::MAX, all_children),
    ("each watches the one ahead", usize::MAX, mutex),
    ("the same, all with one client", 1, mutex),
];

/// The part of a turn that is measured.
type Part = fn(Turn) -> Duration;

const PARTS: [(&str, Part); 2] =
    [("to the next", |turn| turn.next), ("a full turn", |turn| turn.all)];

/// The most turns that are measured. Most of the time of a turn is not "to the next".
fn turns_max(waiters: usize) -> u64 {
    (3_000 / waiters as u64).clamp(3, 300)
}

fn herd(criterion: &mut Criterion) {
    for transport in TransportKind::BOTH {
        let mut group = criterion.benchmark_group(format!("herd: {}", transport.name()));
        group.sample_size(10).sampling_mode(SamplingMode::Flat);
        for (kind, clients_max, make) in KINDS {
            for waiters in sizes(&[10, 100, 1_000], 10) {
                let setting = Setting { transport, waiters, clients_max, make, is_in_order: false };
                let mut contest = None;
                for (what, part) in PARTS {
                    let id = BenchmarkId::new(format!("{kind}: {what}"), waiters);
                    group.bench_function(id, |b| {
                        let contest = contest.get_or_insert_with(|| Contest::new(setting));
                        b.iter_custom(|count| contest.time(count, turns_max(waiters), part));
                    });
                }
            }
        }
        group.finish();
    }
}

fn floor(criterion: &mut Criterion) {
    let _ = zoolet_server::raise_descriptor_limit();
    floors::floors(criterion, "herd");
    floors::fan_out(criterion, "herd");
}

criterion_group!(benches, floor, herd);
criterion_main!(benches);
