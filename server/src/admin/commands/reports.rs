//! The fields of the reports, in ZooKeeper's order.

use std::fmt;
use std::sync::atomic::Ordering;

use zoolet_core::WatchSummary;
use zoolet_protocol::SessionId;

use super::Told;
use crate::admin::json::{Array, Average, Metric, Object};
use crate::admin::server::Admin;
use crate::engine::metrics;
use crate::engine::stats::four_letters;
use crate::reports::configuration::{Configuration, Directories};
use crate::reports::connections::ConnectionReport;
use crate::reports::numbers::Numbers;
use crate::reports::{
    self, VERSION, connections as connection_reports, environment as machine, sessions,
    watches as watch_reports,
};
use crate::storage::directory::Directory;

type Fields = Result<Told, fmt::Error>;

pub(super) fn nothing(_admin: &Admin, _object: &mut Object<'_>) -> Fields {
    Ok(Told::Values)
}

pub(super) fn reset_connections(admin: &Admin, _object: &mut Object<'_>) -> Fields {
    reports::reset_connections(&admin.engine);
    Ok(Told::Values)
}

pub(super) fn reset_stats(admin: &Admin, _object: &mut Object<'_>) -> Fields {
    reports::reset_server(&admin.engine);
    Ok(Told::Values)
}

pub(super) fn configuration(admin: &Admin, object: &mut Object<'_>) -> Fields {
    let configuration = Configuration::of(&admin.engine);
    let (least, greatest) = configuration.session_timeouts_ms;
    object.field("client_port", configuration.client_port)?;
    object.field("data_dir", &configuration.directories.data.0)?;
    object.field("data_log_dir", &configuration.directories.logs.0)?;
    object.field("tick_time", configuration.tick_time_ms)?;
    object.field("max_client_cnxns", configuration.max_client_connections)?;
    object.field("min_session_timeout", least)?;
    object.field("max_session_timeout", greatest)?;
    object.field("server_id", 0)?;
    object.field("client_port_listen_backlog", configuration.listen_backlog)?;
    Ok(Told::Values)
}

/// The lists of connections, and whether they are of the port that speaks only TLS.
const CONNECTION_LISTS: [(&str, bool); 2] = [("connections", false), ("secure_connections", true)];

pub(super) fn connections(admin: &Admin, object: &mut Object<'_>) -> Fields {
    for (name, is_secure) in CONNECTION_LISTS {
        object.array(name, |array| {
            connection_reports::connections(&admin.engine, None)
                .filter(|connection| connection.is_secure == is_secure)
                .try_for_each(|connection| full_connection(&connection, array))
        })?;
    }
    Ok(Told::Values)
}

fn full_connection(connection: &ConnectionReport, array: &mut Array<'_>) -> fmt::Result {
    array.object(|object| {
        brief_connection(connection, object)?;
        let Some(session) = &connection.session else { return Ok(()) };
        let last = session.last;
        object.field("session_id", session.session.0)?;
        object.field("last_operation", four_letters(last.op))?;
        object.field("established", session.established_ms)?;
        object.field("session_timeout", session.timeout_ms)?;
        object.field("last_cxid", last.xid.0)?;
        object.field("last_zxid", last.zxid.0)?;
        object.field("last_response_time", last.replied_ms)?;
        object.field("last_latency", last.latency_ms)?;
        object.field("min_latency", session.latency_min_ms)?;
        object.field("avg_latency", session.latency_average_ms)?;
        object.field("max_latency", session.latency_max_ms)
    })
}

fn brief_connection(connection: &ConnectionReport, object: &mut Object<'_>) -> fmt::Result {
    object.field("remote_socket_address", &connection.address)?;
    object.field("interest_ops", connection.interest)?;
    object.field("outstanding_requests", connection.outstanding)?;
    object.field("packets_received", connection.received)?;
    object.field("packets_sent", connection.sent)
}

/// This server keeps no history of digests: ZooKeeper has it to find servers that differ.
pub(super) fn digests(_admin: &Admin, object: &mut Object<'_>) -> Fields {
    object.array("digests", |_| Ok(()))?;
    Ok(Told::Values)
}

pub(super) fn directories(admin: &Admin, object: &mut Object<'_>) -> Fields {
    let directories = Directories::of(&admin.engine);
    object.field("datadir_size", directories.data.1)?;
    object.field("logdir_size", directories.logs.1)?;
    Ok(Told::Values)
}

