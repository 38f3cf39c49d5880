//! A dialer that counts what its connections carry: requests by their operation, and events.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use zoolet_protocol::{
    Dial, Dialing, Disconnected, Incoming, OpCode, Transport, decode_incoming, decode_request,
};
use zoolet_server::Dialer;

/// What is done before the next request of an operation arrives.
type Interference = (OpCode, Box<dyn FnOnce() + Send>);

/// Counts requests and events, and cuts connections when it is told to.
#[derive(Debug, Clone)]
pub struct Counting {
    dialer: Dialer,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    requests: Mutex<BTreeMap<OpCode, usize>>,
    events: AtomicUsize,
    /// Frames to the client are lost, and then the connection is.
    is_cut: AtomicBool,
    is_refusing: AtomicBool,
    /// How many answers still come before the connection is cut; negative for all.
    answers_left: AtomicIsize,
    /// Whether the connection is gone with the last of them, and not only when there is one more.
    cuts_with_the_last: AtomicBool,
    before: Mutex<Option<Interference>>,
    multis_to_lose: AtomicUsize,
}

impl std::fmt::Debug for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counts").field("requests", &self.requests).finish_non_exhaustive()
    }
}

impl Counting {
    /// Dials the server of this dialer.
    pub fn new(dialer: Dialer) -> Self {
        let counts = Counts { answers_left: AtomicIsize::new(-1), ..Counts::default() };
        Self { dialer, counts: Arc::new(counts) }
    }

    /// The requests since the last call, by operation, pings and handshakes apart.
    pub fn take_requests(&self) -> Vec<(OpCode, usize)> {
        std::mem::take(&mut *self.counts.requests.lock().expect("nobody panics while counting"))
            .into_iter()
            .collect()
    }

    /// The number of events since the last call.
    pub fn take_events(&self) -> usize {
        self.counts.events.swap(0, Ordering::SeqCst)
    }

    /// What is sent from now on arrives, and its answers do not; the next look tells the client
    /// that the connection is gone.
    pub fn cut(&self) {
        self.counts.is_cut.store(true, Ordering::SeqCst);
    }

    /// As [`Counting::cut`], after this many answers more.
    pub fn cut_after(&self, answers: isize) {
        self.counts.answers_left.store(answers, Ordering::SeqCst);
    }

    /// As [`Counting::cut_after`], but the client knows of it as soon as it has the last answer.
    pub fn cut_right_after(&self, answers: isize) {
        self.counts.cuts_with_the_last.store(true, Ordering::SeqCst);
        self.cut_after(answers);
    }

    /// The next so many multis do not arrive, and with each the connection is gone.
    pub fn lose_multis(&self, count: usize) {
        self.counts.multis_to_lose.store(count, Ordering::SeqCst);
    }

    /// Does something when the next `setData` is sent, before it arrives.
    pub fn before_next_write(&self, interfere: impl FnOnce() + Send + 'static) {
        self.before_next(OpCode::SET_DATA, interfere);
    }

    /// Does something when the next request of this operation is sent, before it arrives.
    pub fn before_next(&self, op: OpCode, interfere: impl FnOnce() + Send + 'static) {
        let mut before = self.counts.before.lock().expect("nobody panics while counting");
        *before = Some((op, Box::new(interfere)));
    }

    /// Whether new connections are refused.
    pub fn refuse(&self, refuse: bool) {
        self.counts.is_refusing.store(refuse, Ordering::SeqCst);
    }
}

impl Counts {
    fn interfere(&self, op: OpCode) {
        let mut before = self.before.lock().expect("nobody panics while counting");
        let is_next = before.as_ref().is_some_and(|(awaited, _)| *awaited == op);
        let interference = before.take_if(|_| is_next);
        drop(before);
        if let Some((_, interfere)) = interference {
            interfere();
        }
    }

    /// Counts a multi, and tells whether it is to be lost.
    fn is_multi_lost(&self) -> bool {
        let one_less = |left: usize| left.checked_sub(1);
        self.multis_to_lose.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok()
    }

    /// Counts an answer, and tells whether it must not come.
    fn is_last_answer_over(&self) -> bool {
        match self.answers_left.load(Ordering::SeqCst) {
            ..0 => false,
            left => {
                self.answers_left.store(left - 1, Ordering::SeqCst);
                if left == 1 && self.cuts_with_the_last.swap(false, Ordering::SeqCst) {
                    self.is_cut.store(true, Ordering::SeqCst);
                }
                left == 0
            }
        }
    }
}

impl Dial for Counting {
    fn dial(&self) -> Dialing {
        if self.counts.is_refusing.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(std::io::ErrorKind::ConnectionRefused.into())));
        }
        self.counts.is_cut.store(false, Ordering::SeqCst);
        let (dialing, counts) = (self.dialer.dial(), Arc::clone(&self.counts));
        Box::pin(async move {
            let inner = dialing.await?;
            let transport: Box<dyn Transport> =
                Box::new(Counted { inner, counts, is_new: AtomicBool::new(true) });
            Ok(transport)
        })
    }
}

struct Counted {
    inner: Box<dyn Transport>,
    counts: Arc<Counts>,
    is_new: AtomicBool,
}

impl Transport for Counted {
    fn is_local(&self) -> bool {
        true
    }

    fn is_single_node(&self) -> bool {
        self.inner.is_single_node()
    }

    fn send(&self, frame: Bytes) -> Result<(), Disconnected> {
        if !self.is_new.swap(false, Ordering::SeqCst)
            && let Ok((header, _)) = decode_request(&frame)
            && header.op != OpCode::PING
        {
            self.counts.interfere(header.op);
            *self
                .counts
                .requests
                .lock()
                .expect("nobody panics while counting")
                .entry(header.op)
                .or_default() += 1;
            if header.op == OpCode::MULTI && self.counts.is_multi_lost() {
                self.counts.is_cut.store(true, Ordering::SeqCst);
                return Ok(());
            }
        }
        self.inner.send(frame)
    }

    fn flush(&self) -> Result<(), Disconnected> {
        self.inner.flush()
    }

    fn poll_receive(&self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let frame = self.inner.poll_receive(context);
        if self.counts.is_cut.load(Ordering::SeqCst) {
            return Poll::Ready(None);
        }
        let Poll::Ready(Some(bytes)) = &frame else { return frame };
        match decode_incoming(bytes) {
            Ok(Incoming::Event { .. }) => {
                self.counts.events.fetch_add(1, Ordering::SeqCst);
            }
            Ok(Incoming::Reply { .. }) if self.counts.is_last_answer_over() => {
                self.counts.is_cut.store(true, Ordering::SeqCst);
                return Poll::Ready(None);
            }
            _ => {}
        }
        frame
    }
}
