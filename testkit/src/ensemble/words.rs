//! Four-letter words: those by which clients and tests learn who leads and what is watched.
//!
//! The texts have ZooKeeper's format (`org.apache.zookeeper.server.command`). Latencies and sizes of
//! proposals are not measured.

use std::fmt::Write as _;

use zoolet_server::VERSION;

use super::state::{Role, State};

/// ZooKeeper's words.
const WORDS: [&str; 18] = [
    "conf", "cons", "crst", "dump", "envi", "ruok", "srst", "srvr", "stat", "wchs", "wchc", "dirs",
    "wchp", "mntr", "isro", "hash", "gtmk", "stmk",
];

const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";

/// The word that these bytes spell. As the length of a frame they would be far too large.
pub(super) fn word(bytes: [u8; 4]) -> Option<&'static str> {
    WORDS.into_iter().find(|word| word.as_bytes() == bytes)
}

/// The answer to a word that is not enabled, or that an ensemble for tests does not have.
pub(super) fn not_listed(word: &str) -> String {
    format!("{word} is not executed because it is not in the whitelist.\n")
}

/// The answer of a server.
pub(super) fn answer(state: &State, server: usize, word: &str) -> String {
    let mode = mode(state, server);
    match (word, mode) {
        ("ruok", _) => "imok".to_owned(),
        // Clients look here for the version (kazoo's `server_version`).
        ("envi", _) => format!("Environment:\nzookeeper.version={VERSION}\n"),
        ("isro", None) => "null".to_owned(),
        ("isro", Some("read-only")) => "ro".to_owned(),
        ("isro", Some(_)) => "rw".to_owned(),
        ("srvr" | "stat" | "mntr" | "cons" | "wchs" | "wchp" | "wchc", None) => {
            NOT_SERVING.to_owned()
        }
        ("srvr", Some(mode)) => numbers(state, server, mode, ""),
        ("stat", Some(mode)) => {
            let clients = format!("Clients:\n{}\n", connections(state, server));
            numbers(state, server, mode, &clients)
        }
        ("cons", Some(_)) => format!("{}\n", connections(state, server)),
        ("mntr", Some(mode)) => monitor(state, server, mode),
        ("wchs", Some(_)) => watch_summary(state, server),
        ("wchp", Some(_)) => watches_by_path(state, server),
        ("wchc", Some(_)) => watches_by_session(state, server),
        _ => not_listed(word),
    }
}

/// The mode of a server that serves clients.
fn mode(state: &State, server: usize) -> Option<&'static str> {
    match state.members[server].role {
        Role::Leading => Some("leader"),
        Role::Following => Some("follower"),
        Role::Looking if state.is_read_only(server) => Some("read-only"),
        Role::Looking | Role::Stopped => None,
    }
}

fn numbers(state: &State, server: usize, mode: &str, clients: &str) -> String {
    let core = &state.members[server].core;
    let read_only = match mode {
        "read-only" => "READ-ONLY mode; serving only read-only clients\n",
        _ => "",
    };
    let proposals = match mode {
        "leader" => "Proposal sizes last/min/max: -1/-1/-1\n",
        _ => "",
    };
    let (received, sent, open) = traffic(state, server);
    format!(
        "Zookeeper version: {VERSION}\n{read_only}{clients}Latency min/avg/max: 0/0.0/0\n\
         Received: {received}\nSent: {sent}\nConnections: {open}\nOutstanding: 0\nZxid: {:#x}\n\
         Mode: {mode}\nNode count: {}\n{proposals}",
        core.last_zxid().0,
        core.totals().znodes,
    )
}

/// The frames that came in and that were sent over the open connections, and their number.
fn traffic(state: &State, server: usize) -> (u64, u64, usize) {
    let its = state.connections.values().filter(|connection| connection.member == server);
    its.filter(|connection| connection.is_open()).fold((0, 0, 0), |(received, sent, open), it| {
        (received + it.received, sent + it.sent, open + 1)
    })
}

fn connections(state: &State, server: usize) -> String {
    let its = state.connections.values().filter(|connection| connection.member == server);
    let mut text = String::new();
    for it in its.filter(|connection| connection.is_open()) {
        let address = it.address.map_or_else(|| "in-process".to_owned(), |it| it.to_string());
        let (queued, received, sent) = (it.queued(), it.received, it.sent);
        let _ = writeln!(text, " /{address}[1](queued={queued},recved={received},sent={sent})");
    }
    text
}

fn monitor(state: &State, server: usize, mode: &str) -> String {
    let (received, sent, open) = traffic(state, server);
    let totals = state.members[server].core.totals();
    let peer_state = match mode {
        "leader" => "leading - broadcast",
        "follower" => "following - broadcast",
        _ => "looking",
    };
    let mut lines = vec![
        ("version", VERSION.to_owned()),
        ("server_state", mode.to_owned()),
        ("peer_state", peer_state.to_owned()),
        ("num_alive_connections", open.to_string()),
        ("packets_received", received.to_string()),
        ("packets_sent", sent.to_string()),
        ("outstanding_requests", "0".to_owned()),
        ("znode_count", totals.znodes.to_string()),
        ("watch_count", totals.watches.to_string()),
        ("ephemerals_count", totals.ephemerals.to_string()),
        ("approximate_data_size", totals.data_bytes.to_string()),
        ("global_sessions", totals.sessions.to_string()),
        ("quorum_size", state.members.len().to_string()),
    ];
    if mode == "leader" {
        let followers = (0..state.members.len())
            .filter(|other| *other != server && state.hears_leader(*other))
            .count();
        lines.push(("learners", followers.to_string()));
        lines.push(("synced_followers", followers.to_string()));
    }
    lines.into_iter().fold(String::new(), |mut text, (key, value)| {
        let _ = writeln!(text, "zk_{key}\t{value}");
        text
    })
}

fn watch_summary(state: &State, server: usize) -> String {
    let summary = state.members[server].core.watch_summary();
    let (connections, paths, watches) = (summary.connections, summary.paths, summary.watches);
    format!("{connections} connections watching {paths} paths\nTotal watches:{watches}\n")
}

/// The watched paths, each with the sessions that watch it.
fn watches_by_path(state: &State, server: usize) -> String {
    let mut text = String::new();
    for (path, watchers) in state.members[server].core.watchers() {
        let _ = writeln!(text, "{path}");
        for (connection, _) in watchers {
            let _ = writeln!(text, "\t{}", session(state, connection));
        }
    }
    text
}

/// The sessions that watch, each with its paths.
fn watches_by_session(state: &State, server: usize) -> String {
    let mut by_session = std::collections::BTreeMap::<_, Vec<_>>::new();
    for (path, watchers) in state.members[server].core.watchers() {
        for (connection, _) in watchers {
            by_session.entry(session(state, connection)).or_default().push(path.to_string());
        }
    }
    by_session.into_iter().fold(String::new(), |mut text, (session, paths)| {
        let _ = writeln!(text, "{session}");
        paths.iter().for_each(|path| {
            let _ = writeln!(text, "\t{path}");
        });
        text
    })
}

fn session(state: &State, connection: zoolet_core::ConnectionId) -> String {
    let session = state.connections.get(&connection).and_then(|connection| connection.session);
    session.map_or_else(|| "0x0".to_owned(), |session| session.to_string())
}
