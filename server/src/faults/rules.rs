//! The faults that there are, in the order in which they were set.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zoolet_core::ConnectionId;
use zoolet_protocol::{ErrorCode, SessionId};

use super::fault::Hits;
use super::{RequestFilter, Scope};
use crate::engine::connection::Connection;

/// What a fault does.
#[derive(Debug, Clone)]
pub(super) enum Action {
    /// Nothing comes in and nothing leaves; for everyone, the server's clock stands still too.
    Freeze,
    /// New connections are turned away.
    Refuse,
    /// Nothing leaves.
    Hold,
    /// What leaves does so later.
    Delay(Duration),
    /// So many frames that leave are cut in half.
    Corrupt(u64),
    /// To the requests.
    Requests(RequestFilter, Fate),
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is carried out and answered.
    Pass,
    /// It never comes.
    Drop,
    /// It is refused.
    Fail(ErrorCode),
    /// It is carried out, and its answer is lost.
    LoseReply,
    /// It is carried out, and the connection ends before its answer.
    CutReply,
}

#[derive(Debug)]
pub(super) struct Rule {
    pub(super) id: u64,
    pub(super) scope: Scope,
    pub(super) action: Action,
    /// How many pass before it begins, and how many it then concerns.
    pub(super) skips: u64,
    pub(super) left: u64,
    pub(super) hits: Arc<Hits>,
}

/// Whom a frame comes from or goes to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Whom {
    pub(super) connection: ConnectionId,
    pub(super) session: SessionId,
}

/// The faults that there are.
#[derive(Debug, Default)]
pub(super) struct Rules {
    rules: Vec<Rule>,
    last_id: u64,
    /// Connections from which frames wait, those included whose clients have gone: what they have sent
    /// still comes, as from a socket.
    held: Vec<Arc<Connection>>,
}

impl Rules {
    pub(super) fn add(&mut self, scope: Scope, action: Action) -> (u64, Arc<Hits>) {
        self.last_id += 1;
        let (skips, left) = match &action {
            Action::Requests(requests, _) => requests.counts(),
            Action::Corrupt(frames) => (0, *frames),
            _ => (0, u64::MAX),
        };
        let hits = Arc::new(Hits::default());
        let rule = Rule { id: self.last_id, scope, action, skips, left, hits: Arc::clone(&hits) };
        // One for no request at all is over before it begins.
        self.rules.extend(Some(rule).filter(|rule| rule.left > 0));
        (self.last_id, hits)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Takes the faults out that are lifted.
    pub(super) fn remove(&mut self, is_lifted: impl Fn(&Rule) -> bool) -> Vec<Rule> {
        self.rules.extract_if(.., |rule| is_lifted(rule)).collect()
    }

    /// The connections from which frames wait, in the order in which they came.
    pub(super) fn take_held(&mut self) -> Vec<Arc<Connection>> {
        let mut held = std::mem::take(&mut self.held);
        held.sort_unstable_by_key(|connection| connection.peer.id);
        held
    }

    /// Remembers that frames wait from a connection.
    pub(super) fn hold(&mut self, connection: &Arc<Connection>) {
        if !self.held.iter().any(|held| held.peer.id == connection.peer.id) {
            self.held.push(Arc::clone(connection));
        }
    }

    /// Whether nothing comes in from someone.
    pub(super) fn is_frozen(&self, whom: Whom) -> bool {
        self.of(whom).any(|rule| matches!(rule.action, Action::Freeze))
    }

    /// Whether the server stands still, with those faults that are still there then.
    pub(super) fn is_stopped(&self, is_there: impl Fn(&Rule) -> bool) -> bool {
        let is_stop =
            |rule: &&Rule| rule.scope == Scope::Server && matches!(rule.action, Action::Freeze);
        self.rules.iter().filter(is_stop).any(is_there)
    }

    /// Whether nothing leaves to someone.
    pub(super) fn is_shut(&self, whom: Whom) -> bool {
        self.of(whom).any(|rule| matches!(rule.action, Action::Freeze | Action::Hold))
    }

    /// Whether a new connection is turned away, whoever it is from.
    pub(super) fn refuses_all(&self) -> bool {
        let rule = self
            .rules
            .iter()
            .find(|rule| rule.scope == Scope::Server && matches!(rule.action, Action::Refuse));
        rule.inspect(|rule| rule.hits.count()).is_some()
    }

    /// Whether the handshake of a session is turned away.
    pub(super) fn refuses(&self, whom: Whom) -> bool {
        let rule = self.of(whom).find(|rule| matches!(rule.action, Action::Refuse));
        rule.inspect(|rule| rule.hits.count()).is_some()
    }

    /// A frame waits to come in.
    pub(super) fn count_frozen(&self, whom: Whom) {
        self.count(whom, |action| matches!(action, Action::Freeze));
    }

    /// A message waits to leave.
    pub(super) fn count_held(&self, whom: Whom) {
        self.count(whom, |action| matches!(action, Action::Hold));
    }

    fn count(&self, whom: Whom, is_meant: impl Fn(&Action) -> bool) {
        self.of(whom).filter(|rule| is_meant(&rule.action)).for_each(|rule| rule.hits.count());
    }

    /// How long a message is delayed.
    pub(super) fn delay(&self, whom: Whom) -> Option<Duration> {
        let delays = self.of(whom).filter_map(|rule| match rule.action {
            Action::Delay(delay) => {
                rule.hits.count();
                Some(delay)
            }
            _ => None,
        });
        delays.max()
    }

    /// Whether a frame that leaves is cut in half.
    pub(super) fn corrupts(&mut self, whom: Whom) -> bool {
        let index = self
            .rules
            .iter()
            .position(|rule| matches!(rule.action, Action::Corrupt(_)) && rule.covers(whom));
        index.inspect(|&index| self.spend(index)).is_some()
    }

    /// What becomes of a request: the first fault decides whose turn it is.
    pub(super) fn judge(&mut self, whom: Whom, frame: &Bytes) -> Fate {
        for index in 0..self.rules.len() {
            let rule = &mut self.rules[index];
            let Action::Requests(requests, fate) = &rule.action else { continue };
            if !rule.covers(whom) || !requests.include(frame) {
                continue;
            }
            if rule.skips > 0 {
                rule.skips -= 1;
                continue;
            }
            let fate = *fate;
            self.spend(index);
            return fate;
        }
        Fate::Pass
    }

    /// A fault has hit, and is gone after its last time.
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

    fn of(&self, whom: Whom) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(move |rule| rule.covers(whom))
    }
}

impl Rule {
    pub(super) fn covers(&self, whom: Whom) -> bool {
        self.scope.covers(whom.connection, whom.session)
    }
}
