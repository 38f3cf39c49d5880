//! The reports about the server as a whole.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use zoolet_core::{ConnectionId, Core, WatchSummary};
use zoolet_protocol::SessionId;

use super::VERSION;
use crate::engine::lock::Engine;
use crate::limits::{REPORT_SLICE, SESSIONLESS_TIMEOUT};
use crate::storage::directory::Directory;

/// `srvr`.
pub(super) fn server(engine: &Engine) -> String {
    format!("Zookeeper version: {VERSION}\n{}", numbers(engine))
}

/// The part that `srvr` and `stat` have in common.
pub(super) fn numbers(engine: &Engine) -> String {
    let stats = &engine.stats;
    let (least, average, greatest) = stats.latency.summary_ms();
    let (zxid, znodes) = engine.inspect(|core| (core.last_zxid(), core.totals().znodes));
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
    let port = |address: Option<SocketAddr>| address.map_or(-1, |address| address.port().into());
    let (port, secure_port): (i32, i32) = (port(engine.local_addr()), port(engine.secure_addr()));
    let backlog = config.listen_backlog.map_or(-1, i64::from);
    let [(data, data_bytes), (logs, log_bytes)] = directory_sizes(engine);
    format!(
        "clientPort={port}\nsecureClientPort={secure_port}\ndataDir={data}\ndataDirSize={data_bytes}\n\
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

/// The directories of snapshots and logs, and their sizes in bytes; `None` in memory only.
fn directory_sizes(engine: &Engine) -> [(String, u64); 2] {
    match &engine.config.storage {
        Some(storage) => Directory::of(storage)
            .sizes()
            .map(|(directory, bytes)| (directory.display().to_string(), bytes)),
        None => Default::default(),
    }
}

/// `envi`, without the properties of a Java virtual machine.
pub(super) fn environment() -> String {
    let home = std::env::var("HOME").unwrap_or_default();
    // By Java's names.
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

/// `dump`: the sessions by expiry time, the ephemeral znodes by session, and the connections.
pub(super) fn dump(engine: &Engine, out: &mut impl Write) -> fmt::Result {
    let tick_ms = u64::from(engine.config.tick_time_ms);
    let start_ms = engine.clock.wall_ms() - engine.clock.now_ms() as i64;
    let mut buckets: BTreeMap<u64, Vec<SessionId>> = BTreeMap::new();
    let sessions = engine.registry.sessions();
    for liveness in &sessions {
        buckets.entry(liveness.expires_ms(tick_ms)).or_default().push(liveness.session);
    }
    writeln!(out, "SessionTracker dump:\nSession Sets ({})/({}):", buckets.len(), sessions.len())?;
    for (expires_ms, sessions) in &buckets {
        let at_ms = start_ms + *expires_ms as i64;
        writeln!(out, "{} expire at {}:", sessions.len(), date(at_ms))?;
        for session in sessions {
            writeln!(out, "\t{session}")?;
        }
    }
    let owners = engine.inspect(Core::owners);
    writeln!(out, "ephemeral nodes dump:\nSessions with Ephemerals ({}):", owners.len())?;
    for session in owners {
        writeln!(out, "{session}:")?;
        let mut last = String::new();
        loop {
            let paths = engine.inspect(|core| core.ephemerals_after(session, &last, REPORT_SLICE));
            let Some(path) = paths.last() else { break };
            last = path.to_string();
            for path in &paths {
                writeln!(out, "\t{path}")?;
            }
        }
    }
    dump_connections(engine, start_ms, out)
}

/// The connections by the time at which they end if the client sends nothing more: when the session
/// expires, or without a session when the time for the handshake is over.
fn dump_connections(engine: &Engine, start_ms: i64, out: &mut impl Write) -> fmt::Result {
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
    let (sets, connections) = (buckets.len(), peers.len());
    writeln!(out, "Connections dump:\nConnections Sets ({sets})/({connections}):")?;
    for (expires_ms, lines) in &buckets {
        writeln!(out, "{} expire at {}:", lines.len(), date(*expires_ms))?;
        for line in lines {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// A moment as Java's `Date` prints it, in UTC.
fn date(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms)
        .map_or_else(|_| ms.to_string(), |at| at.strftime("%a %b %d %H:%M:%S UTC %Y").to_string())
}

/// `wchs`: only watches on data, as in ZooKeeper.
pub(super) fn watch_summary(engine: &Engine) -> String {
    let WatchSummary { connections, paths, watches, .. } = engine.inspect(Core::watch_summary);
    format!("{connections} connections watching {paths} paths\nTotal watches:{watches}\n")
}

/// The paths on which a connection has a data or exist watch, in order. They are read in slices.
fn watched(engine: &Engine, connection: ConnectionId) -> impl Iterator<Item = Arc<str>> {
    let mut last: Option<Arc<str>> = None;
    let slices = std::iter::from_fn(move || {
        let look = |core: &Core| core.watched_after(connection, last.as_deref(), REPORT_SLICE);
        let slice = engine.inspect(look);
        last = Some(Arc::clone(&slice.last()?.0));
        Some(slice)
    });
    slices.flatten().filter(|(_, is_data)| *is_data).map(|(path, _)| path)
}

/// `wchp`.
pub(super) fn watches_by_path(engine: &Engine, out: &mut impl Write) -> fmt::Result {
    let mut watches = Vec::new();
    for peer in engine.registry.peers() {
        let session = peer.stats.session();
        watches.extend(watched(engine, peer.id).map(|path| (path, peer.id, session)));
    }
    watches.sort_unstable();
    let mut last = None;
    for (path, _, session) in &watches {
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
    let mut connections: BTreeMap<SessionId, Vec<ConnectionId>> = BTreeMap::new();
    for peer in engine.registry.peers() {
        connections.entry(peer.stats.session()).or_default().push(peer.id);
    }
    for (session, connections) in connections {
        // A session briefly has two connections when its client reconnects.
        let paths = connections.into_iter().flat_map(|connection| watched(engine, connection));
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

    #[test]
    fn averages_are_printed_as_java_does() {
        assert_eq!(double(0.0), "0.0");
        assert_eq!(double(0.123_456), "0.1235");
        assert_eq!(double(12.5), "12.5");
    }
}
