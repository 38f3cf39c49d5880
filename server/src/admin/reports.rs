//! The reports of the admin server, for code in the same process.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Weak};

use axum::body::{Body, to_bytes};
use axum::http::HeaderMap;

use super::commands::{self, Asked};
use super::config::AdminConfig;
use super::rate_limiter::RateLimiter;
use super::server::Admin;
use crate::engine::lock::Engine;
use crate::limits::REPORT_BYTES_MAX;
use crate::server::Server;

/// Makes the reports of the admin server without a port: `connections`, `dump`, `watches_by_path` and the
/// other commands that change nothing. Clones make those of the same server, which they do not keep alive.
///
/// ```
/// use zoolet_server::Server;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::builder().start().await?;
/// let report = server.reports().make("watch_summary").await?;
/// assert!(report.contains("\"num_total_watches\" : 0"), "{report}");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Reports(Weak<Engine>);

/// Why there is no report.
///
/// ```
/// use zoolet_server::Server;
/// use zoolet_server::admin::ReportError;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::builder().start().await?;
/// let error = server.reports().make("restore").await.unwrap_err();
/// assert!(matches!(error, ReportError::NoReport(_)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// There is no such command, or it changes something.
    #[error("{0:?} is no report of the admin server; the page /commands lists its commands")]
    NoReport(String),
    /// The server has ended.
    #[error("the server has ended")]
    Ended,
    /// It is longer than the limit, or took too long to make.
    #[error("the report is longer than {REPORT_BYTES_MAX} bytes, or was not made in time")]
    NotWhole,
}

impl Server {
    /// Makes reports for code in the same process.
    #[must_use]
    pub fn reports(&self) -> Reports {
        Reports(Arc::downgrade(&self.engine))
    }
}

impl Reports {
    /// The report of a command, in the JSON of ZooKeeper's admin server. It is that of one moment only
    /// as far as the command's is. Long ones are made by a thread, in slices between which the server
    /// goes on, and one after the other.
    ///
    /// # Errors
    ///
    /// [`ReportError`].
    ///
    /// # Cancellation
    ///
    /// Safe: the report is given up.
    pub async fn make(&self, command: &str) -> Result<String, ReportError> {
        if !commands::is_report(command) {
            return Err(ReportError::NoReport(command.to_owned()));
        }
        let engine = self.0.upgrade().filter(|engine| !engine.is_shut_down());
        let engine = engine.ok_or(ReportError::Ended)?;
        let now_ms = engine.clock.now_ms();
        let admin = Admin {
            engine,
            config: AdminConfig::default(),
            snapshots: RateLimiter::new(std::time::Duration::ZERO, now_ms),
            restores: RateLimiter::new(std::time::Duration::ZERO, now_ms),
        };
        let asked = Asked {
            peer: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            over_tls: None,
            headers: HeaderMap::new(),
            query: Vec::new(),
            is_post: false,
        };
        let answer = commands::run(Arc::new(admin), command, asked, Body::empty()).await;
        let text = to_bytes(answer.into_body(), REPORT_BYTES_MAX).await;
        let text = text.map_err(|_| ReportError::NotWhole)?;
        String::from_utf8(text.into()).map_err(|_| ReportError::NotWhole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_changes_something_or_does_not_exist_is_no_report() {
        let server = Server::builder().start().await.unwrap();
        let reports = server.reports();
        for command in ["restore", "snapshot", "crst", "stmk", "nothing", ""] {
            let error = reports.make(command).await.unwrap_err();
            assert!(matches!(error, ReportError::NoReport(_)), "{command}");
        }
        for command in ["cons", "dump", "wchp", "mntr"] {
            assert!(reports.make(command).await.unwrap().starts_with('{'), "{command}");
        }
        drop(server);
        assert!(matches!(reports.make("cons").await, Err(ReportError::Ended)));
    }
}
