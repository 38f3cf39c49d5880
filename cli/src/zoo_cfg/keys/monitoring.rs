//! Metrics and the audit log.

use super::{Key, put};
use crate::server_options::monitoring::{DialectOption, Provider, audit_class};
use crate::server_options::storage::directory;
use crate::server_options::values::{self, BadValue};

pub(super) const KEYS: &[Key] = &[
    ("metricsProvider.className", |c, v| put(&mut c.monitoring.provider, Provider::of_class(v))),
    ("metricsProvider.httpHost", |c, v| put(&mut c.monitoring.http_host, values::host(v))),
    ("metricsProvider.httpPort", |c, v| put(&mut c.monitoring.http_port, values::port(v))),
    ("metricsProvider.exportJvmInfo", |c, v| {
        put(&mut c.monitoring.export_jvm_info, values::boolean(v))
    }),
    // ZooKeeper has it from 3.10 on.
    ("metricsProvider.httpsPort", |_, _| Err(BadValue::NoHttps)),
    ("zoolet.metrics.dialect", |c, v| put(&mut c.monitoring.metrics_dialect, DialectOption::of(v))),
    ("audit.enable", |c, v| put(&mut c.monitoring.audit_enable, values::boolean(v))),
    ("audit.impl.class", |_, v| audit_class(v)),
    ("zoolet.audit.log", |c, v| put(&mut c.monitoring.audit_log, directory(v))),
];
