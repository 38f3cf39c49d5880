//! The queries of a test about a server.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zoolet_core::Core;
use zoolet_protocol::{SessionId, Zxid};
use zoolet_server::hooks::HookedServer;

use super::graph::WatchGraph;
use super::observations::Observations;
use super::recorder::Recorder;
use super::stats::{PathStats, SessionStats, Stats};

/// Observes a server: it counts requests, events, bytes and watches by session and by path, shows
/// who watches what, and records runs. Clones observe the same server, and do not keep it alive. It
/// goes on counting when a server is started again with the same observer.
///
/// Frames are counted where they come in, and messages where they enter an outbox, under the lock
/// of the engine where it produces them.
///
/// ```
/// use zoolet_testkit::TestServer;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = TestServer::start().await?;
/// let observer = server.observer();
/// let stats = observer.wait_until(|stats| stats.totals().watches == 0).await;
/// assert_eq!(stats.totals().connections, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Observer(pub(crate) Arc<Observations>);

impl Observer {
    /// Everything that was counted up to now, and the watches that are set.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let Some(server) = self.0.server() else { return self.0.counts() };
        inspect(&*server, |core| {
            let mut stats = self.0.counts();
            count_watches(&*server, core, &mut stats);
            stats
        })
    }

    /// What was counted for a session, even after its end.
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

    /// The sum over all sessions, ended ones included.
    #[must_use]
    pub fn totals(&self) -> SessionStats {
        self.stats().totals()
    }

    /// Who watches what, and which session owns each ephemeral znode.
    #[must_use]
    pub fn watch_graph(&self) -> WatchGraph {
        let Some(server) = self.0.server() else { return WatchGraph::default() };
        inspect(&*server, |core| WatchGraph::of(core, |connection| server.session_of(connection)))
    }

    /// Records from now on what passes between the server and its clients, as a golden script.
    pub fn record(&self) -> Recorder {
        let Some(server) = self.0.server() else {
            return Recorder::new(self.0.begin_recording(Zxid::ZERO, BTreeSet::new()));
        };
        inspect(&*server, |core| {
            let sessions = core.sessions().into_iter().map(|(session, _)| session);
            Recorder::new(self.0.begin_recording(core.last_zxid(), sessions.collect()))
        })
    }

    /// Waits until `holds` accepts the numbers, and returns them. It does not poll: it looks again
    /// whenever something has changed. It waits forever if `holds` never accepts.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn wait_until(&self, mut holds: impl FnMut(&Stats) -> bool) -> Stats {
        loop {
            let changed = self.0.when_changed().notified();
            tokio::pin!(changed);
            // Changes from here on are not missed.
            changed.as_mut().enable();
            let stats = self.stats();
            if holds(&stats) {
                return stats;
            }
            changed.await;
        }
    }

    /// Blocks the calling thread like [`Observer::wait_until`], but for no longer than `within`.
    /// Returns `None` if `holds` does not accept by then.
    #[must_use]
    pub fn blocking_wait_until(
        &self,
        within: Duration,
        mut holds: impl FnMut(&Stats) -> bool,
    ) -> Option<Stats> {
        let server = self.0.server();
        let now = || server.as_ref().map_or(Duration::MAX, |server| server.since_start());
        let end = server.as_ref().map_or(Duration::ZERO, |_| now().saturating_add(within));
        loop {
            let seen = self.0.changes();
            let stats = self.stats();
            if holds(&stats) {
                return Some(stats);
            }
            if !self.0.block_until_changed(seen, || end.saturating_sub(now())) {
                return None;
            }
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").finish_non_exhaustive()
    }
}

/// Reads the state of a server under its lock.
fn inspect<T>(server: &dyn HookedServer, read: impl FnOnce(&Core) -> T) -> T {
    let mut read = Some(read);
    let mut result = None;
    server.inspect(&mut |core| result = read.take().map(|read| read(core)));
    result.expect("a server calls it once")
}

/// Adds the watches that are set.
fn count_watches(server: &dyn HookedServer, core: &Core, stats: &mut Stats) {
    for (path, watchers) in core.watchers() {
        for (connection, kinds) in watchers {
            let Some(session) = server.session_of(connection) else { continue };
            let count = i64::try_from(kinds.count()).expect("there are two tables");
            stats.sessions.entry(session).or_default().watches += count;
            stats.paths.entry(path.to_string()).or_default().watches += count;
        }
    }
}
