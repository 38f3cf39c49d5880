//! Deletion of trees, and how many flights it takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use parking_lot::Mutex;
use zoolet_protocol::{Dial, Dialing, Disconnected, OpCode, Transport};
use zoolet_server::{Dialer, Server};

use super::*;

/// Counts flights. A flight begins with a request that is sent while none is unanswered, and ends when
/// all are answered.
#[derive(Clone)]
struct Counting {
    dialer: Dialer,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    under_way: AtomicUsize,
    flights: AtomicUsize,
    /// Whether the connection is lost, with the answers that have not arrived.
    is_cut: AtomicBool,
    interference: Mutex<Option<Interference>>,
}

/// An action before a delete is sent.
struct Interference {
    /// How many deletes are sent before it.
    deletes_left: usize,
    act: Box<dyn FnOnce(&Counts) + Send>,
}

impl Counts {
    fn interfere(&self) {
        let mut interference = self.interference.lock();
        match &mut *interference {
            Some(Interference { deletes_left: left @ 1.., .. }) => *left -= 1,
            _ => {
                let due = interference.take();
                drop(interference);
                due.into_iter().for_each(|due| (due.act)(self));
            }
        }
    }
}

impl Counting {
    fn take_flights(&self) -> usize {
        self.counts.flights.swap(0, Ordering::SeqCst)
    }

    /// Runs `act` before the delete that follows this many others.
    fn after_deletes(&self, deletes_left: usize, act: impl FnOnce(&Counts) + Send + 'static) {
        *self.counts.interference.lock() = Some(Interference { deletes_left, act: Box::new(act) });
    }

    /// Loses the answer to a delete, and all that come after it.
    fn cut_after_deletes(&self, deletes: usize) {
        self.after_deletes(deletes, |counts| counts.is_cut.store(true, Ordering::SeqCst));
    }

    fn has_interfered(&self) -> bool {
        self.counts.interference.lock().is_none()
    }
}

impl Dial for Counting {
    fn dial(&self) -> Dialing {
        let (dialing, counts) = (self.dialer.dial(), Arc::clone(&self.counts));
        counts.under_way.store(0, Ordering::SeqCst);
        Box::pin(async move {
            let transport: Box<dyn Transport> = Box::new(Counted { inner: dialing.await?, counts });
            Ok(transport)
        })
    }
}

struct Counted {
    inner: Box<dyn Transport>,
    counts: Arc<Counts>,
}

impl Transport for Counted {
    fn is_local(&self) -> bool {
        // Else each request is answered before the next is sent.
        false
    }

    fn send(&self, frame: Bytes) -> Result<(), Disconnected> {
        if self.counts.under_way.fetch_add(1, Ordering::SeqCst) == 0 {
            self.counts.flights.fetch_add(1, Ordering::SeqCst);
        }
        let op = frame[4..].first_chunk().copied().map(i32::from_be_bytes).map(OpCode);
        if op == Some(OpCode::DELETE) {
            self.counts.interfere();
        }
        self.inner.send(frame)
    }

    fn flush(&self) -> Result<(), Disconnected> {
        self.inner.flush()
    }

    fn poll_receive(&self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let frame = self.inner.poll_receive(context);
        if frame.is_ready() && self.counts.is_cut.swap(false, Ordering::SeqCst) {
            return Poll::Ready(None);
        }
        if let Poll::Ready(Some(_)) = &frame {
            self.counts.under_way.fetch_sub(1, Ordering::SeqCst);
        }
        frame
    }
}

/// A server that is kept, and a client that counts.
async fn stage() -> (Server, Client, Counting) {
    let server = Server::builder().start().await.unwrap();
    let counting = Counting { dialer: server.dialer(), counts: Arc::default() };
    let client = Client::connect(counting.clone()).await.unwrap();
    (server, client, counting)
}

/// Creates `/tree` with this many children, of which the first ten have three below them, each with
/// one.
async fn plant(client: &Client, children: usize) {
    client.create("/tree").await.unwrap();
    let mut paths: Vec<String> = (0..children).map(|number| format!("/tree/{number}")).collect();
    for child in 0..10 {
        for number in 0..3 {
            let path = format!("/tree/{child}/{number}");
            paths.extend([path.clone(), format!("{path}/leaf")]);
        }
    }
    let sent: Vec<_> = paths.iter().map(|path| client.create(path).send()).collect();
    for created in sent {
        created.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn many_znodes_are_deleted_in_few_flights() {
    let (_server, client, counting) = stage().await;
    plant(&client, 2 * TOGETHER).await;
    counting.take_flights();
    delete_all(&client, "/tree", TOGETHER).await.unwrap();
    let flights = counting.take_flights();
    assert_eq!(client.exists("/tree").await.unwrap(), None);
    // The root is looked at and tried, and deleted; its level takes two each, the others one each.
    let expected = 3 + 2 * (2 + 1 + 1);
    assert!(flights <= expected, "{flights} flights instead of {expected}");
}

#[tokio::test(start_paused = true)]
async fn a_tree_is_deleted_whose_connection_is_lost_meanwhile() {
    let (_server, client, counting) = stage().await;
    plant(&client, TOGETHER).await;
    for deletes in [0, 1, 40, TOGETHER] {
        counting.cut_after_deletes(deletes);
        delete_all(&client, "/tree", TOGETHER).await.unwrap();
        assert!(counting.has_interfered());
        assert_eq!(client.exists("/tree").await.unwrap(), None);
        plant(&client, TOGETHER).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_created_below_meanwhile_stays() {
    let (server, client, counting) = stage().await;
    plant(&client, 20).await;
    let other = Client::connect(server.dialer()).await.unwrap();
    counting.after_deletes(30, move |_| drop(other.create("/tree/0/new").send()));
    let error = delete_all(&client, "/tree", TOGETHER).await.unwrap_err();
    assert!(error.is(ErrorCode::NOT_EMPTY), "{error}");
    let names = |path| client.children(path);
    let new: Vec<String> = names("/tree/0").await.unwrap().iter().map(str::to_owned).collect();
    assert_eq!(new, ["new"]);
    delete_all(&client, "/tree", TOGETHER).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_cannot_be_deleted() {
    let (_server, client, _) = stage().await;
    let error = delete_all(&client, "/tree", TOGETHER).await.unwrap_err();
    assert!(error.is(ErrorCode::NO_NODE), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_is_below_stays_if_the_znode_itself_must_stay() {
    let (_server, client, _) = stage().await;
    client.create("/a").await.unwrap();
    client.create("/zzz").await.unwrap();
    let error = delete_all(&client, "/", TOGETHER).await.unwrap_err();
    assert!(error.is(ErrorCode::BAD_ARGUMENTS), "{error}");
    assert!(client.exists("/a").await.unwrap().is_some());
    assert!(client.exists("/zzz").await.unwrap().is_some());
}
