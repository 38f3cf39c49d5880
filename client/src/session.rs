//! A session as a machine: it is told what happens and says what to do, and does no I/O.
//!
//! Methods come in families: *commands* ([`Session::submit`], [`Session::authenticate`],
//! [`Session::close`]), *things that happen* (`handle_*`), and *things to do* (`poll_*`), which are
//! asked for until there are none, after each of the others. Time is an argument.
//!
//! Promises:
//!
//! - Requests are sent in the order of [`Session::submit`], and answered in it.
//! - A request that was sent and not answered when the connection goes is reported as such, and is
//!   not sent again here: only its asker knows whether that would be right.
//! - An event is told before the answer of any later request.
//! - After a reconnect the credentials and the watches are there before any request is sent.

mod holding;
mod unwatch;
#[cfg(test)]
mod watch_sweep;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
#[cfg(feature = "planted-bugs")]
use zoolet_planted_bugs::{PlantedBug, is_planted};
use zoolet_protocol::{
    Auth, ConnectRequest, ConnectResponse, DecodeError, ErrorCode, Incoming, OpCode, Password,
    ReplyHeader, Request, SessionId, Write, Xid, Zxid, decode_all, decode_incoming, encode_request,
};

use super::call::{Call, Outcome};
use super::clock::{Instant, SuspensionClock};
use super::proof::{self, Handshake, Proof, Servers, StakeId};
use super::rewatch;
use super::state::ConnectionState;
use super::watches::{Cell, Heard, Kind, Kinds, Watches};

/// How a session is to be.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The timeout that is asked for.
    pub(crate) timeout: Duration,
    /// Whether a server that serves reads only will do.
    pub(crate) read_only: bool,
    /// How long a request waits for a connection before it is given back.
    pub(crate) connection_timeout: Duration,
    /// How long one server has to be connected to, and again to answer the handshake.
    pub(crate) attempt: Duration,
    /// What is to be left of the proof of life when the next is there.
    pub(crate) proven_ahead: Duration,
    /// By what it is known how long the machine was suspended.
    pub(crate) suspension: SuspensionClock,
}

/// A request before it is sent.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) request: Request,
    pub(crate) call: Arc<Call>,
    /// The watch that it leaves, if it is answered.
    pub(crate) watch: Option<Registration>,
    /// Watches that it leaves or fires, as `setWatches` does: they are there from the moment it is
    /// sent, since what fires at once comes before the answer.
    pub(crate) watches: Vec<Registration>,
    /// The session in which it makes sense.
    pub(crate) bound: Option<SessionId>,
}

impl Submission {
    /// A request without a watch, for any session.
    pub(crate) fn new(request: Request, call: Arc<Call>) -> Self {
        Self { request, call, watch: None, watches: Vec::new(), bound: None }
    }
}

/// A watch that is to be registered.
#[derive(Debug, Clone)]
pub(crate) struct Registration {
    pub(crate) path: String,
    pub(crate) kind: Kind,
    pub(crate) cell: Arc<Cell>,
}

/// Where the session stands with its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Down,
    /// The handshake is sent.
    Shaking,
    Up,
    Closed,
}

#[derive(Debug)]
struct Sent {
    xid: Xid,
    at: Instant,
    call: Arc<Call>,
    watch: Option<Registration>,
    /// The watch was left to a lasting one of the same path.
    is_covered: bool,
    /// What it looks at, where it is to prove what is held.
    checks: Vec<StakeId>,
}

