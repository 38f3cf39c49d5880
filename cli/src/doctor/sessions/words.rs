//! Reads the answers to four-letter words, as Apache ZooKeeper and zoolet write them.

use zoolet_protocol::SessionId;

use super::{ClientLine, Ephemerals, WatchedPath};

/// The connections with a session in the answer to `cons`.
pub(super) fn connections(text: &str) -> Vec<ClientLine> {
    text.lines().filter_map(connection).collect()
}

fn connection(line: &str) -> Option<ClientLine> {
    let (head, fields) = line.trim_start().strip_prefix('/')?.split_once('(')?;
    // An address of IPv6 has brackets of its own.
    let (address, _) = head.rsplit_once('[')?;
    let field = |name: &str| {
        let mut fields = fields.trim_end_matches(')').split(',');
        fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
    };
    Some(ClientLine {
        address: address.to_owned(),
        session: session_id(field("sid")?)?,
        timeout_ms: field("to")?.parse().ok()?,
        replied_ms: field("lresp").and_then(|ms| ms.parse().ok()).unwrap_or_default(),
        last: field("lop").unwrap_or_default().to_owned(),
    })
}

/// How many ephemerals each session has, in the answer to `dump`.
pub(super) fn ephemerals(text: &str) -> Vec<Ephemerals> {
    let mut counts: Vec<Ephemerals> = Vec::new();
    let mut lines = text.lines().skip_while(|line| !line.starts_with("Sessions with Ephemerals"));
    lines.next();
    for line in lines.take_while(|line| !line.starts_with("Connections dump")) {
        if line.starts_with('\t') {
            counts.last_mut().into_iter().for_each(|(_, count)| *count += 1);
        } else if let Some(session) = line.strip_suffix(':').and_then(session_id) {
            counts.push((session, 0));
        }
    }
    counts
}

/// The paths with watches in the answer to `wchp`, and below each the sessions that watch it.
pub(super) fn watches(text: &str) -> Vec<WatchedPath> {
    let mut watches: Vec<WatchedPath> = Vec::new();
    for line in text.lines() {
        if let Some(session) = line.strip_prefix('\t') {
            if let (Some((_, sessions)), Some(session)) = (watches.last_mut(), session_id(session))
            {
                sessions.push(session);
            }
        } else if line.starts_with('/') {
            watches.push((line.to_owned(), Vec::new()));
        }
    }
    watches
}

/// The number of all watches in the answer to `wchs`.
pub(super) fn watches_total(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("Total watches:"))?.trim().parse().ok()
}

/// The mode of the server in the answer to `srvr`, such as `follower`.
pub(super) fn mode(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::trim_end)
}

/// Whether the answer to `srvr` is that of a server without others.
pub(super) fn is_standalone(text: &str) -> bool {
    mode(text) == Some("standalone")
}

/// A session as the servers write it.
fn session_id(text: &str) -> Option<SessionId> {
    let digits = text.trim().strip_prefix("0x")?;
    Some(SessionId(u64::from_str_radix(digits, 16).ok()?.cast_signed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_read_as_apache_and_zoolet_write_them() {
        let text = " /127.0.0.1:4242[1](queued=0,recved=3,sent=3,sid=0x1000a,lop=PING,est=1700000000000,\
                    to=30000,lcxid=0x1,lzxid=0x9,lresp=5000,llat=0,minlat=0,avglat=0,maxlat=1)\n\
                     /[0:0:0:0:0:0:0:1]:4243[1](queued=0,recved=1,sent=0,sid=0xffffffffffffffff,lop=GETD,\
                    est=1,to=4000,lzxid=0x9,lresp=25000,llat=0,minlat=0,avglat=0,maxlat=0)\n\
                     /127.0.0.1:4244[0](queued=0,recved=1,sent=0)\n";
        let told: Vec<_> = connections(text)
            .into_iter()
            .map(|line| (line.session.0, line.address, line.timeout_ms, line.replied_ms, line.last))
            .collect();
        let expected = [
            (0x1000a, "127.0.0.1:4242".to_owned(), 30_000, 5_000, "PING".to_owned()),
            (-1, "[0:0:0:0:0:0:0:1]:4243".to_owned(), 4_000, 25_000, "GETD".to_owned()),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn ephemerals_are_counted_by_session() {
        let text = "SessionTracker dump:\nSession Sets (1)/(1):\n1 expire at Thu Jan 01:\n\t0x1\n\
                    ephemeral nodes dump:\nSessions with Ephemerals (2):\n0x1:\n\t/a\n\t/b\n0x2:\n\t/c\n\
                    Connections dump:\nConnections Sets (1)/(1):\n1 expire at Thu:\n\tip: /127.0.0.1:1 sessionId: 0x1\n";
        assert_eq!(ephemerals(text), [(SessionId(1), 2), (SessionId(2), 1)]);
    }

    #[test]
    fn watches_are_read_with_their_paths() {
        let text = "/app/locks/a\n\t0x1\n\t0x2\n/app\n\t0x3\n\n";
        let expected = [
            ("/app/locks/a".to_owned(), vec![SessionId(1), SessionId(2)]),
            ("/app".to_owned(), vec![SessionId(3)]),
        ];
        assert_eq!(watches(text), expected);
        assert_eq!(watches_total("3 connections watching 5 paths\nTotal watches:12\n"), Some(12));
    }

    #[test]
    fn no_answer_is_refused_with_a_panic() {
        for text in [
            "",
            "\t0x1",
            "/",
            " /[1](",
            "Sessions with Ephemerals",
            "0x1:\n\t/a",
            "Total watches:x",
        ] {
            let _ = (connections(text), ephemerals(text), watches(text), watches_total(text));
        }
        assert!(is_standalone("Zookeeper version: 3.8.0\nMode: standalone\nNode count: 5\n"));
        assert!(!is_standalone("Mode: follower\n"));
    }
}
