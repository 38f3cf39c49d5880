//! The text format 0.0.4 of Prometheus, as ZooKeeper's libraries write it: `simpleclient` 0.9 in
//! version 3.9, `prometheus-metrics` 1.3 in version 3.10.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write;

use super::Dialect;
use super::families::{Detail, Family, Growth, Number, Value};
use super::number::java_double;
use crate::measure::Summarised;

/// One line: the suffix of the name, the labels and the value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sample<'a> {
    pub(super) suffix: &'static str,
    pub(super) labels: Vec<(&'static str, Cow<'a, str>)>,
    pub(super) value: f64,
}

/// The page. With `names` it has only the samples of these names.
pub(super) fn text(families: &[Family], dialect: Dialect, names: &[String]) -> String {
    let mut families: Vec<_> = families.iter().collect();
    if dialect == Dialect::V3_10 {
        families.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    }
    let names: HashSet<_> = names.iter().map(String::as_str).collect();
    let mut page = String::with_capacity(64 << 10);
    for family in families {
        let is_wanted = |sample: &Sample<'_>| {
            names.is_empty() || names.contains(sample_name(family, sample).as_str())
        };
        let samples: Vec<_> = samples(family, dialect).into_iter().filter(is_wanted).collect();
        // 3.9 names a set of which no namespace was used.
        if !samples.is_empty() || (names.is_empty() && dialect == Dialect::V3_9) {
            put_family(&mut page, family, &samples, dialect);
        }
    }
    page
}

fn sample_name(family: &Family, sample: &Sample<'_>) -> String {
    format!("{}{}", family.name, sample.suffix)
}

fn put_family(page: &mut String, family: &Family, samples: &[Sample<'_>], dialect: Dialect) {
    let name = &family.name;
    let (kind, help) = match &family.value {
        Value::Gauge(_) | Value::GaugeSet(_) => ("gauge", ""),
        Value::Counter(_) => ("counter", " counter"),
        Value::CounterSet(_) => ("counter", " counter set"),
        Value::Summary(..) | Value::SummarySet(..) => ("summary", " summary"),
        Value::Process(_, Growth::OnlyGrows, _) => ("counter", ""),
        Value::Process(_, Growth::GrowsAndShrinks, _) => ("gauge", ""),
    };
    let help = match (&family.value, dialect) {
        (Value::Process(help, ..), _) => (*help).to_owned(),
        (_, Dialect::V3_9) => name.clone(),
        (_, Dialect::V3_10) => format!("{name}{help}"),
    };
    let shown = match (&family.value, dialect) {
        (Value::Counter(_) | Value::CounterSet(_), Dialect::V3_10) => format!("{name}_total"),
        _ => name.clone(),
    };
    let _ = writeln!(page, "# HELP {shown} {help}\n# TYPE {shown} {kind}");
    for sample in samples {
        let _ = write!(page, "{}", sample_name(family, sample));
        put_labels(page, &sample.labels, dialect);
        let is_whole = dialect == Dialect::V3_10 && sample.suffix == "_count";
        let value =
            if is_whole { format!("{}", sample.value as u64) } else { java_double(sample.value) };
        let _ = writeln!(page, " {value}");
    }
}

/// `simpleclient` ends each label with a comma.
fn put_labels(page: &mut String, labels: &[(&str, Cow<'_, str>)], dialect: Dialect) {
    if labels.is_empty() {
        return;
    }
    let pairs = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
    let pairs = pairs.collect::<Vec<_>>().join(",");
    let end = if dialect == Dialect::V3_9 { "," } else { "" };
    let _ = write!(page, "{{{pairs}{end}}}");
}

/// Clients choose the names of znodes.
fn escaped(value: &str) -> Cow<'_, str> {
    if !value.contains(['\\', '"', '\n']) {
        return value.into();
    }
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").into()
}

/// The samples of a metric, in the order of the lines.
pub(super) fn samples(family: &Family, dialect: Dialect) -> Vec<Sample<'_>> {
    let plain = |suffix, value| vec![Sample { suffix, labels: Vec::new(), value }];
    let keyed = |suffix, key: &'_ str, value| {
        let labels = vec![("key", Cow::Owned(key.to_owned()))];
        Sample { suffix, labels, value }
    };
    let total = if dialect == Dialect::V3_10 { "_total" } else { "" };
    match &family.value {
        Value::Gauge(Number::Whole(value)) => plain("", *value as f64),
        Value::Gauge(Number::Real(value)) | Value::Process(_, _, value) => plain("", *value),
        Value::Counter(count) => plain(total, *count as f64),
        Value::Summary(detail, summary) => of_summary(None, *detail, summary, dialect),
        Value::GaugeSet(values) => {
            values.iter().map(|(key, value)| keyed("", key, *value as f64)).collect()
        }
        Value::CounterSet(values) => {
            values.iter().map(|(key, count)| keyed(total, key, *count as f64)).collect()
        }
        Value::SummarySet(detail, values) => {
            let of_key = |(key, summary): &'_ (String, Summarised)| {
                of_summary(Some(key.clone()), *detail, summary, dialect)
            };
            values.iter().flat_map(of_key).collect()
        }
    }
}

