//! Makes connections to a server for tests, across its restarts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use zoolet_protocol::{Dial, Dialing};
use zoolet_server::Dialer;

/// Makes connections to a [`TestServer`](super::TestServer) in the same process, also after a
/// restart; while the server is stopped connections are refused. Clones reach the same server.
///
/// It does not keep the server alive. When the last handle of the server is dropped, the clients
/// that use this dialer close.
///
/// ```
/// use zoolet_client::Client;
/// use zoolet_testkit::TestServer;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = TestServer::start().await?;
/// let client = Client::connect(server.dialer()).await?;
/// server.restart().await?;
/// client.create("/a").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct TestDialer {
    /// Reaches the server that was started last.
    latest: Arc<Mutex<Dialer>>,
    /// Whether the last handle of the server was dropped, so that it is never restarted.
    is_over: Arc<AtomicBool>,
}

impl TestDialer {
    pub(super) fn new(latest: Dialer) -> Self {
        Self { latest: Arc::new(Mutex::new(latest)), is_over: Arc::default() }
    }

    pub(super) fn follow(&self, latest: Dialer) {
        *self.latest.lock() = latest;
    }

    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }
}

impl Dial for TestDialer {
    fn dial(&self) -> Dialing {
        self.latest.lock().dial()
    }

    fn is_gone(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}
