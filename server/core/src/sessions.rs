//! The part of the sessions that survives a restart: their timeouts and their ephemerals.
//!
//! The time of a session's last contact is not here: it depends on a clock and belongs to the
//! server.

use std::collections::BTreeSet;

use hashbrown::HashMap;
use zoolet_protocol::{Names, SessionId, ZPath};

use crate::check::Findings;
use crate::ephemeral_owner::EphemeralType;
use crate::sorted_paths::SortedPaths;
use crate::tree::Tree;

/// All sessions by id.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sessions {
    sessions: HashMap<SessionId, Session>,
    /// The number of ephemerals of all sessions.
    ephemerals: usize,
}

#[derive(Debug, Clone, Default)]
struct Session {
    /// `None` for a session that owns ephemerals but was never created. Only a log whose beginning
    /// is missing makes such a session.
    timeout_ms: Option<i32>,
    ephemerals: SortedPaths,
}

impl Session {
    /// Whether nothing is left of it: it does not exist and owns nothing.
    fn is_nothing(&self) -> bool {
        self.timeout_ms.is_none() && self.ephemerals.is_empty()
    }
}

impl Sessions {
    /// Creates a session.
    pub(crate) fn create(&mut self, session: SessionId, timeout_ms: i32) {
        self.sessions.entry(session).or_default().timeout_ms = Some(timeout_ms);
    }

    /// Closes a session whose ephemerals were deleted. A session that still owns some stays, as one
    /// that was never created: see [`Sessions::own`].
    pub(crate) fn close(&mut self, session: SessionId) {
        let Some(closed) = self.sessions.get_mut(&session) else { return };
        closed.timeout_ms = None;
        if closed.is_nothing() {
            self.sessions.remove(&session);
        }
    }

    /// Whether a session was created and is not closed.
    pub(crate) fn contain(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|session| session.timeout_ms.is_some())
    }

    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// The sessions and their timeouts in milliseconds, ordered by id.
    pub(crate) fn timeouts(&self) -> Vec<(SessionId, i32)> {
        let timeout = |(id, session): (&SessionId, &Session)| Some((*id, session.timeout_ms?));
        let mut timeouts: Vec<_> = self.sessions.iter().filter_map(timeout).collect();
        timeouts.sort_unstable();
        timeouts
    }

    /// Lists an ephemeral as one of `session`'s. In a log whose beginning is missing, the session
    /// may not exist; then recovery deletes its ephemerals at the end
    /// (`Core::prepare_orphan_removal`).
    pub(crate) fn own(&mut self, session: SessionId, path: ZPath) {
        let ephemerals = &mut self.sessions.entry(session).or_default().ephemerals;
        self.ephemerals += usize::from(ephemerals.insert(path));
    }

    /// Takes one path off the ephemerals of `session`.
    pub(crate) fn disown(&mut self, session: SessionId, path: &str) {
        let Some(owner) = self.sessions.get_mut(&session) else { return };
        self.ephemerals -= usize::from(owner.ephemerals.remove(path));
        if owner.is_nothing() {
            self.sessions.remove(&session);
        }
    }

    /// Whether `session` owns the ephemeral at `path`.
    pub(crate) fn owns(&self, session: SessionId, path: &str) -> bool {
        let session = self.sessions.get(&session);
        session.is_some_and(|session| session.ephemerals.contains(path))
    }

    /// Takes all paths off the ephemerals of `session` and returns them.
    pub(crate) fn disown_all(&mut self, session: SessionId) -> SortedPaths {
        let session = self.sessions.get_mut(&session);
        let paths = session.map(|session| std::mem::take(&mut session.ephemerals));
        let paths = paths.unwrap_or_default();
        self.ephemerals -= paths.len();
        paths
    }

    /// The ephemerals of a session, ordered by path.
    pub(crate) fn ephemerals(&self, session: SessionId) -> impl Iterator<Item = &ZPath> {
        self.sessions.get(&session).into_iter().flat_map(|session| session.ephemerals.iter())
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
        let session = self.sessions.get(&session).into_iter();
        session.flat_map(move |session| session.ephemerals.since(path))
    }

    /// The sessions that own ephemerals but were never created, ordered by id.
    pub(crate) fn unknown(&self) -> Vec<SessionId> {
        let is_unknown = |(_, session): &(&SessionId, &Session)| session.timeout_ms.is_none();
        let mut unknown: Vec<_> =
            self.sessions.iter().filter(is_unknown).map(|(id, _)| *id).collect();
        unknown.sort_unstable();
        unknown
    }

    /// The number of ephemerals of all sessions.
    pub(crate) fn ephemeral_count(&self) -> usize {
        self.ephemerals
    }

    /// The sessions that own ephemerals, ordered by id.
    pub(crate) fn owner_ids(&self) -> Vec<SessionId> {
        let owns = |(_, session): &(&SessionId, &Session)| !session.ephemerals.is_empty();
        let mut owners: Vec<_> = self.sessions.iter().filter(owns).map(|(id, _)| *id).collect();
        owners.sort_unstable();
        owners
    }

    /// The sessions that own ephemerals with the paths of these, ordered by id and path.
    pub(crate) fn owners(&self) -> Vec<(SessionId, Vec<ZPath>)> {
        let mut owners: Vec<_> = self
            .sessions
            .iter()
            .filter(|(_, session)| !session.ephemerals.is_empty())
            .map(|(id, session)| (*id, session.ephemerals.iter().cloned().collect()))
            .collect();
        owners.sort();
        owners
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
        let ids: BTreeSet<_> = self.sessions.keys().chain(wanted.keys()).copied().collect();
        for id in ids {
            let listed = self.ephemerals(id).map(ZPath::as_str).collect();
            let index = format!("the ephemerals of session {id}");
            findings.compare_index(&index, &listed, wanted.get(&id).unwrap_or(&none));
            if self.sessions.get(&id).is_some_and(Session::is_nothing) {
                findings.listed_wrongly("the sessions", &id.to_string());
            }
        }
        let lengths = self.sessions.values().map(|session| session.ephemerals.len());
        findings.compare(|| "the number of ephemerals".to_owned(), self.ephemerals, lengths.sum());
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
        sessions.sessions.insert(SessionId(1), Session::default());
        assert_eq!(found(&sessions), ["the sessions list 0x1, which does not belong there"]);
    }
}
