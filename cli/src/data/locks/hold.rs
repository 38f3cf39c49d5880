//! What happened at one lock.

use std::collections::VecDeque;

use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;
use zoolet_layouts::{Place, Recipe, Role};
use zoolet_protocol::SessionId;
use zoolet_server::storage::history::Moment;

use super::recent::{Named, Recent};
use super::times::Times;
use crate::data::sessions::Closer;

/// The longest ones and the last hand-overs by expiry of a lock that are kept.
const LISTED_KEPT: usize = 5;

/// Why a place went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Its session has deleted it.
    Released,
    /// Another session has deleted it.
    Removed(SessionId),
    /// The end of its session.
    Ended(Closer),
    /// It is there, and no longer in front.
    Overtaken,
}

impl Cause {
    pub(super) fn is_expiry(self) -> bool {
        self == Self::Ended(Closer::Server)
    }

    /// For programs.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Removed(_) => "removed-by-another",
            Self::Ended(Closer::Client) => "session-closed",
            Self::Ended(Closer::Server) => "session-ended-by-server",
            Self::Overtaken => "overtaken",
        }
    }

    /// For a person.
    pub(super) fn text(self) -> String {
        match self {
            Self::Released => "released".to_owned(),
            Self::Removed(by) => format!("its znode was deleted by session {by}"),
            Self::Ended(Closer::Client) => "its client closed the session".to_owned(),
            Self::Ended(Closer::Server) => "its session expired".to_owned(),
            Self::Overtaken => "another one came in front".to_owned(),
        }
    }
}

/// A place that waits at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Waiter {
    pub(super) place: String,
    pub(super) session: SessionId,
    pub(super) asked_ms: i64,
}

/// A place that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) session: SessionId,
    pub(super) role: Role,
    /// When its place was created.
    pub(super) asked_ms: i64,
    /// `None` if it held already where the report begins.
    pub(super) since: Option<Moment>,
}

/// A place that held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) place: String,
    pub(super) held: Held,
    pub(super) until: Moment,
    pub(super) cause: Cause,
    /// Who holds since the same transaction.
    pub(super) next: Option<SessionId>,
    pub(super) left: Left,
}

/// Who was there when a place held no longer, without those who hold since then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Left {
    /// How many held on, as readers do, and who has a permit.
    pub(super) holding: u64,
    /// How many waited on.
    pub(super) waiting: u64,
}

impl Hold {
    /// How long it held, if the report has its begin.
    pub(super) fn held_ms(&self) -> Option<i64> {
        Some(elapsed_ms(self.held.since?.time_ms, self.until.time_ms))
    }

    /// How long it waited before.
    pub(super) fn waited_ms(&self) -> Option<i64> {
        self.held.waited_ms()
    }
}

impl Held {
    pub(super) fn waited_ms(&self) -> Option<i64> {
        Some(elapsed_ms(self.asked_ms, self.since?.time_ms))
    }
}

impl Named for Hold {
    type Rest = (Held, Moment, Cause, Option<SessionId>, Left);

    fn apart(self) -> (String, Self::Rest) {
        (self.place, (self.held, self.until, self.cause, self.next, self.left))
    }

    fn whole(place: String, (held, until, cause, next, left): Self::Rest) -> Self {
        Self { place, held, until, cause, next, left }
    }
}

/// The time between two moments. A clock may have been set back, and a file may have any time.
pub(super) fn elapsed_ms(from_ms: i64, to_ms: i64) -> i64 {
    to_ms.saturating_sub(from_ms).max(0)
}

/// A place that went before it held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Aborted {
    pub(super) place: String,
    pub(super) session: SessionId,
    pub(super) asked_ms: i64,
    pub(super) until: Moment,
    pub(super) cause: Cause,
}

impl Named for Aborted {
    type Rest = (SessionId, i64, Moment, Cause);

    fn apart(self) -> (String, Self::Rest) {
        (self.place, (self.session, self.asked_ms, self.until, self.cause))
    }

    fn whole(place: String, (session, asked_ms, until, cause): Self::Rest) -> Self {
        Self { place, session, asked_ms, until, cause }
    }
}

