//! The server in memory and the clients with which most tests begin.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use zoolet_client::Client;
use zoolet_protocol::ErrorCode;
use zoolet_server::Server;

use crate::counting::Counting;

/// Starts a server in memory.
pub async fn server() -> Server {
    Server::builder().start().await.expect("a server in memory starts")
}

/// Connects a client in process.
pub async fn connect(server: &Server) -> Client {
    Client::connect(server.dialer()).await.expect("the server is there")
}

/// Connects a client through a dialer that counts its requests and events, and can cut its connections.
pub async fn counted(server: &Server) -> (Client, Counting) {
    let counting = Counting::new(server.dialer());
    let client = Client::connect(counting.clone()).await.expect("the server is there");
    (client, counting)
}

/// How long the clean-up of a dropped recipe may take. It costs no time under a paused clock.
const CLEAN_UP: Duration = Duration::from_millis(100);

/// Asserts that no ephemeral znode and no watch is left, under a paused clock.
pub async fn assert_clean(server: &Server) {
    tokio::time::sleep(CLEAN_UP).await;
    assert_eq!(server.totals().ephemerals, 0, "znodes are left");
    assert_eq!(server.totals().watches, 0, "watches are left");
}

/// Asserts that the znode of a recipe has no child and that no watch is left, under a paused clock.
pub async fn assert_nothing_is_left(server: &Server, path: &str) {
    tokio::time::sleep(Duration::from_secs(1)).await;
    match connect(server).await.children(path).await {
        Ok(names) => assert_eq!(names.iter().count(), 0, "znodes are left"),
        // The server deletes a container some time after its last child.
        Err(error) => assert!(error.is(ErrorCode::NO_NODE), "{error}"),
    }
    assert_eq!(server.totals().watches, 0, "watches are left");
}

/// Polls a future a number of times, or until it is ready, and yields to other tasks after each
/// poll.
pub async fn poll_times<F: Future + ?Sized>(mut future: Pin<&mut F>, polls: usize) {
    for _ in 0..polls {
        let is_done =
            std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready()));
        if is_done.await {
            break;
        }
        tokio::task::yield_now().await;
    }
}
