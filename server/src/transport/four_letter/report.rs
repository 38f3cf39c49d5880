//! The reports about the server as a whole.

use std::fmt::{self, Write};

use zoolet_core::WatchSummary;

use crate::engine::lock::Engine;
use crate::reports::configuration::{Configuration, Directories};
use crate::reports::environment;
use crate::reports::numbers::Numbers;
use crate::reports::{VERSION, average_text, sessions, watches};

/// `srvr`.
pub(super) fn server(engine: &Engine) -> String {
    format!("Zookeeper version: {VERSION}\n{}", numbers(engine))
}

/// The part that `srvr` and `stat` have in common.
pub(super) fn numbers(engine: &Engine) -> String {
    let numbers = Numbers::of(engine);
    format!(
        "Latency min/avg/max: {}/{}/{}\nReceived: {}\nSent: {}\nConnections: {}\n\
         Outstanding: {}\nZxid: {}\nMode: standalone\nNode count: {}\n",
        numbers.latency_min_ms,
        average_text(numbers.latency_average_ms),
        numbers.latency_max_ms,
        numbers.received,
        numbers.sent,
        numbers.connections,
        numbers.outstanding,
        numbers.zxid,
        numbers.znodes,
    )
}

/// `conf`.
pub(super) fn configuration(engine: &Engine) -> String {
    let configuration = Configuration::of(engine);
    let (least, greatest) = configuration.session_timeouts_ms;
    let Directories { data: (data, data_bytes), logs: (logs, log_bytes) } =
        &configuration.directories;
    format!(
        "clientPort={}\nsecureClientPort={}\ndataDir={data}\ndataDirSize={data_bytes}\n\
         dataLogDir={logs}\ndataLogSize={log_bytes}\ntickTime={}\nmaxClientCnxns={}\n\
         minSessionTimeout={least}\nmaxSessionTimeout={greatest}\n\
         clientPortListenBacklog={}\nserverId=0\n",
        configuration.client_port,
        configuration.secure_client_port,
        configuration.tick_time_ms,
        configuration.max_client_connections,
        configuration.listen_backlog,
    )
}

/// `dirs`.
pub(super) fn directories(engine: &Engine) -> String {
    let Directories { data: (_, data), logs: (_, logs) } = Directories::of(engine);
    format!("datadir_size: {data}\nlogdir_size: {logs}\n")
}

/// `envi`.
pub(super) fn environment() -> String {
    let lines =
        environment::environment().into_iter().map(|(key, value)| format!("{key}={value}\n"));
    std::iter::once("Environment:\n".to_owned()).chain(lines).collect()
}

/// `dump`: the sessions by expiry time, the ephemeral znodes by session, and the connections.
pub(super) fn dump(engine: &Engine, out: &mut impl Write) -> fmt::Result {
    let start_ms = sessions::start_ms(engine);
    let buckets = sessions::by_expiry(engine);
    let count: usize = buckets.values().map(Vec::len).sum();
    writeln!(out, "SessionTracker dump:\nSession Sets ({})/({count}):", buckets.len())?;
    for (expires_ms, sessions) in &buckets {
        let at_ms = start_ms + *expires_ms as i64;
        writeln!(out, "{} expire at {}:", sessions.len(), date(at_ms))?;
        for session in sessions {
            writeln!(out, "\t{session}")?;
        }
    }
    let owners = sessions::owners(engine);
    writeln!(out, "ephemeral nodes dump:\nSessions with Ephemerals ({}):", owners.len())?;
    for session in owners {
        writeln!(out, "{session}:")?;
        for path in sessions::ephemerals(engine, session) {
            writeln!(out, "\t{path}")?;
        }
    }
    dump_connections(engine, out)
}

fn dump_connections(engine: &Engine, out: &mut impl Write) -> fmt::Result {
    let buckets = sessions::connections_by_end(engine);
    let count: usize = buckets.values().map(Vec::len).sum();
    writeln!(out, "Connections dump:\nConnections Sets ({})/({count}):", buckets.len())?;
    for (ends_ms, connections) in &buckets {
        writeln!(out, "{} expire at {}:", connections.len(), date(*ends_ms))?;
        for connection in connections {
            writeln!(out, "\tip: /{} sessionId: {}", connection.address, connection.session)?;
        }
    }
    Ok(())
}

/// A moment as Java's `Date` prints it, in UTC.
fn date(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms)
        .map_or_else(|_| ms.to_string(), |at| at.strftime("%a %b %d %H:%M:%S UTC %Y").to_string())
}

/// `wchs`.
pub(super) fn watch_summary(engine: &Engine) -> String {
    let WatchSummary { connections, paths, watches, .. } = watches::summary(engine);
    format!("{connections} connections watching {paths} paths\nTotal watches:{watches}\n")
}

/// `wchp`.
pub(super) fn watches_by_path(engine: &Engine, out: &mut impl Write) -> fmt::Result {
    let mut last = None;
    for (path, session) in &watches::by_path(engine) {
        if last != Some(path) {
            writeln!(out, "{path}")?;
            last = Some(path);
        }
        writeln!(out, "\t{session}")?;
    }
    writeln!(out)
}

/// `wchc`.
pub(super) fn watches_by_session(engine: &Engine, out: &mut impl Write) -> fmt::Result {
    for (session, connections) in watches::by_session(engine) {
        let paths = connections.into_iter().flat_map(|id| watches::watched(engine, id));
        let mut paths = paths.peekable();
        if paths.peek().is_some() {
            writeln!(out, "{session}")?;
        }
        for path in paths {
            writeln!(out, "\t{path}")?;
        }
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_printed_as_java_does() {
        assert_eq!(date(0), "Thu Jan 01 00:00:00 UTC 1970");
        assert_eq!(date(951_782_400_000), "Tue Feb 29 00:00:00 UTC 2000");
        assert_eq!(date(1_795_219_199_000), "Fri Nov 20 23:59:59 UTC 2026");
    }
}
