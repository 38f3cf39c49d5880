//! The metrics of the servers that the charts show: of all servers together.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tokio::task::JoinSet;
use zoolet_client::FourLetterWord;
use zoolet_client::tls::ClientTls;
use zoolet_server::admin::Reports;

use super::limits::{METRICS_BYTES_MAX, METRICS_WITHIN};

/// How the values of several servers become one.
#[derive(Debug, Clone, Copy)]
enum Union {
    Sum,
    Greatest,
}

/// Those that are shown, without the `zk_` before them in `mntr`.
const SHOWN: [(&str, Union); 5] = [
    ("packets_received", Union::Sum),
    ("packets_sent", Union::Sum),
    ("outstanding_requests", Union::Sum),
    ("p99_readlatency", Union::Greatest),
    ("p99_updatelatency", Union::Greatest),
];

/// Metrics by their names.
type Metrics = BTreeMap<&'static str, f64>;

/// Those of servers that tell them by `mntr`, side by side, with the names of the servers. `None` unless
/// all of them do: a sum without one of them would look like fewer requests.
pub(super) async fn of_servers(
    servers: impl Iterator<Item = String>,
    tls: Option<&Arc<ClientTls>>,
) -> Option<Value> {
    let mut asked = JoinSet::new();
    for server in servers {
        let word = FourLetterWord::new("mntr").timeout(METRICS_WITHIN).bytes_max(METRICS_BYTES_MAX);
        let word = match tls {
            Some(tls) => word.tls(Arc::clone(tls)),
            None => word,
        };
        asked.spawn(async move {
            let told = word.ask(&server).await.ok().and_then(|text| of_word(&text));
            (server, told)
        });
    }
    let mut all: Vec<(String, Option<Metrics>)> = asked.join_all().await;
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    let (servers, told): (Vec<String>, Vec<Option<Metrics>>) = all.into_iter().unzip();
    let told: Vec<Metrics> = told.into_iter().collect::<Option<_>>()?;
    if told.is_empty() {
        return None;
    }
    let mut value = united(&told);
    value["servers"] = servers.into();
    Some(value)
}

/// Those of a server in this process.
pub(super) async fn of_reports(reports: &Reports) -> Option<Value> {
    let report: Value = serde_json::from_str(&reports.make("monitor").await.ok()?).ok()?;
    let metric = |(name, _): &(&'static str, Union)| Some((*name, report.get(*name)?.as_f64()?));
    Some(united(&[SHOWN.iter().filter_map(metric).collect()]))
}

/// Those in the answer to `mntr`. `None` if it is another answer.
fn of_word(text: &str) -> Option<Metrics> {
    let value = |name: &str| {
        let mut lines = text.lines();
        let value = lines
            .find_map(|line| line.strip_prefix("zk_")?.strip_prefix(name)?.strip_prefix('\t'))?;
        value.trim().parse::<f64>().ok().filter(|value| value.is_finite())
    };
    let metrics: Metrics =
        SHOWN.iter().filter_map(|(name, _)| Some((*name, value(name)?))).collect();
    (!metrics.is_empty()).then_some(metrics)
}

fn united(all: &[Metrics]) -> Value {
    let of_all = |(name, union): &(&'static str, Union)| {
        let values = all.iter().filter_map(|metrics| metrics.get(name)).copied();
        let value = match union {
            Union::Sum => values.reduce(|sum, value| sum + value),
            Union::Greatest => values.reduce(f64::max),
        };
        Some(((*name).to_owned(), value?.into()))
    };
    Value::Object(SHOWN.iter().filter_map(of_all).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn those_of_several_servers_are_added_or_the_greatest() {
        let one =
            of_word("zk_packets_received\t10\nzk_p99_readlatency\t2.5\nzk_other\tx\n").unwrap();
        let two = of_word("zk_packets_received\t5\nzk_p99_readlatency\t1\n").unwrap();
        let expected = json!({ "packets_received": 15.0, "p99_readlatency": 2.5 });
        assert_eq!(united(&[one, two]), expected);
    }

    #[test]
    fn another_answer_has_none() {
        let refused = "mntr is not executed because it is not in the whitelist.\n";
        for text in ["", refused, "zk_packets_received", "zk_packets_received\tNaN\n"] {
            assert_eq!(of_word(text), None, "{text}");
        }
    }
}
