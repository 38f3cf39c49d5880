//! The session proof: until when no server can have expired the session, and whether the claimed
//! znodes exist.
//!
//! A write is answered only after the leader has checked the session and a quorum has agreed, so an
//! answered write proves that the session lived when the write was sent. How much longer it lives
//! depends on the last request that the leader knew of by then: a follower reports the sessions
//! that it heard from when the leader pings it. So before a check the leader answers a `sync`. The
//! recipes' module `lock::state` derives the formula.

mod answered;
mod claims;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytestring::ByteString;
use zoolet_protocol::{
    ErrorCode, Expect, MultiOp, MultiResult, OpCode, Request, Response, SessionId, Write,
};

use self::answered::{Answered, Exchange, HALF_TICK, PING_WITHIN};
use self::claims::Claims;
use super::clock::{Instant, SuspensionClock};
use super::limits::PATH_BYTES_MAX;

/// The part of the session timeout by which two clocks may drift apart while it passes.
const CLOCK_DRIFT: u32 = 100;
/// The part of the session timeout after which the claimed znodes are checked again.
const CHECK_INTERVAL: u32 = 3;
/// The part of the session timeout before the end of a proof at which the next check is sent at the
/// latest.
const CHECK_AHEAD: u32 = 12;
/// The greatest part of the session timeout that may be asked for as what is left of a proof
/// ([`Builder::proven_ahead`](crate::Builder::proven_ahead)). When the reply to a check comes,
/// about `T/3` of the last proof is left: half of it is for the network.
const PROVEN_AHEAD_MAX: u32 = 6;
/// The least part of the session timeout between two checks.
const CHECK_INTERVAL_MIN: u32 = 12;
/// A write renews the proof only if it was sent this part of the session timeout after the last one that
/// did.
const PROOF_PRECISION: u32 = 48;
/// The least part of the session timeout by which a proof is to last longer than the one before.
const RENEWAL_MIN: u32 = 16;
/// The `sync` before a check is left out if the proof gets shorter by less than this part of the session
/// timeout.
const SYNC_SPARED: u32 = 12;
/// How often the client looks whether the machine was suspended, while there are claims: often
/// enough for the shortest session timeouts, and next to no work.
const SUSPENSION_CHECK_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// A difference of two clocks that may come from reading them one after the other.
const SUSPENSION_MIN: Duration = Duration::from_millis(5);

/// Whether the server of a connection may be one of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Servers {
    /// It is the only one and decides alone: each reply proves the session.
    SingleNode,
    /// There may be others, from which it may be cut off: only a committed write proves the
    /// session.
    PerhapsEnsemble,
}

/// What the handshake said of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handshake {
    /// The server created it, which is a write.
    Created,
    /// The server knew it already.
    Resumed,
    /// The server has lost its ensemble and serves reads only: what it says of a session proves
    /// nothing.
    ReadOnly,
}

/// A znode by which a recipe holds something.
#[derive(Debug)]
pub(crate) struct ClaimedZnode {
    /// The path as the server names it.
    path: ByteString,
    /// The version of the znode. One that somebody else has created at the path has another.
    version: Expect,
    since: Instant,
    is_gone: AtomicBool,
    /// The server refused to let this client check it, or the check is too long.
    is_refused: AtomicBool,
}

impl ClaimedZnode {
    /// Whether the server was found not to have it, or the session is over.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    /// Whether this client may check it, as far as is known.
    fn may_be_checked(&self) -> bool {
        !self.is_refused.load(Ordering::Relaxed)
    }
}

/// Identifies a claim.
pub(crate) type ClaimId = u64;

/// A request that the proof needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProofRequest {
    /// A `sync`, which the leader answers. It makes the check that follows prove more.
    Sync,
    /// The multi that checks the claimed znodes.
    Check,
    /// A ping, so that there is a request that was answered soon.
    Ping,
}

/// A `sync` of the proof that is not followed by its check yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sync {
    /// It was sent in place of a ping.
    AsPing,
    BeforeCheck,
    /// The one before the check was answered.
    Answered(Instant),
}

