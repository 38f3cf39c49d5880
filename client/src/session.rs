//! The client's side of a session, as a state machine without I/O. The driver tells it what
//! happens, and does what it says.
//!
//! The methods form three families: *commands* ([`Session::submit`], [`Session::authenticate`],
//! [`Session::close`]), *inputs* (`handle_*`), and *outputs* (`poll_*`). After each command and
//! each input the driver polls the outputs until there are none. Time is an argument.
//!
//! What the session guarantees:
//!
//! - Requests are sent in the order of [`Session::submit`], and replies come in the same order.
//! - A request that was sent and has no reply when the connection is lost completes with
//!   [`Outcome::ConnectionLoss`]. The session does not send it again: only the caller knows whether
//!   that would be right.
//! - An event is delivered before the reply to any later request.
//! - Before anything else the client authenticates by SASL, if it is told to.
//! - After a reconnect the server has the credentials and the watches before it gets a request.
//! - Nothing is sent after the `closeSession`: the server ends the connection there, and the reply to
//!   it would be lost.

mod closing;
mod credentials;
mod hand_over;
mod holding;
mod keep_alive;
#[cfg(test)]
mod opened;
mod preamble;
mod sasl;
mod submission;
mod unwatch;
mod waiting;
#[cfg(test)]
mod watch_sweep;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::limits::REQUEST_HEADER_BYTES;
use zoolet_protocol::{
    ConnectRequest, ConnectResponse, DecodeError, Encode as _, ErrorCode, Incoming, OpCode,
    Password, ReplyHeader, Request, RequestEncoder, SessionId, Xid, Zxid, decode_all,
    into_incoming,
};

use self::credentials::{Credentials, SentCredentials};
use self::preamble::Preamble;
use self::sasl::Authenticating;
use self::submission::Unsent;
pub(crate) use self::submission::{Submission, WatchRegistration};
use super::call::{Call, Outcome};
use super::clock::{Instant, SuspensionClock};
use super::proof::{self, ClaimId, Handshake, Servers, SessionProof};
use super::rewatch;
use super::sasl::Mechanism;
use super::saved_session::SavedSession;
use super::state::ConnectionState;
use super::watches::{EventQueue, WatchKind, WatchModes, WatchUpdate, Watches};

/// What the user chose for the session.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The session timeout to ask for.
    pub(crate) timeout: Duration,
    /// Whether to accept a server that serves reads only.
    pub(crate) read_only: bool,
    /// How long a request waits for a connection before it completes with [`Outcome::NotSent`].
    pub(crate) connection_timeout: Duration,
    /// The most bytes of a request, as a server takes them.
    pub(crate) jute_max_buffer: usize,
    /// How long one server has to accept the connection, and again to answer the handshake.
    pub(crate) attempt: Duration,
    /// How much of a session proof is to be left when the next one arrives.
    pub(crate) proven_ahead: Duration,
    /// Tells how long the machine was suspended.
    pub(crate) suspension: SuspensionClock,
    /// How to authenticate by SASL at the beginning of each connection.
    pub(crate) sasl: Option<Arc<dyn Mechanism>>,
    /// The session of another client to begin with.
    pub(crate) session: Option<SavedSession>,
}

/// The state of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Disconnected,
    /// The handshake was sent.
    Handshaking,
    /// There is a session, and SASL tokens are exchanged.
    Authenticating,
    Connected,
    /// The `closeSession` was sent: what was asked for before is still answered.
    Closing,
    Closed,
}

/// A request that was sent and has no reply yet.
#[derive(Debug)]
struct Sent {
    xid: Xid,
    at: Instant,
    call: Arc<Call>,
    watch: Option<WatchRegistration>,
    /// The request was sent without its watch flag, since a persistent watch of the same path
    /// covers it.
    is_covered: bool,
    /// The claims that it checks, if it is the check of a [`SessionProof`].
    checks: Vec<ClaimId>,
    /// It is the `sync` of a [`SessionProof`].
    is_proofs_sync: bool,
}

