//! What a test observes of its server.

use zoolet_protocol::SessionId;

use super::TestServer;
use crate::observe::{PathStats, Recorder, SessionStats, Stats, WatchGraph};

/// What a test observes, counted from the first start on, across restarts.
impl TestServer {
    /// What was counted for a session, even after its end. Subtract two results to get what passed
    /// in between.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = zoolet_testkit::TestServer::start().await?;
    /// let client = server.connect().await?;
    /// let before = server.session_stats(client.session_id());
    /// client.create("/a").await?;
    /// let cost = server.session_stats(client.session_id()) - before;
    /// assert_eq!((cost.requests.total(), cost.events), (1, 0));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn session_stats(&self, session: SessionId) -> SessionStats {
        self.observer().session_stats(session)
    }

    /// What was counted for exactly this path.
    #[must_use]
    pub fn path_stats(&self, path: &str) -> PathStats {
        self.observer().path_stats(path)
    }

    /// The sum over a path and all paths below it.
    #[must_use]
    pub fn subtree_stats(&self, path: &str) -> PathStats {
        self.observer().subtree_stats(path)
    }

    /// The sum over all sessions, ended ones included.
    #[must_use]
    pub fn totals(&self) -> SessionStats {
        self.observer().totals()
    }

    /// Everything that was counted up to now, and the watches that are set.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.observer().stats()
    }

    /// Who watches what, and which session owns each ephemeral znode.
    #[must_use]
    pub fn watch_graph(&self) -> WatchGraph {
        self.observer().watch_graph()
    }

    /// Records from now on what passes between the server and its clients, as a golden script: the
    /// requests of named clients, and what each client received. If the recording begins before the
    /// first client connects, the script repeats the run on any server.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = zoolet_testkit::TestServer::start().await?;
    /// let recorder = server.record();
    /// let client = server.connect().await?;
    /// client.set("/a", "x").await.unwrap_err();
    /// let script = recorder.script();
    /// assert!(script.contains("\na: > setData /a x\n"));
    /// assert!(script.contains("\na: z+2 error NoNode\n"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn record(&self) -> Recorder {
        self.observer().record()
    }

    /// Waits until `holds` accepts the numbers, and returns them. It does not poll: it looks again
    /// whenever something has changed. It waits forever if `holds` never accepts.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = zoolet_testkit::TestServer::start().await?;
    /// # let client = server.connect().await?;
    /// let _watched = client.exists("/a").and_watch().await?;
    /// server.wait_until(|stats| stats.path("/a").watches == 1).await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn wait_until(&self, holds: impl FnMut(&Stats) -> bool) -> Stats {
        self.observer().wait_until(holds).await
    }
}