/// Why a connection is of no use any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error("the server's answer cannot be read: {0}")]
    Unreadable(#[from] DecodeError),
    #[error("the answer {got:?} came where {expected:?} was expected")]
    OutOfOrder { expected: Option<Xid>, got: Xid },
    #[error("the session is over")]
    Expired,
    #[error("the server said nothing in time")]
    Silent,
    #[error("the server refused the credentials")]
    AuthFailed,
}

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    options: Options,
    phase: Phase,
    id: SessionId,
    /// A server that serves reads only has made the session up: no other knows of it.
    is_provisional: bool,
    password: Password,
    /// What was negotiated.
    timeout: Duration,
    /// The last zxid of a reply: `setWatches` reports it. All events up to it were told before that
    /// reply. An event's own zxid is not counted: others of the same multi may not have been told.
    answered_zxid: Zxid,
    /// The last zxid of a reply or an event: the handshake reports it, so that no server is accepted
    /// that is behind what was told here.
    heard_zxid: Zxid,
    /// How many `setWatches` of this connection are not answered. What they tell may be as old as
    /// what they reported, so that stays until the last of them is answered.
    rewatching: usize,
    next_xid: i32,
    credentials: Vec<Auth>,
    /// Requests that wait for a connection, and until when.
    queued: VecDeque<(Submission, Instant)>,
    sent: VecDeque<Sent>,
    /// Who waits for the answers to credentials, in order; nobody for those sent again.
    authenticating: VecDeque<Option<Arc<Call>>>,
    pings: VecDeque<Instant>,
    watches: Watches,
    /// Watches that the server has, that nobody waits for any more, and that cannot be taken back yet.
    stale: BTreeMap<String, Kinds>,
    /// How many of the requests that were sent are `addWatch`.
    lasting_under_way: usize,
    outgoing: VecDeque<Bytes>,
    last_sent: Instant,
    last_heard: Instant,
    /// What is known of the servers behind the connection.
    servers: Servers,
    proof: Proof,
    /// How many handshakes there were.
    connections: u64,
    state: Option<ConnectionState>,
    changes: VecDeque<ConnectionState>,
    wakers: Vec<Waker>,
}

/// The longest silence before a ping, as in ZooKeeper's client.
const PING_INTERVAL_MAX: Duration = Duration::from_secs(10);
/// The part of the timeout by which a ping is put off for a request that is due soon.
const PING_PUT_OFF_MAX: u32 = 12;

impl Session {
    pub(crate) fn new(options: Options, now: Instant) -> Self {
        Self {
            timeout: options.timeout,
            proof: Proof::new(
                options.suspension.clone(),
                options.timeout,
                options.proven_ahead,
                now,
            ),
            servers: Servers::PerhapsEnsemble,
            options,
            phase: Phase::Down,
            id: SessionId::NONE,
            is_provisional: false,
            password: Password::zero(),
            answered_zxid: Zxid::ZERO,
            heard_zxid: Zxid::ZERO,
            rewatching: 0,
            next_xid: 1,
            credentials: Vec::new(),
            queued: VecDeque::new(),
            sent: VecDeque::new(),
            authenticating: VecDeque::new(),
            pings: VecDeque::new(),
            watches: Watches::default(),
            stale: BTreeMap::new(),
            lasting_under_way: 0,
            outgoing: VecDeque::new(),
            last_sent: now,
            last_heard: now,
            connections: 0,
            state: None,
            changes: VecDeque::new(),
            wakers: Vec::new(),
        }
    }

    /// The session's id; [`SessionId::NONE`] before there is one.
    pub(crate) fn id(&self) -> SessionId {
        self.id
    }

    pub(crate) fn password(&self) -> &Password {
        &self.password
    }

