//! The numbers that an observer has counted. They can be subtracted from each other.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{AddAssign, Sub};

use zoolet_protocol::{OpCode, SessionId};

/// The number of requests by operation.
///
/// `Display` writes them like this: `2 create, 1 getChildren`.
///
/// ```
/// use zoolet_protocol::OpCode;
/// use zoolet_testkit::Requests;
///
/// let requests: Requests = [OpCode::CREATE, OpCode::PING, OpCode::CREATE].into_iter().collect();
/// assert_eq!(requests.of(OpCode::CREATE), 2);
/// assert_eq!(requests.total(), 2); // without the ping
/// assert_eq!(requests.to_string(), "2 create, 1 ping");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requests {
    /// Never 0.
    counts: BTreeMap<OpCode, u64>,
}

impl Requests {
    /// The number of requests for one operation.
    #[must_use]
    pub fn of(&self, op: OpCode) -> u64 {
        self.counts.get(&op).copied().unwrap_or(0)
    }

    /// The number of requests without pings. The number of pings depends on the time that passed.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.values().sum::<u64>() - self.of(OpCode::PING)
    }

    /// The operations and the number of their requests, in the order of the operations' codes.
    pub fn iter(&self) -> impl Iterator<Item = (OpCode, u64)> {
        self.counts.iter().map(|(op, count)| (*op, *count))
    }

    /// Counts a request.
    pub(super) fn add(&mut self, op: OpCode) {
        *self.counts.entry(op).or_default() += 1;
    }
}

impl FromIterator<OpCode> for Requests {
    fn from_iter<I: IntoIterator<Item = OpCode>>(operations: I) -> Self {
        let mut requests = Self::default();
        operations.into_iter().for_each(|op| requests.add(op));
        requests
    }
}

impl AddAssign<&Self> for Requests {
    fn add_assign(&mut self, other: &Self) {
        for (op, count) in other.iter() {
            *self.counts.entry(op).or_default() += count;
        }
    }
}

impl Sub for Requests {
    type Output = Self;

    /// What was counted between two observations.
    ///
    /// # Panics
    ///
    /// If `before` is not the earlier observation.
    fn sub(mut self, before: Self) -> Self {
        for (op, count) in before.iter() {
            let left = between(self.of(op), count);
            if left == 0 {
                self.counts.remove(&op);
            } else {
                self.counts.insert(op, left);
            }
        }
        self
    }
}

impl fmt::Display for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.counts.is_empty() {
            return f.write_str("none");
        }
        for (index, (op, count)) in self.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{count} {op}")?;
        }
        Ok(())
    }
}

/// By how much a counter has grown.
fn between(after: u64, before: u64) -> u64 {
    after.checked_sub(before).expect("what is subtracted was counted earlier")
}

/// What passed over the connections of a session, or of all sessions.
///
/// ```
/// use zoolet_protocol::OpCode;
/// use zoolet_testkit::SessionStats;
///
/// let before = SessionStats { events: 2, watches: 3, ..SessionStats::default() };
/// let after = SessionStats { events: 5, watches: 1, ..SessionStats::default() };
/// let between = after - before;
/// assert_eq!((between.events, between.watches), (3, -2));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionStats {
    /// The handshakes that the server answered with this session.
    pub connections: u64,
    /// The requests, including refused and unreadable ones.
    pub requests: Requests,
    /// The replies to requests.
    pub replies: u64,
    /// The replies with an error code, such as `NodeExists`.
    pub refusals: u64,
    /// The watch events that were sent.
    pub events: u64,
    /// The bytes that the server received, as on a wire, handshakes included.
    pub bytes_received: u64,
    /// The bytes that the server sent, as on a wire, handshakes included.
    pub bytes_sent: u64,
    /// The watches that are set now. As in ZooKeeper, a data watch and a child watch on one path
    /// count as two. In a difference, by how many the number has grown.
    pub watches: i64,
}

impl AddAssign<&Self> for SessionStats {
    fn add_assign(&mut self, other: &Self) {
        self.connections += other.connections;
        self.requests += &other.requests;
        self.replies += other.replies;
        self.refusals += other.refusals;
        self.events += other.events;
        self.bytes_received += other.bytes_received;
        self.bytes_sent += other.bytes_sent;
        self.watches += other.watches;
    }
}

impl Sub for SessionStats {
    type Output = Self;

