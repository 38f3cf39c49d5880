//! Connections that count requests, answers, events and bytes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use zoolet_protocol::{Dial, Dialing, Disconnected, OpCode, Transport, Xid};

/// What the connections to one server have carried so far, without handshakes and pings.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    requests: AtomicU64,
    answers: AtomicU64,
    events: AtomicU64,
    bytes: AtomicU64,
    pings: AtomicU64,
}

/// What connections carried in some time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Carried {
    pub(crate) requests: u64,
    pub(crate) answers: u64,
    pub(crate) events: u64,
    /// In both directions, with the lengths of the frames.
    pub(crate) bytes: u64,
    pub(crate) pings: u64,
}

impl Counts {
    pub(crate) fn carried(&self) -> Carried {
        // Answers are read first, so that there are never more answers than requests.
        let answers = self.answers.load(Ordering::SeqCst);
        Carried {
            requests: self.requests.load(Ordering::SeqCst),
            answers,
            events: self.events.load(Ordering::SeqCst),
            bytes: self.bytes.load(Ordering::SeqCst),
            pings: self.pings.load(Ordering::SeqCst),
        }
    }

    fn count(&self, what: &AtomicU64, frame: &Bytes) {
        what.fetch_add(1, Ordering::SeqCst);
        self.bytes.fetch_add((frame.len() + LENGTH_BYTES) as u64, Ordering::SeqCst);
    }
}

impl Carried {
    /// What was carried since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            requests: self.requests - before.requests,
            answers: self.answers - before.answers,
            events: self.events - before.events,
            bytes: self.bytes - before.bytes,
            pings: self.pings - before.pings,
        }
    }

    /// Whether every request was answered.
    pub(crate) fn is_answered(self) -> bool {
        self.requests == self.answers
    }
}

/// The bytes of the length before each frame.
const LENGTH_BYTES: usize = 4;

/// Dials connections that count.
#[derive(Clone)]
pub(crate) struct Counted {
    dialer: Arc<dyn Dial>,
    counts: Arc<Counts>,
}

impl Counted {
    pub(crate) fn new(dialer: &Arc<dyn Dial>, counts: &Arc<Counts>) -> Self {
        Self { dialer: Arc::clone(dialer), counts: Arc::clone(counts) }
    }
}

impl Dial for Counted {
    fn dial(&self) -> Dialing {
        let (dialing, counts) = (self.dialer.dial(), Arc::clone(&self.counts));
        Box::pin(async move {
            let connection = Connection {
                inner: dialing.await?,
                counts,
                has_sent: AtomicBool::new(false),
                has_received: AtomicBool::new(false),
            };
            let transport: Box<dyn Transport> = Box::new(connection);
            Ok(transport)
        })
    }

    fn servers(&self) -> usize {
        self.dialer.servers()
    }
}

/// One connection; the first frame in each direction is the handshake.
struct Connection {
    inner: Box<dyn Transport>,
    counts: Arc<Counts>,
    has_sent: AtomicBool,
    has_received: AtomicBool,
}

impl Transport for Connection {
    fn is_local(&self) -> bool {
        self.inner.is_local()
    }

    fn is_single_node(&self) -> bool {
        self.inner.is_single_node()
    }

    fn send(&self, frame: Bytes) -> Result<(), Disconnected> {
        if self.has_sent.swap(true, Ordering::Relaxed) {
            match number(&frame, 4).map(OpCode) {
                Some(OpCode::PING) => {
                    self.counts.pings.fetch_add(1, Ordering::SeqCst);
                }
                _ => self.counts.count(&self.counts.requests, &frame),
            }
        }
        self.inner.send(frame)
    }

    fn flush(&self) -> Result<(), Disconnected> {
        self.inner.flush()
    }

    fn poll_receive(&self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let received = self.inner.poll_receive(context);
        if let Poll::Ready(Some(frame)) = &received
            && self.has_received.swap(true, Ordering::Relaxed)
        {
            match number(frame, 0).map(Xid) {
                Some(Xid::EVENT) => self.counts.count(&self.counts.events, frame),
                Some(Xid::PING) => {}
                _ => self.counts.count(&self.counts.answers, frame),
            }
        }
        received
    }

    fn acknowledge(&self) {
        self.inner.acknowledge();
    }

    fn take_fault(&self) -> Option<io::Error> {
        self.inner.take_fault()
    }
}

/// The number at this offset of a header.
fn number(frame: &Bytes, at: usize) -> Option<i32> {
    frame.get(at..)?.first_chunk().copied().map(i32::from_be_bytes)
}
