//! What the suites share: servers and clients, in process and over TCP, requests, contests for a lock,
//! and the floors of the machine.

#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

pub mod bare;
mod connections;
pub mod contest;
pub mod filled;
pub mod floors;
pub mod plain;
pub mod process;
pub mod requests;
pub mod sessions;

use std::time::Duration;

use tokio::runtime::Runtime;
use zoolet::client::Client;
use zoolet::server::{Config, Server};

/// Whether the suite measures. Under `cargo test` it only has to run.
#[must_use]
pub fn is_measured() -> bool {
    let has = |name: &str| std::env::args().any(|argument| argument == name);
    has("--bench") && !has("--test")
}

/// All sizes where the suite measures, and otherwise those up to `small`.
pub fn sizes(all: &[usize], small: usize) -> impl Iterator<Item = usize> {
    let most = if is_measured() { usize::MAX } else { small };
    all.iter().copied().filter(move |&size| size <= most)
}

/// Prints a number that criterion does not measure. `bench-report` looks for these lines.
pub fn tell(what: &str) {
    println!("result: {what}");
}

/// Prints a number of a table. `bench-report` makes a table of the cells that have the same title.
pub fn tell_cell(title: &str, row: &str, column: &str, cell: &str) {
    println!("cell: {title} | {row} | {column} | {cell}");
}

/// A runtime of one thread: the suites measure work, and not its move between cores.
///
/// # Panics
///
/// When the system refuses what a runtime needs.
#[must_use]
pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// How clients reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportKind {
    /// Through the dialer of a server in this process.
    InProcess,
    /// Over loopback TCP.
    Tcp,
}

impl TransportKind {
    /// Both kinds.
    pub const BOTH: [Self; 2] = [Self::InProcess, Self::Tcp];

    /// The name in the results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::InProcess => "in process",
            Self::Tcp => "TCP",
        }
    }
}

/// Starts a server in memory that listens on a free port and has no limit of connections.
///
/// # Panics
///
/// When no port is free.
pub async fn server() -> Server {
    let config = Config { max_client_connections: 0, ..Config::default() };
    let server = Server::builder().config(config).listen(([127, 0, 0, 1], 0).into());
    server.start().await.expect("a free port")
}

/// Connects a client with a session of its own.
///
/// # Panics
///
/// When the server is gone.
pub async fn connect(server: &Server, transport: TransportKind) -> Client {
    let connected = match transport {
        TransportKind::InProcess => Client::connect(server.dialer()).await,
        TransportKind::Tcp => {
            let address = server.local_addr().expect("it listens").to_string();
            Client::connect(address.as_str()).await
        }
    };
    connected.expect("the server is there")
}

/// The time of `count` rounds, extrapolated from at most `most` of them: for rounds whose preparation takes
/// longer than the measured part.
pub async fn extrapolated(
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