/// Until when no server can have expired the session, and what is needed to reckon it.
#[derive(Debug)]
pub(crate) struct SessionProof {
    clock: SuspensionClock,
    servers: Servers,
    timeout: Duration,
    /// How much of a proof is to be left when the next one arrives.
    ahead: Duration,
    answered: Answered,
    /// When the last handshake was sent, whether its reply has come or not.
    handshake_sent: Instant,
    is_read_only: bool,
    proven_until: Instant,
    /// When the write was sent from which `proven_until` was reckoned.
    reckoned_from: Option<Instant>,
    /// How long the machine was suspended in all when that was last read.
    suspended: Duration,
    /// When that was last read.
    suspension_read_at: Instant,
    /// When a suspension was last noticed.
    resumed_at: Option<Instant>,
    claims: Claims,
    last_claim: ClaimId,
    /// The last claim that was checked, where one request has no room for all.
    last_checked: ClaimId,
    checked_at: Option<Instant>,
    /// The next check is not sent before this.
    check_from: Option<Instant>,
    /// The last check was answered and proved nothing new: nothing is sent before this.
    retry_from: Option<Instant>,
    /// A check ended before all claims were checked: the rest is checked then.
    recheck_at: Option<Instant>,
    /// A check is in flight.
    is_checking: bool,
    sync: Option<Sync>,
    /// A ping is in flight.
    is_pinging: bool,
    /// There are or will be claims, so that the leader is to answer now and then.
    expects_claims: bool,
    /// The session is being closed: nothing can be held in it any more.
    has_ended: bool,
    /// The proof has changed other than by the passing of time.
    has_changed: bool,
    /// A request of the proof was answered.
    has_answer: bool,
}

impl SessionProof {
    pub(crate) fn new(
        clock: SuspensionClock,
        timeout: Duration,
        ahead: Duration,
        now: Instant,
    ) -> Self {
        Self {
            servers: Servers::PerhapsEnsemble,
            timeout,
            ahead,
            answered: Answered::new(timeout, now),
            handshake_sent: now,
            is_read_only: false,
            proven_until: now,
            reckoned_from: None,
            suspended: clock.suspended(),
            clock,
            suspension_read_at: now,
            resumed_at: None,
            claims: Claims::default(),
            last_claim: 0,
            last_checked: 0,
            checked_at: None,
            check_from: None,
            retry_from: None,
            recheck_at: None,
            is_checking: false,
            sync: None,
            is_pinging: false,
            expects_claims: false,
            has_ended: false,
            has_changed: false,
            has_answer: false,
        }
    }

    /// Until when no server can have expired the session.
    pub(crate) fn proven_until(&self) -> Instant {
        self.proven_until
    }

    /// Whether no server can have expired the session.
    pub(crate) fn is_proven(&self, now: Instant) -> bool {
        let at = now.checked_add(self.suspension().unwrap_or_default());
        !self.has_ended && at.is_some_and(|at| at < self.proven_until)
    }

    /// Whether that stays so until the reply to the next check can be expected.
    pub(crate) fn is_proven_ahead(&self, now: Instant) -> bool {
        self.is_proven(now + self.asks_ahead())
    }

    /// How long before the end of a proof the next check is sent, where it can prove more by then.
    fn asks_ahead(&self) -> Duration {
        self.timeout / CHECK_AHEAD + self.ahead.min(self.timeout / PROVEN_AHEAD_MAX)
    }

    /// Whether the proof was renewed after it had ended or almost ended, or has changed in another
    /// way than by the passing of time, since this was last called.
    pub(crate) fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// Whether a request of the proof was answered since this was last called.
    pub(crate) fn take_answer(&mut self) -> bool {
        std::mem::take(&mut self.has_answer)
    }

    /// How long the machine was suspended since that was last read.
    fn suspension(&self) -> Option<Duration> {
        let passed = self.clock.suspended().saturating_sub(self.suspended);
        (passed >= SUSPENSION_MIN).then_some(passed)
    }

    /// Looks whether the machine was suspended. Tokio's clock stood still meanwhile, so all requests
    /// that were sent before are longer ago than it says. Those sent since are moved too, which errs on
    /// the safe side. The moments of the replies are not moved: a reply may have come after the
    /// suspension, and the follower tells the leader of the request a while after the reply.
    pub(crate) fn read_suspension(&mut self, now: Instant) {
        self.suspension_read_at = now;
        let Some(passed) = self.suspension() else { return };
        self.suspended += passed;
        self.resumed_at = Some(now);
        self.proven_until = earlier(self.proven_until, passed);
        self.answered.move_back(passed);
        self.handshake_sent = earlier(self.handshake_sent, passed);
        (self.reckoned_from, self.check_from) = (None, None);
        self.has_changed = true;
    }

