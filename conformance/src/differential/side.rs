//! One of the two servers with its sessions.

use std::fmt;
use std::io;

use zoolet_protocol::{ConnectRequest, Password, Request, SessionRequest, Xid, Zxid};

use super::SLOTS;
use super::differences;
use super::generate::Step;
use crate::client::{Client, Message};
use crate::script::{Janitor, Trace};
use crate::target::Target;

/// The timeout of every session: longer than any step takes.
const TIMEOUT_MS: i32 = 60_000;

pub(super) struct Side<'a> {
    target: &'a dyn Target,
    janitor: Janitor,
    trace: Trace,
    /// Whether events must carry the zxid of the transaction that fired them.
    has_event_zxids: bool,
    /// The last zxid in the replies of the step before, and in those of this step.
    seen: [Zxid; 2],
    /// The client of each slot. A client keeps its session when its connection is cut.
    clients: Vec<Option<Client>>,
}

/// What the sessions of a server received in one step.
#[derive(Debug, Clone, Default)]
pub(super) struct Received {
    lines: Vec<String>,
    pub(super) events: u64,
    /// For each slot, whether it is connected after the step.
    pub(super) open: Vec<bool>,
}

impl PartialEq for Received {
    fn eq(&self, other: &Self) -> bool {
        self.lines == other.lines && self.open == other.open
    }
}

impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

impl Received {
    /// Sorts consecutive events of a session: ZooKeeper deletes the ephemerals of a session in the
    /// order of a hash set.
    fn sort_events(&mut self) {
        let event_of = |line: &str| {
            let (slot, message) = line.split_once(": ")?;
            message.starts_with("event").then(|| slot.to_owned())
        };
        let is_same_row =
            |a: &String, b: &String| event_of(a).is_some() && event_of(a) == event_of(b);
        for row in self.lines.chunk_by_mut(is_same_row) {
            row.sort();
        }
    }
}

impl<'a> Side<'a> {
    pub(super) fn new(target: &'a dyn Target, has_event_zxids: bool) -> io::Result<Self> {
        let mut janitor = Janitor::new(target)?;
        let base = janitor.last_zxid()?;
        Ok(Self {
            target,
            janitor,
            trace: Trace::new(false, base),
            has_event_zxids,
            seen: [base; 2],
            clients: (0..SLOTS).map(|_| None).collect(),
        })
    }

    /// Does a step, and returns what all sessions received.
    pub(super) fn take(&mut self, step: &Step) -> io::Result<Received> {
        let mut received = Received::default();
        self.seen[0] = self.seen[1];
        match step {
            Step::Ask { slot, requests } => self.ask(*slot, requests, &mut received),
            Step::Open { slot } => self.connect(*slot, None, &mut received)?,
            Step::Cut { slot } => {
                if let Some(client) = &mut self.clients[*slot] {
                    client.cut();
                }
            }
            Step::Reattach { slot, is_proven } => {
                self.connect(*slot, Some(*is_proven), &mut received)?;
            }
        }
        for slot in 0..SLOTS {
            self.settle(slot, &mut received);
        }
        if step.closes_session() {
            received.sort_events();
        }
        received.open =
            self.clients.iter().map(|c| c.as_ref().is_some_and(Client::is_open)).collect();
        Ok(received)
    }

    /// Closes all sessions and deletes all znodes.
    pub(super) fn clean(&mut self) -> io::Result<()> {
        self.clients.clear();
        self.janitor.clean(self.target, &self.trace.sessions())
    }

    fn ask(&mut self, slot: usize, requests: &[Request], received: &mut Received) {
        let Some(client) = &mut self.clients[slot] else { return };
        let base = self.trace.base;
        let mut bytes = Vec::new();
        let mut xids = Vec::new();
        for request in requests {
            let (xid, frame) = client.encode(&rebased(request, base), None);
            bytes.extend_from_slice(&frame);
            xids.push(xid);
        }
        client.send_bytes(&bytes);
        let mut messages = Vec::new();
        for xid in xids {
            if client.awaits(xid) {
                messages.extend(client.receive_until(xid));
            }
        }
        self.note(slot, &messages, received);
    }

    /// Creates a session, or reattaches to the session of the slot.
    fn connect(
        &mut self,
        slot: usize,
        again: Option<bool>,
        received: &mut Received,
    ) -> io::Result<()> {
        let mut request = ConnectRequest::new(TIMEOUT_MS);
        let before = self.clients[slot].as_ref().and_then(|client| client.session.clone());
        if let (Some(is_proven), Some((session, password))) = (again, before.clone()) {
            request.session = session;
            request.password = if is_proven { password } else { Password::zero() };
        }
        let mut client = Client::dial(self.target)?;
        let handshake = client.shake_hands(&request);
        if let Some((session, _)) = &client.session {
            self.trace.name_session(*session, &format!("s{slot}"));
        }
        received.lines.push(format!("s{slot}: {}", self.trace.handshake(&handshake)));
        if again == Some(false) {
            // The server refused, and the session continues without a connection.
            client.cut();
            client.session = before;
        }
        self.clients[slot] = Some(client);
        Ok(())
    }

    /// Receives all messages that the server has sent to a slot.
    fn settle(&mut self, slot: usize, received: &mut Received) {
        let Some(client) = self.clients[slot].as_mut().filter(|client| client.is_open()) else {
            return;
        };
        let mut messages = client.ask(&Request::Session(SessionRequest::Ping));
        let is_pong = |message: &Message| matches!(message, Message::Reply { header, .. } if header.xid == Xid::PING);
        if messages.last().is_some_and(is_pong) {
            messages.pop();
        }
        self.note(slot, &messages, received);
    }

    /// Whether an event can carry this zxid. It must be that of a transaction of this step, not
    /// after the zxid of the next reply on the same connection. An event that `setWatches` reports
    /// carries none.
    fn is_zxid_of_event(&self, zxid: Zxid, rest: &[Message]) -> bool {
        let reply = rest.iter().find_map(|message| match message {
            Message::Reply { header, .. } => Some(header),
            _ => None,
        });
        match reply {
            Some(header) if header.xid == Xid::SET_WATCHES => zxid == Zxid::NONE,
            Some(header) => self.seen[0] < zxid && zxid <= header.zxid,
            None => self.seen[0] < zxid,
        }
    }

    fn note(&mut self, slot: usize, messages: &[Message], received: &mut Received) {
        for (index, message) in messages.iter().enumerate() {
            if let Message::Reply { header, .. } = message {
                self.seen[1] = self.seen[1].max(header.zxid);
            }
            if let Message::Event { zxid, event } = message {
                received.events += 1;
                if self.has_event_zxids && !self.is_zxid_of_event(*zxid, &messages[index..]) {
                    received.lines.push(format!("s{slot}: the next event has the zxid {zxid}"));
                }
                if differences::is_sent_by_old_versions_only(event) {
                    continue;
                }
            }
            received.lines.push(format!("s{slot}: {}", self.trace.message(message)));
        }
    }
}

/// The request with its zxid, which is counted from the start of the seed, converted to a zxid of
/// this server.
fn rebased(request: &Request, base: Zxid) -> Request {
    use zoolet_protocol::{SetWatches, Watch};
    let rebase = |lists: &SetWatches| {
        let relative_zxid = Zxid(base.0 + lists.relative_zxid.0);
        SetWatches { relative_zxid, ..lists.clone() }
    };
    match request {
        Request::Watch(Watch::Set(lists)) => Request::Watch(Watch::Set(rebase(lists))),
        Request::Watch(Watch::Set2(lists)) => Request::Watch(Watch::Set2(rebase(lists))),
        other => other.clone(),
    }
}
