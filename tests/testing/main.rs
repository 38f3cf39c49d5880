//! Tests of the test kit: the `TestServer`, and each of the faults.

#![allow(clippy::disallowed_methods, reason = "a test measures what it waited for")]

mod connections;
mod decisions;
mod freezes;
mod lifecycle;
mod messages;
mod random_faults;
mod recipes;
mod scale;
mod time;

use std::time::Duration;

use zoolet::client::{Builder, Client, ConnectionState, RetryPolicy};
use zoolet::testing::TestServer;

/// How a client reaches the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TransportKind {
    InProcess,
    Tcp,
}

const TRANSPORTS: [TransportKind; 2] = [TransportKind::InProcess, TransportKind::Tcp];

impl TransportKind {
    async fn server(self) -> TestServer {
        let builder = TestServer::builder();
        let builder = if self == Self::Tcp { builder.tcp() } else { builder };
        builder.start().await.expect("the server starts")
    }

    async fn connect(self, server: &TestServer) -> Client {
        self.connect_as(server, Client::builder()).await
    }

    /// Connects a client that does not retry.
    async fn connect_once(self, server: &TestServer) -> Client {
        self.connect(server).await.with_retry_policy(RetryPolicy::never())
    }

    async fn connect_as(self, server: &TestServer, builder: Builder) -> Client {
        let connected = match self {
            Self::InProcess => builder.connect(server.dialer()).await,
            Self::Tcp => {
                let address = server.connect_string().expect("it listens");
                builder.connect(address.as_str()).await
            }
        };
        connected.expect("the server is there")
    }
}

/// Waits until a client has reached a state.
async fn wait_for(client: &Client, wanted: ConnectionState) {
    let mut state = client.state();
    let reached = state.wait_for(|state| *state == Some(wanted));
    let reached = tokio::time::timeout(Duration::from_secs(100), reached).await;
    reached.expect("the client reaches the state").expect("the client is there");
}

/// Lets every task run until it waits.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}