pub(super) fn dump(admin: &Admin, object: &mut Object<'_>) -> Fields {
    let engine = &admin.engine;
    object.object("expiry_time_to_session_ids", |times| {
        for (expires_ms, sessions) in sessions::by_expiry(engine) {
            times.array(&expires_ms.to_string(), |array| ids(array, &sessions))?;
        }
        Ok(())
    })?;
    object.object("session_id_to_ephemeral_paths", |owners| {
        for session in sessions::owners(engine) {
            owners.array(&session.0.to_string(), |array| {
                let mut paths = sessions::ephemerals(engine, session);
                paths.try_for_each(|path| array.element(path.as_str()))
            })?;
        }
        Ok(())
    })?;
    Ok(Told::Values)
}

fn ids(array: &mut Array<'_>, sessions: &[SessionId]) -> fmt::Result {
    sessions.iter().try_for_each(|session| array.element(session.0))
}

pub(super) fn environment(_admin: &Admin, object: &mut Object<'_>) -> Fields {
    for (key, value) in machine::environment() {
        object.field(key, value)?;
    }
    Ok(Told::Values)
}

pub(super) fn trace_mask(admin: &Admin, object: &mut Object<'_>) -> Fields {
    object.field("tracemask", admin.engine.trace_mask.load(Ordering::Relaxed))?;
    Ok(Told::Values)
}

/// Sets the trace mask to the argument.
pub(super) fn set_trace_mask(
    admin: &Admin,
    argument: Option<&str>,
    object: &mut Object<'_>,
) -> Fields {
    let needed = "setTraceMask requires long traceMask argument";
    let Some(argument) = argument else {
        object.field("error", needed)?;
        return Ok(Told::Error);
    };
    let Ok(mask) = argument.parse::<i64>() else {
        object.field("error", format!("{needed}, got {argument}"))?;
        return Ok(Told::Error);
    };
    admin.engine.trace_mask.store(mask, Ordering::Relaxed);
    object.field("tracemask", mask)?;
    Ok(Told::Values)
}

pub(super) fn initial_configuration(admin: &Admin, object: &mut Object<'_>) -> Fields {
    object.field("initial_configuration", admin.config.initial_configuration.as_deref())?;
    Ok(Told::Values)
}

pub(super) fn is_read_only(_admin: &Admin, object: &mut Object<'_>) -> Fields {
    object.field("read_only", false)?;
    Ok(Told::Values)
}

/// The newest snapshot: the zxid in its name, and when it was written.
pub(super) fn last_snapshot(admin: &Admin, object: &mut Object<'_>) -> Fields {
    let newest = admin.engine.config.storage.as_ref().and_then(|storage| {
        let directory = Directory::of(storage);
        let newest = directory.files().ok()?.snapshots.pop()?;
        let written_ms = directory.disk.modified_ms(&newest.path).unwrap_or(0);
        Some((newest.zxid.0, written_ms / 1_000))
    });
    let (zxid, written_s) = newest.unwrap_or((-1, -1));
    object.field("zxid", format!("{zxid:x}"))?;
    object.field("timestamp", written_s)?;
    Ok(Told::Values)
}

/// Of a single node ZooKeeper says this.
pub(super) fn leader(_admin: &Admin, object: &mut Object<'_>) -> Fields {
    object.field("error", "server is not initialized")?;
    Ok(Told::Error)
}

pub(super) fn monitor(admin: &Admin, object: &mut Object<'_>) -> Fields {
    for (key, value) in metrics::monitor(&admin.engine, VERSION) {
        object.field(&key, Metric(&value))?;
    }
    Ok(Told::Values)
}

const STANDALONE: &str = "standalone";

pub(super) fn server_stats(admin: &Admin, object: &mut Object<'_>) -> Fields {
    let numbers = Numbers::of(&admin.engine);
    object.field("version", VERSION)?;
    object.field("read_only", false)?;
    object.object("server_stats", |stats| numbers_of_server(admin, &numbers, stats))?;
    object.object("client_response", |sizes| response_sizes(admin, sizes))?;
    object.field("node_count", numbers.znodes)?;
    Ok(Told::Values)
}

