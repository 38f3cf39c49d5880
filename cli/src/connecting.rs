//! Connects a client, and tells a person meanwhile why that takes long.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
pub(crate) use zoolet_client::PERHAPS_TOO_MANY;
use zoolet_client::{Builder, ConnectError};

/// How long connecting may take before a person is told about it.
const TELL_AFTER: Duration = Duration::from_secs(1);

/// What the attempts to connect have met so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attempts(Arc<Mutex<Option<ConnectError>>>);

impl Attempts {
    /// Records the failed attempts of a builder.
    pub(crate) fn of(&self, builder: Builder) -> Builder {
        let last = Arc::clone(&self.0);
        builder.on_failed_attempt(move |cause| *last.lock() = Some(cause.clone()))
    }

    /// Why the last attempt failed, in parentheses. Before one has failed: nothing has answered so far.
    pub(crate) fn last(&self) -> String {
        match &*self.0.lock() {
            Some(cause) => format!(" ({cause})"),
            None => " (nothing has answered yet)".to_owned(),
        }
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
