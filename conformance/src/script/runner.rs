//! Runs the commands of one script.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;

use goldenscript::{Block, Context};
use zoolet_protocol::{ConnectRequest, Password, Request, SessionId, SessionRequest, Xid};

use super::command::{Command, Connect};
use super::ground::{Ground, Single};
use super::operation::{self, Operation};
use super::trace::Trace;
use super::value;
use crate::client::{Client, Message, framed};
use crate::target::Target;

/// Runs a script against a server, and returns the script with the trace that it has there.
///
/// # Errors
///
/// If a command cannot be parsed, or the server cannot be reached.
pub fn run(target: &dyn Target, text: &str, is_fresh: bool) -> std::io::Result<String> {
    play(&mut Single::new(target, is_fresh), text, is_fresh)
}

/// Runs a script on one server or several, and returns the script with the trace that it has there.
///
/// # Errors
///
/// If a command cannot be parsed, or a server does not do what the script waits for.
pub(crate) fn play(ground: &mut dyn Ground, text: &str, is_fresh: bool) -> std::io::Result<String> {
    let mut runner = Runner::new(ground, is_fresh)?;
    let traced = goldenscript::generate(&mut runner, text);
    runner.clients.clear();
    runner.ground.end(&runner.trace.sessions())?;
    traced
}

struct Runner<'a> {
    ground: &'a mut dyn Ground,
    clients: BTreeMap<String, Client>,
    /// The servers to which the clients have connected, if there is more than one.
    homes: BTreeMap<String, String>,
    trace: Trace,
    connections: i32,
}

/// More than any connection sends.
const XIDS_OF_A_CONNECTION: i32 = 1_000;

