//! What a test wants to know of a server: who asked what, who watches what, and the exact trace of a
//! run. With the feature `testing`.
//!
//! [`Server::observe`](crate::Server::observe) switches it on; before that each request costs one
//! branch more. Counting is done where frames come in and where messages enter the outboxes, under
//! the engine's lock where a message is produced there, so that what is read is what happened.
//!
//! ```
//! use zoolet_protocol::{ConnectRequest, Dial, Encode, OpCode, Request, Session, Xid};
//! use zoolet_server::Server;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::builder().start().await?;
//! let observer = server.observe();
//! let connection = server.dialer().dial().await?;
//! let mut hello = bytes::BytesMut::new();
//! ConnectRequest::new(30_000).encode(&mut hello);
//! connection.send(hello.freeze())?;
//!
//! let before = observer.totals();
//! let who_am_i = Request::Session(Session::WhoAmI);
//! connection.send(zoolet_protocol::encode_request(Xid(1), &who_am_i))?;
//! let between = observer.totals() - before;
//! assert_eq!(between.requests.to_string(), "1 whoAmI");
//! assert_eq!(between.replies, 1);
//! # Ok(())
//! # }
//! ```

mod command;
mod graph;
mod paths;
mod recorder;
mod script;
mod stats;
mod trace;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use hashbrown::HashMap;
use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;
use zoolet_core::{ConnectionId, Core};
use zoolet_protocol::limits::REQUEST_HEADER_BYTES;
use zoolet_protocol::{
    ConnectRequest, Incoming, Request, RequestHeader, SessionId, Zxid, decode_incoming,
    decode_request,
};

pub use self::graph::{Place, WatchGraph, WatchedPath, Watcher};
pub use self::recorder::Recorder;
use self::recorder::{Asked, Entry, Log, Meddling};
pub use self::stats::{PathStats, Requests, SessionStats, Stats};
pub use self::trace::{Trace, hex};
use crate::engine::lock::Engine;
use crate::engine::outbox::Message;
use crate::engine::registry::Peer;

/// The bytes of the length before a frame.
const PREFIX_BYTES: u64 = 4;

/// What the server tells its observers.
#[derive(Debug, Default)]
pub(crate) struct Observations {
    counted: Mutex<Counted>,
    changed: Notify,
    /// How often something may have changed, for those who wait on a thread.
    changes: Mutex<u64>,
    changed_for_threads: Condvar,
    /// The server that is observed, if it runs.
    engine: Mutex<Weak<Engine>>,
}

#[derive(Debug, Default)]
struct Counted {
    sessions: BTreeMap<SessionId, SessionStats>,
    paths: BTreeMap<String, PathStats>,
    /// The bytes that came before a connection had its session.
    early_bytes: HashMap<ConnectionId, u64>,
    log: Log,
}

impl Counted {
    fn session(&mut self, session: SessionId) -> &mut SessionStats {
        self.sessions.entry(session).or_default()
    }

    fn path(&mut self, path: &str) -> &mut PathStats {
        if !self.paths.contains_key(path) {
            self.paths.insert(path.to_owned(), PathStats::default());
        }
        self.paths.get_mut(path).expect("it was just inserted")
    }
}

/// Servers that nobody observes pay one branch for each call, so the calls themselves are kept apart.
impl Observations {
    /// The server that is observed from now on.
    pub(crate) fn attach(&self, engine: &Arc<Engine>) {
        *self.engine.lock() = Arc::downgrade(engine);
        let mut counted = self.counted.lock();
        counted.early_bytes.clear();
        counted.log.note(&Entry::Restarted);
        drop(counted);
        self.changed();
    }

    fn engine(&self) -> Option<Arc<Engine>> {
        self.engine.lock().upgrade()
    }

    /// A frame came in.
    #[cold]
    pub(crate) fn frame_received(&self, peer: &Peer, frame: &Bytes) {
        let bytes = PREFIX_BYTES + frame.len() as u64;
        let mut counted = self.counted.lock();
        match peer.stats.session() {
            SessionId::NONE => *counted.early_bytes.entry(peer.id).or_default() += bytes,
            session => counted.session(session).bytes_received += bytes,
        }
    }

    /// A frame is a handshake.
    #[cold]
    pub(crate) fn connects(&self, peer: &Peer, request: &ConnectRequest) {
        let log = &mut self.counted.lock().log;
        if log.is_on() {
            log.connects(peer.id, request);
        }
    }