    /// What was counted between two observations.
    ///
    /// # Panics
    ///
    /// If `before` is not the earlier observation.
    fn sub(self, before: Self) -> Self {
        Self {
            connections: between(self.connections, before.connections),
            requests: self.requests - before.requests,
            replies: between(self.replies, before.replies),
            refusals: between(self.refusals, before.refusals),
            events: between(self.events, before.events),
            bytes_received: between(self.bytes_received, before.bytes_received),
            bytes_sent: between(self.bytes_sent, before.bytes_sent),
            watches: self.watches - before.watches,
        }
    }
}

/// The requests, events and watches of one path, or of all paths below one.
///
/// ```
/// use zoolet_testkit::PathStats;
///
/// let before = PathStats::default();
/// let after = PathStats { events: 1, ..PathStats::default() };
/// assert_eq!((after - before).events, 1);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathStats {
    /// The requests that name the path. Each operation of a multi counts by itself. The create of a
    /// sequential znode names the path without the sequence number.
    pub requests: Requests,
    /// The watch events about the path, counted once for each connection that received one.
    pub events: u64,
    /// The watches that are set on the path now. As in ZooKeeper, a data watch and a child watch
    /// count as two. In a difference, by how many the number has grown.
    pub watches: i64,
}

impl AddAssign<&Self> for PathStats {
    fn add_assign(&mut self, other: &Self) {
        self.requests += &other.requests;
        self.events += other.events;
        self.watches += other.watches;
    }
}

impl Sub for PathStats {
    type Output = Self;

    /// What was counted between two observations.
    ///
    /// # Panics
    ///
    /// If `before` is not the earlier observation.
    fn sub(self, before: Self) -> Self {
        Self {
            requests: self.requests - before.requests,
            events: between(self.events, before.events),
            watches: self.watches - before.watches,
        }
    }
}

/// Everything that was counted up to one moment.
///
/// ```
/// use zoolet_testkit::TestServer;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = TestServer::start().await?;
/// let stats = server.stats();
/// assert_eq!(stats.totals().requests.total(), 0);
/// assert_eq!(stats.subtree("/locks").watches, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    pub(super) sessions: BTreeMap<SessionId, SessionStats>,
    pub(super) paths: BTreeMap<String, PathStats>,
}

impl Stats {
    /// What was counted for a session, even after its end.
    #[must_use]
    pub fn session(&self, session: SessionId) -> SessionStats {
        self.sessions.get(&session).cloned().unwrap_or_default()
    }

    /// The sessions for which something was counted, in the order of their ids.
    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, &SessionStats)> {
        self.sessions.iter().map(|(session, stats)| (*session, stats))
    }

    /// What was counted for exactly this path.
    #[must_use]
    pub fn path(&self, path: &str) -> PathStats {
        self.paths.get(path).cloned().unwrap_or_default()
    }

    /// The paths for which something was counted, in order.
    pub fn paths(&self) -> impl Iterator<Item = (&str, &PathStats)> {
        self.paths.iter().map(|(path, stats)| (&**path, stats))
    }

    /// The sum over a path and all paths below it.
    #[must_use]
    pub fn subtree(&self, path: &str) -> PathStats {
        let mut sum = PathStats::default();
        for (other, stats) in &self.paths {
            let below = other.strip_prefix(path.trim_end_matches('/'));
            if below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
                sum += stats;
            }
        }
        sum
    }

    /// The sum over all sessions, ended ones included.
    #[must_use]
    pub fn totals(&self) -> SessionStats {
        let mut sum = SessionStats::default();
        self.sessions.values().for_each(|stats| sum += stats);
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subtree_is_matched_by_path_components() {
        let one = || PathStats { events: 1, ..PathStats::default() };
        let paths = ["/", "/a", "/a/b", "/ab"].map(|path| (path.to_owned(), one()));
        let stats = Stats { paths: paths.into(), ..Stats::default() };
        assert_eq!(stats.subtree("/a").events, 2);
        assert_eq!(stats.subtree("/a/b").events, 1);
        assert_eq!(stats.subtree("/").events, 4);
    }

    #[test]
    fn a_difference_leaves_out_operations_that_were_not_requested() {
        let before: Requests = [OpCode::CREATE, OpCode::DELETE].into_iter().collect();
        let mut after = before.clone();
        after.add(OpCode::DELETE);
        assert_eq!((after - before).to_string(), "1 delete");
    }
}