/// In the order in which Jackson finds the methods of `ServerStats` in 3.9.5, most of the time.
fn numbers_of_server(admin: &Admin, numbers: &Numbers, stats: &mut Object<'_>) -> fmt::Result {
    let directories = Directories::of(&admin.engine);
    let counters = &admin.engine.stats;
    stats.field("packets_sent", numbers.sent)?;
    stats.field("packets_received", numbers.received)?;
    let slow_syncs = counters.storage.as_ref().map_or(0, |storage| storage.slow_syncs.value());
    stats.field("fsync_threshold_exceed_count", slow_syncs)?;
    stats.object("client_response_stats", |sizes| response_sizes(admin, sizes))?;
    stats.field("provider_null", false)?;
    stats.field("data_dir_size", directories.data.1)?;
    stats.field("log_dir_size", directories.logs.1)?;
    stats.field("last_processed_zxid", numbers.zxid.0)?;
    stats.field("outstanding_requests", numbers.outstanding)?;
    stats.field("server_state", STANDALONE)?;
    stats.field("avg_latency", Average(numbers.latency_average_ms))?;
    stats.field("max_latency", numbers.latency_max_ms)?;
    stats.field("min_latency", numbers.latency_min_ms)?;
    stats.field("num_alive_client_connections", numbers.connections)?;
    stats.field("auth_failed_count", counters.auth_failed.value())?;
    stats.field("non_mtlsremote_conn_count", counters.plaintext_remote.value())?;
    stats.field("non_mtlslocal_conn_count", counters.plaintext_local.value())?;
    stats.field("uptime", admin.engine.clock.now_ms())
}

fn response_sizes(admin: &Admin, sizes: &mut Object<'_>) -> fmt::Result {
    let [last, min, max] = admin.engine.stats.response_sizes.values();
    sizes.field("last_buffer_size", last)?;
    sizes.field("min_buffer_size", min)?;
    sizes.field("max_buffer_size", max)
}

pub(super) fn stats(admin: &Admin, object: &mut Object<'_>) -> Fields {
    server_stats(admin, object)?;
    for (name, is_secure) in CONNECTION_LISTS {
        object.array(name, |array| {
            connection_reports::connections(&admin.engine, None)
                .filter(|connection| connection.is_secure == is_secure)
                .try_for_each(|connection| {
                    array.object(|object| brief_connection(&connection, object))
                })
        })?;
    }
    Ok(Told::Values)
}

pub(super) fn observers(_admin: &Admin, object: &mut Object<'_>) -> Fields {
    object.field("synced_observers", 0)?;
    object.array("observers", |_| Ok(()))?;
    Ok(Told::Values)
}

/// What Java tells of its machine, and the settings that ZooKeeper has as Java properties, by name.
pub(super) fn system_properties(admin: &Admin, object: &mut Object<'_>) -> Fields {
    let is_java =
        |key: &str| ["java.", "os.", "user."].iter().any(|prefix| key.starts_with(prefix));
    let of_machine = machine::environment().into_iter();
    let of_machine = of_machine.filter(|(key, _)| is_java(key) && !key.starts_with("os.memory"));
    let mut properties = admin.config.properties.clone();
    properties.extend(of_machine.map(|(key, value)| (key.to_owned(), value)));
    for (key, value) in properties {
        object.field(&key, value)?;
    }
    Ok(Told::Values)
}

pub(super) fn voting_view(_admin: &Admin, object: &mut Object<'_>) -> Fields {
    object.object("current_config", |_| Ok(()))?;
    Ok(Told::Values)
}

pub(super) fn watches(admin: &Admin, object: &mut Object<'_>) -> Fields {
    let engine = &admin.engine;
    object.object("session_id_to_watched_paths", |by_session| {
        for (session, connections) in watch_reports::by_session(engine) {
            let paths = connections.into_iter().flat_map(|id| watch_reports::watched(engine, id));
            let mut paths = paths.peekable();
            if paths.peek().is_some() {
                by_session.array(&session.0.to_string(), |array| {
                    paths.try_for_each(|path| array.element(&*path))
                })?;
            }
        }
        Ok(())
    })?;
    Ok(Told::Values)
}

pub(super) fn watches_by_path(admin: &Admin, object: &mut Object<'_>) -> Fields {
    let watches = watch_reports::by_path(&admin.engine);
    object.object("path_to_session_ids", |by_path| {
        for same_path in watches.chunk_by(|(a, _), (b, _)| a == b) {
            by_path.array(&same_path[0].0, |array| {
                same_path.iter().try_for_each(|(_, session)| array.element(session.0))
            })?;
        }
        Ok(())
    })?;
    Ok(Told::Values)
}

pub(super) fn watch_summary(admin: &Admin, object: &mut Object<'_>) -> Fields {
    let WatchSummary { connections, paths, watches, .. } = watch_reports::summary(&admin.engine);
    object.field("num_connections", connections)?;
    object.field("num_paths", paths)?;
    object.field("num_total_watches", watches)?;
    Ok(Told::Values)
}

pub(super) fn zab_state(_admin: &Admin, object: &mut Object<'_>) -> Fields {
    object.field("voting", false)?;
    object.field("zabstate", "")?;
    Ok(Told::Values)
}
