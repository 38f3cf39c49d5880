//! A dialer that makes a server in process look like a member of an ensemble: of a version before
//! 3.9, with connections that end at chosen messages, and without a quorum.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use zoolet_client::Client;
use zoolet_protocol::{
    ConnectRequest, ConnectResponse, Dial, Dialing, Disconnected, Incoming, OpCode, Request,
    Searching, Transport, Xid, Zxid, decode_all, decode_incoming, decode_request, encode_event,
};
use zoolet_server::{Dialer, Server};

use crate::encoded;
use crate::tap::{Tap, tapped};

/// A member of an ensemble, as one client sees it. Its clients do not learn that the server is
/// standalone.
#[derive(Clone)]
pub struct Follower {
    dialer: Dialer,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    handshakes: Vec<ConnectRequest>,
    requests: Vec<OpCode>,
    sends_no_event_zxid: bool,
    cut_at: Option<OpCode>,
    cut_behind: Option<OpCode>,
    cut_after_events: Option<usize>,
    cut_after_set_watches: bool,
    refuses: bool,
    serves_reads_only: bool,
    quorum: Quorum,
}

/// Whether a member of an ensemble can reach a quorum.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Quorum {
    /// Writes are committed.
    #[default]
    Present,
    /// Writes, and everything behind them but pings, wait without a reply; reads before them are answered.
    CutOff,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Follower {
    /// Connects through this dialer.
    pub fn new(dialer: Dialer) -> Self {
        Self { dialer, state: Arc::default() }
    }

    /// Connects a client behind a new follower, with this session timeout.
    pub async fn connect(server: &Server, session_timeout: Duration) -> (Client, Self) {
        let follower = Self::new(server.dialer());
        let builder = Client::builder().session_timeout(session_timeout);
        let client = builder.connect(follower.clone()).await.expect("the server is there");
        assert_eq!(client.session_timeout(), session_timeout);
        (client, follower)
    }

    /// Sends events without a zxid from now on, as a server before 3.9 does.
    pub fn send_no_event_zxid(&self) {
        lock(&self.state).sends_no_event_zxid = true;
    }

    /// Cuts the connection when the next request of an operation is sent. The request does not arrive.
    pub fn cut_at(&self, op: OpCode) {
        lock(&self.state).cut_at = Some(op);
    }

    /// Cuts the connection after the next request of an operation: it arrives, and its reply is lost.
    pub fn cut_behind(&self, op: OpCode) {
        lock(&self.state).cut_behind = Some(op);
    }

    /// Cuts the connection after this many more events.
    pub fn cut_after_events(&self, events: usize) {
        lock(&self.state).cut_after_events = Some(events);
    }

    /// Cuts the next connection after the reply to the first of its `setWatches`.
    pub fn cut_after_set_watches(&self) {
        lock(&self.state).cut_after_set_watches = true;
    }

    /// Whether new connections are refused.
    pub fn refuse(&self, refuses: bool) {
        lock(&self.state).refuses = refuses;
    }

    /// Whether new connections find a read-only server.
    pub fn serve_reads_only(&self, reads_only: bool) {
        lock(&self.state).serves_reads_only = reads_only;
    }

    /// Sets whether the server can reach a quorum.
    pub fn set_quorum(&self, quorum: Quorum) {
        lock(&self.state).quorum = quorum;
    }

    /// The connect requests so far.
    pub fn handshakes(&self) -> Vec<ConnectRequest> {
        lock(&self.state).handshakes.clone()
    }

    /// The requests since the last call in their order, without handshakes.
    pub fn take_requests(&self) -> Vec<OpCode> {
        std::mem::take(&mut lock(&self.state).requests)
    }

    /// As [`Follower::take_requests`], without pings.
    pub fn take_requests_but_pings(&self) -> Vec<OpCode> {
        let mut requests = self.take_requests();
        requests.retain(|op| *op != OpCode::PING);
        requests
    }
}

