//! The options of metrics and of the audit log.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use zoolet_server::{AuditLog, Dialect, MetricsProvider, ProcessMetrics};

use super::storage::directory;
use super::values::{self, BadValue, HostPort};

/// A field is `None` unless a file or a flag sets it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct MonitoringOptions {
    /// Show the metrics to Prometheus here, at /metrics; 7000 is ZooKeeper's port
    #[arg(long, value_name = "HOST:PORT", help_heading = MONITORING)]
    pub(crate) metrics: Option<HostPort>,

    /// Whose names and labels the metrics have [default: 3.9]
    #[arg(long, value_name = "VERSION", help_heading = MONITORING)]
    pub(crate) metrics_dialect: Option<DialectOption>,

    /// Write down who changes what, to the log unless --audit-log names a file [default: false]
    #[arg(long, value_name = "BOOL", value_parser = values::boolean, help_heading = MONITORING)]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    pub(crate) audit_enable: Option<bool>,

    /// Write down who changes what, to the end of this file
    #[arg(long, value_name = "FILE", value_parser = directory, help_heading = MONITORING)]
    pub(crate) audit_log: Option<PathBuf>,

    /// `metricsProvider.className`.
    #[arg(skip)]
    pub(crate) provider: Option<Provider>,

    /// `metricsProvider.httpHost`.
    #[arg(skip)]
    pub(crate) http_host: Option<String>,

    /// `metricsProvider.httpPort`.
    #[arg(skip)]
    pub(crate) http_port: Option<u16>,

    /// `metricsProvider.exportJvmInfo`.
    #[arg(skip)]
    pub(crate) export_jvm_info: Option<bool>,
}

/// The version of ZooKeeper whose metrics are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DialectOption {
    /// ZooKeeper 3.9
    #[value(name = "3.9")]
    V3_9,
    /// ZooKeeper 3.10: counters end in _total
    #[value(name = "3.10")]
    V3_10,
}

impl DialectOption {
    pub(crate) fn of(text: &str) -> Result<Self, BadValue> {
        Self::from_str(text, false).map_err(|_| BadValue::NotADialect)
    }
}

/// A metrics provider of ZooKeeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Provider {
    Prometheus,
    Other,
}

impl Provider {
    pub(crate) fn of_class(class: &str) -> Result<Self, BadValue> {
        match class {
            "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider" => {
                Ok(Self::Prometheus)
            }
            "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider"
            | "org.apache.zookeeper.metrics.impl.NullMetricsProvider" => Ok(Self::Other),
            _ => Err(BadValue::NotAMetricsProvider),
        }
    }
}

/// Checks `audit.impl.class`.
pub(crate) fn audit_class(class: &str) -> Result<(), BadValue> {
    match class {
        "org.apache.zookeeper.audit.Slf4jAuditLogger" => Ok(()),
        _ => Err(BadValue::NotAnAuditLogger),
    }
}

/// The page for Prometheus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MetricsPage {
    pub(crate) listen: HostPort,
    pub(crate) dialect: Dialect,
    pub(crate) process: ProcessMetrics,
}

impl MonitoringOptions {
    /// The page for Prometheus, if there is to be one. What ZooKeeper's keys ask for listens where
    /// ZooKeeper does.
    pub(crate) fn page(&self) -> Option<MetricsPage> {
        let of_keys = || HostPort {
            host: self.http_host.clone().unwrap_or_else(|| "0.0.0.0".to_owned()),
            port: self.http_port.unwrap_or(7000),
        };
        let is_of_keys = self.provider == Some(Provider::Prometheus);
        let listen = self.metrics.clone().or_else(|| is_of_keys.then(of_keys))?;
        let process = match self.export_jvm_info {
            Some(false) => ProcessMetrics::Leave,
            _ => ProcessMetrics::Include,
        };
        Some(MetricsPage { listen, dialect: self.dialect(), process })
    }

    fn dialect(&self) -> Dialect {
        match self.metrics_dialect {
            Some(DialectOption::V3_10) => Dialect::V3_10,
            Some(DialectOption::V3_9) | None => Dialect::V3_9,
        }
    }

    pub(super) fn provider(&self) -> MetricsProvider {
        match self.page() {
            Some(page) => MetricsProvider::Prometheus(page.dialect),
            None => MetricsProvider::Default,
        }
    }

    pub(super) fn audit(&self) -> Option<AuditLog> {
        match (self.audit_enable, &self.audit_log) {
            (Some(false), _) | (None, None) => None,
            (_, Some(file)) => Some(AuditLog::File(file.clone())),
            (Some(true), None) => Some(AuditLog::Log),
        }
    }

    /// Remarks about what has no effect.
    pub(super) fn remarks(&self) -> Vec<&'static str> {
        let mut remarks = Vec::new();
        if self.page().is_none() && (self.http_host.is_some() || self.http_port.is_some()) {
            remarks.push(
                "metricsProvider.httpHost and httpPort have no effect without \
                 metricsProvider.className=\
                 org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider",
            );
        }
        if self.page().is_none() && self.metrics_dialect.is_some() {
            remarks.push("--metrics-dialect has no effect without --metrics HOST:PORT");
        }
        if self.audit_enable == Some(false) && self.audit_log.is_some() {
            remarks.push("the file of the audit log has no effect with audit.enable=false");
        }
        remarks
    }
}

const MONITORING: &str = "Monitoring";