/// What happened at one lock. It takes no more memory with time.
#[derive(Debug, Clone)]
pub(super) struct Lock {
    pub(super) recipe: Recipe,
    /// Who holds now, by the names of their places.
    pub(super) holding: HashMap<String, Held>,
    /// How many have held, with those that hold.
    pub(super) holds: u64,
    pub(super) waits: Times,
    pub(super) held: Times,
    /// How long nobody held, between two that did.
    pub(super) free: Times,
    /// How many transactions have ended holds and let the next one hold.
    pub(super) handed_over: u64,
    pub(super) aborted: Times,
    pub(super) aborted_by_end: u64,
    /// How many holds ended by the end of a session that the server decided.
    pub(super) expired: u64,
    pub(super) removed: u64,
    free_since: Option<i64>,
    pub(super) longest_held: Vec<Hold>,
    pub(super) longest_waited: Vec<Hold>,
    pub(super) expiries: VecDeque<Hold>,
    pub(super) recent: Recent<Hold>,
    pub(super) recent_aborted: Recent<Aborted>,
}

impl Lock {
    pub(super) fn new(recipe: Recipe) -> Self {
        Self {
            recipe,
            holding: HashMap::new(),
            holds: 0,
            waits: Times::default(),
            held: Times::default(),
            free: Times::default(),
            handed_over: 0,
            aborted: Times::default(),
            aborted_by_end: 0,
            expired: 0,
            removed: 0,
            free_since: None,
            longest_held: Vec::new(),
            longest_waited: Vec::new(),
            expiries: VecDeque::new(),
            recent: Recent::default(),
            recent_aborted: Recent::default(),
        }
    }

    /// A place holds from now on.
    pub(super) fn begin(&mut self, place: String, held: Held) {
        self.holds += 1;
        if let Some(waited) = held.waited_ms() {
            self.waits.add(waited);
        }
        if let (Some(free_since), Some(since)) = (self.free_since.take(), held.since) {
            self.free.add(elapsed_ms(free_since, since.time_ms));
        }
        self.holding.insert(place, held);
    }

    /// Takes a place from those that hold, with its name. `None` if it is none of them; another session may hold with
    /// a znode of the same name.
    pub(super) fn take(&mut self, place: &Place) -> Option<(String, Held)> {
        match self.holding.entry_ref(place.name.as_str()) {
            EntryRef::Occupied(held) if held.get().session == place.znode.session => {
                Some(held.remove_entry())
            }
            _ => None,
        }
    }

    /// A place holds no longer.
    pub(super) fn end(&mut self, hold: Hold) {
        if let Some(held) = hold.held_ms() {
            self.held.add(held);
            keep_longest(&mut self.longest_held, &hold, Hold::held_ms);
            keep_longest(&mut self.longest_waited, &hold, Hold::waited_ms);
        }
        self.removed += u64::from(matches!(hold.cause, Cause::Removed(_)));
        if hold.cause.is_expiry() {
            self.expired += 1;
            if self.expiries.len() == LISTED_KEPT {
                self.expiries.pop_front();
            }
            self.expiries.push_back(hold.clone());
        }
        if self.holding.is_empty() && hold.next.is_none() {
            self.free_since = Some(hold.until.time_ms);
        }
        self.recent.push(hold);
    }

    pub(super) fn abort(&mut self, aborted: Aborted) {
        self.aborted.add(elapsed_ms(aborted.asked_ms, aborted.until.time_ms));
        self.aborted_by_end += u64::from(matches!(aborted.cause, Cause::Ended(_)));
        self.recent_aborted.push(aborted);
    }

    /// Those that hold now, by the names of their places.
    pub(super) fn holders(&self) -> Vec<(&str, &Held)> {
        let mut holders: Vec<_> =
            self.holding.iter().map(|(name, held)| (name.as_str(), held)).collect();
        holders.sort_unstable_by_key(|(name, _)| *name);
        holders
    }

    /// Transactions are missing: who held may hold no longer.
    pub(super) fn forget(&mut self) {
        self.holding.clear();
        self.free_since = None;
    }

    /// Adds what another one has counted.
    pub(super) fn merge(&mut self, other: &Self) {
        self.holds += other.holds;
        self.waits.merge(&other.waits);
        self.held.merge(&other.held);
        self.free.merge(&other.free);
        self.handed_over += other.handed_over;
        self.aborted.merge(&other.aborted);
        self.aborted_by_end += other.aborted_by_end;
        self.expired += other.expired;
        self.removed += other.removed;
    }
}

fn keep_longest(list: &mut Vec<Hold>, new: &Hold, length: impl Fn(&Hold) -> Option<i64>) {
    let new_length = length(new);
    // Most are not among them.
    if list.len() == LISTED_KEPT && list.last().is_some_and(|last| length(last) >= new_length) {
        return;
    }
    let at = list.partition_point(|hold| length(hold) >= new_length);
    if at < LISTED_KEPT {
        list.insert(at, new.clone());
        list.truncate(LISTED_KEPT);
    }
}