impl<'a> Runner<'a> {
    fn new(ground: &'a mut dyn Ground, is_fresh: bool) -> std::io::Result<Self> {
        let trace = Trace::new(is_fresh, ground.begin()?);
        let (clients, homes) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { ground, clients, homes, trace, connections: 0 })
    }

    fn client(&mut self, name: &str) -> Result<&mut Client, Box<dyn Error>> {
        self.clients.get_mut(name).ok_or_else(|| format!("{name} is not connected").into())
    }

    fn execute(&mut self, name: &str, command: &Command) -> Result<Vec<String>, Box<dyn Error>> {
        match command {
            Command::Connect(connect) => return self.connect(name, connect),
            Command::Dial => {
                let client = self.ground.dial(None)?;
                self.clients.insert(name.to_owned(), client);
            }
            Command::Bytes { pieces } => {
                let bytes = value::pieces(pieces)?;
                self.client(name)?.send_bytes(&bytes);
            }
            Command::Frame { pieces } => {
                let frame = framed(&value::pieces(pieces)?);
                self.client(name)?.send_bytes(&frame);
            }
            Command::Cut => {
                self.clients.remove(name);
            }
            Command::Receive => {
                let mut messages = Vec::new();
                if self.ground.may_block() {
                    messages = self.client(name)?.receive_replies();
                }
                messages.extend(self.receive_all(name));
                return Ok(self.show(&messages));
            }
            Command::ReceiveHandshake => {
                let handshake = self.client(name)?.finish_handshake();
                self.name_session(name);
                return Ok(vec![self.trace.handshake(&handshake)]);
            }
            Command::AwaitMessage => {
                let messages = self.receive_until(name, |_| true)?;
                return Ok(self.show(&messages));
            }
            Command::AwaitEvent => {
                let is_last = |message: &Message| matches!(message, Message::Event { .. });
                let messages = self.receive_until(name, is_last)?;
                return Ok(self.show(&messages));
            }
            Command::AwaitClose => {
                let messages = self.receive_until(name, |_| false)?;
                return Ok(self.show(&messages));
            }
            Command::Expire => {
                let session = self.trace.session(name).ok_or("the client has no session")?;
                self.ground.expire(session);
            }
            Command::Sweep => self.ground.sweep(),
            Command::ShowEventZxids => self.trace.shows_event_zxids = true,
            Command::Server(command) => return self.ground.control(name, command, &mut self.trace),
            Command::Ask(operation) => return self.pipeline(name, std::slice::from_ref(operation)),
            Command::Pipeline(operations) => return self.pipeline(name, operations),
            Command::Send(operations) => {
                self.send(name, operations)?;
                let writes = operations.iter().filter(|operation| operation.is_write()).count();
                let home = self.homes.get(name).map(String::as_str);
                self.ground.sent_writes(home, writes)?;
            }
        }
        Ok(Vec::new())
    }

    fn connect(&mut self, name: &str, connect: &Connect) -> Result<Vec<String>, Box<dyn Error>> {
        let request = self.connect_request(connect)?;
        let mut client = self.ground.dial(connect.server.as_deref())?;
        self.connections += 1;
        if self.ground.may_block() {
            client.begin_xids_at(self.connections * XIDS_OF_A_CONNECTION);
        }
        if let Some(server) = &connect.server {
            self.homes.insert(name.to_owned(), server.clone());
        }
        if connect.late {
            client.send_handshake(&request);
            self.clients.insert(name.to_owned(), client);
            let is_new = request.session.is_none();
            self.ground.sent_writes(connect.server.as_deref(), usize::from(is_new))?;
            return Ok(Vec::new());
        }
        let handshake = client.shake_hands(&request);
        self.clients.insert(name.to_owned(), client);
        self.name_session(name);
        Ok(vec![self.trace.handshake(&handshake)])
    }

    fn name_session(&mut self, name: &str) {
        let session = self.clients.get(name).and_then(|client| client.session.as_ref());
        if let Some((session, _)) = session {
            self.trace.name_session(*session, name);
        }
    }

    fn connect_request(&self, connect: &Connect) -> Result<ConnectRequest, Box<dyn Error>> {
        let session = match connect.session.as_deref() {
            None => SessionId::NONE,
            Some(name) => match self.trace.session(name) {
                Some(session) => session,
                None => SessionId(
                    name.parse()
                        .map_err(|_| format!("{name:?} is neither a client nor a session id"))?,
                ),
            },
        };
        let password = match connect.password.as_str() {
            "own" if session.is_none() => Password::zero(),
            "own" => Password::of(session),
            "wrong" => Password::from_bytes(vec![7; zoolet_protocol::PASSWORD_BYTES]),
            "short" => Password::from_bytes(vec![7; 3]),
            "null" => Password::NULL,
            other => {
                return Err(format!("--password {other:?}: use own, wrong, short or null").into());
            }
        };
        let read_only = match connect.read_only.as_str() {
            "yes" => Some(true),
            "no" => Some(false),
            "absent" => None,
            other => return Err(format!("--read-only {other:?}: use yes, no or absent").into()),
        };
        Ok(ConnectRequest {
            protocol_version: connect.protocol,
            last_zxid_seen: operation::zxid(&connect.seen, &self.trace)?,
            timeout_ms: connect.timeout,
            session,
            password,
            read_only,
        })
    }

    /// Sends operations in one piece, and returns their xids.
    fn send(&mut self, name: &str, operations: &[Operation]) -> Result<Vec<Xid>, Box<dyn Error>> {
        let requests = operations.iter().map(|operation| operation.request(&self.trace));
        let requests = requests.collect::<Result<Vec<_>, _>>()?;
        let client = self.client(name)?;
        let mut bytes = Vec::new();
        let mut xids = Vec::new();
        for (request, xid) in requests {
            let (xid, frame) = client.encode(&request, xid);
            bytes.extend_from_slice(&frame);
            xids.push(xid);
        }
        client.send_bytes(&bytes);
        Ok(xids)
    }

    fn pipeline(
        &mut self,
        name: &str,
        operations: &[Operation],
    ) -> Result<Vec<String>, Box<dyn Error>> {
        let mut lines = Vec::new();
        for xid in self.send(name, operations)? {
            let client = self.client(name)?;
            if client.awaits(xid) {
                let messages = client.receive_until(xid);
                lines.extend(self.show(&messages));
            }
        }
        Ok(lines)
    }

    fn receive_until(
        &mut self,
        name: &str,
        is_last: fn(&Message) -> bool,
    ) -> Result<Vec<Message>, Box<dyn Error>> {
        let client = self.client(name)?;
        let mut messages = Vec::new();
        loop {
            let message = client.receive();
            let is_over = matches!(message, Message::Closed | Message::Silence);
            let is_last = is_over || is_last(&message);
            messages.push(message);
            if is_last {
                return Ok(messages);
            }
        }
    }

    /// Pings, and returns every message before the reply to the ping. Returns nothing for a client
    /// without a session.
    fn receive_all(&mut self, name: &str) -> Vec<Message> {
        let Some(client) = self.clients.get_mut(name) else { return Vec::new() };
        let has_session = client.session.as_ref().is_some_and(|(id, _)| !id.is_none());
        // A request of an ensemble may wait for what a later command does.
        let is_blocked = self.ground.may_block() && client.awaits_any();
        if !has_session || !client.is_open() || is_blocked {
            return Vec::new();
        }
        let mut messages = client.ask(&Request::Session(SessionRequest::Ping));
        if let Some(Message::Reply { header, .. }) = messages.last()
            && header.xid == Xid::PING
        {
            messages.pop();
        }
        messages
    }

    fn show(&mut self, messages: &[Message]) -> Vec<String> {
        messages.iter().map(|message| self.trace.message(message)).collect()
    }
}

impl goldenscript::Runner for Runner<'_> {
    type Command = goldenscript::Command;

    fn run(
        &mut self,
        command: &goldenscript::Command,
        context: &Context,
    ) -> Result<String, Box<dyn Error>> {
        let name = context.prefix.as_deref().unwrap_or_default();
        let lines = self.execute(name, &Command::parse(&command.name)?)?;
        self.ground.settle()?;
        Ok(lines.join("\n"))
    }

    fn end_block(&mut self, _: &Block) -> Result<String, Box<dyn Error>> {
        let mut output = String::new();
        let names: Vec<_> = self.clients.keys().cloned().collect();
        for name in names {
            let messages = self.receive_all(&name);
            for line in self.show(&messages) {
                let line = line.replace('\n', &format!("\n{name}: "));
                writeln!(output, "{name}: {line}")?;
            }
        }
        Ok(output)
    }
}
