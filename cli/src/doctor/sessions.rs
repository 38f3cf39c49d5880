//! What the servers tell of sessions, connections and watches: by four-letter words, or by their admin
//! servers where a word is refused.

mod admin;
pub(crate) mod embedded;
mod ensemble;
mod patience;
mod server;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tokio::task::JoinSet;
use zoolet_client::Hosts;
use zoolet_protocol::SessionId;

pub(crate) use self::admin::{AdminOptions, AdminServers};
pub(crate) use self::ensemble::members;
pub(crate) use self::patience::Patience;
use self::server::Told;
pub(crate) use self::server::Ways;

/// What the servers tell beside the tree.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    pub(crate) by_id: BTreeMap<SessionId, Session>,
    /// The sessions that watch a path, by path, as the client has it, of the servers that told.
    pub(crate) watchers: BTreeMap<String, Vec<SessionId>>,
    /// Whether all servers told their watches.
    pub(crate) has_watches: bool,
    /// The servers that told their watches.
    pub(crate) tell_watches: BTreeSet<String>,
    /// Whether a server told the ephemerals, each of which all servers know.
    pub(crate) has_ephemerals: bool,
    /// Whether all servers that there are told their connections.
    pub(crate) has_connections: bool,
    /// What was not told, and how to allow it.
    pub(crate) gaps: Vec<Gap>,
    /// The servers that do not answer or do not serve, and why.
    pub(crate) silent: Vec<(String, String)>,
}

/// A session, as far as the servers tell of it.
#[derive(Debug, Default, Clone)]
pub(crate) struct Session {
    /// The client's address, and the server that it is connected to.
    pub(crate) connection: Option<Connection>,
    /// How many ephemerals it owns.
    pub(crate) ephemerals: u64,
    /// How many data watches it has.
    pub(crate) watches: u64,
}

/// A connection of a session.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    pub(crate) address: String,
    pub(crate) server: String,
    pub(crate) timeout_ms: i64,
    /// How long the server has not answered the session, compared with the one that it answered last.
    pub(crate) silent_ms: i64,
    /// What it asked last, in the server's letters.
    pub(crate) last: String,
}

/// Something that a server did not tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) server: String,
    /// The words that it did not answer.
    pub(crate) words: Vec<&'static str>,
    /// Why not.
    pub(crate) cause: String,
    /// What the report lacks without them.
    pub(crate) lacks: Vec<&'static str>,
    /// How to allow it.
    pub(crate) cure: Option<String>,
}

/// A connection with a session, as a server tells of it.
#[derive(Debug)]
struct ClientLine {
    address: String,
    session: SessionId,
    timeout_ms: i64,
    /// When it was answered last, by the server's clock; 0 if it was not.
    replied_ms: i64,
    last: String,
}

/// A session, and how many ephemerals it owns.
type Ephemerals = (SessionId, u64);

/// A path, and the sessions that watch it.
type WatchedPath = (String, Vec<SessionId>);

/// What servers are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    Mode,
    Connections,
    Ephemerals,
    WatchesTotal,
    Watches,
}

impl Question {
    /// Those that every server is asked; the watches themselves only if there are not too many.
    const FIRST: [Self; 4] = [Self::Mode, Self::Connections, Self::Ephemerals, Self::WatchesTotal];

    fn word(self) -> &'static str {
        match self {
            Self::Mode => "srvr",
            Self::Connections => "cons",
            Self::Ephemerals => "dump",
            Self::WatchesTotal => "wchs",
            Self::Watches => "wchp",
        }
    }

    /// The command of an admin server. All servers answer `srvr`, unless their settings forbid it.
    fn command(self) -> Option<&'static str> {
        match self {
            Self::Mode => None,
            Self::Connections => Some("connections"),
            Self::Ephemerals => Some("dump"),
            Self::WatchesTotal => Some("watch_summary"),
            Self::Watches => Some("watches_by_path"),
        }
    }

    /// What the report lacks without an answer.
    fn lacks(self) -> &'static str {
        match self {
            Self::Mode => "whether the server has others beside it",
            Self::Connections => "addresses of clients and silent sessions",
            Self::Ephemerals => "numbers of ephemerals",
            Self::WatchesTotal | Self::Watches => {
                "herds, and whether a lock waits for one of another library"
            }
        }
    }
}

/// An answer, by the way it came.
enum Answer {
    Word(String),
    Admin(Value),
}