impl Dial for Follower {
    fn dial(&self) -> Dialing {
        if lock(&self.state).refuses {
            return Box::pin(std::future::ready(Err(std::io::ErrorKind::ConnectionRefused.into())));
        }
        let connection = Connection { state: Arc::clone(&self.state), own: Mutex::default() };
        tapped(self.dialer.dial(), connection)
    }

    fn find_read_write(&self) -> Searching {
        Box::pin(std::future::ready(!lock(&self.state).serves_reads_only))
    }
}

struct Connection {
    state: Arc<Mutex<State>>,
    own: Mutex<Own>,
}

/// The state of one connection.
#[derive(Default)]
struct Own {
    has_sent: bool,
    has_received: bool,
    is_cut: bool,
    /// The requests that wait for a quorum: an uncommitted write, and all but pings behind it.
    waiting: VecDeque<Bytes>,
}

impl Connection {
    /// Returns the frame if it may go on to the server now.
    fn pass(&self, frame: Bytes, own: &mut Own) -> Option<Bytes> {
        let mut state = lock(&self.state);
        if !std::mem::replace(&mut own.has_sent, true) {
            state.handshakes.push(decode_all(&frame).expect("a handshake comes first"));
            return Some(frame);
        }
        let (header, request) = decode_request(&frame).expect("the client's requests are legal");
        if state.cut_at == Some(header.op) {
            state.cut_at = None;
            own.is_cut = true;
            return None;
        }
        if state.cut_behind == Some(header.op) {
            state.cut_behind = None;
            own.is_cut = true;
        }
        state.requests.push(header.op);
        let is_write = matches!(request, Ok(Request::Write(_)));
        let must_wait = (is_write && state.quorum == Quorum::CutOff) || !own.waiting.is_empty();
        if must_wait && header.op != OpCode::PING {
            own.waiting.push_back(frame);
            return None;
        }
        Some(frame)
    }

    /// The frame that the client receives for a frame of the server.
    fn answer(&self, frame: Bytes, own: &mut Own) -> Bytes {
        if !std::mem::replace(&mut own.has_received, true) {
            let mut response: ConnectResponse = decode_all(&frame).expect("the first is an answer");
            response.read_only = Some(lock(&self.state).serves_reads_only);
            return encoded(&response);
        }
        let mut state = lock(&self.state);
        match decode_incoming(&frame) {
            Ok(Incoming::Event { event, .. }) => {
                if let Some(left) = &mut state.cut_after_events {
                    *left -= 1;
                    if *left == 0 {
                        state.cut_after_events = None;
                        own.is_cut = true;
                    }
                }
                if state.sends_no_event_zxid { encode_event(Zxid(-1), &event) } else { frame }
            }
            Ok(Incoming::Reply { header, .. }) => {
                if header.xid == Xid::SET_WATCHES && state.cut_after_set_watches {
                    state.cut_after_set_watches = false;
                    own.is_cut = true;
                }
                frame
            }
            Err(_) => frame,
        }
    }

    /// Sends the waiting requests if the server has a quorum.
    fn commit(&self, own: &mut Own, inner: &dyn Transport) -> Result<(), Disconnected> {
        if lock(&self.state).quorum == Quorum::Present {
            for frame in std::mem::take(&mut own.waiting) {
                inner.send(frame)?;
            }
        }
        Ok(())
    }
}

impl Tap for Connection {
    fn shows_single_node(&self) -> bool {
        false
    }

    fn send(&self, frame: Bytes, inner: &dyn Transport) -> Result<(), Disconnected> {
        let mut own = lock(&self.own);
        self.commit(&mut own, inner)?;
        if let Some(frame) = self.pass(frame, &mut own) {
            inner.send(frame)?;
        }
        if own.is_cut { Err(Disconnected) } else { Ok(()) }
    }

    fn is_cut(&self) -> bool {
        lock(&self.own).is_cut
    }

    fn receive(&self, frame: Bytes) -> Option<Bytes> {
        Some(self.answer(frame, &mut lock(&self.own)))
    }
}
