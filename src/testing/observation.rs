//! What is seen of a server for tests.

use zoolet_protocol::SessionId;

use super::{PathStats, Recorder, SessionStats, Stats, TestServer, WatchGraph};

/// What is seen, counted from the first start on, restarts included.
impl TestServer {
    /// What was counted for a session, also when it has ended: subtract two looks from each other.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = zoolet::testing::TestServer::start().await?;
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

    /// The sum over all sessions, those that have ended included.
    #[must_use]
    pub fn totals(&self) -> SessionStats {
        self.observer().totals()
    }

    /// All that was counted up to now, and the watches that are held.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.observer().stats()
    }

    /// Who watches what, and which session each ephemeral belongs to: to be printed, or drawn.
    #[must_use]
    pub fn watch_graph(&self) -> WatchGraph {
        self.observer().watch_graph()
    }

    /// Records from now on what passes, to be had as a golden script: commands of named clients, and what
    /// each of them received. Begun before the first client connects, the script repeats the run on any
    /// server; put into `conformance/scripts`, it does so in the tests.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = zoolet::testing::TestServer::start().await?;
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

    /// Waits until something holds, and returns the numbers for which it did. Nothing is polled: it
    /// looks again whenever something has changed. For ever, if it never holds.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = zoolet::testing::TestServer::start().await?;
    /// # let client = server.connect().await?;
    /// let _watched = client.exists("/a").and_watch().await?;
    /// server.wait_until(|stats| stats.path("/a").watches == 1).await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancellation
    ///
    /// Safe: it leaves nothing behind.
    pub async fn wait_until(&self, holds: impl FnMut(&Stats) -> bool) -> Stats {
        self.observer().wait_until(holds).await
    }
}
