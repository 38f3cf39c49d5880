//! Connects a client, and tells a person meanwhile why that takes long.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use zoolet_client::{Builder, ConnectError};

/// How long connecting may take before a person is told about it.
const TELL_AFTER: Duration = Duration::from_secs(1);

/// Why a server may close a connection without a word: nothing tells that from other causes.
pub(crate) const PERHAPS_TOO_MANY: &str = "It may have all the connections from this address that its maxClientCnxns allows, by default 60";

/// What the attempts to connect have met so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attempts(Arc<Mutex<Option<ConnectError>>>);

impl Attempts {
    /// Records the failed attempts of a builder.
    pub(crate) fn of(&self, builder: Builder) -> Builder {
        let last = Arc::clone(&self.0);
        builder.on_failed_attempt(move |cause| *last.lock() = Some(cause.clone()))
    }

    /// Why the last attempt failed, in parentheses. The first goes on for seconds if nothing answers it.
    pub(crate) fn last(&self) -> String {
        let last = self.0.lock();
        last.as_ref().map_or_else(|| " (nothing answers)".to_owned(), |cause| format!(" ({cause})"))
    }

    /// Tells once that there is no connection yet, and goes on for ever: to be dropped when there is one.
    pub(crate) async fn tell_meanwhile(
        &self,
        server: &str,
        limit: Option<Duration>,
        tell: impl FnOnce(&str),
    ) -> Infallible {
        tokio::time::sleep(TELL_AFTER).await;
        let until = limit.map_or_else(String::new, |limit| format!(" until {limit:?} have passed"));
        tell(&format!("no server at {server} yet{}; trying again{until}", self.last()));
        std::future::pending().await
    }
}
