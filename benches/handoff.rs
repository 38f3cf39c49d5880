//! What a lock costs: uncontended acquire and release, and the hand-over to the next of 2 to 1,000
//! who wait, in process and over TCP, beside the floors of the machine: a wake-up of a tokio task,
//! and a ping-pong over loopback.
//!
//! Numbers of different rows of one run may be compared; those of different machines may not.

#![allow(missing_docs, reason = "what criterion's macro makes has no docs")]
#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use zoolet::{Client, Config, InterProcessMutex, Server};

/// The lengths of line: short ones where the bench only has to run, under `cargo test`.
fn lengths() -> &'static [usize] {
    if std::env::args().any(|argument| argument == "--test") {
        &[1, 10]
    } else {
        &[1, 10, 100, 1_000]
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn floors(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("floor");
    group.bench_function("tokio task wake-up", |b| {
        b.iter_custom(|count| {
            runtime().block_on(async {
                // Two tasks that wake each other in turn: two wake-ups a round.
                let (to, mut from) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
                let (mut ping, pong) = (to.1, from.0);
                tokio::spawn(async move {
                    while ping.recv().await.is_some() && pong.send(()).is_ok() {}
                });
                let start = Instant::now();
                for _ in 0..count / 2 + 1 {
                    let _ = to.0.send(());
                    from.1.recv().await;
                }
                start.elapsed()
            })
        });
    });
    group.bench_function("loopback ping-pong", |b| {
        b.iter_custom(|count| {
            runtime().block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                let address = listener.local_addr().expect("it listens");
                tokio::spawn(async move {
                    let (mut stream, _) = listener.accept().await.expect("a client");
                    stream.set_nodelay(true).expect("an option of TCP");
                    let mut byte = [0];
                    while stream.read_exact(&mut byte).await.is_ok() {
                        if stream.write_all(&byte).await.is_err() {
                            break;
                        }
                    }
                });
                let mut stream = TcpStream::connect(address).await.expect("it listens");
                stream.set_nodelay(true).expect("an option of TCP");
                let mut byte = [0];
                let start = Instant::now();
                for _ in 0..count {
                    stream.write_all(&byte).await.expect("it reads");
                    stream.read_exact(&mut byte).await.expect("it writes");
                }
                start.elapsed()
            })
        });
    });
    group.finish();
}

/// How clients reach the server.
#[derive(Debug, Clone, Copy)]
enum Way {
    InProcess,
    Tcp,
}

async fn server() -> Server {
    let config = Config { max_client_connections: 0, ..Config::default() };
    let server = Server::builder().config(config).listen(([127, 0, 0, 1], 0).into());
    server.start().await.expect("a free port")
}

async fn connect(server: &Server, way: Way) -> Client {
    let connected = match way {
        Way::InProcess => Client::connect(server.dialer()).await,
        Way::Tcp => {
            let address = server.local_addr().expect("it listens").to_string();
            Client::connect(address.as_str()).await
        }
    };
    connected.expect("the server is there")
}

fn uncontended(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("acquire and release");
    for way in [Way::InProcess, Way::Tcp] {
        let runtime = runtime();
        let server = runtime.block_on(server());
        let client = runtime.block_on(connect(&server, way));
        let mutex = InterProcessMutex::new(&client, "/locks/a").expect("a path");
        // So that the directory stays.
        runtime
            .block_on(async {
                client.create("/locks/a/stays").parents(zoolet::client::Parents::Persistent).await
            })
            .expect("a new znode");
        group.bench_function(format!("{way:?}"), |b| {
            b.iter_custom(|count| {
                runtime.block_on(async {
                    let start = Instant::now();
                    for _ in 0..count {
                        let guard = mutex.acquire().await.expect("it is free");
                        guard.release().await.expect("it is held");
                    }
                    start.elapsed()
                })
            });
        });
    }
    group.finish();
}

/// The time of `count` hand-overs in a line of `waiters`: each who has held the lock goes to the end
/// of the line. From the start of a release until the next knows that it holds the lock.
async fn hand_over(way: Way, waiters: usize, count: u64) -> Duration {
    let server = server().await;
    let (held, mut holders) = mpsc::unbounded_channel();
    let mut clients = Vec::new();
    let first = connect(&server, way).await;
    for _ in 0..=waiters {
        let client = connect(&server, way).await;
        let mutex = InterProcessMutex::new(&client, "/locks/a").expect("a path");
        let held = held.clone();
        let (go_on, mut may_go_on) = mpsc::unbounded_channel::<()>();
        let task = tokio::spawn(async move {
            while let Ok(guard) = mutex.acquire().await {
                if held.send((Instant::now(), guard)).is_err() || may_go_on.recv().await.is_none() {
                    return;
                }
            }
        });
        clients.push((client, task, go_on));
        while first.children("/locks/a").await.map_or(0, |names| names.len()) < clients.len() {
            tokio::task::yield_now().await;
        }
    }
    let mut total = Duration::ZERO;
    let mut next = 0;
    let (_, mut guard) = holders.recv().await.expect("the first holds it");
    for _ in 0..count {
        let start = Instant::now();
        drop(guard);
        let (at, held) = holders.recv().await.expect("the next holds it");
        total += at - start;
        guard = held;
        let _ = clients[next].2.send(());
        next = (next + 1) % clients.len();
        // It stands in line again before the next hand-over.
        while first.children("/locks/a").await.map_or(0, |names| names.len()) < clients.len() {
            tokio::task::yield_now().await;
        }
    }
    for (_, task, _) in &clients {
        task.abort();
    }
    total
}

fn contended(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hand-over");
    group.sample_size(10);
    for way in [Way::InProcess, Way::Tcp] {
        for &waiters in lengths() {
            group.bench_function(BenchmarkId::new(format!("{way:?}"), waiters), |b| {
                b.iter_custom(|count| runtime().block_on(hand_over(way, waiters, count)));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, floors, uncontended, contended);
criterion_main!(benches);
