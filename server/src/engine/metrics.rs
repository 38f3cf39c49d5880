//! The metrics: what administrators see of the counters, under the names of ZooKeeper's
//! `ServerMetrics`.
//!
//! - `families` takes all values at one moment. The word `mntr`, the page for Prometheus and the
//!   admin server show the same values.
//! - `mntr` and `prometheus` are their texts.
//! - `process` is what the system knows of this process.

mod families;
mod mntr;
mod number;
mod process;
mod prometheus;

use std::sync::Weak;

use super::lock::Engine;
use crate::measure::Window;

/// How long the window of a summary stays where it is, in milliseconds: a fifth of ten minutes, as
/// in the Prometheus library of ZooKeeper 3.9.
const INTERVAL_MS: u64 = 120_000;

/// The same for ZooKeeper 3.10: `prometheusMetricsSummaryRotateIntervalSeconds`.
const INTERVAL_3_10_MS: u64 = 60_000;

/// Where metrics go: `metricsProvider.className`. It decides the form in which the word `mntr` shows
/// them, and how far back quantiles look.
///
/// ```
/// use zoolet_server::{Config, Dialect, MetricsProvider};
///
/// let config = Config {
///     metrics_provider: MetricsProvider::Prometheus(Dialect::V3_9),
///     ..Config::default()
/// };
/// assert_ne!(config.metrics_provider, MetricsProvider::default());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MetricsProvider {
    /// `DefaultMetricsProvider`: `mntr` shows `p50_readlatency` and the like. Quantiles are about
    /// everything since the start, or since the word `srst`.
    #[default]
    Default,
    /// `PrometheusMetricsProvider`: `mntr` shows `readlatency{quantile="0.5"}` and the like, and the
    /// word `srst` does not reset what Prometheus expects to grow.
    Prometheus(Dialect),
}

/// Whose names and labels the page for Prometheus has.
///
/// ```
/// assert_eq!(zoolet_server::Dialect::default(), zoolet_server::Dialect::V3_9);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Those of ZooKeeper 3.9: quantiles 0.5, 0.9 and 0.99 of the last eight to ten minutes.
    #[default]
    V3_9,
    /// Those of ZooKeeper 3.10: counters end in `_total`; quantiles 0.5, 0.95 and 0.99 of the last
    /// whole minute.
    V3_10,
}

impl MetricsProvider {
    /// How often the windows of the quantiles move.
    pub(crate) fn interval_ms(self) -> u64 {
        match self {
            Self::Default | Self::Prometheus(Dialect::V3_9) => INTERVAL_MS,
            Self::Prometheus(Dialect::V3_10) => INTERVAL_3_10_MS,
        }
    }
}

impl Dialect {
    fn window(self) -> Window {
        match self {
            Self::V3_9 => Window::Sliding,
            Self::V3_10 => Window::Last,
        }
    }
}

/// The metrics of a server. Clones show the same server, and do not keep it alive.
///
/// ```
/// use zoolet_server::{Dialect, ProcessMetrics, Server};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::builder().start().await?;
/// let page = server.metrics().prometheus(Dialect::V3_9, ProcessMetrics::Leave, &[]);
/// assert!(page.contains("\nznode_count 5.0\n"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Metrics {
    engine: Weak<Engine>,
}

/// Whether the page for Prometheus has metrics of the process: `metricsProvider.exportJvmInfo`.
///
/// ```
/// assert_eq!(zoolet_server::ProcessMetrics::default(), zoolet_server::ProcessMetrics::Include);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProcessMetrics {
    /// It has the six whose names begin with `process_`, where the system tells them. It never has
    /// those of a Java virtual machine.
    #[default]
    Include,
    /// It has none.
    Leave,
}

impl Metrics {
    pub(crate) fn new(engine: Weak<Engine>) -> Self {
        Self { engine }
    }

    /// The page for Prometheus, in text format 0.0.4. It is empty when the server is gone.
    ///
    /// With `names` it has only the samples of these names, as ZooKeeper's with the query `name[]`.
    #[must_use]
    pub fn prometheus(
        &self,
        dialect: Dialect,
        process: ProcessMetrics,
        names: &[String],
    ) -> String {
        let Some(engine) = self.engine.upgrade() else { return String::new() };
        let mut families = families::of(&engine, dialect.window());
        if process == ProcessMetrics::Include {
            families.extend(process::families());
        }
        prometheus::text(&families, dialect, names)
    }
}

/// The metrics as the word `mntr` and the command `monitor` show them, without the prefix `zk_`:
/// names and values, the version and the state first.
pub(crate) fn monitor(engine: &Engine, version: &str) -> Vec<(String, String)> {
    mntr::entries(engine, version)
}
