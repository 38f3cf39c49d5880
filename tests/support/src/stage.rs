//! A server in memory and clients of it, with which most tests begin.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

use zoolet_client::Client;
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

/// Polls a future this often, or until it is done, and yields to other tasks after each poll.
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
