//! What makes connections to a server for tests, whichever time it was started.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use zoolet_protocol::{Dial, Dialing};
use zoolet_server::Dialer;

/// Makes connections to a [`TestServer`](super::TestServer) in the same process. Clones reach the same
/// server, also after a restart; while it is down connections are refused. When its last clone is
/// dropped its clients close.
///
/// It does not keep the server alive.
///
/// ```
/// use zoolet::Client;
/// use zoolet::testing::TestServer;
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
    /// To the server that was started last.
    latest: Arc<Mutex<Dialer>>,
    /// Whether the last clone of the server was dropped: it is not restarted any more.
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
