//! What a cache of many znodes costs: to fill it, and to resync it after a reconnect with nothing
//! changed. Its memory is measured in a process of its own, by `conformance/tests/suite/costs.rs`.
//!
//! ```text
//! cargo bench -p zoolet-benches --bench cache
//! ```
//!
//! The znodes have 100 bytes of data, a thousand below each parent. Server and client run on one
//! thread. The connection is in process and is cut for each resync. The pause before the client
//! connects again is not counted.

#![allow(missing_docs, reason = "what criterion's macro makes has no docs")]
#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, SamplingMode, criterion_group, criterion_main};
use zoolet::client::Client;
use zoolet::protocol::{Dial, Dialing};
use zoolet::recipes::{CacheEvent, CuratorCache};
use zoolet_benches::filled::fill;
use zoolet_benches::{runtime, server, sizes, tell};
use zoolet_test_support::counting::Counting;

const ZNODES: [usize; 3] = [1_000, 100_000, 1_000_000];

fn caches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cache");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    for znodes in sizes(&ZNODES, 1_000) {
        let runtime = runtime();
        let server = runtime.block_on(server());
        let counting = Counting::new(server.dialer());
        let timed = Timed::new(&counting);
        let connecting = Client::connect(timed.clone());
        let client = runtime.block_on(connecting).expect("the server is there");
        runtime.block_on(fill(&client, znodes));
        group.bench_function(BenchmarkId::new("fill", znodes), |b| {
            b.iter(|| drop(runtime.block_on(filled(&client))));
        });
        let cache = runtime.block_on(filled(&client));
        counting.take_requests();
        group.bench_function(BenchmarkId::new("resync", znodes), |b| {
            b.iter_custom(|count| {
                (0..count).map(|_| runtime.block_on(resync(&cache, &client, &timed))).sum()
            });
        });
        let requests = counting.take_requests();
        tell(&format!("cache: requests of the resyncs of {znodes} znodes: {requests:?}"));
    }
    group.finish();
}

/// Connects through another dialer, and notes when it did so last.
#[derive(Debug, Clone)]
struct Timed {
    dialer: Counting,
    dialed: Arc<Mutex<Instant>>,
}

impl Timed {
    fn new(dialer: &Counting) -> Self {
        Self { dialer: dialer.clone(), dialed: Arc::new(Mutex::new(Instant::now())) }
    }
}

impl Dial for Timed {
    fn dial(&self) -> Dialing {
        *self.dialed.lock().expect("no holder of the mutex panics") = Instant::now();
        self.dialer.dial()
    }
}

async fn filled(client: &Client) -> CuratorCache {
    let cache = CuratorCache::builder(client, "/").bytes_max(4 << 30).start().expect("a path");
    cache.initialized().await.expect("it has memory");
    cache
}

/// Cuts the connection, and waits until the cache is the tree again. Returns how long that took after the
/// client connected again.
async fn resync(cache: &CuratorCache, client: &Client, timed: &Timed) -> Duration {
    let mut events = cache.events();
    timed.dialer.cut();
    drop(client.sync("/").send());
    loop {
        match events.next().await {
            Ok(CacheEvent::Resynced { .. }) => break,
            Ok(_) => {}
            Err(error) => panic!("{error}"),
        }
    }
    timed.dialed.lock().expect("no holder of the mutex panics").elapsed()
}

criterion_group!(benches, caches);
criterion_main!(benches);
