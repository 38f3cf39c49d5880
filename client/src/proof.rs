//! Until when a session surely lives, and whether the znodes are there by which something is held.
//!
//! What is known, and derived from it, stands in the module `held`. In short: a write is answered only
//! after a leader has looked at the session and a quorum has agreed, so an answered write proves that
//! the session lived when it was sent. How long it lives from there depends on the last request of
//! which the leader had heard by then: a follower tells the leader of its sessions each half tick.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[cfg(feature = "planted-bugs")]
use zoolet_planted_bugs::{PlantedBug, is_planted};
use zoolet_protocol::{
    Check, ErrorCode, Expect, MultiOp, MultiResult, OpCode, Request, Response, SessionId, Write,
};

use super::clock::{Instant, SuspensionClock};

/// The part of the timeout after which the leader knows of a request that a follower has answered.
/// Followers tell it each half tick, and a timeout has at least two ticks unless an administrator sets
/// `minSessionTimeout` lower: that is a quarter at most, and the rest is for delays between the two.
const CONVEYED_WITHIN: u32 = 3;
/// The part of the timeout by which clocks may differ while it passes.
const CLOCK_DRIFT: u32 = 100;
/// The part of the timeout after which what is held is looked at.
const CHECK_INTERVAL: u32 = 3;
/// The part of the timeout before the end of a proof at which the next is asked for, at the latest.
const CHECK_AHEAD: u32 = 12;
/// The part of the timeout up to which a client may want to be told of the end of a proof beforehand.
/// What is left when a check is answered is about `T/3`: half of it is for the network.
const PROVEN_AHEAD_MAX: u32 = 6;
/// The part of the timeout that passes between two looks at the least.
const CHECK_INTERVAL_MIN: u32 = 12;
/// Answered requests are remembered if they are at least this part of the timeout apart.
const TOUCH_PRECISION: u32 = 16;
/// How many of them are remembered: those of one and a half timeouts.
const TOUCHES_MAX: usize = 24;
/// The bytes of paths in one look, well below what a server takes in a frame.
const CHECK_BYTES_MAX: usize = 128 << 10;
/// How often it is looked, while something is held, whether the machine was suspended: often enough
/// beside the shortest timeouts, and next to no work.
const SUSPENSION_LOOK_MIN: Duration = Duration::from_secs(1);
/// What two clocks that are read one after the other may differ by.
const SUSPENSION_MIN: Duration = Duration::from_millis(5);

/// What is known of the servers behind a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Servers {
    /// There is one, which decides alone: whatever it answers proves.
    SingleNode,
    /// There may be several, and this one may be cut off from the others.
    PerhapsEnsemble,
}

/// A session as the handshake has left it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handshake {
    /// It was created, by a write.
    Created,
    /// It was known to the server.
    Resumed,
    /// The server has lost its ensemble: what it says of a session proves nothing.
    ReadOnly,
}

/// A znode by which something is held.
#[derive(Debug)]
pub(crate) struct Stake {
    /// As the server names it.
    path: String,
    since: Instant,
    is_gone: AtomicBool,
    /// This client may not look at it.
    is_refused: AtomicBool,
}

impl Stake {
    /// Whether it was found to be gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    /// Whether no check was refused because of it.
    fn may_be_seen(&self) -> bool {
        !self.is_refused.load(Ordering::Relaxed)
    }
}

/// A request that was answered: the server to which it went has heard of the session.
#[derive(Debug, Clone, Copy)]
struct Touch {
    sent: Instant,
    answered: Instant,
}

/// Names a stake.
pub(crate) type StakeId = u64;