    /// The timeout that was negotiated.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// How long one server has to be connected to.
    pub(crate) fn attempt(&self) -> Duration {
        self.options.attempt
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// How many connections there were: what was heard in one order over one connection may be
    /// told in another after a reconnect.
    pub(crate) fn connections(&self) -> u64 {
        self.connections
    }

    /// How many watchers there are.
    pub(crate) fn watcher_count(&self) -> usize {
        self.watches.len()
    }

    /// Gives a request its place in line.
    pub(crate) fn submit(&mut self, submission: Submission, now: Instant) {
        if self.phase == Phase::Closed {
            return self.complete(&submission.call, Outcome::Closed);
        }
        if submission.bound.is_some_and(|bound| bound != self.id) {
            return self.complete(&submission.call, Outcome::SessionLost);
        }
        if self.phase == Phase::Up {
            self.transmit(submission, now);
        } else {
            self.queued.push_back((submission, now + self.options.connection_timeout));
        }
    }

    fn transmit(&mut self, submission: Submission, now: Instant) {
        let Submission { request, call, watch, watches, .. } = submission;
        for Registration { path, kind, cell } in watches {
            if !cell.is_abandoned() {
                self.watches.add(path, kind, cell);
            }
        }
        let (request, is_covered) = self.beside_lasting(request, watch.as_ref());
        if watch.is_some() && call.op == OpCode::ADD_WATCH {
            self.lasting_under_way += 1;
        }
        let xid = Xid(self.next_xid);
        // Xids are positive; after the last comes the first.
        self.next_xid = self.next_xid.checked_add(1).unwrap_or(1);
        self.outgoing.push_back(encode_request(xid, &request));
        self.sent.push_back(Sent { xid, at: now, call, watch, is_covered, checks: Vec::new() });
        self.last_sent = now;
    }

    /// Adds credentials, now and after every reconnect.
    pub(crate) fn authenticate(&mut self, auth: Auth, call: Arc<Call>, now: Instant) {
        self.credentials.push(auth.clone());
        if self.phase == Phase::Up {
            self.send_auth(auth, Some(call), now);
        } else {
            // They go with the handshake; whoever asked need not wait for that.
            let header = ReplyHeader { xid: Xid::AUTH, zxid: Zxid::ZERO, err: ErrorCode::OK };
            self.complete(&call, Outcome::Answered(header, Bytes::new()));
        }
    }

    fn send_auth(&mut self, auth: Auth, call: Option<Arc<Call>>, now: Instant) {
        let request = Request::Session(zoolet_protocol::Session::Auth(auth));
        self.outgoing.push_back(encode_request(Xid::AUTH, &request));
        self.authenticating.push_back(call);
        self.last_sent = now;
    }

    /// Ends the session, if there is a connection to say so; else the server will, in time.
    pub(crate) fn close(&mut self, call: Arc<Call>, now: Instant) {
        if self.phase == Phase::Up {
            // The server may delete what is held long before the answer comes, if it comes.
            self.proof.end();
            let request = Request::Write(Write::CloseSession);
            self.transmit(Submission::new(request, call), now);
        } else {
            self.complete(&call, Outcome::NotSent);
            self.end(Outcome::Closed);
        }
    }

    /// Nothing is done any more, and everybody is told.
    pub(crate) fn end(&mut self, outcome: Outcome) {
        self.phase = Phase::Closed;
        self.id = SessionId::NONE;
        self.proof.end();
        self.change(ConnectionState::Lost);
        self.outgoing.clear();
        let sent = std::mem::take(&mut self.sent).into_iter().map(|sent| sent.call);
        let queued = std::mem::take(&mut self.queued).into_iter().map(|(queued, _)| queued.call);
        for call in sent.chain(queued) {
            self.complete(&call, outcome.clone());
        }
        for call in std::mem::take(&mut self.authenticating).into_iter().flatten() {
            self.complete(&call, outcome.clone());
        }
        self.watches.end(&Heard::Closed, &mut self.wakers);
    }

    /// A connection was made: the handshake goes first.
    pub(crate) fn handle_connected(&mut self, servers: Servers, now: Instant) {
        self.phase = Phase::Shaking;
        self.servers = servers;
        self.last_sent = now;
        let timeout_ms = i32::try_from(self.options.timeout.as_millis()).unwrap_or(i32::MAX);
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: self.heard_zxid,
            timeout_ms,
            session: if self.is_provisional { SessionId::NONE } else { self.id },
            password: if self.is_provisional { Password::zero() } else { self.password.clone() },
            read_only: Some(self.options.read_only),
        };
        self.outgoing.clear();
        self.outgoing.push_back(encoded(&request));
    }

    /// The connection is gone, or could not be made.
    pub(crate) fn handle_disconnected(&mut self) {
        if self.phase == Phase::Closed {
            return;
        }
        let was_up = self.phase == Phase::Up;
        self.phase = Phase::Down;
        self.outgoing.clear();
        self.pings.clear();
        self.proof.handle_disconnected();
        // The next connection registers those watches only that somebody waits for.
        self.stale.clear();
        self.lasting_under_way = 0;
        let mut is_over = false;
        for sent in std::mem::take(&mut self.sent) {
            is_over |= sent.call.op == OpCode::CLOSE_SESSION;
            self.complete(&sent.call, Outcome::ConnectionLost);
        }
        for call in std::mem::take(&mut self.authenticating).into_iter().flatten() {
            self.complete(&call, Outcome::ConnectionLost);
        }
        if is_over {
            self.end(Outcome::Closed);
        } else if was_up {
            self.change(ConnectionState::Suspended);
        }
    }

    /// A frame came.
    pub(crate) fn handle_frame(&mut self, frame: &Bytes, now: Instant) -> Result<(), Broken> {
        match self.phase {
            Phase::Shaking => self.handle_handshake(&decode_all(frame)?, now),
            Phase::Up => {
                self.last_heard = now;
                self.handle_incoming(decode_incoming(frame)?, now)
            }
            Phase::Down | Phase::Closed => Ok(()),
        }
    }

