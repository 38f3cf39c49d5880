//! What a server offers to administrators over HTTP.
//!
//! [`http`] serves pages on a port: limits, an orderly end, and no service to pages in a browser.
//! [`Server::start_metrics`](crate::Server::start_metrics) opens the page for Prometheus.

mod metrics;

pub mod http;

pub use self::metrics::{MetricsConfig, MetricsError};
