//! When a client asks its connection to acknowledge what it has read: before it waits for events.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::duplex;
use zoolet::client::{Client, StreamDialer};
use zoolet::protocol::{Dial, Dialing, Disconnected, Received, Transport};
use zoolet::recipes::InterProcessMutex;
use zoolet::server::Server;

/// Dials connections that count how often they are asked.
struct Asked {
    dialer: StreamDialer,
    count: Arc<AtomicUsize>,
}

impl Dial for Asked {
    fn dial(&self) -> Dialing {
        let (dialing, count) = (self.dialer.dial(), Arc::clone(&self.count));
        Box::pin(async move {
            let connection = Connection { inner: dialing.await?, count };
            Ok(Box::new(connection) as Box<dyn Transport>)
        })
    }
}

struct Connection {
    inner: Box<dyn Transport>,
    count: Arc<AtomicUsize>,
}

impl Transport for Connection {
    fn is_local(&self) -> bool {
        self.inner.is_local()
    }

    fn send(&self, frame: Bytes) -> Result<(), Disconnected> {
        self.inner.send(frame)
    }

    fn flush(&self) -> Result<(), Disconnected> {
        self.inner.flush()
    }

    fn poll_receive(&self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.inner.poll_receive(context)
    }

    fn poll_receive_some(
        &self,
        context: &mut Context<'_>,
        frames: &mut VecDeque<Bytes>,
    ) -> Poll<Received> {
        self.inner.poll_receive_some(context, frames)
    }

    fn acknowledge(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.inner.acknowledge();
    }
}

/// A client, and how often its connections were asked.
async fn connect(server: &Arc<Server>) -> (Client, Arc<AtomicUsize>) {
    let server = Arc::clone(server);
    let open = move |_| {
        let server = Arc::clone(&server);
        async move {
            let (ours, theirs) = duplex(1 << 16);
            tokio::spawn(server.serve_stream(theirs, ([127, 0, 0, 1], 1).into()));
            io::Result::Ok(ours)
        }
    };
    let dialer = StreamDialer::new("server", open).expect("it is valid");
    let count = Arc::<AtomicUsize>::default();
    let client = Client::connect(Asked { dialer, count: Arc::clone(&count) }).await;
    (client.expect("it is served"), count)
}

#[tokio::test(start_paused = true)]
async fn a_client_acknowledges_before_it_waits_for_a_lock_and_after_a_ping() {
    let server = Arc::new(Server::builder().start().await.expect("it starts"));
    let (holder, holders) = connect(&server).await;
    let (waiter, waiters) = connect(&server).await;
    let mutex = |client| InterProcessMutex::new(client, "/locks/a").expect("a path");
    let guard = mutex(&holder).acquire().await.expect("it is free");
    holder.exists("/").await.expect("it is answered");
    assert_eq!(holders.load(Ordering::SeqCst), 0, "it has asked and did not wait");

    let next = mutex(&waiter);
    let next = tokio::spawn(async move { next.acquire().await });
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(waiters.load(Ordering::SeqCst), 1, "it waits for the holder");
    // A ping is answered meanwhile.
    tokio::time::sleep(waiter.session_timeout() / 2).await;
    assert_eq!(waiters.load(Ordering::SeqCst), 2, "it still waits");

    guard.release().await.expect("it is released");
    let next = next.await.expect("it does not panic").expect("it is free");
    next.release().await.expect("it is released");
}
