//! A dialer behind which a server in process looks like one of an ensemble: it may be of a version
//! before 3.9, cut connections where it hurts, and be cut off from its quorum.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use zoolet_client::Client;
use zoolet_protocol::{
    ConnectRequest, ConnectResponse, Dial, Dialing, Disconnected, Incoming, OpCode, Request,
    Searching, Transport, Xid, Zxid, decode_all, decode_incoming, decode_request, encode_event,
};
use zoolet_server::{Dialer, Server};

use crate::encoded;

/// A server of an ensemble, as one client sees it. The transport does not say that the server is a
/// single node.
#[derive(Clone)]
pub struct Follower {
    dialer: Dialer,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    handshakes: Vec<ConnectRequest>,
    requests: Vec<OpCode>,
    events: usize,
    sends_no_event_zxid: bool,
    cut_at: Option<OpCode>,
    cut_behind: Option<OpCode>,
    cut_after_events: Option<usize>,
    cut_after_set_watches: bool,
    refuses: bool,
    serves_reads_only: bool,
    quorum: Quorum,
}

/// How a server stands with the others.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Quorum {
    /// What is written is committed.
    #[default]
    There,
    /// What is written is not committed and not answered; reads and pings are.
    CutOff,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Follower {
    /// Dials the server of this dialer.
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

    /// From now on no event has a zxid, as from a server before 3.9.
    pub fn send_no_event_zxid(&self) {
        lock(&self.state).sends_no_event_zxid = true;
    }

    /// Cuts the connection when the next request of an operation is sent, which does not arrive.
    pub fn cut_at(&self, op: OpCode) {
        lock(&self.state).cut_at = Some(op);
    }

    /// Cuts the connection behind the next request of an operation: it arrives, and its answer is lost.
    pub fn cut_behind(&self, op: OpCode) {
        lock(&self.state).cut_behind = Some(op);
    }

    /// Cuts the connection after so many events more.
    pub fn cut_after_events(&self, events: usize) {
        lock(&self.state).cut_after_events = Some(events);
    }

    /// Cuts the next connection when the first of its `setWatches` was answered.
    pub fn cut_after_set_watches(&self) {
        lock(&self.state).cut_after_set_watches = true;
    }

    /// Whether new connections are refused.
    pub fn refuse(&self, refuses: bool) {
        lock(&self.state).refuses = refuses;
    }

    /// Whether those who connect from now on find a server that serves reads only.
    pub fn serve_reads_only(&self, reads_only: bool) {
        lock(&self.state).serves_reads_only = reads_only;
    }

    /// From now on the server stands so with the others.
    pub fn set_quorum(&self, quorum: Quorum) {
        lock(&self.state).quorum = quorum;
    }

    /// The handshakes so far.
    pub fn handshakes(&self) -> Vec<ConnectRequest> {
        lock(&self.state).handshakes.clone()
    }

    /// The requests since the last call, in their order, handshakes apart.
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
        let (dialing, state) = (self.dialer.dial(), Arc::clone(&self.state));
        Box::pin(async move {
            let inner = dialing.await?;
            let connection = Connection { inner, state, own: Mutex::default() };
            let transport: Box<dyn Transport> = Box::new(connection);
            Ok(transport)
        })
    }

    fn find_read_write(&self) -> Searching {
        Box::pin(std::future::ready(!lock(&self.state).serves_reads_only))
    }
}

struct Connection {
    inner: Box<dyn Transport>,
    state: Arc<Mutex<State>>,
    own: Mutex<Own>,
}

/// What one connection went through.
#[derive(Default)]
struct Own {
    has_sent: bool,
    has_received: bool,
    is_cut: bool,
    /// Behind a write that is not committed all else but pings waits.
    waiting: VecDeque<Bytes>,
}

impl Connection {
    /// What becomes of a request.
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

    /// What becomes of a frame from the server, and whether the connection ends behind it.
    fn receive(&self, frame: Bytes, own: &mut Own) -> Bytes {
        if !std::mem::replace(&mut own.has_received, true) {
            let mut response: ConnectResponse = decode_all(&frame).expect("the first is an answer");
            response.read_only = Some(lock(&self.state).serves_reads_only);
            return encoded(&response);
        }
        let mut state = lock(&self.state);
        match decode_incoming(&frame) {
            Ok(Incoming::Event { event, .. }) => {
                state.events += 1;
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

    /// What waited goes on once the quorum is there again.
    fn commit(&self, own: &mut Own) -> Result<(), Disconnected> {
        if lock(&self.state).quorum == Quorum::There {
            for frame in std::mem::take(&mut own.waiting) {
                self.inner.send(frame)?;
            }
        }
        Ok(())
    }
}

impl Transport for Connection {
    fn is_local(&self) -> bool {
        true
    }

    fn send(&self, frame: Bytes) -> Result<(), Disconnected> {
        let mut own = lock(&self.own);
        self.commit(&mut own)?;
        if let Some(frame) = self.pass(frame, &mut own) {
            self.inner.send(frame)?;
        }
        if own.is_cut { Err(Disconnected) } else { Ok(()) }
    }

    fn flush(&self) -> Result<(), Disconnected> {
        self.inner.flush()
    }

    fn poll_receive(&self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut own = lock(&self.own);
        if own.is_cut {
            return Poll::Ready(None);
        }
        self.inner.poll_receive(context).map(|frame| Some(self.receive(frame?, &mut own)))
    }
}
