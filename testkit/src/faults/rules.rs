//! The faults that are set, in the order in which they were set.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use zoolet_protocol::{OpCode, SessionId, decode_request};
use zoolet_server::hooks::ClockOffset;

use super::decision::{Decide, Fate, RequestInfo};
use super::hits::Hits;
use super::scope::Client;
use super::time::TimeShift;
use super::{FaultError, RequestFilter, Scope};

/// What a fault does.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// No frame arrives and no message leaves. With [`Scope::Server`] the server's clock stops too.
    Freeze,
    /// The server refuses new connections.
    Refuse,
    /// No message leaves.
    Hold,
    /// Messages leave later.
    Delay(Duration),
    /// Of this many messages only the first half leaves.
    Corrupt(u64),
    /// Requests do not get their answer.
    Requests(RequestFilter, Fate),
    /// The test decides about each request.
    Decide(Decide),
}

/// A fault that is set.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) id: u64,
    pub(crate) scope: Scope,
    pub(crate) action: Action,
    /// How many requests pass before it begins.
    skips: u64,
    /// How many requests or messages it then concerns.
    left: u64,
    hits: Arc<Hits>,
}

impl Rule {
    pub(crate) fn covers(&self, client: Client) -> bool {
        self.scope.covers(client)
    }
}

/// The faults that are set, and by how much time is moved. One for all servers that a test starts
/// with the same [`Faults`](super::Faults).
#[derive(Debug, Default)]
pub(crate) struct RuleBook {
    rules: Mutex<Rules>,
    /// Whether there are rules; read for every frame.
    is_active: AtomicBool,
    changed: Notify,
    time: TimeShift,
    /// The sessions, numbered from 1 in the order in which they were created.
    sessions: Mutex<HashMap<SessionId, u64>>,
}

impl RuleBook {
    /// Whether any fault is set.
    pub(crate) fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Acquire)
    }

    /// Reads or changes the rules.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Rules) -> T) -> T {
        let mut rules = self.rules.lock();
        let result = act(&mut rules);
        self.is_active.store(!rules.rules.is_empty(), Ordering::Release);
        result
    }

    /// Notified when a fault was lifted or time was moved.
    pub(crate) fn changed(&self) -> &Notify {
        &self.changed
    }

    /// A session was created, or a client has come back to it.
    pub(crate) fn connected(&self, session: SessionId) {
        if !session.is_none() {
            let mut sessions = self.sessions.lock();
            let next = sessions.len() as u64 + 1;
            sessions.entry(session).or_insert(next);
        }
    }

    /// What happens to a request of a client.
    pub(crate) fn judge(&self, client: Client, frame: &Bytes) -> Fate {
        let session_number = self.sessions.lock().get(&client.session).copied().unwrap_or(0);
        self.with(|rules| rules.judge(client, session_number, frame))
    }

    /// Whether the whole server is frozen.
    pub(crate) fn is_server_frozen(&self) -> bool {
        self.is_active() && self.with(|rules| rules.is_server_frozen(|_| true))
    }

    pub(crate) fn offset(&self) -> ClockOffset {
        self.time.offset()
    }

    pub(crate) fn advance(&self, duration: Duration) -> Result<(), FaultError> {
        self.time.advance(duration)
    }

    pub(crate) fn skew(&self, ms: i64) -> Result<(), FaultError> {
        self.time.skew(ms)
    }

    pub(crate) fn end_skew(&self) {
        self.time.end_skew();
    }
}

/// The rules themselves.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    rules: Vec<Rule>,
    last_id: u64,
}

impl Rules {
    pub(crate) fn add(&mut self, scope: Scope, action: Action) -> (u64, Arc<Hits>) {
        self.last_id += 1;
        let (skips, left) = match &action {
            Action::Requests(requests, _) => requests.counts(),
            Action::Corrupt(messages) => (0, *messages),
            _ => (0, u64::MAX),
        };
        let hits = Arc::new(Hits::default());
        // A rule for no request at all is spent before it begins.
        if left > 0 {
            let hits = Arc::clone(&hits);
            self.rules.push(Rule { id: self.last_id, scope, action, skips, left, hits });
        }
        (self.last_id, hits)
    }

    /// Removes the rules that are lifted, and returns them.
    pub(crate) fn remove(&mut self, is_lifted: impl Fn(&Rule) -> bool) -> Vec<Rule> {
        self.rules.extract_if(.., |rule| is_lifted(rule)).collect()
    }

