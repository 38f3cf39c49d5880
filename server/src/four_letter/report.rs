//! The answers that tell of the server as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;

use zoolet_protocol::SessionId;

use super::VERSION;
use crate::engine::Engine;
use crate::limits::SESSIONLESS_TIMEOUT;
use crate::storage::directory::Directory;

/// `srvr`.
pub(super) fn server(engine: &Engine) -> String {
    format!("Zookeeper version: {VERSION}\n{}", numbers(engine))
}

/// What `srvr` and `stat` have in common.
pub(super) fn numbers(engine: &Engine) -> String {
    let stats = &engine.stats;
    let (least, average, greatest) = stats.latency.summary_ms();
    let (zxid, znodes) = engine.look(|core| (core.last_zxid(), core.totals().znodes));
    format!(
        "Latency min/avg/max: {least}/{}/{greatest}\nReceived: {}\nSent: {}\nConnections: {}\n\
         Outstanding: 0\nZxid: {zxid}\nMode: standalone\nNode count: {znodes}\n",
        double(average),
        stats.received.value(),
        stats.sent.value(),
        engine.registry.peer_count(),
    )
}

/// A number as Java prints a double that was rounded to four places.
pub(super) fn double(value: f64) -> String {
    let rounded = (value * 10_000.0).round() / 10_000.0;
    if rounded.fract() == 0.0 { format!("{rounded:.1}") } else { rounded.to_string() }
}

/// `conf`.
pub(super) fn configuration(engine: &Engine) -> String {
    let config = &engine.config;
    let (least, greatest) = engine.session_timeouts_ms();
    let port = engine.local_addr().map_or(0, |address| address.port());
    let backlog = config.listen_backlog.map_or(-1, i64::from);
    let [(data, data_bytes), (logs, log_bytes)] = directory_sizes(engine);
    format!(
        "clientPort={port}\nsecureClientPort=-1\ndataDir={data}\ndataDirSize={data_bytes}\n\
         dataLogDir={logs}\ndataLogSize={log_bytes}\ntickTime={}\nmaxClientCnxns={}\nminSessionTimeout={least}\n\
         maxSessionTimeout={greatest}\nclientPortListenBacklog={backlog}\nserverId=0\n",
        config.tick_time_ms, config.max_client_connections,
    )
}

/// `dirs`.
pub(super) fn directories(engine: &Engine) -> String {
    let [(_, data), (_, logs)] = directory_sizes(engine);
    format!("datadir_size: {data}\nlogdir_size: {logs}\n")
}

/// Where snapshots and logs are, and their bytes; nothing if they are nowhere.
fn directory_sizes(engine: &Engine) -> [(String, u64); 2] {
    match &engine.config.storage {
        Some(storage) => Directory::of(storage)
            .sizes()
            .map(|(directory, bytes)| (directory.display().to_string(), bytes)),
        None => Default::default(),
    }
}

/// `envi`: what there is of it without a Java machine.
pub(super) fn environment() -> String {
    let home = std::env::var("HOME").unwrap_or_default();
    // In Java's words.
    let (os, arch) = match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => ("Linux", "amd64"),
        ("linux", arch) => ("Linux", arch),
        ("macos", arch) => ("Mac OS X", arch),
        other => other,
    };
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let directory = std::env::current_dir().unwrap_or_else(|_| PathBuf::new());
    format!(
        "Environment:\nzookeeper.version={VERSION}\nhost.name={}\nos.name={}\nos.arch={}\n\
         os.version={}\nuser.name={}\nuser.home={}\nuser.dir={}\n",
        host.trim(),
        os,
        arch,
        release.trim(),
        whoami::username().unwrap_or_default(),
        home,
        directory.display(),
    )
}

