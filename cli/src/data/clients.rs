//! Who the clients were: sessions have no addresses in a transaction log, but in an audit log or in the log of
//! a server.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use clap::Args;
use zoolet_protocol::SessionId;

use super::DataError;
use crate::cli::output::visible;
use crate::notice;

/// Where the addresses are.
#[derive(Debug, Args)]
pub(super) struct ClientOptions {
    /// Name the clients by this audit log of the server, or by its log if that has lines such as "session
    /// 0x1f .. for client /10.0.0.7:40312"; may be given several times
    #[arg(long, value_name = "FILE")]
    audit_log: Vec<PathBuf>,
}

impl ClientOptions {
    pub(super) fn load(&self) -> Result<Clients, DataError> {
        let mut clients = Clients::default();
        for path in &self.audit_log {
            let input = |source| DataError::Input { path: path.clone(), source };
            let mut log = BufReader::new(File::open(path).map_err(input)?);
            let mut line = Vec::new();
            let mut is_empty = true;
            while log.read_until(b'\n', &mut line).map_err(input)? > 0 {
                is_empty &= !clients.read(&String::from_utf8_lossy(&line));
                line.clear();
            }
            if is_empty {
                return Err(DataError::NoClients(path.clone()));
            }
        }
        Ok(clients)
    }
}

/// The clients of sessions.
#[derive(Debug, Default)]
pub(super) struct Clients {
    /// A session that moves has several addresses, in their order.
    of_sessions: BTreeMap<SessionId, Vec<String>>,
}

/// A session that moves again and again is one of many addresses; more tell nothing.
const ADDRESSES_MAX: usize = 8;

impl Clients {
    /// Takes a line of a log. Returns whether it names the client of a session.
    fn read(&mut self, line: &str) -> bool {
        let Some((session, client)) = audited(line).or_else(|| connected(line)) else {
            return false;
        };
        let clients = self.of_sessions.entry(session).or_default();
        if !clients.contains(&client) && clients.len() < ADDRESSES_MAX {
            clients.push(client);
        }
        true
    }

    /// The client of a session, if the logs name one.
    pub(super) fn name(&self, session: SessionId) -> Option<String> {
        self.of_sessions.get(&session).map(|clients| clients.join(", "))
    }

    /// The session, with its client if that is known.
    pub(super) fn text(&self, session: SessionId) -> String {
        match self.name(session) {
            // A client chooses its users.
            Some(client) => format!("{session} of {}", visible(&client)),
            None => session.to_string(),
        }
    }

    /// Tells why there are no addresses.
    pub(super) fn tell_missing(&self) {
        if self.of_sessions.is_empty() {
            notice(
                "transaction logs do not have the addresses of clients; --audit-log FILE names them",
            );
        }
    }
}

/// `session=0x..<tab>user=..<tab>ip=..`, as audit logs have it.
fn audited(line: &str) -> Option<(SessionId, String)> {
    let field = |name: &str| {
        let mut fields = line.trim_end().split(['\t', ' ']);
        fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
    };
    let (session, ip) = (session_id(field("session")?)?, field("ip")?);
    // The address is one of the users.
    let users = field("user").unwrap_or_default().split(',');
    let users: Vec<_> = users.filter(|user| !user.is_empty() && *user != ip).collect();
    Some((
        session,
        if users.is_empty() { ip.to_owned() } else { format!("{ip} ({})", users.join(",")) },
    ))
}

/// `.. session 0x.. .. client /10.0.0.7:40312`, as logs of servers have it. The port is left out.
fn connected(line: &str) -> Option<(SessionId, String)> {
    let lower = line.to_ascii_lowercase();
    let after = |word: &str| Some(lower.split_once(word)?.1.trim_start());
    let session = after("session 0x").or_else(|| after("session id 0x"))?;
    let end = session.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(session.len());
    let session = session_id(&format!("0x{}", session.get(..end)?))?;
    let address = after("client /").or_else(|| after("client "))?.split_whitespace().next()?;
    let address = address.trim_end_matches([',', ')', '.']);
    let ip = address.parse().map(|socket: std::net::SocketAddr| socket.ip());
    let ip = ip.or_else(|_| address.parse::<std::net::IpAddr>()).ok()?;
    Some((session, ip.to_string()))
}

fn session_id(text: &str) -> Option<SessionId> {
    let number = u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()?;
    Some(SessionId(number.cast_signed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_audit_logs_and_of_server_logs_name_clients() {
        let mut clients = Clients::default();
        let lines = [
            "2026-07-01 14:03:00,000 INFO audit.Log4jAuditLogger: session=0x1f\tuser=10.0.0.7,ann\tip=10.0.0.7\toperation=create\tznode=/a\tresult=success",
            "session=0x1f\tuser=10.0.0.8\tip=10.0.0.8\toperation=delete\tresult=success",
            "INFO Established session 0xff00000000000001 with negotiated timeout 30000 for client /10.0.0.9:40312",
            "INFO Closed socket connection for client /[::1]:4000 which had sessionid 0x2",
            "user=root\toperation=serverStart\tresult=success",
        ];
        let read: Vec<_> = lines.iter().map(|line| clients.read(line)).collect();
        assert_eq!(read, [true, true, true, false, false]);
        assert_eq!(clients.text(SessionId(0x1f)), "0x1f of 10.0.0.7 (ann), 10.0.0.8");
        let negative = SessionId(0xff00_0000_0000_0001_u64.cast_signed());
        assert_eq!(clients.name(negative).as_deref(), Some("10.0.0.9"));
        assert_eq!(clients.text(SessionId(2)), "0x2");
        assert!(clients.read("session=0x3\tuser=\u{1b}[2J\tip=10.0.0.9"));
        assert!(!clients.text(SessionId(3)).contains('\u{1b}'));
    }
}
