//! Tests of `TestEnsemble`: what clients of an ensemble see when followers lag, servers are cut off
//! and leaders are lost. Tests that do not measure time run in process and over TCP.

#![allow(clippy::disallowed_methods, reason = "a test measures what it waited for")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bad_input;
mod elections;
mod faults;
mod lag;
mod partitions;
mod raw;
mod read_only;
mod recipes;
mod requests;
mod sessions;
mod speed;
mod words;

use std::time::Duration;

use zoolet::client::{Builder, Client, RetryPolicy};
use zoolet::testing::{TestEnsemble, TestEnsembleBuilder};

async fn start() -> TestEnsemble {
    TestEnsemble::start().await.expect("the ensemble starts")
}

/// How clients reach the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TransportKind {
    InProcess,
    Tcp,
}

const TRANSPORTS: [TransportKind; 2] = [TransportKind::InProcess, TransportKind::Tcp];

/// Short, because over TCP its time is real.
const TICK_MS: u32 = 20;

/// After that a server gives its leader up.
const PATIENCE: Duration = Duration::from_millis(5 * 20);

impl TransportKind {
    async fn start(self) -> TestEnsemble {
        self.start_with(TestEnsemble::builder()).await
    }

    async fn start_with(self, builder: TestEnsembleBuilder) -> TestEnsemble {
        let builder = builder.configure(|config| config.tick_time_ms = TICK_MS);
        let builder = if self == Self::Tcp { builder.tcp() } else { builder };
        builder.start().await.expect("the ensemble starts")
    }

    /// A client of one server.
    async fn connect(self, ensemble: &TestEnsemble, server: usize) -> Client {
        self.connect_as(ensemble, Some(server), Client::builder()).await
    }

    /// A client of all servers, which repeats what was lost with a connection.
    async fn connect_to_all(self, ensemble: &TestEnsemble) -> Client {
        let retry = RetryPolicy::n_times(1_000, Duration::from_millis(20));
        self.connect_as(ensemble, None, Client::builder().retry_policy(retry)).await
    }

    async fn connect_as(
        self,
        ensemble: &TestEnsemble,
        server: Option<usize>,
        builder: Builder,
    ) -> Client {
        let connected = match (self, server) {
            (Self::InProcess, Some(server)) => {
                builder.connect(ensemble.server(server).dialer()).await
            }
            (Self::InProcess, None) => builder.connect(ensemble.dialer()).await,
            (Self::Tcp, Some(server)) => {
                builder.connect(ensemble.server(server).connect_string().unwrap()).await
            }
            (Self::Tcp, None) => builder.connect(ensemble.connect_string().unwrap()).await,
        };
        connected.expect("a server accepts the client")
    }
}