    /// Whether nothing comes in from a client.
    pub(crate) fn is_frozen(&self, client: Client) -> bool {
        self.of(client).any(|rule| matches!(rule.action, Action::Freeze))
    }

    /// Whether the whole server stands still by one of the rules that `counts` accepts.
    pub(crate) fn is_server_frozen(&self, counts: impl Fn(&Rule) -> bool) -> bool {
        let is_freeze =
            |rule: &&Rule| rule.scope == Scope::Server && matches!(rule.action, Action::Freeze);
        self.rules.iter().filter(is_freeze).any(counts)
    }

    /// Whether no message leaves to a client.
    pub(crate) fn is_held(&self, client: Client) -> bool {
        self.of(client).any(|rule| matches!(rule.action, Action::Freeze | Action::Hold))
    }

    /// Whether the server refuses every new connection; counts a hit.
    pub(crate) fn refuses_all(&self) -> bool {
        let rule = self
            .rules
            .iter()
            .find(|rule| rule.scope == Scope::Server && matches!(rule.action, Action::Refuse));
        rule.inspect(|rule| rule.hits.count()).is_some()
    }

    /// Whether the server refuses the handshake of a client; counts a hit.
    pub(crate) fn refuses(&self, client: Client) -> bool {
        let rule = self.of(client).find(|rule| matches!(rule.action, Action::Refuse));
        rule.inspect(|rule| rule.hits.count()).is_some()
    }

    /// Counts a frame that waits to come in.
    pub(crate) fn count_frozen(&self, client: Client) {
        self.count(client, |action| matches!(action, Action::Freeze));
    }

    /// Counts a message that waits to leave.
    pub(crate) fn count_held(&self, client: Client) {
        self.count(client, |action| matches!(action, Action::Hold));
    }

    fn count(&self, client: Client, is_meant: impl Fn(&Action) -> bool) {
        self.of(client).filter(|rule| is_meant(&rule.action)).for_each(|rule| rule.hits.count());
    }

    /// By how much a message to a client is delayed; counts a hit.
    pub(crate) fn delay(&self, client: Client) -> Option<Duration> {
        let delays = self.of(client).filter_map(|rule| match rule.action {
            Action::Delay(delay) => {
                rule.hits.count();
                Some(delay)
            }
            _ => None,
        });
        delays.max()
    }

    /// Whether a message to a client is cut in half; counts a hit.
    pub(crate) fn corrupts(&mut self, client: Client) -> bool {
        let index = self
            .rules
            .iter()
            .position(|rule| matches!(rule.action, Action::Corrupt(_)) && rule.covers(client));
        index.inspect(|&index| self.spend(index)).is_some()
    }

    /// What happens to a request: the first rule that concerns it decides.
    fn judge(&mut self, client: Client, session_number: u64, frame: &Bytes) -> Fate {
        for index in 0..self.rules.len() {
            let rule = &mut self.rules[index];
            if !rule.scope.covers(client) {
                continue;
            }
            let fate = match &rule.action {
                Action::Requests(requests, fate) if requests.include(frame) => *fate,
                Action::Decide(decide) => decided(decide, client, session_number, frame),
                _ => Fate::Pass,
            };
            if fate == Fate::Pass {
                continue;
            }
            if rule.skips > 0 {
                rule.skips -= 1;
                continue;
            }
            self.spend(index);
            return fate;
        }
        Fate::Pass
    }

    /// Counts a hit of a rule, and removes the rule after its last one.
    fn spend(&mut self, index: usize) {
        let rule = &mut self.rules[index];
        rule.hits.count();
        if rule.left != u64::MAX {
            rule.left -= 1;
        }
        if rule.left == 0 {
            self.rules.remove(index);
        }
    }

    fn of(&self, client: Client) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(move |rule| rule.covers(client))
    }
}

/// What the test decides about a request; nothing about a ping.
fn decided(decide: &Decide, client: Client, session_number: u64, frame: &Bytes) -> Fate {
    let Ok((header, request)) = decode_request(frame) else { return Fate::Pass };
    if header.op == OpCode::PING {
        return Fate::Pass;
    }
    let Client { connection, session } = client;
    let request = request.as_ref().ok();
    decide.ask(&RequestInfo { connection, session, session_number, op: header.op, request })
}