    /// A frame is a request, which may have a body that cannot be read.
    #[cold]
    pub(crate) fn asked(
        &self,
        peer: &Peer,
        frame: &Bytes,
        header: RequestHeader,
        request: Option<&Request>,
    ) {
        let mut counted = self.counted.lock();
        if counted.log.is_on() {
            let body = frame.slice(REQUEST_HEADER_BYTES..);
            let request = request.cloned();
            counted.log.asked(peer.id, Asked { header, request, body, meddling: None });
        }
        counted.session(peer.stats.session()).requests.add(header.op);
        if let Some(request) = request {
            paths::each(request, |op, path| counted.path(path).requests.add(op));
        }
    }

    /// A fault refuses what was just asked.
    pub(crate) fn refuses(&self, peer: &Peer) {
        self.counted.lock().log.meddle(peer.id, Meddling::Refused);
    }

    /// A fault has lost a frame before it arrived.
    pub(crate) fn lost(&self, peer: &Peer, frame: &Bytes) {
        let log = &mut self.counted.lock().log;
        if log.is_on()
            && let Ok((header, request)) = decode_request(frame)
        {
            let body = frame.slice(REQUEST_HEADER_BYTES..);
            let meddling = Some(Meddling::Lost);
            let asked = Asked { header, request: request.ok(), body, meddling };
            log.note(&Entry::Unanswered { connection: peer.id, asked });
        }
    }

    /// A frame has been handled, which was a handshake or a request, or neither.
    #[cold]
    pub(crate) fn handled(&self, peer: &Peer, frame: &Bytes, was_either: bool) {
        let log = &mut self.counted.lock().log;
        log.handled(peer.id);
        if !was_either {
            log.note(&Entry::Odd { frame: frame.clone() });
        }
    }

    /// A message enters the outbox of a connection.
    #[cold]
    pub(crate) fn told(&self, peer: &Peer, message: &Message) {
        let mut counted = self.counted.lock();
        let is_lost = matches!(message, Message::Reply(..)) && peer.outbox.gate().loses_reply();
        if is_lost {
            counted.log.meddle(peer.id, Meddling::AnswerLost);
        }
        counted.log.told(peer.id, message);
        if is_lost {
            return;
        }
        let session = peer.stats.session();
        let early_bytes = match message {
            Message::Connected(_) => counted.early_bytes.remove(&peer.id).unwrap_or(0),
            _ => 0,
        };
        let stats = counted.session(session);
        stats.bytes_received += early_bytes;
        stats.bytes_sent += PREFIX_BYTES + message.len() as u64;
        match message {
            Message::Connected(_) => stats.connections += 1,
            Message::Reply(header, _) => {
                stats.replies += 1;
                stats.refusals += u64::from(!header.err.is_ok());
            }
            Message::Event(frame) => {
                stats.events += 1;
                if let Ok(Incoming::Event { event, .. }) = decode_incoming(frame)
                    && let Some(path) = event.path.text()
                {
                    counted.path(path).events += 1;
                }
            }
        }
    }

    /// A message would have entered the outbox of a connection that is cut.
    #[cold]
    pub(crate) fn told_nobody(&self, peer: &Peer, message: &Message) {
        let log = &mut self.counted.lock().log;
        if matches!(message, Message::Reply(..)) {
            log.meddle(peer.id, Meddling::AnswerLost);
            log.told(peer.id, message);
        }
        // From here on nothing is heard there, though the connection may take a while to go.
        log.note(&Entry::Gone { connection: peer.id });
    }

    /// A connection is gone.
    pub(crate) fn gone(&self, peer: &Peer) {
        let mut counted = self.counted.lock();
        counted.early_bytes.remove(&peer.id);
        counted.log.gone(peer.id);
    }

    /// A session was ended for its silence, under this zxid; its events have been given out.
    pub(crate) fn expired(&self, session: SessionId, zxid: Zxid) {
        self.counted.lock().log.note(&Entry::Expired { session, zxid });
    }

    /// A container or TTL znode went, under this zxid; its events have been given out.
    pub(crate) fn swept(&self, zxid: Zxid) {
        self.counted.lock().log.note(&Entry::Swept { zxid });
    }

    /// Something may have changed. Called when no lock is held, since whoever waits may look at once.
    #[cold]
    pub(crate) fn changed(&self) {
        *self.changes.lock() += 1;
        self.changed_for_threads.notify_all();
        self.changed.notify_waiters();
    }
}

