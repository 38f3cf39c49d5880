//! The floors: the least that tokio and the machine take. Each run measures them, so that results can be
//! told as multiples of them.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};

use crate::{runtime, sizes};

/// Adds the floors to a suite.
pub fn floors(criterion: &mut Criterion, suite: &str) {
    let mut group = criterion.benchmark_group(format!("{suite}: floor"));
    group.bench_function("wake-up of a task", |b| {
        b.iter_custom(|count| runtime().block_on(wake_ups(count)));
    });
    group.bench_function("Notify ping-pong", |b| {
        b.iter_custom(|count| runtime().block_on(notifications(count)));
    });
    group.bench_function("loopback TCP ping-pong", |b| {
        b.iter_custom(|count| runtime().block_on(ping_pong(count)));
    });
    group.finish();
}

/// Adds the floor of a watch fan-out: one write of an event's bytes to each of many sockets. A server with
/// a connection for each client cannot take less.
pub fn fan_out(criterion: &mut Criterion, suite: &str) {
    let mut group = criterion.benchmark_group(format!("{suite}: writes to many sockets"));
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    for sockets in sizes(&[10, 100, 1_000], 10) {
        group.throughput(Throughput::Elements(sockets as u64));
        group.bench_function(BenchmarkId::new("an event to each", sockets), |b| {
            let mut sockets = Sockets::open(sockets);
            b.iter_custom(|count| (0..count).map(|_| sockets.write_to_each()).sum());
        });
    }
    group.finish();
}

/// The bytes of an event about a znode with a short path.
const EVENT: [u8; 60] = [0; 60];

/// Connections, and their other ends.
struct Sockets(Vec<(std::net::TcpStream, std::net::TcpStream)>);

impl Sockets {
    fn open(count: usize) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it listens");
        let pair = |_| {
            let reader = std::net::TcpStream::connect(address).expect("it listens");
            let (writer, _) = listener.accept().expect("a client");
            writer.set_nodelay(true).expect("an option of TCP");
            (writer, reader)
        };
        Self((0..count).map(pair).collect())
    }

    /// Measures the writes, and not the reads that follow.
    fn write_to_each(&mut self) -> Duration {
        let start = Instant::now();
        for (writer, _) in &mut self.0 {
            writer.write_all(&EVENT).expect("there is room");
        }
        let elapsed = start.elapsed();
        for (_, reader) in &mut self.0 {
            reader.read_exact(&mut [0; EVENT.len()]).expect("it was written");
        }
        elapsed
    }
}

/// Two tasks that wake each other in turn: two wake-ups a round.
async fn wake_ups(count: u64) -> Duration {
    let (to, mut from) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
    let (mut ping, pong) = (to.1, from.0);
    tokio::spawn(async move { while ping.recv().await.is_some() && pong.send(()).is_ok() {} });
    let rounds = count.div_ceil(2);
    let start = Instant::now();
    for _ in 0..rounds {
        let _ = to.0.send(());
        from.1.recv().await;
    }
    start.elapsed().mul_f64(count as f64 / (2 * rounds) as f64)
}

/// Two tasks that notify each other in turn.
async fn notifications(count: u64) -> Duration {
    let (ping, pong) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (theirs, answers) = (Arc::clone(&ping), Arc::clone(&pong));
    let other = tokio::spawn(async move {
        loop {
            theirs.notified().await;
            answers.notify_one();
        }
    });
    let start = Instant::now();
    for _ in 0..count {
        ping.notify_one();
        pong.notified().await;
    }
    let elapsed = start.elapsed();
    other.abort();
    elapsed
}

/// A byte to the other end and back, both ends on this thread.
async fn ping_pong(count: u64) -> Duration {
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
}
