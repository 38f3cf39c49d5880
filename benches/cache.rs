//! What a cache of many znodes costs: to fill it, and to resync it after a reconnect with nothing
//! changed. Its memory is measured in a process of its own, by `conformance/tests/suite/costs.rs`.
//!
//! ```text
//! cargo bench -p zoolet-benches --bench cache
//! ```
//!
//! The znodes have 100 bytes of data, a thousand below each parent. Server and client run on one
//! thread. The connection is in process and is cut for each resync. The pause before the client
//! connects again is not counted: the clock by which it waits goes on at once.

#![allow(missing_docs, reason = "what criterion's macro makes has no docs")]
#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, SamplingMode, criterion_group, criterion_main};
use zoolet::client::Client;
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
        let connecting = Client::connect(counting.clone());
        let client = runtime.block_on(connecting).expect("the server is there");
        runtime.block_on(fill(&client, znodes));
        group.bench_function(BenchmarkId::new("fill", znodes), |b| {
            b.iter(|| drop(runtime.block_on(filled(&client))));
        });
        let cache = runtime.block_on(filled(&client));
        counting.take_requests();
        group.bench_function(BenchmarkId::new("resync", znodes), |b| {
            b.iter_custom(|count| {
                (0..count).map(|_| runtime.block_on(resync(&cache, &client, &counting))).sum()
            });
        });
        let requests = counting.take_requests();
        tell(&format!("cache: requests of the resyncs of {znodes} znodes: {requests:?}"));
    }
    group.finish();
}

async fn filled(client: &Client) -> CuratorCache {
    let cache = CuratorCache::builder(client, "/").bytes_max(4 << 30).start().expect("a path");
    cache.initialized().await.expect("it has memory");
    cache
}

/// Cuts the connection, and waits until the cache is the tree again.
async fn resync(cache: &CuratorCache, client: &Client, counting: &Counting) -> Duration {
    let mut events = cache.events();
    tokio::time::pause();
    counting.cut();
    let start = Instant::now();
    drop(client.sync("/").send());
    loop {
        match events.next().await {
            Ok(CacheEvent::Resynced { .. }) => break,
            Ok(_) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let time = start.elapsed();
    tokio::time::resume();
    time
}

criterion_group!(benches, caches);
criterion_main!(benches);