/// Looks at what happens in a server. Clones look at the same one, and do not keep it alive. Given to
/// [`Builder::observer`](crate::Builder::observer), it goes on counting when the server is started again.
///
/// ```
/// use zoolet_server::Server;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::builder().start().await?;
/// let observer = server.observe();
/// let nobody_watches = observer.wait_until(|stats| stats.totals().watches == 0).await;
/// assert_eq!(nobody_watches.totals().connections, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Observer(pub(crate) Arc<Observations>);

impl Observer {
    /// All that was counted up to now, and the watches that are held.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let copy = || {
            let counted = self.0.counted.lock();
            Stats { sessions: counted.sessions.clone(), paths: counted.paths.clone() }
        };
        let Some(engine) = self.0.engine() else { return copy() };
        engine.look(|core| {
            let mut stats = copy();
            count_watches(&engine, core, &mut stats);
            stats
        })
    }

    /// What was counted for a session, also when it has ended.
    #[must_use]
    pub fn session_stats(&self, session: SessionId) -> SessionStats {
        self.stats().session(session)
    }

    /// What was counted for exactly this path.
    #[must_use]
    pub fn path_stats(&self, path: &str) -> PathStats {
        self.stats().path(path)
    }

    /// The sum over a path and all paths below it.
    #[must_use]
    pub fn subtree_stats(&self, path: &str) -> PathStats {
        self.stats().subtree(path)
    }

    /// The sum over all sessions, those that have ended included.
    #[must_use]
    pub fn totals(&self) -> SessionStats {
        self.stats().totals()
    }

    /// Who watches what, and which session each ephemeral belongs to.
    #[must_use]
    pub fn watch_graph(&self) -> WatchGraph {
        let engine = self.0.engine();
        engine.map_or_else(WatchGraph::default, |engine| WatchGraph::of(&engine))
    }

    /// Records from now on what passes, to be had as a golden script.
    pub fn record(&self) -> Recorder {
        let begin = |base, sessions| self.0.counted.lock().log.begin(base, sessions);
        match self.0.engine() {
            Some(engine) => engine.look(|core| {
                let sessions = core.sessions().into_iter().map(|(session, _)| session);
                begin(core.last_zxid(), sessions.collect())
            }),
            None => begin(Zxid::ZERO, BTreeSet::new()),
        }
    }

    /// Waits until something holds, and returns the numbers for which it did. Nothing is polled: it
    /// looks again whenever something has changed. For ever, if it never holds.
    ///
    /// # Cancellation
    ///
    /// Safe: it leaves nothing behind.
    pub async fn wait_until(&self, mut holds: impl FnMut(&Stats) -> bool) -> Stats {
        loop {
            let changed = self.0.changed.notified();
            tokio::pin!(changed);
            // What changes from here on is heard of.
            changed.as_mut().enable();
            let stats = self.stats();
            if holds(&stats) {
                return stats;
            }
            changed.await;
        }
    }

    /// As [`Observer::wait_until`], on the thread that calls it, and for no longer than `within`:
    /// returns nothing if it does not hold by then.
    #[must_use]
    pub fn blocking_wait_until(
        &self,
        within: Duration,
        mut holds: impl FnMut(&Stats) -> bool,
    ) -> Option<Stats> {
        let engine = self.0.engine();
        let now = || engine.as_ref().map_or(Duration::MAX, |engine| engine.clock.since_start());
        let until = engine.as_ref().map_or(Duration::ZERO, |_| now().saturating_add(within));
        loop {
            let seen = *self.0.changes.lock();
            let stats = self.stats();
            if holds(&stats) {
                return Some(stats);
            }
            let mut changes = self.0.changes.lock();
            while *changes == seen {
                let left = until.checked_sub(now()).filter(|left| !left.is_zero())?;
                self.0.changed_for_threads.wait_for(&mut changes, left);
            }
        }
    }
}

/// Adds the watches that are held.
fn count_watches(engine: &Engine, core: &Core, stats: &mut Stats) {
    for (path, watchers) in core.watchers() {
        for (connection, kinds) in watchers {
            let Some(peer) = engine.registry.peer(connection) else { continue };
            let count = i64::try_from(kinds.count()).expect("there are two tables");
            stats.sessions.entry(peer.stats.session()).or_default().watches += count;
            stats.paths.entry(path.to_string()).or_default().watches += count;
        }
    }
}
