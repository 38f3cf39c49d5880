//! Names: those of `mntr` of 3.9.5, and those that dashboards and alert rules ask for.

use std::collections::BTreeSet;

use libtest_mimic::Failed;
use zoolet_conformance::peers::conformance_folder;
use zoolet_server::Config;

use super::page::ask;
use super::requests::{Ours, block_on, carry_out, mntr};

/// What dashboards and alerts ask for and a standalone ZooKeeper 3.9.5 does not have either: it has
/// no ensemble. `quorum_size` least of all: an alert subtracts from it the servers that are up.
const OF_AN_ENSEMBLE: [&str; 14] = [
    "ack_latency",
    "ack_latency_count",
    "ack_latency_sum",
    "last_proposal_size",
    "leader_uptime",
    "learner_handler_qp_size_sum",
    "learners",
    "max_proposal_size",
    "min_proposal_size",
    "pending_syncs",
    "quorum_size",
    "synced_followers",
    "synced_non_voting_followers",
    "synced_observers",
];

/// The same for a Java virtual machine.
const OF_JAVA: [&str; 11] = [
    "jvm_classes_loaded",
    "jvm_gc_collection_seconds_count",
    "jvm_gc_collection_seconds_sum",
    "jvm_memory_bytes_used",
    "jvm_memory_pool_bytes_used",
    "jvm_pause_time_ms",
    "jvm_pause_time_ms_count",
    "jvm_pause_time_ms_sum",
    "jvm_threads_current",
    "jvm_threads_deadlocked",
    "jvm_threads_state",
];

/// What Prometheus itself knows.
const OF_PROMETHEUS: [&str; 1] = ["up"];

fn data(name: &str) -> Result<String, Failed> {
    Ok(std::fs::read_to_string(conformance_folder().join("monitoring").join(name))?)
}

/// Each key of `mntr` of a standalone 3.9.5, as recorded, is a key of ours.
pub(crate) fn mntr_has_every_key() -> Result<(), Failed> {
    let ours = block_on(async {
        let server = Ours::start(Config::default()).await?;
        Ok(mntr(server.address)?)
    })?;
    let ours: BTreeSet<_> = ours.iter().map(|(key, _)| key.as_str()).collect();
    let recorded = data("mntr-3.9.5.names")?;
    let missing: Vec<_> = recorded.lines().filter(|name| !ours.contains(name)).collect();
    assert_eq!(recorded.lines().count(), 494);
    assert!(missing.is_empty(), "{missing:?}");
    Ok(())
}

/// All names in the expressions of the dashboards and alerts are on the page after some requests,
/// but for those that are listed above.
pub(crate) fn dashboards_and_alerts() -> Result<(), Failed> {
    let page = block_on(async {
        let server = Ours::start(Config::default()).await?;
        carry_out(server.address).await?;
        ask(server.page, "GET /metrics").await
    })?;
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    let found: BTreeSet<_> = lines.filter_map(|line| line.split(['{', ' ']).next()).collect();
    let mut asked = BTreeSet::new();
    for dashboard in ["dashboard-10465.names", "dashboard-altinity.names"] {
        asked.extend(data(dashboard)?.lines().map(str::to_owned));
    }
    let alerts = data("alerts.expressions")?;
    assert_eq!(alerts.lines().count(), 33);
    alerts.lines().for_each(|expression| asked.extend(names(expression)));
    assert!(asked.len() > 150, "{} names", asked.len());
    let is_excused = |name: &&String| {
        let mut excused = OF_AN_ENSEMBLE.iter().chain(&OF_JAVA).chain(&OF_PROMETHEUS);
        excused.any(|excused| excused == name)
    };
    let (excused, needed): (Vec<_>, Vec<_>) = asked.iter().partition(is_excused);
    let missing: Vec<_> = needed.iter().filter(|name| !found.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
    // An excuse that nobody needs, or that is there after all but with other values, is none.
    let there: Vec<_> = excused.iter().filter(|name| found.contains(name.as_str())).collect();
    let of_pauses = |name: &str| name.starts_with("jvm_pause_time_ms");
    assert!(there.iter().all(|name| of_pauses(name)), "{there:?}");
    Ok(())
}

/// The names of metrics in an expression of Prometheus.
fn names(expression: &str) -> Vec<String> {
    let mut bare = String::new();
    let mut depth = 0;
    for c in expression.chars() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            _ if depth == 0 => bare.push(c),
            _ => {}
        }
    }
    let bare = bare.replace("by (job)", "");
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = bare.split(|c: char| !is_part(c)).filter(|word| !word.is_empty());
    let is_function = |word: &str| bare.contains(&format!("{word}("));
    let is_name = |word: &&str| word.starts_with(|c: char| c.is_ascii_lowercase());
    words.filter(is_name).filter(|word| !is_function(word)).map(str::to_owned).collect()
}
