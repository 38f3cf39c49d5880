//! What the tests of nodes begin with.

use std::time::Duration;

use zoolet::client::Client;
use zoolet::recipes::{NodeEvent, NodeEvents};
use zoolet::testing::TestServer;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// Enough for everything that does not wait: the paused clock advances when no task can run.
pub(crate) const SOON: Duration = Duration::from_millis(100);
/// Longer than the session timeout.
pub(crate) const LONG: Duration = Duration::from_secs(120);
pub(crate) const PATH: &str = "/services/a";

/// A server and a client of it.
pub(crate) async fn stage() -> (TestServer, Client) {
    let server = TestServer::start().await.expect("a server in memory starts");
    let client = server.connect().await.expect("the server is there");
    (server, client)
}

/// The next event of a node that is open.
pub(crate) async fn next(events: &mut NodeEvents) -> NodeEvent {
    let next = tokio::time::timeout(LONG, events.next()).await.expect("an event comes");
    next.expect("the node is open")
}