fn of_summary<'a>(
    key: Option<String>,
    detail: Detail,
    summary: &Summarised,
    dialect: Dialect,
) -> Vec<Sample<'a>> {
    let quantiles: &[(&str, f64)] = match (detail, dialect) {
        (Detail::Basic, _) => &[("0.5", 0.5)],
        (Detail::Advanced, Dialect::V3_9) => &[("0.5", 0.5), ("0.9", 0.9), ("0.99", 0.99)],
        (Detail::Advanced, Dialect::V3_10) => &[("0.5", 0.5), ("0.95", 0.95), ("0.99", 0.99)],
    };
    let labels: Vec<_> = key.into_iter().map(|key| ("key", Cow::Owned(key))).collect();
    let of_quantile = |(name, quantile): &(&'static str, f64)| {
        let mut labels = labels.clone();
        labels.push(("quantile", Cow::Borrowed(*name)));
        let value = summary.values.quantile(*quantile).map_or(f64::NAN, |value| value as f64);
        Sample { suffix: "", labels, value }
    };
    let sample = |suffix, value| Sample { suffix, labels: labels.clone(), value };
    let mut samples: Vec<_> = quantiles.iter().map(of_quantile).collect();
    samples.push(sample("_count", summary.count as f64));
    samples.push(sample("_sum", summary.sum as f64));
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Summary, Window};

    fn family(name: &str, value: Value) -> Family {
        Family { name: name.to_owned(), value }
    }

    fn examples() -> Vec<Family> {
        let summary = Summary::default();
        [1, 2, 3].into_iter().for_each(|value| summary.record(value));
        let some = summary.summarise(Window::All);
        let keyed = vec![("a\"b\\c".to_owned(), some.clone())];
        vec![
            family("znode_count", Value::Gauge(Number::Whole(12_345_678))),
            family("avg_latency", Value::Gauge(Number::Real(0.25))),
            family("commit_count", Value::Counter(7)),
            family("fsynctime", Value::Summary(Detail::Basic, Summarised::default())),
            family("readlatency", Value::Summary(Detail::Advanced, some)),
            family("read_per_namespace", Value::SummarySet(Detail::Basic, keyed)),
            family("ack_latency", Value::SummarySet(Detail::Advanced, Vec::new())),
            family("errors", Value::CounterSet(vec![("a".to_owned(), 3)])),
        ]
    }

    #[test]
    fn the_page_of_3_9_has_doubles_and_a_comma_after_each_label() {
        let expected = r#"# HELP znode_count znode_count
# TYPE znode_count gauge
znode_count 1.2345678E7
# HELP avg_latency avg_latency
# TYPE avg_latency gauge
avg_latency 0.25
# HELP commit_count commit_count
# TYPE commit_count counter
commit_count 7.0
# HELP fsynctime fsynctime
# TYPE fsynctime summary
fsynctime{quantile="0.5",} NaN
fsynctime_count 0.0
fsynctime_sum 0.0
# HELP readlatency readlatency
# TYPE readlatency summary
readlatency{quantile="0.5",} 2.0
readlatency{quantile="0.9",} 3.0
readlatency{quantile="0.99",} 3.0
readlatency_count 3.0
readlatency_sum 6.0
# HELP read_per_namespace read_per_namespace
# TYPE read_per_namespace summary
read_per_namespace{key="a\"b\\c",quantile="0.5",} 2.0
read_per_namespace_count{key="a\"b\\c",} 3.0
read_per_namespace_sum{key="a\"b\\c",} 6.0
# HELP ack_latency ack_latency
# TYPE ack_latency summary
# HELP errors errors
# TYPE errors counter
errors{key="a",} 3.0
"#;
        assert_eq!(text(&examples(), Dialect::V3_9, &[]), expected);
    }

    #[test]
    fn the_page_of_3_10_is_sorted_and_its_counters_end_in_total() {
        let expected = r#"# HELP avg_latency avg_latency
# TYPE avg_latency gauge
avg_latency 0.25
# HELP commit_count_total commit_count counter
# TYPE commit_count_total counter
commit_count_total 7.0
# HELP errors_total errors counter set
# TYPE errors_total counter
errors_total{key="a"} 3.0
# HELP fsynctime fsynctime summary
# TYPE fsynctime summary
fsynctime{quantile="0.5"} NaN
fsynctime_count 0
fsynctime_sum 0.0
# HELP read_per_namespace read_per_namespace summary
# TYPE read_per_namespace summary
read_per_namespace{key="a\"b\\c",quantile="0.5"} 2.0
read_per_namespace_count{key="a\"b\\c"} 3
read_per_namespace_sum{key="a\"b\\c"} 6.0
# HELP readlatency readlatency summary
# TYPE readlatency summary
readlatency{quantile="0.5"} 2.0
readlatency{quantile="0.95"} 3.0
readlatency{quantile="0.99"} 3.0
readlatency_count 3
readlatency_sum 6.0
# HELP znode_count znode_count
# TYPE znode_count gauge
znode_count 1.2345678E7
"#;
        assert_eq!(text(&examples(), Dialect::V3_10, &[]), expected);
    }

    #[test]
    fn a_query_for_names_is_answered_with_their_samples_alone() {
        let names = ["readlatency_sum", "commit_count", "nosuch"].map(str::to_owned);
        let expected = "# HELP commit_count commit_count\n# TYPE commit_count counter\n\
                        commit_count 7.0\n# HELP readlatency readlatency\n\
                        # TYPE readlatency summary\nreadlatency_sum 6.0\n";
        assert_eq!(text(&examples(), Dialect::V3_9, &names), expected);
    }
}
