//! What the leader knows about sessions: when it last heard from each, and over which connection.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use zoolet_core::ConnectionId;
use zoolet_protocol::SessionId;

/// All sessions, as the leader knows them.
#[derive(Debug)]
pub(super) struct Tracker {
    start: Instant,
    tick: Duration,
    sessions: BTreeMap<SessionId, Tracked>,
}

#[derive(Debug)]
struct Tracked {
    expires: Instant,
    /// The connection that attached to the session last. Requests over another are those of a
    /// client that moved.
    owner: Option<ConnectionId>,
    /// It has expired. Nothing revives it, even before its end is committed.
    is_closing: bool,
}

impl Tracker {
    pub(super) fn new(start: Instant, tick: Duration) -> Self {
        Self { start, tick, sessions: BTreeMap::new() }
    }

    /// The first tick after a time, as in ZooKeeper's `ExpiryQueue`.
    fn boundary(&self, time: Instant) -> Instant {
        let ticks = (time - self.start).as_millis() / self.tick.as_millis() + 1;
        self.start + self.tick * u32::try_from(ticks).unwrap_or(u32::MAX)
    }

    pub(super) fn begin(
        &mut self,
        session: SessionId,
        timeout_ms: i32,
        owner: Option<ConnectionId>,
        now: Instant,
    ) {
        let expires = self.boundary(now + timeout(timeout_ms));
        let tracked = Tracked { expires, owner, is_closing: false };
        self.sessions.insert(session, tracked);
    }

    pub(super) fn end(&mut self, session: SessionId) {
        self.sessions.remove(&session);
    }

    pub(super) fn is_alive(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|tracked| !tracked.is_closing)
    }

    /// Whether the session belongs to a connection. A session that has none belongs to the first
    /// that asks.
    pub(super) fn is_owner(&mut self, session: SessionId, connection: ConnectionId) -> bool {
        let Some(tracked) = self.sessions.get_mut(&session) else { return true };
        *tracked.owner.get_or_insert(connection) == connection
    }

    /// A connection attaches to the session.
    pub(super) fn own(&mut self, session: SessionId, connection: ConnectionId) {
        if let Some(tracked) = self.sessions.get_mut(&session) {
            tracked.owner = Some(connection);
        }
    }

    /// The leader has heard from the session, whose connection has negotiated this timeout.
    pub(super) fn touch(&mut self, session: SessionId, timeout_ms: i32, now: Instant) {
        let expires = self.boundary(now + timeout(timeout_ms));
        if let Some(tracked) = self.sessions.get_mut(&session) {
            tracked.expires = tracked.expires.max(expires);
        }
    }

    /// The session ends, whatever its client does.
    pub(super) fn close(&mut self, session: SessionId) {
        if let Some(tracked) = self.sessions.get_mut(&session) {
            tracked.is_closing = true;
        }
    }

    /// The overdue sessions whose end is not committed.
    pub(super) fn expired(&mut self, now: Instant) -> Vec<SessionId> {
        for tracked in self.sessions.values_mut() {
            tracked.is_closing |= tracked.expires <= now;
        }
        let closing = self.sessions.iter().filter(|(_, tracked)| tracked.is_closing);
        closing.map(|(session, _)| *session).collect()
    }
}

fn timeout(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}
