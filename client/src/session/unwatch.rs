//! Which watchers of a path share a watch on the server, and when that watch may be removed.
//!
//! A server keeps the watches of a connection and a path in two tables, for data and for children,
//! and `removeWatches` names a table, not a watcher. Two things follow:
//!
//! - **Removal.** The client removes a watch only when none of its watchers needs the table at the
//!   path, and no request in flight may add a watch there: the removal would reach the server after
//!   that request. Until then the path is marked as stale, and examined again after each reply and
//!   each event of that path.
//! - **Registration.** Servers before 3.9 keep one mode per path and table: a one-shot watch
//!   replaces a persistent one, and `removeWatches` removes either. So while a persistent watch of
//!   the path gets all events of a one-shot watch, the read is sent without its watch flag, and the
//!   events of the persistent watch serve both. Persistent watches count here whether recursive or
//!   not.

use std::sync::Arc;

use zoolet_protocol::{ErrorCode, Lookup, OpCode, Read, Request, SetWatches, Watch};

use super::{
    Call, EventQueue, Instant, Phase, Sent, Session, Submission, WatchKind, WatchRegistration,
    rewatch,
};
use crate::watches::{WatchModes, WatchUpdate};

impl Session {
    /// Removes a watcher, and its watch on the server if no other watcher needs that.
    pub(crate) fn unwatch(
        &mut self,
        path: &str,
        kind: WatchKind,
        queue: &Arc<EventQueue>,
        now: Instant,
    ) {
        // A watch whose request is in flight is removed when the reply says that it exists.
        queue.abandon();
        if self.watches.remove(path, kind, queue) {
            self.mark_stale(path, kind, now);
        }
    }

    /// Lets a queue hear of the end of the session, also while no watch is there whose events it gets.
    pub(crate) fn tell_of_end(&mut self, queue: &Arc<EventQueue>) {
        match self.phase {
            Phase::Closed => queue.push(WatchUpdate::Closed, &mut self.wakers),
            _ => self.watches.tell_of_end(queue),
        }
    }

    /// Removes all watchers with this queue, whose watches are one-shot.
    ///
    /// The watches themselves stay on the server until they fire, unheard, or the connection ends. There
    /// may be millions, and a request for each would hold up everything else.
    pub(crate) fn forget_one_shots(&mut self, queue: &Arc<EventQueue>) {
        queue.abandon();
        self.watches.remove_all(queue);
    }

    /// Whether the path has a watch of a kind with this queue.
    pub(crate) fn has_watch(&self, path: &str, kind: WatchKind, queue: &Arc<EventQueue>) -> bool {
        self.watches.has(path, kind, queue)
    }

    /// Marks a watch that the server has and no watcher needs, and removes it if possible.
    fn mark_stale(&mut self, path: &str, kind: WatchKind, now: Instant) {
        // The next connection registers only the watches that still have a watcher.
        if self.phase == Phase::Connected {
            self.stale.entry(path.to_owned()).or_default().add(kind);
            self.remove_stale(path, now);
        }
    }

    /// Removes the stale watches of a path that no watcher and no request in flight needs.
    pub(super) fn remove_stale(&mut self, path: &str, now: Instant) {
        if self.phase != Phase::Connected {
            return;
        }
        let Some(&stale) = self.stale.get(path) else { return };
        let live = self.watches.kinds(path);
        let in_flight = self.kinds_in_flight(path);
        if stale.has_any(WatchModes::PERSISTENT) {
            // Servers before 3.9 cannot remove these alone, so all watches of the path are removed.
            if live.is_none() && in_flight.is_none() {
                self.stale.remove(path);
                self.send_removal(path, WatchKind::Persistent, now);
            }
            return;
        }
        let mut left = stale;
        for kind in [WatchKind::Data, WatchKind::Child] {
            let table = WatchModes::in_table_of(kind);
            if !stale.has_any(kind.into()) {
                continue;
            }
            if live.has_any(table) {
                // The server has one watch for both, which ends with the live one.
                left.remove(kind);
            } else if !in_flight.has_any(table) {
                left.remove(kind);
                self.send_removal(path, kind, now);
            }
        }
        if left.is_none() {
            self.stale.remove(path);
        } else if left != stale {
            self.stale.insert(path.to_owned(), left);
        }
    }

    fn send_removal(&mut self, path: &str, kind: WatchKind, now: Instant) {
        let request = rewatch::removal(path, kind);
        let call = Call::new(request.op_code());
        self.transmit(Submission::new(request, call), now);
    }

    /// The watches that requests in flight may add at a path.
    fn kinds_in_flight(&self, path: &str) -> WatchModes {
        let watches = self.sent.iter().filter_map(|sent| sent.watch.as_ref());
        watches.filter(|watch| *watch.path == *path).map(|watch| watch.kind).collect()
    }