    /// Whether the machine was, or may have been, suspended after a request was sent. Nothing is
    /// known then of how long ago it was sent.
    fn was_suspended_since(&self, sent: Instant) -> bool {
        self.resumed_at.is_some_and(|resumed_at| sent < resumed_at)
    }

    /// A handshake was sent.
    pub(crate) fn handle_connected(&mut self, now: Instant) {
        self.handshake_sent = now;
    }

    /// The reply to the last handshake came.
    pub(crate) fn handle_handshake(
        &mut self,
        handshake: Handshake,
        servers: Servers,
        timeout: Duration,
        now: Instant,
    ) {
        self.read_suspension(now);
        let sent = self.handshake_sent;
        self.is_read_only = handshake == Handshake::ReadOnly;
        self.servers = servers;
        // Servers may grant different timeouts, and a newly elected leader applies the one with which
        // the session was created.
        self.timeout = match handshake {
            Handshake::Created => timeout,
            Handshake::Resumed | Handshake::ReadOnly => timeout.min(self.timeout),
        };
        self.answered = Answered::new(self.timeout, sent);
        self.reckoned_from = None;
        self.check_from = None;
        match handshake {
            Handshake::Created => self.extend(sent, now),
            Handshake::Resumed if servers == Servers::SingleNode => self.extend(sent, now),
            // A shorter timeout counts from the handshake on.
            Handshake::Resumed => {
                let until = self.lives_until(sent);
                self.has_changed |= until < self.proven_until;
                self.proven_until = self.proven_until.min(until);
            }
            Handshake::ReadOnly => {}
        }
    }

    /// The connection was lost.
    pub(crate) fn handle_disconnected(&mut self) {
        self.forget_requests();
    }

    fn forget_requests(&mut self) {
        (self.is_checking, self.is_pinging, self.sync) = (false, false, None);
        (self.recheck_at, self.retry_from) = (None, None);
    }

    /// The session has expired, and all claims with it.
    pub(crate) fn expire(&mut self, now: Instant) {
        self.claims.clear();
        self.forget_requests();
        self.proven_until = now;
        self.has_changed = true;
    }

    /// The session is being closed, or will not be used any more: no reply proves anything from now
    /// on.
    pub(crate) fn end(&mut self) {
        self.claims.clear();
        self.forget_requests();
        self.has_ended = true;
        // A moment in the past.
        self.proven_until = self.proven_until.min(self.answered.handshake());
        self.has_changed = true;
    }

    /// Until when a session lives if a request sent at `touched` has touched it at the leader.
    fn lives_until(&self, touched: Instant) -> Instant {
        touched + self.timeout.saturating_sub(self.timeout / CLOCK_DRIFT)
    }

    fn extend(&mut self, touched: Instant, now: Instant) {
        if self.has_ended {
            return;
        }
        let until = self.lives_until(touched);
        let soon = now + self.asks_ahead();
        self.has_changed |= self.proven_until <= soon && self.proven_until < until && now < until;
        self.proven_until = self.proven_until.max(until);
    }

    /// The reply to any request came.
    pub(crate) fn handle_answer(&mut self, sent: Instant, now: Instant) {
        if self.servers == Servers::SingleNode {
            self.prove(sent, now);
        }
        if !self.was_suspended_since(sent) {
            self.answered.add(Exchange { sent, answered: now });
        }
    }

    /// The reply came to a request that the leader has answered: a `sync` or a write.
    pub(crate) fn handle_answer_of_leader(&mut self, sent: Instant, now: Instant) {
        if !self.was_suspended_since(sent) && !self.is_read_only {
            self.answered.add_of_leader(Exchange { sent, answered: now });
        }
    }

    /// The reply to a write came that was sent at `sent`: the session lived then. To be called
    /// before [`SessionProof::handle_answer`].
    pub(crate) fn prove(&mut self, sent: Instant, now: Instant) {
        let precision = self.timeout / PROOF_PRECISION;
        if self.reckoned_from.is_some_and(|from| sent < from + precision) {
            return;
        }
        self.read_suspension(now);
        // A request in flight during a suspension says nothing about when it was sent.
        if self.was_suspended_since(sent) || self.is_read_only {
            return;
        }
        self.reckoned_from = Some(sent);
        let touched = match self.servers {
            Servers::SingleNode => sent,
            Servers::PerhapsEnsemble => self.answered.heard_of_before(sent),
        };
        self.extend(touched, now);
    }

