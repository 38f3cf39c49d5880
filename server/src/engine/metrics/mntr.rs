//! The metrics as the word `mntr` shows them (`MonitorCommand`).

use super::families::{self, Detail, Family, Number, Value};
use super::number::{java_double, rounded};
use super::{Dialect, MetricsProvider, process, prometheus};
use crate::engine::lock::Engine;
use crate::measure::{Summarised, Window};

pub(super) fn entries(engine: &Engine, version: &str) -> Vec<(String, String)> {
    let mut entries = Entries(Vec::new());
    entries.put("version".to_owned(), version.to_owned());
    entries.put("server_state".to_owned(), "standalone".to_owned());
    match engine.config.metrics_provider {
        MetricsProvider::Default => {
            let families = families::of(engine, Window::All);
            families.iter().for_each(|family| entries.put_family(family));
        }
        MetricsProvider::Prometheus(dialect) => {
            let mut families = families::of(engine, dialect.window());
            families.extend(process::families());
            families.iter().for_each(|family| entries.put_samples(family, dialect));
        }
    }
    entries.0
}

struct Entries(Vec<(String, String)>);

impl Entries {
    fn put(&mut self, key: String, value: String) {
        self.0.push((key, value));
    }

    /// As `DefaultMetricsProvider` does: whole numbers where Java has a `long`.
    fn put_family(&mut self, family: &Family) {
        let name = &family.name;
        match &family.value {
            Value::Gauge(Number::Whole(value)) => self.put(name.clone(), value.to_string()),
            Value::Gauge(Number::Real(value)) | Value::Process(_, _, value) => {
                self.put(name.clone(), java_double(*value));
            }
            Value::Counter(count) => self.put(name.clone(), count.to_string()),
            Value::Summary(detail, summary) => self.put_summary(name, *detail, summary),
            Value::GaugeSet(values) => {
                for (key, value) in values {
                    self.put(format!("{key}_{name}"), value.to_string());
                }
            }
            Value::CounterSet(values) => {
                for (key, value) in values {
                    self.put(format!("{key}_{name}"), value.to_string());
                }
            }
            Value::SummarySet(detail, values) => {
                for (key, summary) in values {
                    self.put_summary(&format!("{key}_{name}"), *detail, summary);
                }
            }
        }
    }

    fn put_summary(&mut self, name: &str, detail: Detail, summary: &Summarised) {
        self.put(format!("avg_{name}"), java_double(rounded(summary.average())));
        self.put(format!("min_{name}"), summary.min.to_string());
        self.put(format!("max_{name}"), summary.max.to_string());
        self.put(format!("cnt_{name}"), summary.count.to_string());
        self.put(format!("sum_{name}"), summary.sum.to_string());
        if detail == Detail::Advanced {
            for (prefix, quantile) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)]
            {
                let value = summary.values.quantile(quantile).unwrap_or(0);
                self.put(format!("{prefix}_{name}"), value.to_string());
            }
        }
    }

    /// As `PrometheusMetricsProvider` does: every value is a double.
    fn put_samples(&mut self, family: &Family, dialect: Dialect) {
        for sample in prometheus::samples(family, dialect) {
            let labels = sample.labels.iter().map(|(name, value)| format!("{name}=\"{value}\""));
            let labels = labels.collect::<Vec<_>>().join(",");
            let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
            let key = format!("{}{}{labels}", family.name, sample.suffix);
            self.put(key, java_double(sample.value));
        }
    }
}
