//! Generates the steps of a seed.

mod operations;

use std::fmt;

use fastrand::Rng;
use zoolet_protocol::{OpCode, Request, SessionRequest, Write};

use self::operations::Operations;
use super::SLOTS;

/// One step.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Sends requests of a session in one piece.
    Ask { slot: usize, requests: Vec<Request> },
    /// Creates a session.
    Open { slot: usize },
    /// Cuts a connection without closing the session.
    Cut { slot: usize },
    /// Tries to reattach to a session over a new connection, with the right or a wrong password.
    Reattach { slot: usize, is_proven: bool },
}

impl Step {
    /// Whether the step closes a session.
    pub(super) fn closes_session(&self) -> bool {
        let is_close = |request: &Request| *request == Request::Write(Write::CloseSession);
        matches!(self, Self::Ask { requests, .. } if requests.iter().any(is_close))
    }

    /// The number of requests.
    pub(super) fn requests(&self) -> u64 {
        match self {
            Self::Ask { requests, .. } => requests.len() as u64,
            _ => 1,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ask { slot, requests } => write!(f, "s{slot} {requests:?}"),
            Self::Open { slot } => write!(f, "s{slot} open"),
            Self::Cut { slot } => write!(f, "s{slot} cut"),
            Self::Reattach { slot, is_proven } => {
                write!(f, "s{slot} reattach, {}proven", if *is_proven { "" } else { "not " })
            }
        }
    }
}

/// The state of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    /// There is no session, or it was closed.
    Empty,
    Connected,
    /// The session has no connection.
    Cut,
}

/// The most requests of all kinds that are sent in one piece.
const REQUESTS_AT_ONCE_MAX: usize = 6;

/// The most short writes that are sent in one piece: our server carries out sixteen of them together.
const WRITES_AT_ONCE_MAX: usize = 40;

/// Generates steps.
pub(super) struct Generator {
    rng: Rng,
    operations: Operations,
    /// The most requests that this seed sends in one piece.
    most_at_once: usize,
    slots: [Slot; SLOTS],
    /// The slot whose session the last step closed.
    closing: Option<usize>,
}

impl Generator {
    /// Steps of a seed. With `quotas` each odd seed has some.
    pub(super) fn new(seed: u64, quotas: bool) -> Self {
        // ZooKeeper compares a quota with what was applied, so requests in one piece would race
        // with it.
        let has_quotas = quotas && seed % 2 == 1;
        Self {
            most_at_once: if has_quotas { 1 } else { REQUESTS_AT_ONCE_MAX },
            rng: Rng::with_seed(seed),
            operations: Operations::new(has_quotas),
            slots: [Slot::Empty; SLOTS],
            closing: None,
        }
    }

    pub(super) fn next_step(&mut self) -> Step {
        self.closing = None;
        let slot = self.rng.usize(..SLOTS);
        match self.slots[slot] {
            Slot::Empty => {
                self.slots[slot] = Slot::Connected;
                Step::Open { slot }
            }
            Slot::Cut => {
                let is_proven = self.rng.u8(..8) != 0;
                if is_proven {
                    self.slots[slot] = Slot::Connected;
                }
                Step::Reattach { slot, is_proven }
            }
            Slot::Connected => self.step_of_connected(slot),
        }
    }

    /// Notes which connections the servers have closed.
    pub(super) fn note_closed(&mut self, open: &[bool]) {
        for (slot, is_open) in open.iter().enumerate() {
            if self.slots[slot] == Slot::Connected && !is_open {
                let is_closed = self.closing == Some(slot);
                self.slots[slot] = if is_closed { Slot::Empty } else { Slot::Cut };
            }
        }
    }

    fn step_of_connected(&mut self, slot: usize) -> Step {
        match self.rng.u8(..100) {
            0 => {
                self.slots[slot] = Slot::Cut;
                Step::Cut { slot }
            }
            // Reattaching to a connected session closes its other connection.
            1 => Step::Reattach { slot, is_proven: true },
            2 => {
                self.slots[slot] = Slot::Cut;
                Step::Reattach { slot, is_proven: false }
            }
            3 => {
                self.closing = Some(slot);
                let requests = vec![Request::Write(Write::CloseSession)];
                Step::Ask { slot, requests }
            }
            4 => {
                let op = OpCode(*self.pick(&[0, -1, 10, 23, 99, 200, i32::MAX]));
                Step::Ask {
                    slot,
                    requests: vec![Request::Unknown { op, body: Default::default() }],
                }
            }
            5..=8 => {
                let auth = self.operations.auth(&mut self.rng);
                Step::Ask { slot, requests: vec![Request::Session(SessionRequest::Auth(auth))] }
            }
            9..=18 => {
                let count = self.rng.usize(1..=self.most_at_once);
                let is_alone =
                    |request: &Request| matches!(request, Request::Write(Write::SetAcl(_)));
                let drawn = (0..count).map(|_| self.operations.next(&mut self.rng));
                let mut requests: Vec<_> = drawn.collect();
                if count > 1 {
                    requests.retain(|request| !is_alone(request));
                }
                Step::Ask { slot, requests }
            }
            19..=38 if self.most_at_once > 1 => {
                let count = self.rng.usize(2..=WRITES_AT_ONCE_MAX);
                let requests = (0..count).map(|_| self.operations.next_among_writes(&mut self.rng));
                Step::Ask { slot, requests: requests.collect() }
            }
            _ => Step::Ask { slot, requests: vec![self.operations.next(&mut self.rng)] },
        }
    }

    fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.rng.usize(..choices.len())]
    }
}
