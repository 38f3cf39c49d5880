//! What the client writes with one system call, and what it never lets wait: its streams are recorded.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};
use tokio::runtime::{Builder, Handle, Runtime};
use zoolet::client::{Client, StreamDialer};
use zoolet::protocol::OpCode;
use zoolet::recipes::{Guard, InterProcessMutex};
use zoolet::server::Server;

/// So many requests of a task are written by itself before the next ones wait, and so many wait.
const OWN: usize = 4;
const WAITING: usize = 32;

const UNPOISONED: &str = "no holder panics";

/// A xid and an operation.
type Frame = (i32, OpCode);

/// What was written to a stream, and whether it may be read from.
#[derive(Debug, Default)]
struct Record {
    /// The frames of each write.
    writes: Mutex<Vec<Vec<Frame>>>,
    is_deaf: AtomicBool,
    reader: Mutex<Option<Waker>>,
}

impl Record {
    /// The writes since the last call.
    fn take(&self) -> Vec<Vec<Frame>> {
        std::mem::take(&mut self.writes.lock().expect(UNPOISONED))
    }

    /// The operations that were written since the last call.
    fn take_ops(&self) -> Vec<OpCode> {
        self.take().into_iter().flatten().map(|(_, op)| op).collect()
    }

    /// What the server sends stays in the stream from now on.
    fn go_deaf(&self) {
        self.is_deaf.store(true, Ordering::SeqCst);
    }

    fn hear_again(&self) {
        self.is_deaf.store(false, Ordering::SeqCst);
        let reader = self.reader.lock().expect(UNPOISONED).take();
        reader.expect("the client reads").wake();
    }
}

fn frames(mut bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_be_bytes(*length)).expect("it is short");
        let (frame, rest) = rest.split_at(length);
        let number = |at: usize| i32::from_be_bytes([0, 1, 2, 3].map(|byte| frame[at + byte]));
        frames.push((number(0), OpCode(number(4))));
        bytes = rest;
    }
    frames
}

/// The client's end of a stream.
struct Recorded(DuplexStream, Arc<Record>);

impl AsyncRead for Recorded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.1.is_deaf.load(Ordering::SeqCst) {
            *self.1.reader.lock().expect(UNPOISONED) = Some(context.waker().clone());
            return Poll::Pending;
        }
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Recorded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.1.writes.lock().expect(UNPOISONED).push(frames(bytes));
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// A dialer of recorded streams to a server whose end runs on the current runtime.
async fn recorded() -> (StreamDialer, Arc<Record>, Arc<Server>) {
    let server = Arc::new(Server::builder().start().await.expect("it starts"));
    let record = Arc::<Record>::default();
    let (serving, shown, ours) = (Handle::current(), Arc::clone(&record), Arc::clone(&server));
    let open = move |_address| {
        // No write is cut short.
        let (near, far) = duplex(1 << 20);
        serving.spawn(server.serve_stream(far, ([127, 0, 0, 1], 7).into()));
        let stream = Recorded(near, Arc::clone(&shown));
        async move { io::Result::Ok(stream) }
    };
    (StreamDialer::new("server", open).expect("it is valid"), record, ours)
}