    /// A znode of `session` is claimed. If that is not the `current` session it counts as gone.
    pub(crate) fn claim(
        &mut self,
        session: SessionId,
        current: SessionId,
        (path, version): (ByteString, Expect),
        now: Instant,
    ) -> (ClaimId, Arc<ClaimedZnode>) {
        // A check in another session would say nothing of it, so it must not make one due.
        let is_over = self.has_ended || session != current;
        let (is_gone, is_refused) = (AtomicBool::new(is_over), AtomicBool::new(false));
        let claimed = Arc::new(ClaimedZnode { path, version, since: now, is_gone, is_refused });
        self.last_claim += 1;
        if !is_over {
            self.expects_claims = true;
            self.claims.add(self.last_claim, Arc::clone(&claimed));
        }
        (self.last_claim, claimed)
    }

    /// Ends a claim.
    pub(crate) fn end_claim(&mut self, id: ClaimId) {
        self.claims.remove(id);
        if self.claims.is_empty() {
            // No check follows.
            self.recheck_at = None;
            self.sync = self.sync.filter(|sync| !matches!(sync, Sync::Answered(_)));
            self.sync = self.sync.map(|_| Sync::AsPing);
        }
    }

    /// Znodes of this session will be claimed.
    pub(crate) fn expect_claims(&mut self) {
        self.expects_claims = true;
    }

    /// Whether a `sync` is to be sent in place of a ping, so that a claim finds a reply of the leader
    /// that is not too old.
    pub(crate) fn syncs_as_ping(&self) -> bool {
        let is_of_use = self.servers == Servers::PerhapsEnsemble && !self.is_read_only;
        self.expects_claims && is_of_use && self.claims.is_empty() && self.sync.is_none()
    }

    /// A `sync` is sent, in place of a ping or before a check.
    pub(crate) fn handle_sync_sent(&mut self) {
        let is_ping = self.claims.is_empty();
        self.sync = Some(if is_ping { Sync::AsPing } else { Sync::BeforeCheck });
    }

    /// The reply to the `sync` came.
    pub(crate) fn handle_synced(&mut self, now: Instant) {
        self.has_answer = true;
        self.sync = match self.sync {
            Some(Sync::BeforeCheck) => Some(Sync::Answered(now)),
            _ => None,
        };
    }

    /// What the proof needs next, and when to send it; `None` while the reply to that is awaited, or
    /// nothing is claimed.
    pub(crate) fn next_request(&self) -> Option<(Instant, ProofRequest)> {
        let (at, request) = self.next_request_at_once()?;
        let retry_from = self.retry_from.filter(|_| self.recheck_at.is_none());
        Some((retry_from.map_or(at, |from| at.max(from)), request))
    }

    /// As [`SessionProof::next_request`], as if the last check had proved something.
    fn next_request_at_once(&self) -> Option<(Instant, ProofRequest)> {
        if self.is_checking || self.is_read_only {
            return None;
        }
        let oldest = self.claims.oldest()?;
        if let Some(at) = self.recheck_at {
            return Some((at, ProofRequest::Check));
        }
        let since = self.checked_at.map_or(oldest.since, |checked_at| checked_at.max(oldest.since));
        let for_znodes = since + self.timeout / CHECK_INTERVAL;
        if self.servers == Servers::SingleNode {
            let at = for_znodes.min(self.before_end(self.asks_ahead()));
            return Some((self.not_too_soon(at), ProofRequest::Check));
        }
        let after_sync = self.timeout / PING_WITHIN;
        match self.sync {
            Some(Sync::Answered(at)) => return Some((at + after_sync, ProofRequest::Check)),
            Some(Sync::BeforeCheck) => return None,
            Some(Sync::AsPing) | None => {}
        }
        let (sync_at, ping_at) = self.sync_and_ping_at(oldest.since);
        let at = self.not_too_soon(earlier(for_znodes, after_sync)).min(sync_at);
        let known_now = at.max(oldest.since);
        let suffices = |(from, touched): &(Instant, Instant)| {
            self.suffices(*touched, known_now.max(*from), known_now)
        };
        let next = match self.answered.writes_of_use(known_now).find(suffices) {
            Some((from, _)) => Some((at.max(from), ProofRequest::Check)),
            None if self.sync.is_some() => None,
            None => Some((at, ProofRequest::Sync)),
        };
        let ping = ping_at.map(|at| (at, ProofRequest::Ping));
        ping.filter(|(at, _)| next.is_none_or(|(next, _)| at < &next)).or(next)
    }

