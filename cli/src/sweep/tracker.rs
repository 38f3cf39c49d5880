//! Follows the requests of one run, and injects its fault at the point.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use zoolet_protocol::{OpCode, Request, SessionId};
use zoolet_testkit::{Fate, RequestInfo};

use super::limits::{
    KINDS_OF_REQUEST_MAX, PATH_BYTES_MAX, REQUESTS_AFTER, REQUESTS_BEFORE, REQUESTS_MAX,
};
use super::point::{Point, masked};
use crate::bench::clock::{self, Instant};

/// A request of a run.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) point: Point,
    /// The paths that it named, without marks.
    pub(super) paths: Vec<String>,
    pub(super) is_write: bool,
    /// When it came, from the start of the command on.
    pub(super) at: Duration,
    /// Whether the fault was injected at it.
    pub(super) has_fault: bool,
}

/// Follows the requests of one run. Clones follow the same run.
#[derive(Debug, Clone)]
pub(super) struct Tracker(Arc<Mutex<Followed>>);

/// What is known of the run up to now.
#[derive(Debug)]
struct Followed {
    started: Instant,
    target: Option<(Point, Fate)>,
    is_reached: bool,
    /// How many there were of each request, but for its `nth`.
    counts: HashMap<(u64, OpCode, String), u64>,
    seen: Vec<Seen>,
    requests: u64,
    sessions: u64,
    /// The numbers of the sessions that have sent a request.
    numbers: HashMap<SessionId, u64>,
}

/// What a run has done up to now.
#[derive(Debug, Clone)]
pub(super) struct Requests {
    /// The first ones.
    pub(super) seen: Vec<Seen>,
    /// How many there were, pings apart.
    pub(super) requests: u64,
    pub(super) sessions: u64,
    /// Whether the fault was injected.
    pub(super) is_reached: bool,
}

impl Requests {
    /// The requests around the fault, or the last ones if there was none.
    pub(super) fn around_fault(&self) -> &[Seen] {
        let seen = &self.seen;
        let fault = seen.iter().position(|seen| seen.has_fault).unwrap_or(seen.len());
        let (begin, end) = (fault.saturating_sub(REQUESTS_BEFORE), fault + 1 + REQUESTS_AFTER);
        &seen[begin..end.min(seen.len())]
    }
}

impl Tracker {
    /// A tracker that decides on a fate at a point, once.
    pub(super) fn new(target: Option<(Point, Fate)>) -> Self {
        Self(Arc::new(Mutex::new(Followed {
            started: clock::now(),
            target,
            is_reached: false,
            counts: HashMap::new(),
            seen: Vec::new(),
            requests: 0,
            sessions: 0,
            numbers: HashMap::new(),
        })))
    }

    /// What happens to a request.
    pub(super) fn decide(&self, request: &RequestInfo<'_>) -> Fate {
        self.0.lock().decide(request)
    }

    /// Notes a request that comes to another server than that of the fault.
    pub(super) fn note_elsewhere(&self, request: &RequestInfo<'_>) -> Fate {
        let mut run = self.0.lock();
        // Each server numbers the sessions in the order in which they come to it.
        let next = run.numbers.len() as u64 + 1;
        let session_number = *run.numbers.entry(request.session).or_insert(next);
        run.note(request, session_number);
        Fate::Pass
    }

    /// Whether the fault was injected.
    pub(super) fn is_reached(&self) -> bool {
        self.0.lock().is_reached
    }

    /// What the run has done up to now.
    pub(super) fn requests(&self) -> Requests {
        let run = self.0.lock();
        let Followed { seen, requests, sessions, is_reached, .. } = &*run;
        Requests {
            seen: seen.clone(),
            requests: *requests,
            sessions: *sessions,
            is_reached: *is_reached,
        }
    }
}

impl Followed {
    fn decide(&mut self, request: &RequestInfo<'_>) -> Fate {
        self.numbers.insert(request.session, request.session_number);
        let Some(point) = self.note(request, request.session_number) else { return Fate::Pass };
        let fate = match &self.target {
            Some((target, fate)) if !self.is_reached && *target == point => *fate,
            _ => return Fate::Pass,
        };
        self.is_reached = true;
        if let Some(seen) = self.seen.last_mut().filter(|seen| seen.point == point) {
            seen.has_fault = true;
        }
        fate
    }

    /// Counts a request. `None` if there are too many different ones.
    fn note(&mut self, request: &RequestInfo<'_>, session: u64) -> Option<Point> {
        self.requests += 1;
        self.sessions = self.sessions.max(session);
        let (path, paths) = paths(request);
        let kind = (session, request.op, path);
        if self.counts.len() >= KINDS_OF_REQUEST_MAX && !self.counts.contains_key(&kind) {
            return None;
        }
        let (session, operation, path) = kind.clone();
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        let point = Point { session, operation, path, nth: *count };
        if self.seen.len() < REQUESTS_MAX {
            let is_write = matches!(request.request, Some(Request::Write(_)));
            let (point, at) = (point.clone(), self.started.elapsed());
            self.seen.push(Seen { point, paths, is_write, at, has_fault: false });
        }
        Some(point)
    }
}

/// The paths of a request, as one text with marks and each as it is.
fn paths(request: &RequestInfo<'_>) -> (String, Vec<String>) {
    // After a reconnect a client names all paths that it watches, in no order.
    if matches!(request.op, OpCode::SET_WATCHES | OpCode::SET_WATCHES2) {
        return (String::new(), Vec::new());
    }
    let mut text = String::new();
    let mut paths = Vec::new();
    request.each_path(|op, path| {
        if text.len() + path.len() > PATH_BYTES_MAX {
            return;
        }
        if op != request.op {
            let separator = if text.is_empty() { "" } else { ", " };
            let name = op.name().unwrap_or("operation");
            text.push_str(&format!("{separator}{name} "));
        }
        text.push_str(&masked(path));
        paths.push(path.to_owned());
    });
    (text, paths)
}
