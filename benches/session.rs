//! What a request of a client costs: in process and over TCP, one after the other and 64 at a time, beside
//! the floors of the machine.
//!
//! ```text
//! cargo bench -p zoolet-benches --bench session
//! ```
//!
//! Client and server run on one thread, as do both ends of the floor over TCP.

#![allow(missing_docs, reason = "what criterion's macro makes has no docs")]
#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use zoolet::client::Client;
use zoolet_benches::requests::DATA;
use zoolet_benches::{TransportKind, connect, floors, runtime, server};

/// The operation of the requests.
#[derive(Debug, Clone, Copy)]
enum Request {
    Get,
    Set,
    CreateAndDelete,
}

const PATH: &str = "/a";

impl Request {
    fn name(self) -> &'static str {
        match self {
            Self::Get => "getData",
            Self::Set => "setData",
            Self::CreateAndDelete => "create and delete",
        }
    }

    /// Sends `count` requests, `depth` at a time.
    async fn ask(self, client: &Client, count: u64, depth: u64) {
        let mut left = count;
        while left > 0 {
            let together = left.min(depth);
            left -= together;
            match self {
                Self::Get => {
                    let sent: Vec<_> = (0..together).map(|_| client.get(PATH).send()).collect();
                    for sent in sent {
                        sent.await.expect("it is there");
                    }
                }
                Self::Set => {
                    let set = || client.set(PATH, DATA).send();
                    let sent: Vec<_> = (0..together).map(|_| set()).collect();
                    for sent in sent {
                        sent.await.expect("it is there");
                    }
                }
                Self::CreateAndDelete => {
                    let cycle = |number| {
                        let path = format!("/{number}");
                        (client.create(&path).send(), client.delete(&path).send())
                    };
                    let sent: Vec<_> = (0..together).map(cycle).collect();
                    for (created, deleted) in sent {
                        created.await.expect("it is new");
                        deleted.await.expect("it is there");
                    }
                }
            }
        }
    }
}

fn latency(criterion: &mut Criterion) {
    for transport in TransportKind::BOTH {
        let runtime = runtime();
        let server = runtime.block_on(server());
        let client = runtime.block_on(connect(&server, transport));
        runtime.block_on(async { client.create(PATH).data(DATA).await }).expect("it is new");
        let mut group = criterion.benchmark_group(format!("session: {}", transport.name()));
        group.throughput(Throughput::Elements(1));
        for request in [Request::Get, Request::Set, Request::CreateAndDelete] {
            for depth in [1, 64] {
                let id = BenchmarkId::new(request.name(), format!("depth {depth}"));
                group.bench_function(id, |b| {
                    b.iter_custom(|count| -> Duration {
                        runtime.block_on(async {
                            let start = Instant::now();
                            request.ask(&client, count, depth).await;
                            start.elapsed()
                        })
                    });
                });
            }
        }
        group.finish();
    }
}

fn floor(criterion: &mut Criterion) {
    floors::floors(criterion, "session");
}

criterion_group!(benches, floor, latency);
criterion_main!(benches);