/// Why the client gives a connection up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionFault {
    #[error("the server's answer cannot be read: {0}")]
    Unreadable(#[from] DecodeError),
    #[error("the answer {got:?} came where {expected:?} was expected")]
    OutOfOrder { expected: Option<Xid>, got: Xid },
    #[error("the session has expired")]
    Expired,
    #[error("the server said nothing in time")]
    Silent,
    #[error("the server refused the credentials")]
    AuthFailed,
}

/// The session of a client, with its requests, watches and credentials.
#[derive(Debug)]
pub(crate) struct Session {
    options: Options,
    phase: Phase,
    id: SessionId,
    /// The id was made up by a server that serves reads only: no other server knows it.
    is_provisional: bool,
    password: Password,
    /// The negotiated session timeout.
    timeout: Duration,
    /// The last zxid of a reply, which `setWatches` reports: all events up to it came before that
    /// reply. The zxid of an event does not count, since other events of the same multi may be
    /// missing.
    answered_zxid: Zxid,
    /// The last zxid of a reply or an event, which the handshake reports: a server that is behind
    /// it refuses the connection.
    last_zxid_seen: Zxid,
    /// How many `setWatches` of this connection have no reply. Their events may be as old as the
    /// zxid that they reported, so `answered_zxid` stays until the last of them is answered.
    rewatching: usize,
    next_xid: i32,
    credentials: Vec<Credentials>,
    preamble: Preamble,
    /// The exchange of SASL tokens, while [`Phase::Authenticating`].
    sasl: Option<Authenticating>,
    /// Requests that wait for a connection, each with its deadline.
    queued: VecDeque<(Submission<'static>, Instant)>,
    sent: VecDeque<Sent>,
    /// The calls that asked for the close after the first one.
    closers: Vec<Arc<Call>>,
    /// The credentials without a reply, in order.
    authenticating: VecDeque<SentCredentials>,
    /// When the pings without a reply were sent.
    pings: VecDeque<Instant>,
    watches: Watches,
    /// Watches that the server has, that no watcher needs any more, and that cannot be removed yet.
    stale: BTreeMap<String, WatchModes>,
    /// How many of the requests in flight are `addWatch`.
    persistent_in_flight: usize,
    outgoing: VecDeque<Bytes>,
    encoder: RequestEncoder,
    last_sent: Instant,
    last_received: Instant,
    /// Whether the server may be one of several.
    servers: Servers,
    proof: SessionProof,
    /// How many handshakes succeeded.
    connections: Arc<AtomicU64>,
    state: Option<ConnectionState>,
    changes: VecDeque<ConnectionState>,
    wakers: Vec<Waker>,
    /// An answer came after which the client mostly waits for events.
    may_wait: bool,
}

/// The memory of so many wakers is kept between two batches of replies.
const WAKERS_KEPT: usize = 256;

impl Session {
    pub(crate) fn new(mut options: Options, now: Instant) -> Self {
        let begun = options.take_session();
        let (timeout, suspension) = (begun.timeout(), options.suspension.clone());
        Self {
            timeout,
            proof: SessionProof::new(suspension, timeout, options.proven_ahead, now),
            servers: Servers::PerhapsEnsemble,
            options,
            phase: Phase::Disconnected,
            id: begun.id(),
            is_provisional: false,
            password: begun.password().clone(),
            answered_zxid: begun.last_zxid_seen(),
            last_zxid_seen: begun.last_zxid_seen(),
            rewatching: 0,
            next_xid: 1,
            credentials: Vec::new(),
            preamble: Preamble::default(),
            sasl: None,
            queued: VecDeque::new(),
            sent: VecDeque::new(),
            closers: Vec::new(),
            authenticating: VecDeque::new(),
            pings: VecDeque::new(),
            watches: Watches::default(),
            stale: BTreeMap::new(),
            persistent_in_flight: 0,
            outgoing: VecDeque::new(),
            encoder: RequestEncoder::default(),
            last_sent: now,
            last_received: now,
            connections: Arc::default(),
            state: None,
            changes: VecDeque::new(),
            wakers: Vec::new(),
            may_wait: false,
        }
    }

