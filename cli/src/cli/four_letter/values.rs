//! The answers to four-letter words as JSON, where they are keys and values.

use serde_json::{Map, Number, Value, json};

/// The values in an answer; `None` for a word whose answer is not made of keys and values.
pub(super) fn parse(word: &str, text: &str) -> Option<Value> {
    match word {
        "mntr" => Some(pairs(text, '\t', number)),
        "conf" => Some(pairs(text, '=', number)),
        // Versions look like numbers now and then.
        "envi" => Some(pairs(text, '=', |text| text.into())),
        "dirs" => Some(pairs(text, ':', number)),
        "srvr" => Some(report(text)),
        "stat" => Some(status(text)),
        "cons" => Some(json!({ "connections": connections(text) })),
        "wchs" => watch_summary(text),
        "isro" => Some(json!({ "read_only": text.trim() == "ro" })),
        "ruok" => Some(json!({ "ok": text.trim() == "imok" })),
        "gtmk" | "stmk" => Some(json!({ "mask": number(text.trim()) })),
        _ => None,
    }
}

/// The lines that have a separator.
fn pairs(text: &str, separator: char, value: fn(&str) -> Value) -> Value {
    let pair = |line: &str| {
        let (key, text) = line.split_once(separator)?;
        Some((key.trim().to_owned(), value(text.trim())))
    };
    Value::Object(text.lines().filter_map(pair).collect())
}

/// A number, if the text is the usual form of one.
fn number(text: &str) -> Value {
    if let Ok(whole) = text.parse::<i64>()
        && whole.to_string() == text
    {
        return whole.into();
    }
    let is_decimal = text.contains('.') && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let decimal = text.parse().ok().filter(|_| is_decimal).and_then(Number::from_f64);
    decimal.map_or_else(|| text.into(), Value::Number)
}

/// The lines of `srvr`, with keys in snake case, and the three latencies apart.
fn report(text: &str) -> Value {
    let mut values = Map::new();
    for line in text.lines() {
        match line.split_once(": ") {
            Some(("Latency min/avg/max", latencies)) => {
                for (name, latency) in ["min", "avg", "max"].into_iter().zip(latencies.split('/')) {
                    values.insert(format!("latency_{name}"), number(latency.trim()));
                }
            }
            Some((key, value)) => {
                values.insert(key.to_lowercase().replace(' ', "_"), number(value.trim()));
            }
            None => {}
        }
    }
    Value::Object(values)
}

/// `stat`: the report of `srvr`, with the clients after its first line.
fn status(text: &str) -> Value {
    let clients = connections(text);
    let lines = text.lines().filter(|line| connection(line).is_none());
    let mut values = report(&lines.collect::<Vec<_>>().join("\n"));
    values["clients"] = clients.into();
    values
}

fn connections(text: &str) -> Vec<Value> {
    text.lines().filter_map(connection).collect()
}

/// A line ` /ADDRESS[OPS](KEY=VALUE,..)`.
fn connection(line: &str) -> Option<Value> {
    let (address, rest) = line.trim().strip_prefix('/')?.rsplit_once('[')?;
    let (operations, rest) = rest.split_once("](")?;
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=')?;
        Some((key.to_owned(), number(value)))
    };
    let mut values: Map<_, _> = rest.strip_suffix(')')?.split(',').filter_map(pair).collect();
    values.insert("address".to_owned(), address.into());
    values.insert("interest_ops".to_owned(), number(operations));
    Some(Value::Object(values))
}

/// `N connections watching M paths` and `Total watches:K`.
fn watch_summary(text: &str) -> Option<Value> {
    let (first, rest) = text.split_once('\n')?;
    let (connections, paths) = first.split_once(" connections watching ")?;
    let watches = rest.trim().strip_prefix("Total watches:")?;
    Some(json!({
        "connections": number(connections),
        "paths": number(paths.strip_suffix(" paths")?),
        "watches": number(watches),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_numbers_and_what_only_looks_like_one_stays_text() {
        assert_eq!(number("-17"), json!(-17));
        assert_eq!(number("0.5333"), json!(0.5333));
        for text in ["", "007", "+1", "1e3", "0x10", "NaN", "1.2.3", ".", "9999999999999999999"] {
            assert_eq!(number(text), json!(text), "{text}");
        }
    }

    #[test]
    fn keys_and_values_are_taken_from_what_zookeeper_prints() {
        let mntr = "zk_version\t3.8.0-5a02a05, built on 2022-02-25 08:49 UTC\nzk_avg_latency\t0.5\n\
                    zk_znode_count\t5\n";
        let expected = json!({ "zk_version": "3.8.0-5a02a05, built on 2022-02-25 08:49 UTC",
            "zk_avg_latency": 0.5, "zk_znode_count": 5 });
        assert_eq!(parse("mntr", mntr), Some(expected));
        let envi = "Environment:\nzookeeper.version=3.8\njava.version=17\nuser.dir=/a=b\n";
        let expected = json!({ "zookeeper.version": "3.8", "java.version": "17",
            "user.dir": "/a=b" });
        assert_eq!(parse("envi", envi), Some(expected));
        let dirs = "datadir_size: 67108880\nlogdir_size: 1\n";
        assert_eq!(
            parse("dirs", dirs),
            Some(json!({ "datadir_size": 67_108_880, "logdir_size": 1 }))
        );
        let wchs = "2 connections watching 3 paths\nTotal watches:4\n";
        let expected = json!({ "connections": 2, "paths": 3, "watches": 4 });
        assert_eq!(parse("wchs", wchs), Some(expected));
        assert_eq!(parse("dump", "SessionTracker dump:\n"), None);
    }

    #[test]
    fn clients_are_listed_beside_the_report() {
        let text = "Zookeeper version: 3.8.0\nClients:\n \
                    /[0:0:0:0:0:0:0:1]:40832[0](queued=0,recved=1,sent=0)\n\n\
                    Latency min/avg/max: 0/0.5/7\nReceived: 1\nZxid: 0x5\nMode: standalone\n\
                    Node count: 5\n";
        let expected = json!({
            "zookeeper_version": "3.8.0",
            "clients": [{ "address": "[0:0:0:0:0:0:0:1]:40832", "interest_ops": 0, "queued": 0,
                "recved": 1, "sent": 0 }],
            "latency_min": 0, "latency_avg": 0.5, "latency_max": 7, "received": 1,
            "zxid": "0x5", "mode": "standalone", "node_count": 5,
        });
        assert_eq!(parse("stat", text), Some(expected));
    }
}
