//! Writes a recording as a golden script.
//!
//! In the trace of a script, events that a client received before a reply come before that reply,
//! and events of other clients come at the end of the block. So each command that fires watches of
//! other clients ends its block.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use zoolet_core::ConnectionId;
use zoolet_protocol::{
    ConnectRequest, ConnectResponse, ErrorCode, OpCode, ReplyHeader, Response, SessionId,
    WatchedEvent, Zxid,
};

use super::command;
use super::recording::{Entry, Interference, Recording, Requested};
use super::trace::Trace;
use crate::limits::RECORDED_MESSAGES_MAX;

/// The timeout, in milliseconds, of a session that expires in the script: it is short, because a
/// script waits for servers that run by a real clock.
const EXPIRING_TIMEOUT_MS: i32 = 400;

/// The commands of a block that fires no watches of other clients.
const BLOCK_COMMANDS_MAX: usize = 12;

/// Writes the script of a recording.
pub(super) fn write(recording: &Recording) -> String {
    let entries = recording.entries.lock().clone();
    let script = Script::new(recording, &entries, false).write(&entries);
    if recording.base == Zxid::ZERO && script.depends_on_a_new_server() {
        return Script::new(recording, &entries, true).write(&entries).finish();
    }
    script.finish()
}

struct Script<'a> {
    recording: &'a Recording,
    is_fresh: bool,
    /// The sessions that expire.
    expiring: BTreeSet<SessionId>,
    trace: Trace,
    /// The names of the sessions, which are the names of their clients.
    names: BTreeMap<SessionId, String>,
    named: usize,
    clients: HashMap<ConnectionId, Client>,
    /// The events of which the cause is not known yet.
    events: Vec<(ConnectionId, Zxid, WatchedEvent)>,
    /// The commands and comments of the current block, and its trace.
    commands: Vec<String>,
    output: Vec<String>,
    /// The events of clients that sent no command of the block, by their names.
    heard: BTreeMap<String, Vec<String>>,
    is_sweep: bool,
    pings: usize,
    has_numbered_below_root: bool,
    text: String,
}

/// A connection in the script.
struct Client {
    name: String,
    session: SessionId,
    is_open: bool,
}

impl<'a> Script<'a> {
    fn new(recording: &'a Recording, entries: &[Entry], is_fresh: bool) -> Self {
        let expiring = entries.iter().filter_map(|entry| match entry {
            Entry::Expired { session, .. } => Some(*session),
            _ => None,
        });
        Self {
            recording,
            is_fresh,
            expiring: expiring.collect(),
            trace: Trace::new(is_fresh, recording.base),
            names: BTreeMap::new(),
            named: 0,
            clients: HashMap::new(),
            events: Vec::new(),
            commands: Vec::new(),
            output: Vec::new(),
            heard: BTreeMap::new(),
            is_sweep: false,
            pings: 0,
            has_numbered_below_root: false,
            text: String::new(),
        }
    }

    /// Whether the trace shows values that only a new server has.
    fn depends_on_a_new_server(&self) -> bool {
        self.trace.has_shown_built_in || self.has_numbered_below_root
    }

    fn write(mut self, entries: &[Entry]) -> Self {
        for entry in entries.iter().take(RECORDED_MESSAGES_MAX) {
            self.is_sweep &= matches!(entry, Entry::Event { .. } | Entry::Swept { .. });
            match entry {
                Entry::Connected { connection, request, response } => {
                    self.connected(*connection, request, response);
                }
                Entry::Answered { connection, requested, header, response } => {
                    self.answered(*connection, requested, header, response);
                }
                Entry::Unanswered { connection, requested } => {
                    self.unanswered(*connection, requested)
                }
                Entry::Unreadable { frame } => {
                    let bytes = super::hex(frame);
                    self.comment(&format!("Not repeated: a frame that is no request, {bytes}"));
                }
                Entry::Event { connection, zxid, event } => {
                    self.events.push((*connection, *zxid, event.clone()));
                }
                Entry::Closed { connection } => self.gone(*connection),
                Entry::Expired { session, zxid } => self.expired(*session, *zxid),
                Entry::Swept { zxid } => self.swept(*zxid),
                Entry::Restarted => self.restarted(),
            }
        }
        if entries.len() > RECORDED_MESSAGES_MAX {
            self.comment(&format!(
                "Not recorded: what came after {RECORDED_MESSAGES_MAX} messages."
            ));
        }
        self.end_block();
        self
    }

