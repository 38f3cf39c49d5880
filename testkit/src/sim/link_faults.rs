//! The faults between one machine and the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::clock::now;

/// By how many milliseconds more than the least time a frame may take, also without faults. It decides
/// which of several clients is first that send at the same moment: else it would always be the same
/// one, and others might never get ahead. The clock of a run has no smaller steps.
pub(super) const JITTER_MS: u64 = 1;

/// What a frame belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frame {
    OfHandshake,
    OfSession,
}

/// What a link and its connections share, from when its machine is started until it crashes. Clones
/// are the same.
#[derive(Clone)]
pub(super) struct LinkState {
    /// The name of the link for the tap.
    pub(super) number: usize,
    faults: Arc<Mutex<LinkFaults>>,
    /// The machine has crashed: nothing passes for ever.
    is_over: Arc<AtomicBool>,
}

/// The present faults of a link.
pub(super) struct LinkFaults {
    /// Drawn from once for each attempt to connect.
    dials: Rng,
    /// Gives each connection its chance, in the order in which they are opened.
    connections: Rng,
    /// The least time that a frame takes, in milliseconds.
    latency_ms: u64,
    /// Frames take up to this many milliseconds more.
    delay_ms_max: u64,
    /// Frames of a session take up to this many milliseconds more: no fault, but a machine that gets out of
    /// the way of others. A new connection is not late: it has a time limit.
    late_ms_max: u64,
    /// Frames take up to this many milliseconds more before these times.
    delays: Vec<(Instant, u64)>,
    /// No frame arrives at the server before this time.
    requests_held_until: Option<Instant>,
    /// No frame arrives at the client before this time.
    replies_held_until: Option<Instant>,
    /// No connection succeeds before this time.
    refused_until: Option<Instant>,
    /// After how many more requests the connection is lost, with their replies, for each such fault.
    cuts_after: Vec<u64>,
    /// The client's machine stands still: it receives nothing.
    pub(super) is_paused: bool,
}

impl LinkState {
    pub(super) fn new(number: usize, faults: LinkFaults) -> Self {
        Self { number, faults: Arc::new(Mutex::new(faults)), is_over: Arc::default() }
    }

    /// The same link after its machine was started again, with the same faults.
    pub(super) fn successor(&self) -> Self {
        Self { is_over: Arc::default(), ..self.clone() }
    }

    pub(super) fn faults(&self) -> MutexGuard<'_, LinkFaults> {
        self.faults.lock()
    }

    /// Whether both are of the same machine, before a crash or after it.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.faults, &other.faults)
    }

    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

impl LinkFaults {
    /// None, with frames that take at least this long.
    pub(super) fn none(seed: u64, latency_ms: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        Self {
            dials: rng.fork(),
            connections: rng,
            latency_ms,
            delay_ms_max: 0,
            late_ms_max: 0,
            delays: Vec::new(),
            requests_held_until: None,
            replies_held_until: None,
            refused_until: None,
            cuts_after: Vec::new(),
            is_paused: false,
        }
    }

    /// Delays each frame by up to this many milliseconds from now on.
    pub(super) fn delay(&mut self, ms_max: u64) {
        self.delay_ms_max = ms_max;
    }

    /// Delays each frame of a session by up to this many milliseconds from now on.
    pub(super) fn be_late(&mut self, ms_max: u64) {
        self.late_ms_max = ms_max;
    }

    /// Delays each frame by up to this many milliseconds for a time. Of several such delays, the
    /// greatest counts.
    pub(super) fn delay_for(&mut self, ms_max: u64, time: Duration) {
        self.delays.retain(|(until, _)| *until > now());
        self.delays.push((now() + time, ms_max));
    }

    // `None` is less than any time: a fault does not shorten another.

    pub(super) fn hold_requests(&mut self, time: Duration) {
        self.requests_held_until = self.requests_held_until.max(Some(now() + time));
    }

    pub(super) fn hold_replies(&mut self, time: Duration) {
        self.replies_held_until = self.replies_held_until.max(Some(now() + time));
    }

    pub(super) fn refuse(&mut self, time: Duration) {
        self.refused_until = self.refused_until.max(Some(now() + time));
    }

    /// The connection is lost when so many more requests were sent.
    pub(super) fn cut_after(&mut self, requests: u64) {
        self.cuts_after.push(requests);
    }

    /// Counts a request that is sent, and returns whether its connection is lost now.
    pub(super) fn is_cut_after_this(&mut self) -> bool {
        let before = self.cuts_after.len();
        self.cuts_after.retain(|left| *left > 0);
        self.cuts_after.iter_mut().for_each(|left| *left -= 1);
        self.cuts_after.len() < before
    }

    pub(super) fn are_connections_refused(&self) -> bool {
        self.refused_until.is_some_and(|until| now() < until)
    }

    /// Ends all but a pause, which ends with its machine.
    pub(super) fn clear(&mut self) {
        (self.delay_ms_max, self.late_ms_max) = (0, 0);
        self.delays.clear();
        (self.requests_held_until, self.replies_held_until) = (None, None);
        self.refused_until = None;
        self.cuts_after.clear();
    }

    /// How long a frame takes, in milliseconds. Each direction of a connection has chance of its own,
    /// and each frame draws once: what is left out of a run changes no more times than it must.
    pub(super) fn drawn_ms(&self, chance: &mut Rng, frame: Frame) -> u64 {
        let late_ms_max = match frame {
            Frame::OfSession => self.late_ms_max,
            Frame::OfHandshake => 0,
        };
        let present = self.delays.iter().filter(|(until, _)| *until > now());
        let least = self.delay_ms_max.max(late_ms_max);
        let delay_ms_max = present.map(|(_, ms_max)| *ms_max).fold(least, u64::max);
        let jitter_ms_max = if self.latency_ms > 0 { JITTER_MS } else { 0 };
        // A number of any range takes one step of the generator.
        self.latency_ms + chance.fork().u64(..=delay_ms_max + jitter_ms_max)
    }

    /// How long an attempt to connect takes, in milliseconds.
    pub(super) fn dial_ms(&mut self) -> u64 {
        let mut chance = self.dials.fork();
        self.drawn_ms(&mut chance, Frame::OfHandshake)
    }

    /// The chance of the next connection.
    pub(super) fn next_connection(&mut self) -> Rng {
        self.connections.fork()
    }

    pub(super) fn are_requests_held(&self) -> bool {
        self.requests_held_until.is_some_and(|until| until > now())
    }

    /// When a frame to the server arrives that would be due at this time.
    pub(super) fn request_due(&self, due: Instant) -> Instant {
        self.requests_held_until.map_or(due, |until| until.max(due))
    }

    /// When a frame to the client arrives that would be due at this time.
    pub(super) fn reply_due(&self, due: Instant) -> Instant {
        self.replies_held_until.map_or(due, |until| until.max(due))
    }
}