    fn handle_handshake(&mut self, response: &ConnectResponse, now: Instant) -> Result<(), Broken> {
        if response.is_refused() {
            self.lose(now);
            return Err(Broken::Expired);
        }
        let is_first = self.state.is_none();
        let handshake = match response.read_only {
            Some(true) => Handshake::ReadOnly,
            _ if response.session == self.id => Handshake::Resumed,
            _ => Handshake::Created,
        };
        self.is_provisional = handshake == Handshake::ReadOnly
            && (self.is_provisional || response.session != self.id);
        self.phase = Phase::Up;
        self.connections += 1;
        self.id = response.session;
        self.password = response.password.clone();
        self.timeout = Duration::from_millis(u64::try_from(response.timeout_ms).unwrap_or(0));
        self.last_heard = now;
        self.proof.handle_handshake(handshake, self.servers, self.timeout, self.last_sent, now);
        for auth in self.credentials.clone() {
            self.send_auth(auth, None, now);
        }
        let registrations = rewatch::registrations(self.watches.paths(), self.answered_zxid);
        self.rewatching = registrations.len();
        for request in registrations {
            self.outgoing.push_back(encode_request(Xid::SET_WATCHES, &request));
        }
        for (submission, _) in std::mem::take(&mut self.queued) {
            self.submit(submission, now);
        }
        self.change(match response.read_only {
            Some(true) => ConnectionState::ReadOnly,
            _ if is_first => ConnectionState::Connected,
            _ => ConnectionState::Reconnected,
        });
        Ok(())
    }

    fn handle_incoming(&mut self, incoming: Incoming, now: Instant) -> Result<(), Broken> {
        match incoming {
            Incoming::Event { zxid, event } => {
                self.hear_event(zxid);
                self.watches.fire(zxid, &event, &mut self.wakers);
                self.take_back_stale(event.path.text().unwrap_or_default(), now);
                Ok(())
            }
            Incoming::Reply { header, body } => {
                self.hear_reply(header);
                match header.xid {
                    Xid::PING => {
                        if let Some(at) = self.pings.pop_front() {
                            self.proof.handle_answer(at, now);
                        }
                        Ok(())
                    }
                    Xid::AUTH => self.handle_auth_reply(header),
                    Xid::SET_WATCHES => Ok(()),
                    _ => self.handle_reply(header, body, now),
                }
            }
        }
    }

    /// Notes which change an event tells of. The zxid is negative from servers before 3.9.
    fn hear_event(&mut self, zxid: Zxid) {
        #[cfg(feature = "planted-bugs")]
        if is_planted(PlantedBug::EventNotReported) {
            return;
        }
        self.heard_zxid = self.heard_zxid.max(zxid);
    }

    /// Notes up to where a reply tells what has happened.
    fn hear_reply(&mut self, header: ReplyHeader) {
        self.heard_zxid = self.heard_zxid.max(header.zxid);
        if header.xid == Xid::SET_WATCHES {
            self.rewatching = self.rewatching.saturating_sub(1);
        }
        if self.rewatching == 0 {
            self.answered_zxid = self.answered_zxid.max(header.zxid);
        }
    }

    fn handle_auth_reply(&mut self, header: ReplyHeader) -> Result<(), Broken> {
        let call = self.authenticating.pop_front().flatten();
        if let Some(call) = call {
            self.complete(&call, Outcome::Answered(header, Bytes::new()));
        }
        if header.err.is_ok() {
            return Ok(());
        }
        // The server closes the connection; with these credentials it would again.
        self.end(Outcome::Closed);
        Err(Broken::AuthFailed)
    }

    fn handle_reply(
        &mut self,
        header: ReplyHeader,
        body: Bytes,
        now: Instant,
    ) -> Result<(), Broken> {
        let sent = match self.sent.pop_front() {
            Some(sent) if sent.xid == header.xid => sent,
            other => {
                let expected = other.as_ref().map(|sent| sent.xid);
                // Put back, so that its asker hears of the lost connection.
                self.sent.extend(other);
                self.sent.rotate_right(usize::from(expected.is_some()));
                return Err(Broken::OutOfOrder { expected, got: header.xid });
            }
        };
        if header.err == ErrorCode::SESSION_EXPIRED {
            // As if the server had refused the session at the handshake.
            self.complete(&sent.call, Outcome::SessionLost);
            self.handle_disconnected();
            self.lose(now);
            return Err(Broken::Expired);
        }
        if !sent.checks.is_empty() {
            let results = proof::results_of(header.err, &body);
            self.proof.handle_checked(&sent.checks, results.as_deref(), sent.at, now);
        } else if header.err.is_ok() && proof::is_quorum_write(sent.call.op, &body) {
            self.proof.prove(sent.at, now);
        }
        self.proof.handle_answer(sent.at, now);
        if !self.handle_watched(&sent, header.err, now) {
            return Ok(());
        }
        let is_close = sent.call.op == OpCode::CLOSE_SESSION;
        self.complete(&sent.call, Outcome::Answered(header, body));
        if is_close {
            self.end(Outcome::Closed);
        }
        Ok(())
    }