    /// Whether a check sent `at` this time needs no `sync` before it, if it proves that the session
    /// was `touched` then.
    fn suffices(&self, touched: Instant, at: Instant, sync_at: Instant) -> bool {
        let until = self.lives_until(touched);
        if until < self.proven_until + self.timeout / RENEWAL_MIN {
            return false;
        }
        let after_sync = self.lives_until(self.answered.heard_of_by_sync(sync_at));
        let is_urgent = at >= self.before_end(self.asks_ahead());
        until + self.timeout / SYNC_SPARED >= after_sync
            || (is_urgent && until >= at + self.asks_ahead())
    }

    /// This time, or later if the last check was just before.
    fn not_too_soon(&self, at: Instant) -> Instant {
        self.check_from.map_or(at, |from| at.max(from))
    }

    /// So long before the end of the proof.
    fn before_end(&self, ahead: Duration) -> Instant {
        self.proven_until.checked_sub(ahead).unwrap_or(self.proven_until)
    }

    /// When to send a `sync`, and a check after it, for the sake of a longer proof; and when to ping
    /// first, since no request was answered that helps.
    fn sync_and_ping_at(&self, now: Instant) -> (Instant, Option<Instant>) {
        let after_sync = self.timeout / PING_WITHIN;
        let round_trips = after_sync + 2 * self.answered.round_trip_of_leader();
        let longer = self.proven_until + self.timeout / RENEWAL_MIN;
        // What it proves must not be over when the check is answered.
        let helps = |touched: Instant, reported: Instant| {
            let until = self.lives_until(touched);
            until >= longer && until >= reported.max(now) + round_trips
        };
        if let Some(reported) = self.answered.first_reported(helps) {
            return (reported.max(self.before_end(self.asks_ahead() + round_trips)), None);
        }
        let latest = self.before_end(self.timeout / CHECK_AHEAD + after_sync);
        let ping_at = self.before_end(self.asks_ahead() + self.timeout / HALF_TICK + round_trips);
        let since_last = self.timeout / CHECK_INTERVAL_MIN;
        let last = self.answered.last_sent().checked_add(since_last);
        let is_pinged = self.is_pinging || self.sync.is_some();
        (self.not_too_soon(latest), last.filter(|_| !is_pinged).map(|last| last.max(ping_at)))
    }

    /// A ping is sent.
    pub(crate) fn handle_ping_sent(&mut self) {
        self.is_pinging = true;
    }

    /// The reply to a ping came.
    pub(crate) fn handle_ping_answered(&mut self, sent: Instant, now: Instant) {
        (self.is_pinging, self.has_answer) = (false, true);
        self.handle_answer(sent, now);
    }

    /// When to call [`SessionProof::read_suspension`].
    pub(crate) fn suspension_read_due(&self) -> Option<Instant> {
        let interval = (self.timeout / CHECK_AHEAD).max(SUSPENSION_CHECK_INTERVAL_MIN);
        (!self.claims.is_empty()).then(|| self.suspension_read_at + interval)
    }

    /// The multi that proves that the session lives and that the claimed znodes exist.
    pub(crate) fn check(&mut self) -> Option<(Request, Vec<ClaimId>)> {
        let (mut ops, mut ids, mut bytes) = (Vec::new(), Vec::new(), 0);
        let from = self.last_checked + 1;
        // First those whose turn it is; one that may not be checked only where there are no others:
        // the refusal proves that the session lives.
        let claims = self.claims.beginning_with(from);
        let may_be_checked =
            |(_, claimed): &&(ClaimId, Arc<ClaimedZnode>)| claimed.may_be_checked();
        let others = claims.clone().filter(|claimed| !may_be_checked(claimed)).take(1);
        for (id, claimed) in claims.filter(may_be_checked).chain(others) {
            let op = MultiOp::check(claimed.path.clone(), claimed.version);
            bytes += op.encoded_len();
            if bytes > PATH_BYTES_MAX && !ids.is_empty() {
                break;
            }
            ops.push(op);
            ids.push(*id);
        }
        self.last_checked = *ids.last()?;
        self.is_checking = true;
        self.recheck_at = None;
        if matches!(self.sync, Some(Sync::Answered(_))) {
            self.sync = None;
        }
        Some((Request::Write(Write::Multi(ops)), ids))
    }

