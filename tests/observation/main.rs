//! Tests of what the test kit counts on a server: requests, replies and events by session and by
//! path, the graph of watches, and `wait_until`.

#![allow(clippy::disallowed_methods, reason = "a test measures what it waited for")]

mod graph;
mod stats;

use zoolet::client::Client;
use zoolet::recipes::InterProcessMutex;
use zoolet::testing::TestServer;

const LOCK: &str = "/locks/stock";

async fn server() -> TestServer {
    TestServer::start().await.expect("a server in memory starts")
}

async fn connect(server: &TestServer) -> Client {
    server.connect().await.expect("the server is there")
}

fn mutex(client: &Client) -> InterProcessMutex {
    InterProcessMutex::new(client, LOCK).expect("a path")
}
