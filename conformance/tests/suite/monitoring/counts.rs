//! The counts of our server and of Apache ZooKeeper after the same requests.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use libtest_mimic::Failed;
use zoolet_conformance::apache::Apache;
use zoolet_conformance::script::Setting;
use zoolet_conformance::servers;

use super::requests::{Ours, block_on, carry_out, mntr};

/// What the requests alone decide.
const DETERMINED: &str = "
    znode_count watch_count ephemerals_count global_sessions local_sessions approximate_data_size
    outstanding_requests last_client_response_size max_client_response_size
    min_client_response_size auth_failed_count bytes_received_count connection_request_count
    connection_rejected connection_revalidate_count
    sessionless_connections_expired stale_sessions_expired watch_bytes
    prep_processor_request_queued snap_count diff_count looking_count proposal_count
    ensemble_auth_success unrecoverable_error_count digest_mismatches_count
    cnt_readlatency cnt_updatelatency cnt_prep_process_time cnt_close_session_prep_time
    cnt_connection_token_deficit sum_connection_token_deficit
    cnt_node_changed_watch_count sum_node_changed_watch_count
    cnt_node_children_watch_count sum_node_children_watch_count
    cnt_node_created_watch_count cnt_node_deleted_watch_count
    cnt_election_time cnt_commit_process_time cnt_quorum_ack_latency
    cnt_app_read_per_namespace sum_app_read_per_namespace min_app_read_per_namespace
    max_app_read_per_namespace avg_app_read_per_namespace
    cnt_app_write_per_namespace sum_app_write_per_namespace max_app_write_per_namespace
    cnt_second_write_per_namespace sum_second_write_per_namespace
    cnt_multi_write_per_namespace sum_multi_write_per_namespace";

/// The same since 3.9; 3.8 leaves a Stat out of one reply.
const DETERMINED_SINCE_3_9: &str = "response_bytes";

pub(crate) fn are_those_of_apache() -> Result<(), Failed> {
    let apache = Apache::start(&servers::properties(Setting::Steady))?;
    block_on(async {
        let ours = Ours::start(servers::config(Setting::Steady)).await?;
        let theirs = differences(apache.address()).await?;
        let ours = differences(ours.address).await?;
        // ZOOLET_APACHE_JARS may name another version.
        let is_3_8 = theirs.get("version").is_some_and(|version| version.starts_with("3.8."));
        let newer = if is_3_8 { "" } else { DETERMINED_SINCE_3_9 };
        let keys = DETERMINED.split_whitespace().chain(newer.split_whitespace());
        let differing: Vec<_> = keys
            .filter(|key| ours.get(*key) != theirs.get(*key))
            .map(|key| (key, ours.get(key), theirs.get(key)))
            .collect();
        assert!(differing.is_empty(), "ours and theirs: {differing:?}");
        // All keys of 3.8, too.
        let missing: Vec<_> = theirs.keys().filter(|key| !ours.contains_key(*key)).collect();
        assert!(missing.is_empty(), "{missing:?}");
        Ok(())
    })
}

/// The values after the requests. What grew before them, since the server was looked for, is taken
/// away from those that only grow.
async fn differences(server: SocketAddr) -> Result<BTreeMap<String, String>, Failed> {
    let before: BTreeMap<_, _> = mntr(server)?.into_iter().collect();
    carry_out(server).await?;
    let mut after: BTreeMap<_, _> = mntr(server)?.into_iter().collect();
    for (key, value) in &mut after {
        let only_grows = key.starts_with("cnt_")
            || key.starts_with("sum_")
            || key.starts_with("connection_")
            || key.starts_with("bytes_")
            || key.ends_with("_queued");
        if let (true, Ok(now), Some(Ok(then))) =
            (only_grows, value.parse::<i64>(), before.get(key).map(|value| value.parse::<i64>()))
        {
            *value = (now - then).to_string();
        }
    }
    Ok(after)
}