    /// The persistent watches that the server has at a path, as of its last reply.
    fn persistent_at(&self, path: &str) -> WatchModes {
        let stale = self.stale.get(path).copied().unwrap_or_default();
        (self.watches.kinds(path) | stale) & WatchModes::PERSISTENT
    }

    /// The persistent watches that the server will have at a path when it handles the next request,
    /// unless it refuses an `addWatch`.
    fn persistent_before_next(&self, path: &str) -> WatchModes {
        match self.persistent_in_flight {
            0 => self.persistent_at(path),
            _ => self.persistent_at(path) | (self.kinds_in_flight(path) & WatchModes::PERSISTENT),
        }
    }

    /// What to send in place of a request that would replace a persistent watch of its path, if
    /// anything, and whether that watch serves its watcher too.
    pub(super) fn keeping_persistent(
        &self,
        request: &Request,
        watch: Option<&WatchRegistration>,
    ) -> (Option<Box<Request>>, bool) {
        match (request, watch) {
            (Request::Watch(Watch::Lookup(lookup)), Some(watch))
                if self.persistent_before_next(&watch.path).covers(watch.kind) =>
            {
                (Some(Box::new(Request::Read(Read::Lookup(lookup.clone())))), true)
            }
            (Request::Watch(Watch::Set(lists)), _) => {
                (Some(Box::new(Request::Watch(self.with_persistent(lists.clone())))), false)
            }
            _ => (None, false),
        }
    }

    /// Adds the persistent watches of the same paths to the request, because servers before 3.9
    /// would replace them.
    fn with_persistent(&self, mut lists: SetWatches) -> Watch {
        let paths = lists.data.iter().chain(lists.exist.iter()).chain(lists.child.iter());
        let persistent: Vec<_> = paths
            .map(|path| (path, self.persistent_before_next(path)))
            .filter(|(_, kinds)| !kinds.is_none())
            .collect();
        if persistent.is_empty() {
            return Watch::Set(lists);
        }
        let of = |kind: WatchKind| {
            persistent
                .iter()
                .filter(move |(_, kinds)| kinds.has_any(kind.into()))
                .map(|(path, _)| *path)
        };
        let (plain, recursive) =
            (of(WatchKind::Persistent).collect(), of(WatchKind::Recursive).collect());
        lists.persistent = plain;
        lists.persistent_recursive = recursive;
        Watch::Set2(lists)
    }

    /// Handles the reply to a request that may have added a watch. Returns false if the request was
    /// sent again instead, because the persistent watch that was to serve it does not exist.
    pub(super) fn handle_watched(&mut self, sent: &Sent, err: ErrorCode, now: Instant) -> bool {
        let Some(watch) = &sent.watch else { return true };
        let op = sent.call.op;
        if op == OpCode::ADD_WATCH {
            self.persistent_in_flight -= 1;
        }
        // A read adds a watch if the znode exists, and `exists` in any case.
        let kind = match (err, op) {
            (ErrorCode::OK, _) => Some(watch.kind),
            (ErrorCode::NO_NODE, OpCode::EXISTS) => Some(WatchKind::Exist),
            _ => None,
        };
        if let Some(kind) = kind {
            // While the client closes nothing can be sent again: the watcher is told of the close.
            let is_missing = sent.is_covered
                && self.phase == Phase::Connected
                && !self.persistent_at(&watch.path).covers(kind);
            if is_missing && !watch.queue.is_abandoned() {
                self.repeat_read(sent, watch, now);
                return false;
            }
            if !is_missing {
                self.watches.add(Arc::clone(&watch.path), kind, Arc::clone(&watch.queue));
            }
            if watch.queue.is_abandoned() && self.watches.remove(&watch.path, kind, &watch.queue) {
                self.mark_stale(&watch.path, kind, now);
            }
        }
        self.remove_stale(&watch.path, now);
        true
    }

    fn repeat_read(&mut self, sent: &Sent, watch: &WatchRegistration, now: Instant) {
        let path = (&*watch.path).into();
        let lookup = match sent.call.op {
            OpCode::EXISTS => Lookup::Exists(path),
            OpCode::GET_DATA => Lookup::GetData(path),
            OpCode::GET_CHILDREN => Lookup::GetChildren(path),
            OpCode::GET_CHILDREN2 => Lookup::GetChildren2(path),
            op => panic!("{op} leaves no one-shot watch"),
        };
        let request = Request::Watch(Watch::Lookup(lookup));
        let submission = Submission::new(request, Arc::clone(&sent.call));
        self.transmit(Submission { watch: Some(watch.clone()), ..submission }, now);
    }
}