    fn finish(self) -> String {
        let area = if self.is_fresh { ", for the area fresh: it needs a new server" } else { "" };
        let mut script = format!("# Recorded from a run{area}.\n");
        if !self.expiring.is_empty() {
            script.push_str(&format!(
                "# Sessions that expire have a timeout of {EXPIRING_TIMEOUT_MS} ms here.\n"
            ));
        }
        if self.pings > 0 {
            script.push_str(&format!("# Left out: {} pings.\n", self.pings));
        }
        if !self.recording.sessions.is_empty() {
            let sessions: Vec<_> =
                self.recording.sessions.iter().map(SessionId::to_string).collect();
            let sessions = sessions.join(", ");
            script.push_str(&format!("# Not repeated: sessions from before, {sessions}.\n"));
        }
        if self.recording.base != Zxid::ZERO && self.depends_on_a_new_server() {
            script.push_str("# It shows what depends on what was before.\n");
        }
        script + &self.text
    }

    fn connected(
        &mut self,
        connection: ConnectionId,
        request: &ConnectRequest,
        response: &ConnectResponse,
    ) {
        let requested = self.names.get(&request.session).cloned();
        let is_refused = response.is_refused();
        if self.recording.sessions.contains(&request.session) {
            let outcome = if is_refused { "refused" } else { "reattached" };
            return self.comment(&format!("Not repeated: a session from before is {outcome}"));
        }
        let session = if is_refused { request.session } else { response.session };
        let name = match self.names.get(&session) {
            Some(name) => name.clone(),
            None => {
                let name = name_of(self.named);
                self.named += 1;
                if !is_refused {
                    self.names.insert(session, name.clone());
                    self.trace.name_session(session, &name);
                }
                name
            }
        };
        let mut shown = response.clone();
        let mut timeout_ms = if is_refused { request.timeout_ms } else { response.timeout_ms };
        if self.expiring.contains(&session) && !is_refused {
            timeout_ms = EXPIRING_TIMEOUT_MS;
            shown.timeout_ms = timeout_ms;
        } else if timeout_ms != request.timeout_ms {
            self.comment(&format!("It requested for a timeout of {} ms.", request.timeout_ms));
        }
        let base = self.trace.base;
        let command = command::of_handshake(request, timeout_ms, requested.as_deref(), base);
        let line = self.trace.handshake(&shown);
        self.clients.retain(|_, client| client.name != name);
        self.command(&name, &command, vec![line]);
        self.clients.insert(connection, Client { name, session, is_open: !is_refused });
    }

    fn answered(
        &mut self,
        connection: ConnectionId,
        requested: &Requested,
        header: &ReplyHeader,
        response: &Response,
    ) {
        if requested.header.op == OpCode::PING {
            self.pings += 1;
            return;
        }
        let command = self.command_of(requested);
        match requested.interference {
            Some(Interference::Refused) => {
                let name = self.name(connection);
                let code = header.err;
                let zxid = self.trace.zxid(header.zxid);
                let what = format!("a fault refused it with {code} ({zxid}): {name}: {command}");
                return self.comment(&format!("Not repeated, {what}"));
            }
            Some(Interference::ReplyLost) => self.comment("The answer to the next did not arrive:"),
            Some(Interference::Lost) | None => {}
        }
        let line = self.trace.reply(requested.header.xid == header.xid, header, response);
        let is_caused = |of: ConnectionId, zxid: Zxid| {
            zxid == header.zxid || (zxid == Zxid::NONE && of == connection)
        };
        let events = self.take_events(is_caused);
        let Some(client) = self.clients.get_mut(&connection) else {
            let zxid = self.trace.zxid(header.zxid);
            self.comment(&format!("Not repeated: {command}, in a session from before ({zxid})"));
            return self.not_repeated(events);
        };
        let is_closed = requested.header.op == OpCode::CLOSE_SESSION || is_last(header);
        client.is_open &= !is_closed;
        let name = client.name.clone();
        let (own, others): (Vec<_>, Vec<_>) =
            events.into_iter().partition(|(receiver, ..)| *receiver == connection);
        let mut lines: Vec<_> =
            own.iter().map(|(_, zxid, event)| self.trace.event(*zxid, event)).collect();
        lines.push(line);
        lines.extend(is_closed.then(|| "closed".to_owned()));
        self.command(&name, &command, lines);
        self.hear(others);
    }

