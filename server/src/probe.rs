//! Asks a running server for a sign of life.

use std::sync::{Arc, Weak};

use tokio::sync::oneshot;
use zoolet_core::Totals;

use crate::engine::lock::Engine;

/// Tells whether a server still carries out requests, for the watchdog of a service manager. It does
/// not keep the server running.
///
/// ```
/// use zoolet_server::Server;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::builder().start().await?;
/// let probe = server.probe();
/// assert_eq!(probe.answer().await, Some(server.totals()));
/// server.shutdown().await;
/// assert_eq!(probe.answer().await, None);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Probe {
    engine: Weak<Engine>,
}

impl Probe {
    pub(crate) fn new(engine: &Arc<Engine>) -> Self {
        Self { engine: Arc::downgrade(engine) }
    }

    /// Waits until the server could carry out a write, and returns its totals; `None` once the
    /// server is shut down. It waits without end while the server hangs, so give it a time limit.
    ///
    /// It takes the lock that each write takes. Each call starts a thread, because a hanging lock
    /// would keep a worker of the runtime.
    ///
    /// # Cancellation
    ///
    /// Safe. The thread ends when it has the lock.
    pub async fn answer(&self) -> Option<Totals> {
        self.engine.upgrade()?.thawed().await;
        let engine = self.engine.upgrade().filter(|engine| !engine.is_shut_down())?;
        let (sender, receiver) = oneshot::channel();
        let take = move || {
            // Nobody may wait for the answer any more.
            let _ = sender.send(engine.totals_between_writes());
        };
        match std::thread::Builder::new().name("zoolet-probe".to_owned()).spawn(take) {
            Ok(_detached) => receiver.await.ok(),
            Err(error) => {
                tracing::warn!("the server cannot be probed, for want of a thread: {error}");
                std::future::pending().await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::server::Server;

    #[tokio::test]
    async fn a_server_that_hangs_does_not_answer() {
        let server = Server::builder().start().await.unwrap();
        let probe = server.probe();
        assert!(probe.answer().await.is_some());
        let (release, released) = std::sync::mpsc::channel::<()>();
        let (took, taken) = oneshot::channel();
        let engine = Arc::clone(server.engine());
        // A reader that never lets go: writes hang, though other reads may get through.
        let stuck = std::thread::spawn(move || {
            engine.inspect(|_| {
                took.send(()).unwrap();
                let _ = released.recv();
            });
        });
        taken.await.unwrap();
        let limit = Duration::from_millis(100);
        assert!(tokio::time::timeout(limit, probe.answer()).await.is_err());
        drop(release);
        stuck.join().unwrap();
        assert!(probe.answer().await.is_some());
        drop(server);
        assert_eq!(probe.answer().await, None);
    }
}