/// Asks all servers, side by side. `members` are the hosts of the ensemble's servers, if they are known.
/// With `patience` a server that does not answer keeps nobody waiting for long.
pub(crate) async fn ask(
    hosts: &Hosts,
    members: Option<&[String]>,
    ways: &Ways,
    patience: Option<&Patience>,
) -> Sessions {
    let mut asked = JoinSet::new();
    for (index, server) in hosts.addresses().iter().enumerate() {
        let (server, ways, patience) = (server.clone(), ways.clone(), patience.cloned());
        asked.spawn(async move {
            let told = match patience {
                Some(patience) => patience.ask(&server, &ways).await,
                None => server::ask(&server, &ways).await,
            };
            (index, told)
        });
    }
    let mut all = asked.join_all().await;
    all.sort_by_key(|(index, _)| *index);
    let is_alone = all.iter().all(|(_, told)| told.is_alone);
    let mut sessions = Sessions { has_connections: true, has_watches: true, ..Sessions::default() };
    for (_, told) in all {
        sessions.add(told, hosts.chroot());
    }
    if !is_alone {
        sessions.miss_members(hosts, members);
    }
    sessions.count_watches();
    sessions
}

/// What each server answers to `srvr`, in a few words, or else why it serves nobody. All are asked side by
/// side.
pub(crate) async fn states(hosts: &Hosts, ways: &Ways) -> Vec<Result<String, String>> {
    let mut asked = JoinSet::new();
    for (index, server) in hosts.addresses().iter().enumerate() {
        let (server, ways) = (server.clone(), ways.clone());
        asked.spawn(async move { (index, server::state(&server, &ways).await) });
    }
    let mut states = asked.join_all().await;
    states.sort_by_key(|(index, _)| *index);
    states.into_iter().map(|(_, state)| state).collect()
}

impl Gap {
    /// What was not told, and by whom.
    pub(crate) fn subject(&self) -> String {
        match self.words.is_empty() {
            true => self.server.clone(),
            false => format!("{} of {}", self.words.join(", "), self.server),
        }
    }

    /// Records what a server did not tell, together with what it did not tell for the same cause.
    fn add(
        gaps: &mut Vec<Self>,
        server: &str,
        question: Question,
        cause: String,
        cure: Option<String>,
    ) {
        let (word, lacks) = (question.word(), question.lacks());
        let is_same = |gap: &&mut Self| gap.server == server && gap.cause == cause;
        if let Some(gap) = gaps.iter_mut().find(is_same) {
            gap.words.push(word);
            if !gap.lacks.contains(&lacks) {
                gap.lacks.push(lacks);
            }
            return;
        }
        let (server, words, lacks) = (server.to_owned(), vec![word], vec![lacks]);
        gaps.push(Self { server, words, cause, lacks, cure });
    }
}

impl Sessions {
    /// The address of a session's client, for a person.
    pub(crate) fn address(&self, session: SessionId) -> Option<&str> {
        Some(&self.by_id.get(&session)?.connection.as_ref()?.address)
    }

    /// A session with its address, if that is known.
    pub(crate) fn text(&self, session: SessionId) -> String {
        match self.address(session) {
            _ if session == SessionId::NONE => "no session".to_owned(),
            Some(address) => format!("{session} ({address})"),
            None => session.to_string(),
        }
    }

    /// How many ephemerals a session owns, if that was told.
    pub(crate) fn ephemerals_of(&self, session: &Session) -> Option<u64> {
        self.has_ephemerals.then_some(session.ephemerals)
    }

    /// How many data watches a session has, if the server told it to which it is connected.
    pub(crate) fn watches_of(&self, session: &Session) -> Option<u64> {
        let has_told = match &session.connection {
            Some(connection) => self.tell_watches.contains(&connection.server),
            None => self.has_watches,
        };
        (has_told || session.watches > 0).then_some(session.watches)
    }

    /// Takes what one server has told. `chroot` is the root of the client.
    fn add(&mut self, told: Told, chroot: &str) {
        let Told { server, connections, ephemerals, watches, gaps, silent, is_alone: _ } = told;
        self.has_connections &= connections.is_some();
        self.add_connections(&server, connections.unwrap_or_default());
        self.has_ephemerals |= ephemerals.is_some();
        self.add_ephemerals(ephemerals.unwrap_or_default());
        self.has_watches &= watches.is_some();
        self.tell_watches.extend(watches.is_some().then(|| server.clone()));
        self.add_watches(watches.unwrap_or_default(), chroot);
        self.gaps.extend(gaps);
        self.silent.extend(silent.map(|cause| (server, cause)));
    }

    /// Records servers of the ensemble that were not asked: each knows only its own clients.
    fn miss_members(&mut self, hosts: &Hosts, members: Option<&[String]>) {
        let asked = hosts.addresses().len();
        let members = members.filter(|members| !members.is_empty());
        let cause = match members {
            Some(members) if members.len() <= asked => return,
            Some(members) => {
                format!("it has {} servers, of which {asked} were named", members.len())
            }
            None if self.gaps.iter().any(|gap| gap.words.contains(&"srvr")) => {
                self.has_connections = false;
                return;
            }
            None => "which servers it has may not be read".to_owned(),
        };
        (self.has_connections, self.has_watches) = (false, false);
        self.gaps.push(Gap {
            server: "the ensemble".to_owned(),
            words: Vec::new(),
            cause,
            lacks: vec![
                "addresses, silence and watches of clients that are connected to other servers",
            ],
            cure: Some(match members {
                Some(members) => format!(
                    "name all servers, each with its port for clients if that is not 2181: {}",
                    members.join(",")
                ),
                None => {
                    "name all servers, without a chroot, as a user who may read /zookeeper/config"
                        .to_owned()
                }
            }),
        });
    }

