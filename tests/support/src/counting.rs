//! A dialer that counts the requests and events of its connections, and disturbs them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use zoolet_protocol::{
    Dial, Dialing, Disconnected, Incoming, OpCode, Transport, decode_incoming, decode_request,
};
use zoolet_server::Dialer;

use crate::tap::{Tap, tapped};

/// Connects to a server in process, counts requests and events, and cuts connections on demand.
#[derive(Debug, Clone)]
pub struct Counting {
    dialer: Dialer,
    state: Arc<State>,
}

/// An action that runs before the next request of an operation is sent.
type Interference = (OpCode, Box<dyn FnOnce() + Send>);

#[derive(Default)]
struct State {
    requests: Mutex<BTreeMap<OpCode, usize>>,
    events: AtomicUsize,
    /// The client finds the connection closed; what it sends still arrives.
    is_cut: AtomicBool,
    is_refusing: AtomicBool,
    /// How many more replies the client receives before the connection is cut; negative for all.
    replies_left: AtomicIsize,
    /// Whether the connection is cut with the last of these replies, and not with the next one.
    cuts_with_the_last: AtomicBool,
    interference: Mutex<Option<Interference>>,
    multis_to_lose: AtomicUsize,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("requests", &self.requests).finish_non_exhaustive()
    }
}

impl Counting {
    /// Connects through this dialer.
    pub fn new(dialer: Dialer) -> Self {
        let state = State { replies_left: AtomicIsize::new(-1), ..State::default() };
        Self { dialer, state: Arc::new(state) }
    }

    /// The number of requests of each operation since the last call, without handshakes and pings.
    pub fn take_requests(&self) -> Vec<(OpCode, usize)> {
        let mut requests = self.state.requests.lock().expect("no holder of the mutex panics");
        std::mem::take(&mut *requests).into_iter().collect()
    }

    /// The number of events since the last call.
    pub fn take_events(&self) -> usize {
        self.state.events.swap(0, Ordering::SeqCst)
    }

    /// Cuts the connection. Requests that are sent before the client notices are carried out, and
    /// their replies are lost.
    pub fn cut(&self) {
        self.state.is_cut.store(true, Ordering::SeqCst);
    }

    /// Cuts the connection in place of the reply that follows this many others. A negative number
    /// removes an earlier cut.
    pub fn cut_after(&self, replies: isize) {
        self.state.replies_left.store(replies, Ordering::SeqCst);
    }

    /// As [`Counting::cut_after`], but the client finds the connection closed right after the last
    /// of these replies.
    pub fn cut_right_after(&self, replies: isize) {
        self.state.cuts_with_the_last.store(true, Ordering::SeqCst);
        self.cut_after(replies);
    }

    /// Loses each of the next `count` multis before it arrives, and cuts its connection.
    pub fn lose_multis(&self, count: usize) {
        self.state.multis_to_lose.store(count, Ordering::SeqCst);
    }

    /// Runs an action before the next `setData` is sent.
    pub fn before_next_write(&self, interfere: impl FnOnce() + Send + 'static) {
        self.before_next(OpCode::SET_DATA, interfere);
    }

    /// Runs an action before the next request of this operation is sent.
    pub fn before_next(&self, op: OpCode, interfere: impl FnOnce() + Send + 'static) {
        let mut interference =
            self.state.interference.lock().expect("no holder of the mutex panics");
        *interference = Some((op, Box::new(interfere)));
    }

    /// Whether new connections are refused.
    pub fn refuse(&self, refuse: bool) {
        self.state.is_refusing.store(refuse, Ordering::SeqCst);
    }
}

impl Dial for Counting {
    fn dial(&self) -> Dialing {
        if self.state.is_refusing.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(std::io::ErrorKind::ConnectionRefused.into())));
        }
        self.state.is_cut.store(false, Ordering::SeqCst);
        let state = Arc::clone(&self.state);
        tapped(self.dialer.dial(), Connection { state, is_new: AtomicBool::new(true) })
    }
}

struct Connection {
    state: Arc<State>,
    /// Whether the handshake has not been sent.
    is_new: AtomicBool,
}

impl Tap for Connection {
    fn send(&self, frame: Bytes, inner: &dyn Transport) -> Result<(), Disconnected> {
        if !self.is_new.swap(false, Ordering::SeqCst)
            && let Ok((header, _)) = decode_request(&frame)
            && header.op != OpCode::PING
        {
            self.state.interfere(header.op);
            self.state.count_request(header.op);
            if header.op == OpCode::MULTI && self.state.loses_a_multi() {
                self.state.is_cut.store(true, Ordering::SeqCst);
                return Ok(());
            }
        }
        inner.send(frame)
    }

    fn is_cut(&self) -> bool {
        self.state.is_cut.load(Ordering::SeqCst)
    }

    fn receive(&self, frame: Bytes) -> Option<Bytes> {
        match decode_incoming(&frame) {
            Ok(Incoming::Event { .. }) => {
                self.state.events.fetch_add(1, Ordering::SeqCst);
            }
            Ok(Incoming::Reply { .. }) if self.state.loses_a_reply() => {
                self.state.is_cut.store(true, Ordering::SeqCst);
                return None;
            }
            _ => {}
        }
        Some(frame)
    }
}

impl State {
    fn interfere(&self, op: OpCode) {
        let mut interference = self.interference.lock().expect("no holder of the mutex panics");
        let due = interference.take_if(|(awaited, _)| *awaited == op);
        drop(interference);
        if let Some((_, interfere)) = due {
            interfere();
        }
    }

    fn count_request(&self, op: OpCode) {
        let mut requests = self.requests.lock().expect("no holder of the mutex panics");
        *requests.entry(op).or_default() += 1;
    }

    /// Takes one from the multis to lose, and returns whether there was one.
    fn loses_a_multi(&self) -> bool {
        let one_less = |left: usize| left.checked_sub(1);
        self.multis_to_lose.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok()
    }

    /// Takes one from the replies that are left, and returns whether there was none.
    fn loses_a_reply(&self) -> bool {
        match self.replies_left.load(Ordering::SeqCst) {
            ..0 => false,
            left => {
                self.replies_left.store(left - 1, Ordering::SeqCst);
                if left == 1 && self.cuts_with_the_last.swap(false, Ordering::SeqCst) {
                    self.is_cut.store(true, Ordering::SeqCst);
                }
                left == 0
            }
        }
    }
}