    /// The session id; [`SessionId::NONE`] while there is no session.
    pub(crate) fn id(&self) -> SessionId {
        self.id
    }

    /// The negotiated session timeout.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// How long one server has to accept the connection.
    pub(crate) fn attempt(&self) -> Duration {
        self.options.attempt
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// How many connections there were so far. Who gets an event sees the connection that brought it.
    pub(crate) fn connections(&self) -> &Arc<AtomicU64> {
        &self.connections
    }

    /// The most bytes of a request.
    pub(crate) fn jute_max_buffer(&self) -> usize {
        self.options.jute_max_buffer
    }

    /// How many watchers this client has.
    pub(crate) fn watcher_count(&self) -> usize {
        self.watches.len()
    }

    /// Sends a request, or queues it until there is a connection.
    pub(crate) fn submit(&mut self, submission: Submission<'_>, now: Instant) {
        if let Some(claim) = submission.ends {
            self.end_claim(claim);
        }
        if self.is_closing() {
            return self.complete_unsent(&submission, Unsent::Closed);
        }
        if submission.bound.is_some_and(|bound| bound != self.id) {
            return self.complete_unsent(&submission, Unsent::SessionExpired);
        }
        if self.phase == Phase::Connected {
            self.transmit(submission, now);
        } else {
            let until = now + self.options.connection_timeout;
            self.queued.push_back((submission.into_owned(), until));
        }
    }

    /// Sends a request, and returns it as it waits for its reply; `None` if it is too long.
    fn transmit(&mut self, submission: Submission<'_>, now: Instant) -> Option<&mut Sent> {
        let Submission { request, call, watch, watches, .. } = submission;
        let (replaced, is_covered) = self.keeping_persistent(&request, watch.as_ref());
        let request = replaced.as_deref().unwrap_or(&request);
        if let Some(too_long) = self.too_long(request, watch.iter().chain(&watches)) {
            self.complete(&call, too_long);
            return None;
        }
        let xid = self.take_xid();
        let frame = self.encoder.encode(xid, request);
        for WatchRegistration { path, kind, queue } in watches {
            self.watches.add_if_needed(path, kind, queue);
        }
        if watch.is_some() && call.op == OpCode::ADD_WATCH {
            self.persistent_in_flight += 1;
        }
        self.outgoing.push_back(frame);
        self.sent.push_back(Sent {
            xid,
            at: now,
            call,
            watch,
            is_covered,
            checks: Vec::new(),
            is_proofs_sync: false,
        });
        self.last_sent = now;
        self.sent.back_mut()
    }

    /// What becomes of a request that is longer than the limit. It is measured before it is encoded,
    /// so that one of any length takes no memory. Where a request that registers one of its watches
    /// again after a reconnect is longer, that counts: the server would close each connection at it.
    fn too_long<'a>(
        &self,
        request: &Request,
        watches: impl Iterator<Item = &'a WatchRegistration>,
    ) -> Option<Outcome> {
        let limit = self.options.jute_max_buffer;
        let again = watches.map(|watch| rewatch::bytes_of_one(&watch.path)).max();
        let bytes = REQUEST_HEADER_BYTES + request.encoded_len().max(again.unwrap_or(0));
        (bytes > limit).then_some(Outcome::TooLong { bytes, limit })
    }

    /// A connection was opened: the handshake is sent first.
    pub(crate) fn handle_connected(&mut self, servers: Servers, now: Instant) {
        self.phase = Phase::Handshaking;
        self.servers = servers;
        self.last_sent = now;
        self.proof.handle_connected(now);
        let timeout_ms = i32::try_from(self.options.timeout.as_millis()).unwrap_or(i32::MAX);
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: self.last_zxid_seen,
            timeout_ms,
            session: if self.is_provisional { SessionId::NONE } else { self.id },
            password: if self.is_provisional { Password::zero() } else { self.password.clone() },
            read_only: Some(self.options.read_only),
        };
        self.outgoing.clear();
        self.outgoing.push_back(encoded(&request));
    }

