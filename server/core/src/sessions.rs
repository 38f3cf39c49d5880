//! The sessions, as far as they outlive a restart: their timeouts and their ephemerals.

use std::collections::BTreeSet;
use std::ops::Bound;

use hashbrown::HashMap;
use zoolet_protocol::{Names, SessionId, ZPath};

/// All sessions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sessions {
    sessions: HashMap<SessionId, Session>,
    /// How many ephemerals there are.
    ephemerals: usize,
}

#[derive(Debug, Clone, Default)]
struct Session {
    /// `None` if it owns ephemerals without having begun, as in a log without its beginning.
    timeout_ms: Option<i32>,
    ephemerals: BTreeSet<ZPath>,
}

impl Sessions {
    pub(crate) fn begin(&mut self, session: SessionId, timeout_ms: i32) {
        self.sessions.entry(session).or_default().timeout_ms = Some(timeout_ms);
    }

    pub(crate) fn end(&mut self, session: SessionId) {
        if let Some(ended) = self.sessions.remove(&session) {
            self.ephemerals -= ended.ephemerals.len();
        }
    }

    pub(crate) fn contain(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|session| session.timeout_ms.is_some())
    }

    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// The sessions and their timeouts in milliseconds, in order.
    pub(crate) fn timeouts(&self) -> Vec<(SessionId, i32)> {
        let timeout = |(id, session): (&SessionId, &Session)| Some((*id, session.timeout_ms?));
        let mut timeouts: Vec<_> = self.sessions.iter().filter_map(timeout).collect();
        timeouts.sort_unstable();
        timeouts
    }

    /// Adds an ephemeral to its owner. An owner that is not there, as in a log without its
    /// beginning, is one whose ephemerals go when recovery ends.
    pub(crate) fn own(&mut self, session: SessionId, path: ZPath) {
        let ephemerals = &mut self.sessions.entry(session).or_default().ephemerals;
        self.ephemerals += usize::from(ephemerals.insert(path));
    }

    pub(crate) fn disown(&mut self, session: SessionId, path: &str) {
        if let Some(session) = self.sessions.get_mut(&session) {
            self.ephemerals -= usize::from(session.ephemerals.remove(path));
        }
    }

    /// Whether a session owns an ephemeral.
    pub(crate) fn owns(&self, session: SessionId, path: &str) -> bool {
        let session = self.sessions.get(&session);
        session.is_some_and(|session| session.ephemerals.contains(path))
    }

    /// Takes all ephemerals from a session.
    pub(crate) fn disown_all(&mut self, session: SessionId) -> BTreeSet<ZPath> {
        let session = self.sessions.get_mut(&session);
        let paths = session.map(|session| std::mem::take(&mut session.ephemerals));
        let paths = paths.unwrap_or_default();
        self.ephemerals -= paths.len();
        paths
    }

    /// The ephemerals of a session, in order.
    pub(crate) fn ephemerals(&self, session: SessionId) -> impl Iterator<Item = &ZPath> {
        self.sessions.get(&session).into_iter().flat_map(|session| &session.ephemerals)
    }

    /// The ephemerals of a session whose paths begin with `prefix`, as text.
    pub(crate) fn ephemerals_below(&self, session: SessionId, prefix: &str) -> Names {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let paths = self.ephemerals_within(session, from).map(ZPath::as_str);
        paths.take_while(|path| path.starts_with(prefix)).collect()
    }

    /// The ephemerals of a session after `path`, in order.
    pub(crate) fn ephemerals_after(
        &self,
        session: SessionId,
        path: &str,
    ) -> impl Iterator<Item = &ZPath> {
        self.ephemerals_within(session, (Bound::Excluded(path), Bound::Unbounded))
    }

    fn ephemerals_within(
        &self,
        session: SessionId,
        paths: (Bound<&str>, Bound<&str>),
    ) -> impl Iterator<Item = &ZPath> {
        let session = self.sessions.get(&session).into_iter();
        session.flat_map(move |session| session.ephemerals.range::<str, _>(paths))
    }

    /// Those that own ephemerals and have not begun, in order.
    pub(crate) fn unknown(&self) -> Vec<SessionId> {
        let is_unknown = |(_, session): &(&SessionId, &Session)| session.timeout_ms.is_none();
        let mut unknown: Vec<_> =
            self.sessions.iter().filter(is_unknown).map(|(id, _)| *id).collect();
        unknown.sort_unstable();
        unknown
    }

    /// How many ephemerals there are.
    pub(crate) fn ephemeral_count(&self) -> usize {
        self.ephemerals
    }

    /// The sessions that own ephemerals, in order.
    pub(crate) fn owner_ids(&self) -> Vec<SessionId> {
        let owns = |(_, session): &(&SessionId, &Session)| !session.ephemerals.is_empty();
        let mut owners: Vec<_> = self.sessions.iter().filter(owns).map(|(id, _)| *id).collect();
        owners.sort_unstable();
        owners
    }

    /// The sessions that own ephemerals, and these, in order.
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
}
