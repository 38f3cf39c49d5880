//! The part of the sessions that survives a restart: their timeouts and their ephemerals.
//!
//! The time of a session's last contact is not here: it depends on a clock and belongs to the
//! server.
//!
//! The timeouts are kept in copy-on-write shards, as the znodes are: a snapshot of a million sessions
//! copies one reference for each shard, and a session that begins or ends meanwhile copies its shard.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;
use zoolet_protocol::{Names, SessionId, ZPath};

use crate::by_id::{ById, Id};
use crate::check::Findings;
use crate::ephemeral_owner::EphemeralType;
use crate::sorted_paths::SortedPaths;
use crate::tree::Tree;

/// With a million sessions, a shard that must be copied has four thousand.
const SHARDS: usize = 256;

type Shard = ById<SessionId, i32>;

/// All sessions by id.
#[derive(Debug, Clone)]
pub(crate) struct Sessions {
    /// The timeouts of the sessions that were created and are not closed, in milliseconds.
    timeouts: Box<[Arc<Shard>]>,
    count: usize,
    /// The ephemerals of each session that has owned some. A session that owns ephemerals but was
    /// never created is here only. Only a log whose beginning is missing makes such a session.
    owned: ById<SessionId, SortedPaths>,
    /// The number of ephemerals of all sessions.
    ephemerals: usize,
}

impl Default for Sessions {
    fn default() -> Self {
        let timeouts = vec![Arc::default(); SHARDS].into();
        Self { timeouts, count: 0, owned: ById::default(), ephemerals: 0 }
    }
}

/// The timeouts of the sessions at one moment.
#[derive(Debug, Clone)]
pub(crate) struct FrozenSessions(Box<[Arc<Shard>]>);

impl FrozenSessions {
    /// The sessions and their timeouts in milliseconds, ordered by id.
    pub(crate) fn timeouts(&self) -> Vec<(SessionId, i32)> {
        timeouts(&self.0)
    }
}

fn timeouts(shards: &[Arc<Shard>]) -> Vec<(SessionId, i32)> {
    let all = shards.iter().flat_map(|shard| shard.iter());
    let mut timeouts: Vec<_> = all.map(|(id, timeout_ms)| (id, *timeout_ms)).collect();
    timeouts.sort_unstable();
    timeouts
}

/// The shard of a session: the lowest bits of the hash. `Parts` uses the others.
fn shard(session: SessionId) -> usize {
    session.hash() as usize % SHARDS
}

impl Sessions {
    /// Creates a session.
    pub(crate) fn create(&mut self, session: SessionId, timeout_ms: i32) {
        let shard = Arc::make_mut(&mut self.timeouts[shard(session)]);
        self.count += usize::from(shard.insert(session, timeout_ms).is_none());
    }

    /// Closes a session whose ephemerals were deleted. A session that still owns some stays, as one
    /// that was never created: see [`Sessions::own`].
    pub(crate) fn close(&mut self, session: SessionId) {
        if self.contain(session) {
            Arc::make_mut(&mut self.timeouts[shard(session)]).remove(session);
            self.count -= 1;
        }
        self.forget_if_nothing(session);
    }

    /// Forgets a session that does not exist and owns nothing.
    fn forget_if_nothing(&mut self, session: SessionId) {
        if self.owned.get(session).is_some_and(SortedPaths::is_empty) && !self.contain(session) {
            self.owned.remove(session);
        }
    }

    /// Whether a session was created and is not closed.
    pub(crate) fn contain(&self, session: SessionId) -> bool {
        self.timeouts[shard(session)].get(session).is_some()
    }

    /// All sessions as they are now. Later changes do not show in the result.
    pub(crate) fn freeze(&self) -> FrozenSessions {
        FrozenSessions(self.timeouts.clone())
    }

    /// The number of sessions that were created and are not closed.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The sessions and their timeouts in milliseconds, ordered by id.
    pub(crate) fn timeouts(&self) -> Vec<(SessionId, i32)> {
        timeouts(&self.timeouts)
    }

    /// Lists an ephemeral as one of `session`'s. In a log whose beginning is missing, the session
    /// may not exist; then recovery deletes its ephemerals at the end
    /// (`Core::prepare_orphan_removal`).
    pub(crate) fn own(&mut self, session: SessionId, path: ZPath) {
        self.ephemerals += usize::from(self.owned.get_or_add(session).insert(path));
    }

    /// Takes one path off the ephemerals of `session`.
    pub(crate) fn disown(&mut self, session: SessionId, path: &ZPath) {
        let Some(owned) = self.owned.get_mut(session) else { return };
        self.ephemerals -= usize::from(owned.remove(path));
        if owned.is_empty() && !self.contain(session) {
            self.owned.remove(session);
        }
    }

    /// Whether `session` owns the ephemeral at `path`.
    pub(crate) fn owns(&self, session: SessionId, path: &str) -> bool {
        self.owned.get(session).is_some_and(|owned| owned.contains(path))
    }

    /// Takes all paths off the ephemerals of `session` and returns them.
    pub(crate) fn disown_all(&mut self, session: SessionId) -> SortedPaths {
        let paths = self.owned.get_mut(session).map(std::mem::take).unwrap_or_default();
        self.ephemerals -= paths.len();
        paths
    }

    /// The ephemerals of a session, ordered by path.
    pub(crate) fn ephemerals(&self, session: SessionId) -> impl Iterator<Item = &ZPath> {
        self.owned.get(session).into_iter().flat_map(|owned| owned.iter())
    }