    /// The connection was lost, or could not be opened.
    pub(crate) fn handle_disconnected(&mut self) {
        if self.phase == Phase::Closed {
            return;
        }
        let before = self.phase;
        self.phase = Phase::Disconnected;
        self.outgoing.clear();
        self.sasl = None;
        self.pings.clear();
        self.may_wait = false;
        self.proof.handle_disconnected();
        // The next connection registers only the watches that still have a watcher.
        self.stale.clear();
        self.persistent_in_flight = 0;
        for sent in std::mem::take(&mut self.sent) {
            self.complete(&sent.call, Outcome::ConnectionLoss);
        }
        self.note_unanswered_preamble(before);
        let closers = std::mem::take(&mut self.closers).into_iter();
        for call in self.take_authenticating().chain(closers) {
            self.complete(&call, Outcome::ConnectionLoss);
        }
        match before {
            Phase::Closing => self.end(),
            Phase::Connected => self.change(ConnectionState::Suspended),
            _ => {}
        }
    }

    /// A frame arrived.
    pub(crate) fn handle_frame(
        &mut self,
        frame: Bytes,
        now: Instant,
    ) -> Result<(), ConnectionFault> {
        match self.phase {
            Phase::Handshaking => self.handle_handshake(&decode_all(&frame)?, now),
            Phase::Authenticating => {
                self.last_received = now;
                self.handle_sasl(into_incoming(frame)?, now)
            }
            Phase::Connected | Phase::Closing => {
                self.last_received = now;
                self.handle_incoming(into_incoming(frame)?, now)
            }
            Phase::Disconnected | Phase::Closed => Ok(()),
        }
    }

    fn handle_handshake(
        &mut self,
        response: &ConnectResponse,
        now: Instant,
    ) -> Result<(), ConnectionFault> {
        if response.is_refused() {
            self.expire(now);
            return Err(ConnectionFault::Expired);
        }
        let handshake = match response.read_only {
            Some(true) => Handshake::ReadOnly,
            _ if response.session == self.id => Handshake::Resumed,
            _ => Handshake::Created,
        };
        self.is_provisional = handshake == Handshake::ReadOnly
            && (self.is_provisional || response.session != self.id);
        self.connections.fetch_add(1, Ordering::Release);
        self.id = response.session;
        self.password = response.password.clone();
        self.timeout = Duration::from_millis(u64::try_from(response.timeout_ms).unwrap_or(0));
        self.last_received = now;
        self.proof.handle_handshake(handshake, self.servers, self.timeout, now);
        self.begin_sasl(response.read_only == Some(true), now);
        Ok(())
    }

    fn handle_incoming(&mut self, incoming: Incoming, now: Instant) -> Result<(), ConnectionFault> {
        match incoming {
            Incoming::Event { zxid, event } => {
                self.record_event(zxid);
                self.watches.fire(zxid, &event, &mut self.wakers);
                self.remove_stale(event.path.text().unwrap_or_default(), now);
                Ok(())
            }
            Incoming::Reply { header, body } => {
                self.record_reply(header);
                match header.xid {
                    Xid::PING => {
                        self.may_wait = true;
                        if let Some(at) = self.pings.pop_front() {
                            self.proof.handle_ping_answered(at, now);
                        }
                        Ok(())
                    }
                    Xid::AUTH => self.handle_auth_reply(header),
                    Xid::SET_WATCHES => {
                        self.preamble.handle_answer();
                        self.may_wait = true;
                        Ok(())
                    }
                    _ => self.handle_reply(header, body, now),
                }
            }
        }
    }

