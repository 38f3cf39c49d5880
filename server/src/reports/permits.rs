//! How many reports are made at the same time.

use std::sync::Arc;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::limits::REPORTS_AT_ONCE;

/// What a report is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportKind {
    /// To be read by an administrator. It may list a million watches.
    Listing,
    /// To be read by a monitoring system: the metrics. It is not long, and it must come while others
    /// read listings slowly.
    Monitoring,
}

/// Admits those who ask for a report.
#[derive(Debug)]
pub(crate) struct Permits {
    listing: Arc<Semaphore>,
    monitoring: Arc<Semaphore>,
}

impl Default for Permits {
    fn default() -> Self {
        let semaphore = || Arc::new(Semaphore::new(REPORTS_AT_ONCE));
        Self { listing: semaphore(), monitoring: semaphore() }
    }
}

impl Permits {
    /// Waits until a report of a kind may be made. The permit is held while it is made.
    pub(crate) async fn acquire(
        &self,
        kind: ReportKind,
    ) -> Result<OwnedSemaphorePermit, AcquireError> {
        let permits = match kind {
            ReportKind::Listing => &self.listing,
            ReportKind::Monitoring => &self.monitoring,
        };
        Arc::clone(permits).acquire_owned().await
    }
}