    fn unanswered(&mut self, connection: ConnectionId, requested: &Requested) {
        let command = self.command_of(requested);
        let name = self.name(connection);
        let why = match requested.interference {
            Some(Interference::Lost) => "a fault lost it",
            _ => "it got no answer",
        };
        self.comment(&format!("Not repeated, {why}: {name}: {command}"));
    }

    fn name(&self, connection: ConnectionId) -> &str {
        self.clients.get(&connection).map_or("a session from before", |client| &client.name)
    }

    fn command_of(&mut self, requested: &Requested) -> String {
        if let Some(zoolet_protocol::Request::Write(write)) = &requested.request {
            let ops = match write {
                zoolet_protocol::Write::Op(op) => std::slice::from_ref(op),
                zoolet_protocol::Write::Multi(ops) => ops,
                _ => &[],
            };
            self.has_numbered_below_root |= ops.iter().any(is_numbered_below_root);
        }
        command::of_request(
            requested.header,
            requested.request.as_ref(),
            &requested.body,
            self.trace.base,
        )
    }

    fn gone(&mut self, connection: ConnectionId) {
        if let Some(client) = self.clients.remove(&connection)
            && client.is_open
        {
            self.command(&client.name, "cut", Vec::new());
        }
    }

    fn expired(&mut self, session: SessionId, zxid: Zxid) {
        let events = self.take_events(|_, caused_by| caused_by == zxid);
        let Some(name) = self.names.get(&session).cloned() else {
            let zxid = self.trace.zxid(zxid);
            self.comment(&format!("Not repeated: a session from before expired ({zxid})"));
            return self.not_repeated(events);
        };
        self.command(&name, "expire", Vec::new());
        let connection = self.clients.iter_mut().find(|(_, c)| c.session == session && c.is_open);
        let own = connection.map(|(connection, client)| {
            client.is_open = false;
            *connection
        });
        let (ours, others): (Vec<_>, Vec<_>) =
            events.into_iter().partition(|(receiver, ..)| Some(*receiver) == own);
        if own.is_some() {
            let mut lines: Vec<_> =
                ours.iter().map(|(_, zxid, event)| self.trace.event(*zxid, event)).collect();
            lines.push("closed".to_owned());
            self.command(&name, "awaitClose", lines);
        } else if others.is_empty() {
            self.comment("No client receives an event, so the script does not wait for it.");
        }
        self.await_events(others);
    }

    fn swept(&mut self, zxid: Zxid) {
        let events = self.take_events(|_, caused_by| caused_by == zxid);
        if !self.is_sweep {
            self.comment("For the area sweep.");
            self.command(&name_of(0), "sweep", Vec::new());
        }
        self.is_sweep = true;
        self.await_events(events);
    }

    /// Waits for each event that no command causes.
    fn await_events(&mut self, events: Vec<(ConnectionId, Zxid, WatchedEvent)>) {
        for (receiver, zxid, event) in events {
            let Some(client) = self.clients.get(&receiver) else { continue };
            let name = client.name.clone();
            let line = self.trace.event(zxid, &event);
            self.command(&name, "awaitEvent", vec![line]);
        }
    }

