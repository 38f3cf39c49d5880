//! Prometheus' own check of metrics and rules.

use std::io::Write;
use std::process::{Command, Stdio};

use libtest_mimic::Failed;
use zoolet_conformance::peers::conformance_folder;
use zoolet_server::{Config, Dialect, MetricsProvider};

use super::page::ask;
use super::requests::{Ours, block_on, carry_out};

/// What it says of the names of ZooKeeper 3.9, which the page must have: that counters do not end in
/// `_total`, other metrics do not end in `_count`, and units are spelled out and come last.
const OF_ZOOKEEPER: [&str; 5] = [
    "counter metrics should have \"_total\" suffix",
    "non-histogram and non-summary metrics should not have \"_count\" suffix",
    "metric names should not contain abbreviated units",
    "use base unit \"seconds\" instead of \"milliseconds\"",
    "non-counter metrics should not have \"_total\" suffix",
];

pub(crate) fn accepts_the_page() -> Result<(), Failed> {
    for dialect in [Dialect::V3_9, Dialect::V3_10] {
        let page = block_on(async {
            let metrics_provider = MetricsProvider::Prometheus(dialect);
            let server = Ours::start(Config { metrics_provider, ..Config::default() }).await?;
            carry_out(server.address).await?;
            ask(server.page, "GET /metrics").await
        })?;
        let (_, body) = page.split_once("\r\n\r\n").ok_or("a head")?;
        let mut check = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        check.stdin.take().ok_or("its input")?.write_all(body.as_bytes())?;
        let output = check.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        // 3 stands for remarks on names; a page that cannot be parsed is 1.
        assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
        let strange: Vec<_> = said
            .lines()
            .filter(|line| !OF_ZOOKEEPER.iter().any(|known| line.contains(known)))
            .collect();
        assert!(strange.is_empty(), "{strange:?}");
    }
    Ok(())
}

pub(crate) fn accepts_the_rules() -> Result<(), Failed> {
    let rules = conformance_folder().join("../docs/prometheus-alerts.yml");
    let output = Command::new("promtool").args(["check", "rules"]).arg(rules).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}