/// `dump`: sessions by when they expire, ephemerals by session, connections.
pub(super) fn dump(engine: &Engine) -> String {
    let tick_ms = u64::from(engine.config.tick_time_ms);
    let start_ms = engine.clock.wall_ms() - engine.clock.now_ms() as i64;
    let mut buckets: BTreeMap<u64, Vec<SessionId>> = BTreeMap::new();
    let sessions = engine.registry.sessions();
    for liveness in &sessions {
        buckets.entry(liveness.expires_ms(tick_ms)).or_default().push(liveness.session);
    }
    let mut text =
        format!("SessionTracker dump:\nSession Sets ({})/({}):\n", buckets.len(), sessions.len());
    for (expires_ms, sessions) in &buckets {
        let at_ms = start_ms + *expires_ms as i64;
        let _ = writeln!(text, "{} expire at {}:", sessions.len(), date(at_ms));
        for session in sessions {
            let _ = writeln!(text, "\t{session}");
        }
    }
    let owners = engine.look(zoolet_core::Core::ephemeral_owners);
    let _ = writeln!(text, "ephemeral nodes dump:\nSessions with Ephemerals ({}):", owners.len());
    for (session, paths) in owners {
        let _ = writeln!(text, "{session}:");
        for path in paths {
            let _ = writeln!(text, "\t{path}");
        }
    }
    dump_connections(engine, start_ms, &mut text);
    text
}

/// The connections by when they are given up if nothing more is heard of them: with the session, or
/// without one after the time for the handshake.
fn dump_connections(engine: &Engine, start_ms: i64, text: &mut String) {
    let tick_ms = u64::from(engine.config.tick_time_ms);
    let mut buckets: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    let peers = engine.registry.peers();
    for peer in &peers {
        let session = peer.stats.session();
        let expires_ms = match engine.registry.session(session) {
            Some(liveness) => start_ms + liveness.expires_ms(tick_ms) as i64,
            None => peer.stats.established_ms + SESSIONLESS_TIMEOUT.as_millis() as i64,
        };
        let line = format!("\tip: /{} sessionId: {session}", peer.address_text());
        buckets.entry(expires_ms).or_default().push(line);
    }
    let _ = writeln!(
        text,
        "Connections dump:\nConnections Sets ({})/({}):",
        buckets.len(),
        peers.len()
    );
    for (expires_ms, lines) in &buckets {
        let _ = writeln!(text, "{} expire at {}:", lines.len(), date(*expires_ms));
        for line in lines {
            let _ = writeln!(text, "{line}");
        }
    }
}

/// A moment as text: the date and time of UTC, as Java's `Date` prints them.
fn date(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms)
        .map_or_else(|_| ms.to_string(), |at| at.strftime("%a %b %d %H:%M:%S UTC %Y").to_string())
}

/// The watched paths and the sessions that watch them, as far as their connections are there.
fn watches(engine: &Engine) -> Vec<(String, Vec<SessionId>)> {
    let session = |connection| Some(engine.registry.peer(connection)?.stats.session());
    let watchers = engine.look(zoolet_core::Core::data_watchers);
    watchers
        .into_iter()
        .map(|(path, connections)| {
            (path.to_string(), connections.into_iter().filter_map(session).collect())
        })
        .collect()
}

/// `wchs`: only watches on data, as in ZooKeeper.
pub(super) fn watch_summary(engine: &Engine) -> String {
    let watchers = engine.look(zoolet_core::Core::data_watchers);
    let connections: BTreeSet<_> =
        watchers.iter().flat_map(|(_, connections)| connections).collect();
    let total: usize = watchers.iter().map(|(_, connections)| connections.len()).sum();
    format!(
        "{} connections watching {} paths\nTotal watches:{total}\n",
        connections.len(),
        watchers.len()
    )
}

/// `wchp`.
pub(super) fn watches_by_path(engine: &Engine) -> String {
    let mut text = String::new();
    for (path, sessions) in watches(engine) {
        let _ = writeln!(text, "{path}");
        for session in sessions {
            let _ = writeln!(text, "\t{session}");
        }
    }
    text.push('\n');
    text
}

/// `wchc`.
pub(super) fn watches_by_session(engine: &Engine) -> String {
    let mut by_session: BTreeMap<SessionId, Vec<String>> = BTreeMap::new();
    for (path, sessions) in watches(engine) {
        for session in sessions {
            by_session.entry(session).or_default().push(path.clone());
        }
    }
    let mut text = String::new();
    for (session, paths) in by_session {
        let _ = writeln!(text, "{session}");
        for path in paths {
            let _ = writeln!(text, "\t{path}");
        }
    }
    text.push('\n');
    text
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

    #[test]
    fn averages_are_printed_as_java_does() {
        assert_eq!(double(0.0), "0.0");
        assert_eq!(double(0.123_456), "0.1235");
        assert_eq!(double(12.5), "12.5");
    }
}