/// The proof of life of a session.
#[derive(Debug)]
pub(crate) struct Proof {
    clock: SuspensionClock,
    servers: Servers,
    timeout: Duration,
    /// What is to be left of a proof when the next is there.
    ahead: Duration,
    /// When the handshake was sent: it is the leader that answers it.
    handshake: Instant,
    is_read_only: bool,
    touches: VecDeque<Touch>,
    proven_until: Instant,
    /// When the write was sent that gave `proven_until`.
    reckoned_from: Option<Instant>,
    /// How long the machine was suspended when that was last looked at, and when that was seen.
    suspended: Duration,
    looked_at: Instant,
    resumed_at: Option<Instant>,
    stakes: BTreeMap<StakeId, Arc<Stake>>,
    last_stake: StakeId,
    /// The last stake that was looked at, where one request has no room for all.
    last_checked: StakeId,
    checked_at: Option<Instant>,
    /// The next check is not sent before this.
    check_from: Option<Instant>,
    is_asking: bool,
    /// The session is being closed: nothing is held in it any more.
    has_ended: bool,
    has_changed: bool,
}

impl Proof {
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
            handshake: now,
            is_read_only: false,
            touches: VecDeque::new(),
            proven_until: now,
            reckoned_from: None,
            suspended: clock.suspended(),
            clock,
            looked_at: now,
            resumed_at: None,
            stakes: BTreeMap::new(),
            last_stake: 0,
            last_checked: 0,
            checked_at: None,
            check_from: None,
            is_asking: false,
            has_ended: false,
            has_changed: false,
        }
    }

    /// Until when the session surely lives.
    pub(crate) fn proven_until(&self) -> Instant {
        self.proven_until
    }

    /// Whether it surely lives.
    pub(crate) fn is_proven(&self, now: Instant) -> bool {
        !self.has_ended && now + self.suspension().unwrap_or_default() < self.proven_until
    }

    /// Whether it surely lives until the next look can be expected to be answered.
    pub(crate) fn is_proven_ahead(&self, now: Instant) -> bool {
        self.is_proven(now + self.asks_ahead())
    }

    /// How long before the end of a proof the next is asked for, at the latest where that is of use.
    fn asks_ahead(&self) -> Duration {
        self.timeout / CHECK_AHEAD + self.ahead.min(self.timeout / PROVEN_AHEAD_MAX)
    }

    /// Whether it was proved again after it was not, or almost not, or something else has changed than
    /// time.
    pub(crate) fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// How long the machine was suspended since that was last looked at.
    fn suspension(&self) -> Option<Duration> {
        let passed = self.clock.suspended().saturating_sub(self.suspended);
        (passed >= SUSPENSION_MIN).then_some(passed)
    }

    /// Looks whether the machine was suspended. The clock stood still then, so all that was noted before
    /// is older than it looks; what was noted since is taken to be so too, which errs to the safe side.
    pub(crate) fn look_for_suspension(&mut self, now: Instant) {
        self.looked_at = now;
        let Some(passed) = self.suspension() else { return };
        self.suspended += passed;
        self.resumed_at = Some(now);
        let older = |at: Instant| at.checked_sub(passed).unwrap_or(at);
        self.proven_until = older(self.proven_until);
        self.handshake = older(self.handshake);
        for touch in &mut self.touches {
            *touch = Touch { sent: older(touch.sent), answered: older(touch.answered) };
        }
        self.check_from = None;
        self.has_changed = true;
    }

    /// A handshake was answered.
    pub(crate) fn handle_handshake(
        &mut self,
        handshake: Handshake,
        servers: Servers,
        timeout: Duration,
        sent: Instant,
        now: Instant,
    ) {
        self.look_for_suspension(now);
        self.is_read_only = handshake == Handshake::ReadOnly;
        self.servers = servers;
        self.timeout = timeout;
        self.handshake = sent;
        self.touches.clear();
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

    /// The connection is gone.
    pub(crate) fn handle_disconnected(&mut self) {
        self.is_asking = false;
    }

    /// The session is over, and with it all that was held.
    pub(crate) fn lose(&mut self, now: Instant) {
        self.stakes.clear();
        self.is_asking = false;
        self.proven_until = now;
        self.has_changed = true;
    }

    /// The session is being closed, or will be used no more: from now on no answer proves anything.
    pub(crate) fn end(&mut self) {
        self.stakes.clear();
        self.is_asking = false;
        self.has_ended = true;
        // A moment that has passed.
        self.proven_until = self.proven_until.min(self.handshake);
        self.has_changed = true;
    }

    /// Until when a session lives of which the leader has heard what was sent at `touched`.
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

    /// A request was answered.
    pub(crate) fn handle_answer(&mut self, sent: Instant, now: Instant) {
        #[cfg(feature = "planted-bugs")]
        if is_planted(PlantedBug::PingsProve) {
            self.extend(sent, now);
        }
        if self.servers == Servers::SingleNode {
            self.prove(sent, now);
        }
        let precision = self.timeout / TOUCH_PRECISION;
        if self.touches.back().is_none_or(|last| now >= last.answered + precision) {
            if self.touches.len() >= TOUCHES_MAX {
                self.touches.pop_front();
            }
            self.touches.push_back(Touch { sent, answered: now });
        }
    }

    /// A write was answered that was sent at `sent`: the session lived then. To be told before
    /// [`Proof::handle_answer`].
    pub(crate) fn prove(&mut self, sent: Instant, now: Instant) {
        let precision = self.timeout / TOUCH_PRECISION;
        if self.reckoned_from.is_some_and(|from| sent < from + precision) {
            return;
        }
        self.look_for_suspension(now);
        // What was under way while the machine was suspended says nothing about when.
        if self.resumed_at.is_some_and(|resumed_at| sent < resumed_at) || self.is_read_only {
            return;
        }
        self.reckoned_from = Some(sent);
        let touched = match self.servers {
            Servers::SingleNode => sent,
            Servers::PerhapsEnsemble => self.conveyed_before(sent),
        };
        self.extend(touched, now);
    }

    /// When the last request was sent of which the leader had heard before `sent`.
    fn conveyed_before(&self, sent: Instant) -> Instant {
        let within = self.timeout / CONVEYED_WITHIN;
        let is_conveyed = |touch: &&Touch| touch.answered + within <= sent;
        let conveyed = self.touches.iter().rev().find(is_conveyed).map(|touch| touch.sent);
        conveyed.map_or(self.handshake, |conveyed| conveyed.max(self.handshake))
    }

    /// Something is held from now on, if its session is the `present` one.
    pub(crate) fn claim(
        &mut self,
        session: SessionId,
        present: SessionId,
        path: String,
        now: Instant,
    ) -> (StakeId, Arc<Stake>) {
        // A check in another session says nothing of it, so that it must not make one due.
        let is_over = self.has_ended || session != present;
        let (is_gone, is_refused) = (AtomicBool::new(is_over), AtomicBool::new(false));
        let stake = Arc::new(Stake { path, since: now, is_gone, is_refused });
        self.last_stake += 1;
        if !is_over {
            self.stakes.insert(self.last_stake, Arc::clone(&stake));
        }
        (self.last_stake, stake)
    }

    /// It is not held any more.
    pub(crate) fn disclaim(&mut self, id: StakeId) {
        self.stakes.remove(&id);
    }

    /// When to ask whether what is held is there, unless that is being asked.
    pub(crate) fn check_at(&self) -> Option<Instant> {
        if self.is_asking || self.is_read_only {
            return None;
        }
        let (_, oldest) = self.stakes.first_key_value()?;
        let since = self.checked_at.map_or(oldest.since, |checked_at| checked_at.max(oldest.since));
        let for_znodes = since + self.timeout / CHECK_INTERVAL;
        let at = for_znodes.min(self.renewal_at());
        Some(self.check_from.map_or(at, |from| at.max(from)))
    }

    /// When to ask for a proof that lasts longer.
    fn renewal_at(&self) -> Instant {
        let before = |ahead| self.proven_until.checked_sub(ahead).unwrap_or(self.proven_until);
        let (wanted, latest) = (before(self.asks_ahead()), before(self.timeout / CHECK_AHEAD));
        if self.servers == Servers::SingleNode {
            return wanted;
        }
        // A check that is sent before the leader has heard of more proves no more than is proved.
        let longer = self.proven_until + self.timeout / TOUCH_PRECISION;
        let touch = self.touches.iter().find(|touch| self.lives_until(touch.sent) >= longer);
        let of_use = touch.map(|touch| touch.answered + self.timeout / CONVEYED_WITHIN);
        of_use.map_or(latest, |of_use| of_use.max(wanted).min(latest))
    }

    /// When to look whether the machine was suspended.
    pub(crate) fn look_at(&self) -> Option<Instant> {
        let interval = (self.timeout / CHECK_AHEAD).max(SUSPENSION_LOOK_MIN);
        (!self.stakes.is_empty()).then(|| self.looked_at + interval)
    }

    /// The request that proves that the session lives, and that what is held is there.
    pub(crate) fn check(&mut self) -> Option<(Request, Vec<StakeId>)> {
        let (mut ops, mut ids, mut bytes) = (Vec::new(), Vec::new(), 0);
        let from = self.last_checked + 1;
        // Those whose turn it is first, and those that may not be looked at when there are no others:
        // the refusal proves that the session lives.
        let stakes = self.stakes.range(from..).chain(self.stakes.range(..from));
        let may_be_seen = |(_, stake): &(&StakeId, &Arc<Stake>)| stake.may_be_seen();
        let others = stakes.clone().filter(|stake| !may_be_seen(stake)).take(1);
        for (id, stake) in stakes.filter(may_be_seen).chain(others) {
            bytes += stake.path.len();
            if bytes > CHECK_BYTES_MAX && !ids.is_empty() {
                break;
            }
            let path = stake.path.as_str().into();
            ops.push(MultiOp::Check(Check { path, version: Expect::Any }));
            ids.push(*id);
        }
        self.last_checked = *ids.last()?;
        self.is_asking = true;
        Some((Request::Write(Write::Multi(ops)), ids))
    }

    /// That was answered, by results or not at all.
    pub(crate) fn handle_checked(
        &mut self,
        ids: &[StakeId],
        results: Option<&[MultiResult]>,
        sent: Instant,
        now: Instant,
    ) {
        self.is_asking = false;
        self.checked_at = Some(now);
        self.check_from = Some(now + self.timeout / CHECK_INTERVAL_MIN);
        let Some(results) = results else { return };
        let refusal = results.iter().zip(ids).find_map(|(result, id)| match result {
            MultiResult::Error(ErrorCode::OK) => None,
            MultiResult::Error(code) => Some((*id, *code)),
            _ => None,
        });
        match refusal {
            // The leader does not know this session, or not on this connection.
            Some((_, ErrorCode::SESSION_EXPIRED | ErrorCode::SESSION_MOVED)) => return,
            Some((id, ErrorCode::NO_NODE)) => {
                if let Some(stake) = self.stakes.remove(&id) {
                    stake.is_gone.store(true, Ordering::Release);
                    self.has_changed = true;
                }
                self.check_those_behind(id);
            }
            Some((id, _)) => {
                let stake = self.stakes.get(&id);
                let was_seen = stake.is_none_or(|it| !it.is_refused.swap(true, Ordering::Relaxed));
                if was_seen && self.stakes.values().any(|stake| stake.may_be_seen()) {
                    self.check_those_behind(id);
                }
            }
            None => {}
        }
        self.prove(sent, now);
    }

    /// A check ended at this one: those behind it were not looked at, and are at once.
    fn check_those_behind(&mut self, id: StakeId) {
        self.last_checked = id;
        self.check_from = None;
        self.checked_at = None;
    }
}

/// Whether the answer to a request that was not refused proves that a quorum has agreed.
pub(crate) fn is_quorum_write(op: OpCode, body: &[u8]) -> bool {
    match op {
        OpCode::CREATE
        | OpCode::CREATE2
        | OpCode::CREATE_CONTAINER
        | OpCode::CREATE_TTL
        | OpCode::DELETE
        | OpCode::SET_DATA
        | OpCode::SET_ACL => true,
        // A refused multi is answered without an error, and its first result is one.
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