    /// Records the zxid of an event, which is negative from servers before 3.9.
    fn record_event(&mut self, zxid: Zxid) {
        self.last_zxid_seen = self.last_zxid_seen.max(zxid);
    }

    /// Records the zxid of a reply.
    fn record_reply(&mut self, header: ReplyHeader) {
        self.last_zxid_seen = self.last_zxid_seen.max(header.zxid);
        if header.xid == Xid::SET_WATCHES {
            self.rewatching = self.rewatching.saturating_sub(1);
        }
        if self.rewatching == 0 {
            self.answered_zxid = self.answered_zxid.max(header.zxid);
        }
    }

    fn handle_reply(
        &mut self,
        header: ReplyHeader,
        body: Bytes,
        now: Instant,
    ) -> Result<(), ConnectionFault> {
        let sent = match self.sent.pop_front() {
            Some(sent) if sent.xid == header.xid => sent,
            other => {
                let expected = other.as_ref().map(|sent| sent.xid);
                // Put back, so that its call completes with the lost connection.
                if let Some(sent) = other {
                    self.sent.push_front(sent);
                }
                return Err(ConnectionFault::OutOfOrder { expected, got: header.xid });
            }
        };
        if header.err == ErrorCode::SESSION_EXPIRED {
            // The same as a handshake that the server answers with an expired session.
            self.complete(&sent.call, Outcome::SessionExpired);
            self.handle_disconnected();
            self.expire(now);
            return Err(ConnectionFault::Expired);
        }
        if !sent.checks.is_empty() {
            let results = proof::results_of(header.err, &body);
            self.proof.handle_checked(&sent.checks, results.as_deref(), sent.at, now);
        } else if header.err.is_ok() && proof::is_quorum_write(sent.call.op, &body) {
            self.proof.prove(sent.at, now);
            self.proof.handle_answer_of_leader(sent.at, now);
        } else if header.err.is_ok() && sent.call.op == OpCode::SYNC {
            self.proof.handle_answer_of_leader(sent.at, now);
        }
        if sent.is_proofs_sync {
            self.proof.handle_synced(now);
            self.may_wait = true;
        }
        self.proof.handle_answer(sent.at, now);
        if !self.handle_watched(&sent, header.err, now) {
            return Ok(());
        }
        self.may_wait |= matches!(sent.call.op, OpCode::SET_WATCHES | OpCode::SET_WATCHES2);
        let is_close = sent.call.op == OpCode::CLOSE_SESSION;
        self.complete(&sent.call, Outcome::Answered(header, body));
        if is_close {
            self.end();
        }
        Ok(())
    }

