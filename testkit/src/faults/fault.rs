//! A fault that was set.

use std::fmt;
use std::sync::Arc;

use super::control::Control;
use super::hits::Hits;

/// A fault that was set. It stays when this value is dropped; [`Fault::lift`] ends it.
///
/// ```
/// use zoolet_testkit::{RequestFilter, TestServer};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = TestServer::start().await?;
/// let fault = server.everyone().drop_requests(RequestFilter::next(2))?;
/// assert_eq!(fault.hits(), 0, "no client has sent a request");
/// fault.lift();
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Fault {
    control: Arc<Control>,
    id: u64,
    hits: Arc<Hits>,
}

impl Fault {
    pub(super) fn new(control: Arc<Control>, id: u64, hits: Arc<Hits>) -> Self {
        Self { control, id, hits }
    }

    /// How often it took effect: the number of requests, messages or connections. What waits in the
    /// socket of a frozen server is not counted.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.hits.total()
    }

    /// Waits until it took effect `times` times in all.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn has_hit(&self, times: u64) {
        self.hits.reach(times).await;
    }

    /// Ends it. What it held back goes on, in its order, before this returns.
    pub fn lift(&self) {
        self.control.lift(|rule| rule.id == self.id);
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fault").field("id", &self.id).field("hits", &self.hits()).finish()
    }
}
