//! What a server offers to administrators over HTTP: ZooKeeper's AdminServer, and metrics.
//!
//! [`Server::start_admin`](crate::Server::start_admin) opens the admin server on a port of its own,
//! and [`Server::start_metrics`](crate::Server::start_metrics) the page for Prometheus.
//! [`AdminConfig`] and [`MetricsConfig`] say where, and what they may do.
//!
//! - [`http`] serves pages on a port: limits, an orderly end, and no service to pages in a browser.
//! - `commands` is the table of the commands and their aliases, and `json` the form of the answers.
//! - `https` puts TLS under these.
//! - [`Reports`] makes the same answers for code in this process.
//! - `authorization` decides who may take a snapshot or restore one.

mod authorization;
mod commands;
mod config;
#[cfg(feature = "tls")]
mod https;
mod json;
mod metrics;
mod rate_limiter;
mod reports;
mod server;

pub mod http;

pub use self::config::AdminConfig;
#[cfg(feature = "tls")]
pub use self::https::HttpsConfig;
pub use self::metrics::{MetricsConfig, MetricsError};
pub use self::reports::{ReportError, Reports};
pub use self::server::AdminError;
