//! Which watches of a path share a registration on the server, and when one may be taken back.
//!
//! A server keeps the watches of a connection and a path in two tables, for data and for children,
//! and `removeWatches` says a table, not a watcher. Two things follow:
//!
//! - **Removal.** A registration is taken back only when no watcher of this client needs its table
//!   at the path, and no request under way may leave one there: the removal would reach the server
//!   behind it. Until then the path is noted as stale, and looked at again after each answer and
//!   event that concerns it.
//! - **Registration.** Servers before 3.9 keep one mode a table: a one-shot watch replaces a lasting
//!   one, and `removeWatches` takes either. So while a lasting watch of the path covers what a
//!   one-shot watch hears of, the look is sent without its flag, and the lasting watch tells both.

use std::sync::Arc;

use zoolet_protocol::{ErrorCode, Lookup, OpCode, Read, Request, SetWatches, Watch};

use super::{Call, Cell, Instant, Kind, Phase, Registration, Sent, Session, Submission, rewatch};
use crate::watches::Kinds;

impl Session {
    /// Forgets a watcher. What the server still has of it is taken back, if nobody else needs it.
    pub(crate) fn unwatch(&mut self, path: &str, kind: Kind, cell: &Arc<Cell>, now: Instant) {
        // A watch that is on its way to the server is taken back when the answer tells that it
        // is there.
        cell.abandon();
        if self.watches.remove(path, kind, cell) {
            self.take_back(path, kind, now);
        }
    }

    /// Notes that nobody waits for a kind of watch any more that the server has.
    fn take_back(&mut self, path: &str, kind: Kind, now: Instant) {
        // The next connection registers those watches only that somebody waits for.
        if self.phase == Phase::Up {
            self.stale.entry(path.to_owned()).or_default().add(kind);
            self.take_back_stale(path, now);
        }
    }

    /// Takes back what is stale at a path and needed by nobody.
    pub(super) fn take_back_stale(&mut self, path: &str, now: Instant) {
        let Some(&stale) = self.stale.get(path) else { return };
        let live = self.watches.kinds(path);
        let coming = self.kinds_under_way(path);
        if stale.has_any(Kinds::LASTING) {
            // Servers before 3.9 know no removal of these alone, so everything goes with them.
            if live.is_none() && coming.is_none() {
                self.stale.remove(path);
                self.send_removal(path, Kind::Persistent, now);
            }
            return;
        }
        let mut left = stale;
        for kind in [Kind::Data, Kind::Child] {
            let table = Kinds::in_table_of(kind);
            if !stale.has_any(kind.into()) {
                continue;
            }
            if live.has_any(table) {
                // The server has one registration for both, whose end is that of the live one.
                left.remove(kind);
            } else if !coming.has_any(table) {
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

    fn send_removal(&mut self, path: &str, kind: Kind, now: Instant) {
        let request = rewatch::removal(path, kind);
        let call = Call::new(request.op_code());
        self.transmit(Submission::new(request, call), now);
    }

    /// The kinds of watches at a path that requests which were sent may leave.
    fn kinds_under_way(&self, path: &str) -> Kinds {
        let watches = self.sent.iter().filter_map(|sent| sent.watch.as_ref());
        watches.filter(|watch| watch.path == path).map(|watch| watch.kind).collect()
    }

    /// The lasting watches at a path that the server has by all that it has answered.
    fn lasting_at(&self, path: &str) -> Kinds {
        let stale = self.stale.get(path).copied().unwrap_or_default();
        (self.watches.kinds(path) | stale) & Kinds::LASTING
    }

    /// The lasting watches at a path that the server has when it comes to the next request, unless it
    /// refuses them.
    fn lasting_before_next(&self, path: &str) -> Kinds {
        match self.lasting_under_way {
            0 => self.lasting_at(path),
            _ => self.lasting_at(path) | (self.kinds_under_way(path) & Kinds::LASTING),
        }
    }

    /// The request in the form in which it harms no lasting watch of its path, and whether it
    /// leaves its own watch to that one.
    pub(super) fn beside_lasting(
        &self,
        request: Request,
        watch: Option<&Registration>,
    ) -> (Request, bool) {
        match (request, watch) {
            (Request::Watch(Watch::Lookup(lookup)), Some(watch))
                if self.lasting_before_next(&watch.path).covers(watch.kind) =>
            {
                (Request::Read(Read::Lookup(lookup)), true)
            }
            (Request::Watch(Watch::Set(lists)), _) => {
                (Request::Watch(self.with_lasting(lists)), false)
            }
            (request, _) => (request, false),
        }
    }

    /// Registers the lasting watches of the same paths anew in the same request, which servers
    /// before 3.9 would else replace.
    fn with_lasting(&self, mut lists: SetWatches) -> Watch {
        let paths = lists.data.iter().chain(lists.exist.iter()).chain(lists.child.iter());
        let lasting: Vec<_> = paths
            .map(|path| (path, self.lasting_before_next(path)))
            .filter(|(_, kinds)| !kinds.is_none())
            .collect();
        if lasting.is_empty() {
            return Watch::Set(lists);
        }
        let of = |kind: Kind| {
            lasting
                .iter()
                .filter(move |(_, kinds)| kinds.has_any(kind.into()))
                .map(|(path, _)| *path)
        };
        let (persistent, recursive) =
            (of(Kind::Persistent).collect(), of(Kind::Recursive).collect());
        lists.persistent = persistent;
        lists.persistent_recursive = recursive;
        Watch::Set2(lists)
    }

    /// A request that may leave a watch was answered. Tells whether that is the answer; else the
    /// request was made again, because the lasting watch that was to tell of it is not there.
    pub(super) fn handle_watched(&mut self, sent: &Sent, err: ErrorCode, now: Instant) -> bool {
        let Some(watch) = &sent.watch else { return true };
        let op = sent.call.op;
        if op == OpCode::ADD_WATCH {
            self.lasting_under_way -= 1;
        }
        // There is a watch where there was a znode, and by `exists` also where there was none.
        let kind = match (err, op) {
            (ErrorCode::OK, _) => Some(watch.kind),
            (ErrorCode::NO_NODE, OpCode::EXISTS) => Some(Kind::Exist),
            _ => None,
        };
        if let Some(kind) = kind {
            let is_missing = sent.is_covered && !self.lasting_at(&watch.path).covers(kind);
            if is_missing && !watch.cell.is_abandoned() {
                self.look_again(sent, watch, now);
                return false;
            }
            if !is_missing {
                self.watches.add(watch.path.clone(), kind, Arc::clone(&watch.cell));
            }
            if watch.cell.is_abandoned() && self.watches.remove(&watch.path, kind, &watch.cell) {
                self.take_back(&watch.path, kind, now);
            }
        }
        self.take_back_stale(&watch.path, now);
        true
    }

    fn look_again(&mut self, sent: &Sent, watch: &Registration, now: Instant) {
        let path = watch.path.as_str().into();
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