    /// Time has passed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> Result<(), Broken> {
        self.give_back_queued(now);
        if self.proof.look_at().is_some_and(|at| now >= at) {
            self.proof.look_for_suspension(now);
        }
        match self.phase {
            Phase::Closed => Ok(()),
            Phase::Up => {
                if now >= self.silent_at() {
                    return Err(Broken::Silent);
                }
                if self.proof.check_at().is_some_and(|at| now >= at) {
                    self.send_check(now);
                }
                if now >= self.ping_at() {
                    let ping = Request::Session(zoolet_protocol::Session::Ping);
                    self.outgoing.push_back(encode_request(Xid::PING, &ping));
                    self.pings.push_back(now);
                    self.last_sent = now;
                }
                Ok(())
            }
            Phase::Shaking if now >= self.last_sent + self.options.attempt => Err(Broken::Silent),
            Phase::Down | Phase::Shaking => {
                if self.lost_at().is_some_and(|lost_at| now >= lost_at) {
                    self.lose(now);
                    return Err(Broken::Expired);
                }
                Ok(())
            }
        }
    }

    /// Gives back requests that waited too long for a connection.
    fn give_back_queued(&mut self, now: Instant) {
        while let Some((queued, until)) = self.queued.front()
            && *until <= now
        {
            let call = Arc::clone(&queued.call);
            let watches = queued.watches.clone();
            self.queued.pop_front();
            // Whoever asked for them may have gone, and others wait at the same cells.
            for watch in watches {
                self.wakers.extend(watch.cell.tell(Heard::NotSent));
            }
            self.complete(&call, Outcome::NotSent);
        }
    }

    /// When to call [`Session::handle_timeout`].
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let phase = match self.phase {
            Phase::Up => {
                let check = self.proof.check_at().into_iter();
                check.chain([self.ping_at(), self.silent_at()]).min()
            }
            Phase::Down => self.lost_at(),
            Phase::Shaking => {
                let answer_due = self.last_sent + self.options.attempt;
                Some(self.lost_at().map_or(answer_due, |lost_at| lost_at.min(answer_due)))
            }
            Phase::Closed => None,
        };
        let queued = self.queued.front().map(|(_, until)| *until);
        phase.into_iter().chain(queued).chain(self.proof.look_at()).min()
    }

    fn ping_at(&self) -> Instant {
        let at = self.last_sent + (self.timeout / 3).min(PING_INTERVAL_MAX);
        // A proof that is due soon takes the place of the ping.
        match self.proof.check_at() {
            Some(check) if check < at + self.timeout / PING_PUT_OFF_MAX => at.max(check),
            _ => at,
        }
    }

    fn silent_at(&self) -> Instant {
        self.last_heard + self.timeout * 2 / 3
    }

    /// When a session without a connection is over at the latest.
    fn lost_at(&self) -> Option<Instant> {
        (!self.id.is_none()).then(|| self.last_heard + self.timeout)
    }

    /// The session is over: the next handshake begins a new one.
    fn lose(&mut self, now: Instant) {
        self.proof.lose(now);
        self.id = SessionId::NONE;
        self.is_provisional = false;
        self.password = Password::zero();
        // A server that was restarted without its data begins anew. An ensemble is not believed when it
        // is behind, all the same: the create of the new session is a change after all that was
        // heard, and the server that tells of it has seen it.
        self.answered_zxid = Zxid::ZERO;
        self.heard_zxid = Zxid::ZERO;
        self.watches.end(&Heard::SessionLost, &mut self.wakers);
        let queued = std::mem::take(&mut self.queued);
        for (submission, until) in queued {
            if submission.bound.is_some() || submission.watch.is_some() {
                self.complete(&submission.call, Outcome::SessionLost);
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

    /// The next change of state.
    pub(crate) fn poll_state(&mut self) -> Option<ConnectionState> {
        self.changes.pop_front()
    }

    /// Who is to be woken, once no lock is held.
    pub(crate) fn poll_wakers(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.wakers)
    }
}

fn encoded(value: &impl zoolet_protocol::Encode) -> Bytes {
    let mut out = bytes::BytesMut::with_capacity(value.encoded_len());
    value.encode(&mut out);
    out.freeze()
}
