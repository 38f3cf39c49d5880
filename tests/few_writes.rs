//! How often the client writes and reads: system calls cost both sides more than requests do.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};
use tokio::runtime::{Builder, Handle, Runtime};
use zoolet::client::{Client, StreamDialer};
use zoolet::server::Server;

/// How many writes of the client there were.
type Writes = Arc<AtomicUsize>;

/// The client's end of a stream, which counts its writes.
struct Counting(DuplexStream, Writes);

impl AsyncRead for Counting {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Counting {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// A dialer of streams to a server on which the writes are counted.
fn dialer(server: &Arc<Server>, writes: &Writes) -> StreamDialer {
    let (server, writes, serving) = (Arc::clone(server), Arc::clone(writes), Handle::current());
    let open = move |_address| {
        let (near, far) = duplex(1 << 20);
        serving.spawn(server.serve_stream(far, ([127, 0, 0, 1], 7).into()));
        let stream = Counting(near, Arc::clone(&writes));
        async move { io::Result::Ok(stream) }
    };
    StreamDialer::new("server", open).expect("it is valid")
}

async fn server() -> Arc<Server> {
    Arc::new(Server::builder().start().await.expect("it starts"))
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_alone_is_written_by_its_caller_at_once() {
    let (server, writes) = (server().await, Writes::default());
    let client = Client::connect(dialer(&server, &writes)).await.expect("it is there");
    for _ in 0..10 {
        let before = writes.load(Ordering::Relaxed);
        let sent = client.get("/").send();
        assert_eq!(writes.load(Ordering::Relaxed), before + 1, "no other task has run");
        sent.await.expect("it is there");
        assert_eq!(writes.load(Ordering::Relaxed), before + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn many_requests_that_are_sent_together_take_few_writes() {
    let (server, writes) = (server().await, Writes::default());
    let client = Client::connect(dialer(&server, &writes)).await.expect("it is there");
    for burst in 0..10 {
        let before = writes.load(Ordering::Relaxed);
        let path = |number| format!("/{burst}-{number}");
        let sent: Vec<_> = (0..256).map(|number| client.create(&path(number)).send()).collect();
        for (number, sent) in sent.into_iter().enumerate() {
            assert_eq!(sent.await.expect("it is new").path, path(number));
        }
        let written = writes.load(Ordering::Relaxed) - before;
        assert!(written <= 10, "{written} writes for 256 requests");
    }
}

#[test]
fn what_waits_for_one_write_is_sent_when_the_runtime_of_the_client_ends() {
    let serving = Runtime::new().expect("a runtime");
    let (server, writes) = (serving.block_on(server()), Writes::default());
    let counted = serving.block_on(async { dialer(&server, &writes) });
    let running = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let watching = serving.block_on(async {
        let other = Client::connect(server.dialer()).await.expect("it is there");
        let seen = other.exists("/19").and_watch().await.expect("it is answered");
        (other, seen.watcher)
    });
    let client = running.block_on(async {
        let client = Client::connect(counted).await.expect("it is there");
        for number in 0..20 {
            // Nothing runs between these and the end.
            drop(client.create(&format!("/{number}")).send());
        }
        client
    });
    drop(running);
    let (other, watcher) = watching;
    serving.block_on(async {
        watcher.await.expect("it is created");
        assert!(other.exists("/19").await.expect("it is answered").is_some());
    });
    drop(client);
}