    /// A check was not sent, since it is too long: it is of one znode with a very long path. From now on
    /// it counts as one that may not be checked, and the others are checked at once.
    pub(crate) fn handle_check_not_sent(&mut self, ids: &[ClaimId], now: Instant) {
        self.is_checking = false;
        self.check_from = Some(now + self.timeout / CHECK_INTERVAL_MIN);
        self.retry_from = self.check_from;
        if let Some(id) = ids.first() {
            self.check_others(*id, now);
        }
    }

    /// The reply to a check came, with results or with an error.
    pub(crate) fn handle_checked(
        &mut self,
        ids: &[ClaimId],
        results: Option<&[MultiResult]>,
        sent: Instant,
        now: Instant,
    ) {
        (self.is_checking, self.has_answer) = (false, true);
        self.checked_at = Some(now);
        self.check_from = Some(now + self.timeout / CHECK_INTERVAL_MIN);
        self.retry_from = self.check_from;
        let Some(results) = results else { return };
        let refusal = results.iter().zip(ids).find_map(|(result, id)| match result {
            MultiResult::Error(ErrorCode::OK) => None,
            MultiResult::Error(code) => Some((*id, *code)),
            _ => None,
        });
        match refusal {
            // The leader does not know this session, or knows it on another connection.
            Some((_, ErrorCode::SESSION_EXPIRED | ErrorCode::SESSION_MOVED)) => return,
            Some((id, ErrorCode::NO_NODE | ErrorCode::BAD_VERSION)) => {
                if let Some(claimed) = self.claims.remove(id) {
                    claimed.is_gone.store(true, Ordering::Release);
                    self.has_changed = true;
                }
                self.check_those_behind(id, now);
            }
            Some((id, _)) => self.check_others(id, now),
            None => {}
        }
        let before = self.proven_until;
        // Also where another write was sent just before.
        self.reckoned_from = None;
        self.prove(sent, now);
        if self.proven_until > before {
            self.retry_from = None;
        }
        self.handle_answer_of_leader(sent, now);
    }

    /// This claim may not be checked. If that was not known, a check of others is due at once.
    fn check_others(&mut self, id: ClaimId, now: Instant) {
        let claimed = self.claims.get(id);
        let is_new = claimed.is_none_or(|it| !it.is_refused.swap(true, Ordering::Relaxed));
        if is_new && self.claims.beginning_with(0).any(|(_, claimed)| claimed.may_be_checked()) {
            self.check_those_behind(id, now);
        }
    }

    /// A check stopped at this claim: makes a check of the claims behind it due at once.
    fn check_those_behind(&mut self, id: ClaimId, now: Instant) {
        self.last_checked = id;
        self.recheck_at = (!self.claims.is_empty()).then_some(now);
    }
}

/// The moment `by` before `at`; if the clock cannot represent it, an earlier moment that it can.
fn earlier(at: Instant, by: Duration) -> Instant {
    let mut halves = std::iter::successors(Some(by), |by| Some(*by / 2));
    // `at` itself would make an old request look new.
    halves.find_map(|by| at.checked_sub(by)).expect("the halves come to zero")
}

/// Whether the reply to a request that was not refused proves that a quorum has agreed.
pub(crate) fn is_quorum_write(op: OpCode, body: &[u8]) -> bool {
    match op {
        OpCode::CREATE
        | OpCode::CREATE2
        | OpCode::CREATE_CONTAINER
        | OpCode::CREATE_TTL
        | OpCode::DELETE
        | OpCode::SET_DATA
        | OpCode::SET_ACL => true,
        // The reply to a refused multi has no error in its header, but an error as its first
        // result.
        OpCode::MULTI => body.first_chunk() != Some(&OpCode::ERROR.0.to_be_bytes()),
        _ => false,
    }
}

/// The results of a multi, if it was carried out or one of its operations was refused.
pub(crate) fn results_of(err: ErrorCode, body: &bytes::Bytes) -> Option<Vec<MultiResult>> {
    match Response::decode(OpCode::MULTI, body) {
        Ok(Response::Multi(results)) if err.is_ok() => Some(results),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::clock::now;
    use super::*;

    #[test]
    fn a_moment_that_the_clock_cannot_tell_is_long_past_all_the_same() {
        let now = now();
        assert_eq!(earlier(now, Duration::from_secs(1)), now - Duration::from_secs(1));
        assert!(earlier(now, Duration::MAX) < now - Duration::from_secs(3_600));
    }
}