    fn restarted(&mut self) {
        let mut connections: Vec<_> = self.clients.keys().copied().collect();
        connections.sort_unstable();
        connections.into_iter().for_each(|connection| self.gone(connection));
        self.comment("Not repeated: the server was started again.");
    }

    fn take_events(
        &mut self,
        is_caused: impl Fn(ConnectionId, Zxid) -> bool,
    ) -> Vec<(ConnectionId, Zxid, WatchedEvent)> {
        self.events.extract_if(.., |(receiver, zxid, _)| is_caused(*receiver, *zxid)).collect()
    }

    /// Writes the events of other clients that the last command caused, and ends its block.
    fn hear(&mut self, events: Vec<(ConnectionId, Zxid, WatchedEvent)>) {
        for (receiver, zxid, event) in events {
            if let Some(client) = self.clients.get(&receiver) {
                let line = self.trace.event(zxid, &event);
                self.heard.entry(client.name.clone()).or_default().push(line);
            }
        }
        if !self.heard.is_empty() || self.commands.len() >= BLOCK_COMMANDS_MAX {
            self.end_block();
        }
    }

    /// The events of something that the script does not repeat.
    fn not_repeated(&mut self, events: Vec<(ConnectionId, Zxid, WatchedEvent)>) {
        for (receiver, zxid, event) in events {
            if let Some(client) = self.clients.get(&receiver) {
                let name = client.name.clone();
                let line = self.trace.event(zxid, &event);
                self.comment(&format!("{name} received: {line}"));
            }
        }
    }

    fn command(&mut self, name: &str, command: &str, lines: Vec<String>) {
        self.commands.push(format!("{name}: > {command}"));
        self.show(name, &lines);
    }

    fn comment(&mut self, comment: &str) {
        self.commands.push(format!("# {comment}"));
    }

    fn show(&mut self, name: &str, lines: &[String]) {
        let lines = lines.iter().flat_map(|line| line.split('\n'));
        self.output.extend(lines.map(|line| format!("{name}: {line}")));
    }

    fn end_block(&mut self) {
        let heard = std::mem::take(&mut self.heard);
        heard.iter().for_each(|(name, lines)| self.show(name, lines));
        let commands = std::mem::take(&mut self.commands);
        let mut output = std::mem::take(&mut self.output);
        if commands.is_empty() {
            return;
        }
        if self.text.ends_with('\n') {
            self.text.push('\n');
        }
        commands.iter().for_each(|command| self.text.push_str(&format!("{command}\n")));
        if commands.iter().all(|command| command.starts_with('#')) {
            return;
        }
        if output.is_empty() {
            output.push("ok".to_owned());
        }
        self.text.push_str(&format!("---\n{}\n", output.join("\n")));
    }
}

/// Whether the server closes the connection after this reply.
fn is_last(header: &ReplyHeader) -> bool {
    match header.err {
        ErrorCode::AUTH_FAILED | ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH => true,
        ErrorCode::UNIMPLEMENTED => header.zxid == Zxid::NONE,
        _ => false,
    }
}

/// Whether it creates a sequential child of the root, whose number depends on earlier children.
fn is_numbered_below_root(op: &zoolet_protocol::MultiOp) -> bool {
    match op {
        zoolet_protocol::MultiOp::Create(create) => {
            create.flags.is_sequential()
                && create.path.text().is_some_and(|path| path.rfind('/') == Some(0))
        }
        _ => false,
    }
}

/// `a` to `z`, then `aa` and so on.
fn name_of(index: usize) -> String {
    let letter = char::from(b'a' + (index % 26) as u8);
    match (index / 26).checked_sub(1) {
        Some(before) => format!("{}{letter}", name_of(before)),
        None => letter.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_on_after_the_alphabet() {
        let names = [0, 25, 26, 27, 51, 52, 701, 702].map(name_of);
        assert_eq!(names, ["a", "z", "aa", "ab", "az", "ba", "zz", "aaa"]);
    }
}