    /// The ephemerals of a session whose paths begin with `prefix`. As in ZooKeeper, `prefix` is
    /// text: it may end within a name.
    pub(crate) fn ephemerals_below(&self, session: SessionId, prefix: &str) -> Names {
        let paths = self.ephemerals_since(session, prefix).map(ZPath::as_str);
        paths.take_while(|path| path.starts_with(prefix)).collect()
    }

    /// The ephemerals of a session whose paths come after `path`, ordered by path.
    pub(crate) fn ephemerals_after(
        &self,
        session: SessionId,
        path: &str,
    ) -> impl Iterator<Item = &ZPath> {
        self.ephemerals_since(session, path).skip_while(move |next| next.as_str() == path)
    }

    fn ephemerals_since(&self, session: SessionId, path: &str) -> impl Iterator<Item = &ZPath> {
        self.owned.get(session).into_iter().flat_map(move |owned| owned.since(path))
    }

    /// The sessions that own ephemerals but were never created, ordered by id.
    pub(crate) fn unknown(&self) -> Vec<SessionId> {
        let ids = self.owned.iter().map(|(id, _)| id);
        let mut unknown: Vec<_> = ids.filter(|id| !self.contain(*id)).collect();
        unknown.sort_unstable();
        unknown
    }

    /// The number of ephemerals of all sessions.
    pub(crate) fn ephemeral_count(&self) -> usize {
        self.ephemerals
    }

    /// The sessions that own ephemerals, ordered by id.
    pub(crate) fn owner_ids(&self) -> Vec<SessionId> {
        let mut owners: Vec<_> = self.owners_in_no_order().map(|(id, _)| id).collect();
        owners.sort_unstable();
        owners
    }

    /// The sessions that own ephemerals with the paths of these, ordered by id and path.
    pub(crate) fn owners(&self) -> Vec<(SessionId, Vec<ZPath>)> {
        let mut owners: Vec<_> = self
            .owners_in_no_order()
            .map(|(id, owned)| (id, owned.iter().cloned().collect()))
            .collect();
        owners.sort();
        owners
    }

    fn owners_in_no_order(&self) -> impl Iterator<Item = (SessionId, &SortedPaths)> {
        self.owned.iter().filter(|(_, owned)| !owned.is_empty())
    }

    /// Compares the ephemerals of the sessions with the znodes of the tree.
    pub(crate) fn check(&self, tree: &Tree, findings: &mut Findings) {
        let mut wanted: HashMap<SessionId, BTreeSet<&str>> = HashMap::new();
        for znode in tree.iter().filter(|znode| !znode.path.is_root()) {
            if let EphemeralType::Ephemeral(session) = znode.stat.ephemeral_owner.ephemeral_type() {
                wanted.entry(session).or_default().insert(&znode.path);
            }
        }
        let none = BTreeSet::new();
        let ids: BTreeSet<_> =
            self.owned.iter().map(|(id, _)| id).chain(wanted.keys().copied()).collect();
        for id in ids {
            let listed = self.ephemerals(id).map(ZPath::as_str).collect();
            let index = format!("the ephemerals of session {id}");
            findings.compare_index(&index, &listed, wanted.get(&id).unwrap_or(&none));
            if self.owned.get(id).is_some_and(SortedPaths::is_empty) && !self.contain(id) {
                findings.listed_wrongly("the sessions", &id.to_string());
            }
        }
        let lengths = self.owned.iter().map(|(_, owned)| owned.len());
        findings.compare(|| "the number of ephemerals".to_owned(), self.ephemerals, lengths.sum());
        let counted = timeouts(&self.timeouts).len();
        findings.compare(|| "the number of sessions".to_owned(), self.count, counted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(sessions: &Sessions) -> Vec<String> {
        let mut findings = Findings::default();
        sessions.check(&Tree::new(), &mut findings);
        findings.to_strings()
    }

    #[test]
    fn check_finds_a_wrong_number_of_ephemerals() {
        let mut sessions = Sessions::default();
        sessions.create(SessionId(1), 30_000);
        assert_eq!(found(&sessions), [""; 0]);
        sessions.ephemerals = 1;
        assert_eq!(found(&sessions), ["the number of ephemerals: 1 is kept, 0 is right"]);
    }

    #[test]
    fn check_finds_a_session_that_neither_exists_nor_owns_anything() {
        let mut sessions = Sessions::default();
        sessions.owned.get_or_add(SessionId(1));
        assert_eq!(found(&sessions), ["the sessions list 0x1, which does not belong there"]);
    }

    #[test]
    fn check_finds_a_wrong_number_of_sessions() {
        let sessions = Sessions { count: 1, ..Sessions::default() };
        assert_eq!(found(&sessions), ["the number of sessions: 1 is kept, 0 is right"]);
    }

    #[test]
    fn frozen_sessions_do_not_change() {
        let mut sessions = Sessions::default();
        let all: Vec<_> = (1..=1_000).map(|id| (SessionId(id), 30_000)).collect();
        all.iter().for_each(|(id, timeout_ms)| sessions.create(*id, *timeout_ms));
        let frozen = sessions.freeze();
        (1..=500).for_each(|id| sessions.close(SessionId(id)));
        sessions.create(SessionId(1_001), 4_000);
        sessions.create(SessionId(501), 4_000);
        assert_eq!(frozen.timeouts(), all);
        assert_eq!(sessions.len(), 501);
        assert_eq!(sessions.timeouts()[0], (SessionId(501), 4_000));
    }
}
