//! What the suites share: servers and clients, in process and over TCP, requests, lines of those who
//! wait for a lock, and the floors of the machine.

#![allow(dead_code, reason = "each suite uses the part that it needs")]
#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

pub(crate) mod contest;
pub(crate) mod filled;
pub(crate) mod floors;
pub(crate) mod frames;
pub(crate) mod requests;

use std::time::Duration;

use tokio::runtime::Runtime;
use zoolet::{Client, Config, Server};

/// Whether something is measured; under `cargo test` everything only has to run.
pub(crate) fn is_measured() -> bool {
    let has = |name: &str| std::env::args().any(|argument| argument == name);
    has("--bench") && !has("--test")
}

/// Those of the sizes that are to be had: all where something is measured, and else no more than
/// `small`.
pub(crate) fn sizes(all: &[usize], small: usize) -> impl Iterator<Item = usize> {
    let most = if is_measured() { usize::MAX } else { small };
    all.iter().copied().filter(move |&size| size <= most)
}

/// Tells a number that criterion does not measure; `bench_report` looks for these lines.
pub(crate) fn tell(what: &str) {
    println!("result: {what}");
}

/// Everything on one thread: what is measured is work, not the moving of it between cores.
pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// How clients reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    InProcess,
    Tcp,
}

impl Way {
    pub(crate) const BOTH: [Self; 2] = [Self::InProcess, Self::Tcp];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::InProcess => "in process",
            Self::Tcp => "TCP",
        }
    }
}

/// A server in memory that listens, and lets everybody in.
pub(crate) async fn server() -> Server {
    let config = Config { max_client_connections: 0, ..Config::default() };
    let server = Server::builder().config(config).listen(([127, 0, 0, 1], 0).into());
    server.start().await.expect("a free port")
}

pub(crate) async fn connect(server: &Server, way: Way) -> Client {
    let connected = match way {
        Way::InProcess => Client::connect(server.dialer()).await,
        Way::Tcp => {
            let address = server.local_addr().expect("it listens").to_string();
            Client::connect(address.as_str()).await
        }
    };
    connected.expect("the server is there")
}

/// The time of `count` rounds, from no more than `most` of them: for rounds whose preparation takes
/// longer than what is measured.
pub(crate) async fn extrapolated(
    count: u64,
    most: u64,
    mut round: impl AsyncFnMut() -> Duration,
) -> Duration {
    let done = count.clamp(1, most);
    let mut total = Duration::ZERO;
    for _ in 0..done {
        total += round().await;
    }
    total.mul_f64(count as f64 / done as f64)
}