    /// Counts the watches of each session.
    fn count_watches(&mut self) {
        for session in self.watchers.values().flatten() {
            self.by_id.entry(*session).or_default().watches += 1;
        }
    }

    fn add_connections(&mut self, server: &str, lines: Vec<ClientLine>) {
        // Apache's server counts this from a start of its own, not from 1970.
        let latest = lines.iter().map(|line| line.replied_ms).max().unwrap_or_default();
        for line in lines {
            let connection = Connection {
                address: line.address,
                server: server.to_owned(),
                timeout_ms: line.timeout_ms,
                silent_ms: match line.replied_ms {
                    // It was answered nothing yet, or its numbers were reset.
                    0 => 0,
                    replied_ms => latest.saturating_sub(replied_ms),
                },
                last: line.last,
            };
            let session = self.by_id.entry(line.session).or_default();
            // For a moment, a session that reconnects has two.
            let is_newer = |old: &Connection| old.silent_ms > connection.silent_ms;
            if session.connection.as_ref().is_none_or(is_newer) {
                session.connection = Some(connection);
            }
        }
    }

    /// Of all servers, the one that is furthest knows most ephemerals.
    fn add_ephemerals(&mut self, counts: Vec<Ephemerals>) {
        for (session, count) in counts {
            let session = self.by_id.entry(session).or_default();
            session.ephemerals = session.ephemerals.max(count);
        }
    }

    fn add_watches(&mut self, watches: Vec<WatchedPath>, chroot: &str) {
        for (path, sessions) in watches {
            if let Some(path) = below(&path, chroot) {
                self.watchers.entry(path.to_owned()).or_default().extend(sessions);
            }
        }
    }
}

/// The path as the client has it, if it is below its root.
fn below<'a>(path: &'a str, chroot: &str) -> Option<&'a str> {
    match path.strip_prefix(chroot.trim_end_matches('/'))? {
        "" => Some("/"),
        rest if rest.starts_with('/') => Some(rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(session: i64, replied_ms: i64) -> ClientLine {
        let (address, last) = ("127.0.0.1:1".to_owned(), "PING".to_owned());
        ClientLine { address, session: SessionId(session), timeout_ms: 4_000, replied_ms, last }
    }

    #[test]
    fn silence_is_told_by_the_clock_of_the_server() {
        let mut sessions = Sessions::default();
        sessions.add_connections("a:2181", vec![line(1, 5_000), line(2, 25_000), line(3, 0)]);
        // It has reconnected.
        sessions.add_connections("b:2181", vec![line(1, 9_000)]);
        let silent = |session: i64| {
            let connection = sessions.by_id[&SessionId(session)].connection.as_ref().unwrap();
            (connection.server.as_str(), connection.silent_ms)
        };
        assert_eq!(silent(1), ("b:2181", 0));
        assert_eq!((silent(2), silent(3)), (("a:2181", 0), ("a:2181", 0)));
    }

    #[test]
    fn watches_are_those_below_the_root_of_the_client() {
        let watched = |path: &str| (path.to_owned(), vec![SessionId(1)]);
        let mut sessions = Sessions::default();
        sessions.add_watches(vec![watched("/app/a"), watched("/app"), watched("/apples")], "/app");
        let paths: Vec<_> = sessions.watchers.keys().map(String::as_str).collect();
        assert_eq!(paths, ["/", "/a"]);
    }

    #[test]
    fn an_ensemble_of_which_not_all_servers_were_named_is_told() {
        let hosts: Hosts = "a:2181,b:2181".parse().unwrap();
        let missed = |members: Option<&[&str]>| {
            let members: Option<Vec<String>> =
                members.map(|members| members.iter().map(|host| (*host).to_owned()).collect());
            let mut sessions = Sessions { has_connections: true, ..Sessions::default() };
            sessions.miss_members(&hosts, members.as_deref());
            (sessions.has_connections, sessions.gaps.pop().map(|gap| gap.cause))
        };
        assert_eq!(missed(Some(&["a", "b"])), (true, None));
        let cause = "it has 3 servers, of which 2 were named".to_owned();
        assert_eq!(missed(Some(&["a", "b", "c"])), (false, Some(cause)));
        assert!(!missed(None).0);
    }
}
