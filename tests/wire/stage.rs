//! What most tests begin with: a server in memory, and clients of it.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

use zoolet::{Client, Server};

use super::counting::Counting;

pub(crate) async fn server() -> Server {
    Server::builder().start().await.expect("a server in memory starts")
}

pub(crate) async fn connect(server: &Server) -> Client {
    Client::connect(server.dialer()).await.expect("the server is there")
}

/// A client, and what counts its requests and events and does harm to its connection.
pub(crate) async fn counted(server: &Server) -> (Client, Counting) {
    let counting = Counting::new(server.dialer());
    let client = Client::connect(counting.clone()).await.expect("the server is there");
    (client, counting)
}

/// Polls a future this often, or until it is done, and lets others have their turn after each.
pub(crate) async fn poll_times<F: Future + ?Sized>(mut future: Pin<&mut F>, polls: usize) {
    for _ in 0..polls {
        let is_done =
            std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready()));
        if is_done.await {
            break;
        }
        tokio::task::yield_now().await;
    }
}
