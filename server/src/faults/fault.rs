//! A fault that was set.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use super::Faults;

/// A fault that was set. It stays when this is dropped; [`Fault::lift`] ends it.
///
/// ```
/// use zoolet_server::Server;
/// use zoolet_server::faults::{Faults, RequestFilter, Scope};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let faults = Faults::default();
/// let server = Server::builder().faults(&faults).start().await?;
/// let fault = faults.at(Scope::Server).drop_requests(RequestFilter::next(2))?;
/// assert_eq!(fault.hits(), 0, "nobody has asked for anything");
/// fault.lift();
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Fault {
    faults: Faults,
    id: u64,
    hits: Arc<Hits>,
}

/// How often a fault has hit.
#[derive(Debug, Default)]
pub(super) struct Hits {
    count: AtomicU64,
    changed: Notify,
}

impl Hits {
    pub(super) fn count(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_waiters();
    }
}

impl Fault {
    pub(super) fn new(faults: Faults, id: u64, hits: Arc<Hits>) -> Self {
        Self { faults, id, hits }
    }

    /// How often it has hit: the requests, messages or connections that it was about. What waits in a
    /// socket for a server that is frozen is not counted.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.hits.count.load(Ordering::SeqCst)
    }

    /// Waits until it has hit so often in all.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn has_hit(&self, times: u64) {
        loop {
            let changed = self.hits.changed.notified();
            if self.hits() >= times {
                return;
            }
            changed.await;
        }
    }

    /// Ends it. What it held goes on its way before this returns, in its order.
    pub fn lift(&self) {
        self.faults.lift(|rule| rule.id == self.id);
    }
}