    /// Time has passed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> Result<(), ConnectionFault> {
        self.expire_queued(now);
        if self.proof.suspension_read_due().is_some_and(|at| now >= at) {
            self.proof.read_suspension(now);
        }
        match self.phase {
            Phase::Closed => Ok(()),
            Phase::Connected | Phase::Closing if now >= self.silent_at() => {
                Err(ConnectionFault::Silent)
            }
            Phase::Closing => Ok(()),
            Phase::Connected => {
                self.send_for_proof(now);
                if now >= self.ping_at(self.proof_at()) {
                    self.keep_alive(now);
                }
                Ok(())
            }
            Phase::Handshaking | Phase::Authenticating
                if now >= self.last_sent + self.options.attempt =>
            {
                Err(ConnectionFault::Silent)
            }
            Phase::Disconnected | Phase::Handshaking | Phase::Authenticating => {
                if self.lost_at().is_some_and(|lost_at| now >= lost_at) {
                    self.drop_what_no_server_answers();
                    self.expire(now);
                    return Err(ConnectionFault::Expired);
                }
                Ok(())
            }
        }
    }

    /// Completes the requests that waited too long for a connection.
    fn expire_queued(&mut self, now: Instant) {
        while self.queued.front().is_some_and(|(_, until)| *until <= now)
            && let Some((submission, _)) = self.queued.pop_front()
        {
            self.complete_unsent(&submission, Unsent::NoConnection);
        }
    }

    /// Completes a request that is never sent, for another reason than that it is too long: of that only its
    /// caller hears. Who waits for its watches is told too: the caller may be gone, and other tasks wait
    /// at the same queues.
    fn complete_unsent(&mut self, submission: &Submission<'_>, reason: Unsent) {
        for watch in &submission.watches {
            watch.queue.push(reason.update(), &mut self.wakers);
        }
        self.complete(&submission.call, reason.outcome());
    }

    /// When to call [`Session::handle_timeout`].
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let phase = match self.phase {
            Phase::Connected => {
                let proof = self.proof_at();
                proof.into_iter().chain([self.ping_at(proof), self.silent_at()]).min()
            }
            Phase::Closing => Some(self.silent_at()),
            Phase::Disconnected => self.lost_at(),
            Phase::Handshaking | Phase::Authenticating => {
                let answer_due = self.last_sent + self.options.attempt;
                Some(self.lost_at().map_or(answer_due, |lost_at| lost_at.min(answer_due)))
            }
            Phase::Closed => None,
        };
        let queued = self.queued.front().map(|(_, until)| *until);
        phase.into_iter().chain(queued).chain(self.proof.suspension_read_due()).min()
    }

    /// The session has expired: the next handshake opens a new one.
    fn expire(&mut self, now: Instant) {
        self.proof.expire(now);
        self.preamble = Preamble::default();
        self.id = SessionId::NONE;
        self.is_provisional = false;
        self.password = Password::zero();
        // A server that was restarted without its data counts from zero again. A server that is
        // behind its ensemble is excluded all the same: the transaction that creates the new
        // session comes after everything that this client has seen, and the server that answers has
        // applied it.
        self.answered_zxid = Zxid::ZERO;
        self.last_zxid_seen = Zxid::ZERO;
        self.watches.end(&WatchUpdate::SessionExpired, &mut self.wakers);
        let queued = std::mem::take(&mut self.queued);
        for (submission, until) in queued {
            if submission.bound.is_some() || submission.watch.is_some() {
                self.complete_unsent(&submission, Unsent::SessionExpired);
            } else {
                self.queued.push_back((submission, until));
            }
        }
        self.change(ConnectionState::Lost);
    }

    fn change(&mut self, state: ConnectionState) {
        if self.state != Some(state) {
            self.state = Some(state);
            self.changes.push_back(state);
        }
    }

    fn complete(&mut self, call: &Call, outcome: Outcome) {
        self.wakers.extend(call.complete(outcome));
    }

    /// The next frame to send.
    pub(crate) fn poll_transmit(&mut self) -> Option<Bytes> {
        self.outgoing.pop_front()
    }

    /// The last of the frames to send.
    pub(crate) fn last_to_transmit(&self) -> Option<&Bytes> {
        self.outgoing.back()
    }

    /// How many frames there are to send.
    pub(crate) fn transmits_waiting(&self) -> usize {
        self.outgoing.len()
    }

    /// The next change of state.
    pub(crate) fn poll_state(&mut self) -> Option<ConnectionState> {
        self.changes.pop_front()
    }

    /// The tasks to wake once no lock is held: all but the last in order, and the last.
    pub(crate) fn poll_wakers(&mut self) -> (Vec<Waker>, Option<Waker>) {
        // Mostly it is one. Then nothing is allocated, and the vector keeps its memory.
        let last = self.wakers.pop();
        let first = match self.wakers.len() {
            0 => Vec::new(),
            1..=WAKERS_KEPT => self.wakers.drain(..).collect(),
            _ => std::mem::take(&mut self.wakers),
        };
        (first, last)
    }
}

fn encoded(value: &impl zoolet_protocol::Encode) -> Bytes {
    let mut out = bytes::BytesMut::with_capacity(value.encoded_len());
    value.encode(&mut out);
    out.freeze()
}