/// Runs a test in a task: what other threads send waits for nobody.
async fn in_task<F>(test: impl FnOnce(Client, Arc<Record>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (dialer, record, _server) = recorded().await;
    let client = Client::connect(dialer).await.expect("it is there");
    record.take();
    tokio::spawn(test(client, record)).await.expect("the test passes");
}

async fn guards(client: &Client) -> Vec<Guard> {
    let mut guards = Vec::new();
    for number in 0..8 {
        let mutex = InterProcessMutex::new(client, &format!("/locks/{number}")).expect("valid");
        guards.push(mutex.acquire().await.expect("it is free"));
    }
    guards
}

#[tokio::test(start_paused = true)]
async fn requests_that_a_task_sends_together_take_few_writes_and_keep_their_order() {
    const COUNT: usize = 256;
    in_task(async |client: Client, record: Arc<Record>| {
        for burst in 0..3 {
            let path = |number| format!("/{burst}-{number}");
            let sent: Vec<_> =
                (0..COUNT).map(|number| client.create(&path(number)).send()).collect();
            for (number, sent) in sent.into_iter().enumerate() {
                assert_eq!(sent.await.unwrap().path, path(number));
            }
            let writes = record.take();
            let expected = OWN + (COUNT - OWN).div_ceil(WAITING);
            assert_eq!(writes.len(), expected, "{writes:?}");
            let xids: Vec<_> = writes.iter().flatten().map(|(xid, _)| *xid).collect();
            assert_eq!(xids.len(), COUNT);
            assert!(xids.windows(2).all(|pair| pair[1] == pair[0] + 1), "{xids:?}");
            assert!(writes.iter().all(|frames| frames.len() <= WAITING), "{writes:?}");
            // The next burst follows no replies.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_alone_is_written_by_its_caller_at_once() {
    in_task(async |client: Client, record: Arc<Record>| {
        for _ in 0..20 {
            let sent = client.get("/").send();
            assert_eq!(record.take_ops(), [OpCode::GET_DATA], "no other task has run");
            sent.await.unwrap();
            assert_eq!(record.take_ops(), []);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_release_by_a_drop_leaves_at_once_with_the_requests_that_wait() {
    in_task(async |client: Client, record: Arc<Record>| {
        let guards = guards(&client).await;
        record.take();
        let sent: Vec<_> = (0..OWN + 3).map(|_| client.get("/").send()).collect();
        assert_eq!(record.take().len(), OWN, "the others wait");
        // Nothing else runs from here to the end of the loop.
        for (number, guard) in guards.into_iter().enumerate() {
            drop(guard);
            let ops = record.take_ops();
            let gets = if number == 0 { 3 } else { 0 };
            assert_eq!(ops.len(), gets + 1, "{ops:?}");
            assert!(ops[..gets].iter().all(|op| *op == OpCode::GET_DATA), "{ops:?}");
            assert_eq!(ops[gets], OpCode::DELETE);
        }
        for sent in sent {
            sent.await.unwrap();
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_release_by_a_drop_leaves_at_once_where_a_read_brought_many_replies() {
    in_task(async |client: Client, record: Arc<Record>| {
        let guards = guards(&client).await;
        record.go_deaf();
        let mut sent: Vec<_> = (0..8).map(|_| client.get("/").send()).collect();
        // Until the server has answered all of them.
        tokio::time::sleep(Duration::from_millis(100)).await;
        record.hear_again();
        let first = sent.remove(0);
        first.await.unwrap();
        // Those that follow wait until every task with a reply has run: this one.
        record.take();
        let later = client.get("/").send();
        assert_eq!(record.take_ops(), [], "it waits");
        drop(guards);
        let ops = record.take_ops();
        assert_eq!(ops.len(), 1 + 8, "{ops:?}");
        assert!(ops[1..].iter().all(|op| *op == OpCode::DELETE), "{ops:?}");
        later.await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_reply_nobody_awaits_is_written_at_once() {
    in_task(async |client: Client, record: Arc<Record>| {
        for number in 0..20 {
            drop(client.create(&format!("/{number}")).send());
            assert_eq!(record.take_ops().len(), 1);
        }
        for number in 0..20 {
            client.delete(&format!("/{number}")).guaranteed();
            assert_eq!(record.take_ops(), [OpCode::DELETE]);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn long_requests_do_not_wait() {
    in_task(async |client: Client, record: Arc<Record>| {
        let data = "x".repeat(1 << 10);
        client.create("/x").await.unwrap();
        let sent: Vec<_> = (0..OWN + 1).map(|_| client.exists("/x").send()).collect();
        assert_eq!(record.take().len(), 1 + OWN);
        let long = client.set("/x", data).send();
        assert_eq!(record.take_ops(), [OpCode::EXISTS, OpCode::SET_DATA]);
        long.await.unwrap();
        drop(sent);
    })
    .await;
}

#[test]
fn requests_of_threads_outside_of_the_runtime_are_written_at_once() {
    let serving = Runtime::new().unwrap();
    let (dialer, record, _server) = serving.block_on(recorded());
    let client = serving.block_on(Client::connect(dialer)).unwrap();
    record.take();
    let sent: Vec<_> = (0..20).map(|_| client.get("/").send()).collect();
    assert_eq!(record.take_ops().len(), sent.len());
    serving.block_on(async {
        for sent in sent {
            sent.await.unwrap();
        }
    });
}

#[test]
fn requests_that_wait_are_written_when_the_runtime_of_the_client_ends() {
    let serving = Runtime::new().unwrap();
    let (dialer, record, _server) = serving.block_on(recorded());
    // The client's task does not run again before everything is dropped.
    let running = Builder::new_current_thread().enable_all().event_interval(1).build().unwrap();
    let client = running.block_on(Client::connect(dialer)).unwrap();
    record.take();
    let sent = running.block_on(async {
        let client = client.clone();
        let sends = async move { (0..OWN + 3).map(|_| client.get("/").send()).collect::<Vec<_>>() };
        tokio::spawn(sends).await.unwrap()
    });
    assert_eq!(record.take_ops().len(), OWN, "the others wait");
    drop(running);
    assert_eq!(record.take_ops(), [OpCode::GET_DATA; 3]);
    drop((client, sent));
}
