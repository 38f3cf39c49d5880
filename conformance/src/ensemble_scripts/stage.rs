//! The ground of a script with several servers: the servers by their names, and what is done to them.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;

use zoolet_protocol::{SessionId, Zxid};

use super::servers::Servers;
use super::{Area, named};
use crate::client::Client;
use crate::script::{Ground, Janitor, ServerCommand, Trace};
use crate::target::{Link, Target};

/// The servers of an ensemble.
const SERVERS: usize = 3;

/// How often a script looks for what it waits for. With the pauses between the looks it is longer
/// than an election.
const LOOKS_MAX: usize = 30_000;

/// The bits of a zxid that count within an epoch.
const EPOCH_BITS: u32 = 32;

/// What `srvr` shows of a server that serves nobody, and of one that cannot be asked.
const NOT_SERVING: &str = "not serving";

/// An ensemble on which scripts run one after the other.
pub(super) struct Stage<S> {
    servers: S,
    area: Area,
    /// The servers by the names of the script: their roles at its beginning.
    names: BTreeMap<String, usize>,
    faults: BTreeMap<usize, Fault>,
    /// The leader, while a majority can have one.
    leader: Option<usize>,
    /// The last zxid of the leader when it was last asked.
    last: Zxid,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Lags,
    IsCutOff,
    IsStopped,
}

/// What `srvr` shows.
struct State {
    mode: String,
    zxid: Zxid,
}

impl<S: Servers> Stage<S> {
    pub(super) fn new(servers: S, area: Area) -> Self {
        let (names, faults) = (BTreeMap::new(), BTreeMap::new());
        Self { servers, area, names, faults, leader: None, last: Zxid::ZERO }
    }

    fn server(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| {
            let names: Vec<_> = self.names.keys().map(String::as_str).collect();
            named(name, format!("there is no such server now; there are {}", names.join(", ")))
        })
    }

    fn state(&self, server: usize) -> io::Result<State> {
        let said = match self.faults.get(&server) {
            Some(Fault::IsStopped) => String::new(),
            _ => self.servers.word(server, "srvr")?,
        };
        let value = |key: &str| said.lines().find_map(|line| line.strip_prefix(key));
        let zxid = value("Zxid: 0x").map_or(Ok(0), |digits| i64::from_str_radix(digits, 16));
        let mode = value("Mode: ").unwrap_or(NOT_SERVING).to_owned();
        Ok(State { mode, zxid: Zxid(zxid.map_err(io::Error::other)?) })
    }

    /// The servers that run and reach each other.
    fn linked(&self) -> Vec<usize> {
        let is_linked = |server: &usize| {
            !matches!(self.faults.get(server), Some(Fault::IsCutOff | Fault::IsStopped))
        };
        (0..SERVERS).filter(is_linked).collect()
    }

    /// Waits until something is found.
    fn until<T>(
        &self,
        what: &str,
        mut find: impl FnMut(&Self) -> io::Result<Option<T>>,
    ) -> io::Result<T> {
        for _ in 0..LOOKS_MAX {
            if let Some(found) = find(self)? {
                return Ok(found);
            }
            self.servers.pause();
        }
        let shown = |server| {
            let State { mode, zxid } = self.state(server)?;
            Ok(format!("{mode} at {:#x}", zxid.0))
        };
        let states = (0..SERVERS).map(shown).collect::<io::Result<Vec<_>>>()?.join(", ");
        Err(io::Error::other(format!("waited in vain: {what}; the servers: {states}")))
    }

    /// Waits until all servers that reach each other have a leader in an epoch after `epoch`.
    fn await_leader(&mut self, epoch: i64) -> io::Result<usize> {
        let (leader, zxid) = self.until("an election", |stage| {
            let mut leader = None;
            for server in stage.linked() {
                let State { mode, zxid } = stage.state(server)?;
                match mode.as_str() {
                    "leader" if zxid.0 >> EPOCH_BITS > epoch => leader = Some((server, zxid)),
                    "follower" => {}
                    _ => return Ok(None),
                }
            }
            Ok(leader)
        })?;
        (self.leader, self.last) = (Some(leader), zxid);
        Ok(leader)
    }

    /// A fault begins, and a majority may be lost with it.
    fn inject(&mut self, server: usize, fault: Fault) {
        self.faults.insert(server, fault);
        let linked = self.linked();
        if self.leader.is_some_and(|leader| !linked.contains(&leader))
            || linked.len() <= SERVERS / 2
        {
            self.leader = None;
        }
    }

    /// Ends a fault of a server. If there is a leader, waits until the server follows it.
    fn mend(&mut self, server: usize) -> io::Result<()> {
        match self.faults.remove(&server) {
            Some(Fault::Lags) => self.servers.catch_up(server),
            Some(Fault::IsCutOff) => self.servers.rejoin(server),
            Some(Fault::IsStopped) => self.servers.start(server)?,
            None => {}
        }
        if self.leader.is_some() {
            self.until("it follows", |stage| {
                Ok((stage.state(server)?.mode == "follower").then_some(()))
            })?;
            self.settle()?;
        }
        Ok(())
    }

    /// Ends all faults.
    fn mend_all(&mut self) -> io::Result<()> {
        let faulty: Vec<_> = self.faults.keys().copied().collect();
        for server in faulty {
            self.mend(server)?;
        }
        self.await_leader(-1)?;
        self.settle()
    }

    /// Names the servers by their roles.
    fn name_servers(&mut self, leader: usize) {
        let others = (1..SERVERS).map(|step| (leader + step) % SERVERS);
        let names = ["leader", "one", "two"].map(str::to_owned);
        self.names = names.into_iter().zip(std::iter::once(leader).chain(others)).collect();
    }

    fn janitor(&self) -> io::Result<Janitor> {
        let leader = self.leader.ok_or_else(|| io::Error::other("there is no leader"))?;
        Janitor::new(&At { servers: &self.servers, server: leader })
    }

    fn await_mode(&self, server: usize, modes: &[&str]) -> io::Result<()> {
        self.until(&format!("mode {}", modes.join(" or ")), |stage| {
            Ok(modes.contains(&stage.state(server)?.mode.as_str()).then_some(()))
        })
    }

    fn await_new_leader(&mut self, trace: &mut Trace) -> io::Result<()> {
        let leader = self.await_leader(self.last.0 >> EPOCH_BITS)?;
        trace.begin_epoch(self.last);
        self.names.insert("newLeader".to_owned(), leader);
        if let Some(follower) = self.linked().into_iter().find(|server| *server != leader) {
            self.names.insert("newFollower".to_owned(), follower);
        }
        Ok(())
    }

    /// The answer to a word, or a value of it.
    fn show_word(&self, server: usize, word: &str, key: Option<&str>) -> io::Result<String> {
        if self.faults.get(&server) == Some(&Fault::IsStopped) {
            return Ok("is stopped".to_owned());
        }
        let said = self.servers.word(server, word)?;
        let value = |key: &str| {
            let mut values = said.lines().filter_map(|line| line.strip_prefix(key));
            values.find_map(|rest| rest.strip_prefix('\t')).unwrap_or("none").to_owned()
        };
        Ok(key.map_or_else(|| said.trim_end().to_owned(), value))
    }
}

impl<S: Servers> Ground for Stage<S> {
    fn begin(&mut self) -> io::Result<Zxid> {
        self.mend_all()?;
        if let Some(leader) = self.leader {
            self.name_servers(leader);
        }
        // After this every server is in the present epoch.
        self.janitor()?.close()?;
        self.settle()?;
        if self.area == Area::Two {
            let absent = self.names.remove("two").ok_or_else(|| io::Error::other("no third"))?;
            self.servers.stop(absent);
            self.inject(absent, Fault::IsStopped);
        }
        Ok(self.last)
    }

    fn dial(&mut self, server: Option<&str>) -> io::Result<Client> {
        let server = server.ok_or_else(|| {
            io::Error::other("several servers: write `connect` with the name of one")
        })?;
        self.servers.dial(self.server(server)?)
    }

    fn control(
        &mut self,
        name: &str,
        command: &ServerCommand,
        trace: &mut Trace,
    ) -> Result<Vec<String>, Box<dyn Error>> {
        if *command == ServerCommand::AwaitLeader {
            self.await_new_leader(trace)?;
            return Ok(Vec::new());
        }
        let server = self.server(name)?;
        let mut shown = Vec::new();
        match command {
            ServerCommand::Lag => {
                self.servers.lag(server);
                self.inject(server, Fault::Lags);
            }
            ServerCommand::CutOff => {
                self.servers.cut_off(server);
                self.inject(server, Fault::IsCutOff);
            }
            ServerCommand::Stop => {
                self.servers.stop(server);
                self.inject(server, Fault::IsStopped);
            }
            ServerCommand::CatchUp | ServerCommand::Rejoin | ServerCommand::Start => {
                self.mend(server)?;
            }
            ServerCommand::AwaitLeader => {}
            ServerCommand::AwaitLooking => self.await_mode(server, &[NOT_SERVING, "read-only"])?,
            ServerCommand::AwaitReadOnly => self.await_mode(server, &["read-only"])?,
            ServerCommand::AwaitZxid { zxid } => {
                let zxid = trace.parse_zxid(zxid).ok_or_else(|| format!("no zxid: {zxid:?}"))?;
                self.until(&format!("{name} applies {:#x}", zxid.0), |stage| {
                    Ok((stage.state(server)?.zxid >= zxid).then_some(()))
                })?;
            }
            ServerCommand::CountZxids => trace.base = self.last,
            ServerCommand::Mode => shown.push(self.state(server)?.mode),
            ServerCommand::LastZxid => shown.push(trace.zxid(self.state(server)?.zxid)),
            ServerCommand::Word { word } => shown.push(self.show_word(server, word, None)?),
            ServerCommand::Mntr { key } => shown.push(self.show_word(server, "mntr", Some(key))?),
        }
        Ok(shown)
    }

    fn sent_writes(&mut self, server: Option<&str>, writes: usize) -> io::Result<()> {
        let Some(leader) = self.leader else { return Ok(()) };
        let server = server.map(|server| self.server(server)).transpose()?;
        if !server.is_some_and(|server| self.linked().contains(&server)) {
            return Ok(());
        }
        let expected = Zxid(self.last.0 + i64::try_from(writes).map_err(io::Error::other)?);
        self.until("the leader commits what was sent", |stage| {
            Ok((stage.state(leader)?.zxid >= expected).then_some(()))
        })
    }

    fn settle(&mut self) -> io::Result<()> {
        let Some(leader) = self.leader else { return Ok(()) };
        self.last = self.until("all servers have applied the same", |stage| {
            let last = stage.state(leader)?.zxid;
            // The followers do not take the zxid with which an epoch begins.
            let is_first = last.0 & ((1 << EPOCH_BITS) - 1) == 0;
            for server in stage.linked() {
                let must_apply = !is_first && stage.faults.get(&server) != Some(&Fault::Lags);
                if must_apply && stage.state(server)?.zxid != last {
                    return Ok(None);
                }
            }
            Ok(Some(last))
        })?;
        Ok(())
    }

    fn may_block(&self) -> bool {
        true
    }

    // Its clock runs, and the effect is waited for.
    fn expire(&mut self, _: SessionId) {}

    fn sweep(&mut self) {}

    fn end(&mut self, sessions: &[SessionId]) -> io::Result<()> {
        self.mend_all()?;
        let mut janitor = self.janitor()?;
        let server = self.leader.ok_or_else(|| io::Error::other("there is no leader"))?;
        janitor.clean(&At { servers: &self.servers, server }, sessions)?;
        self.settle()
    }
}

/// One of the servers.
struct At<'a, S> {
    servers: &'a S,
    server: usize,
}

impl<S: Servers> Target for At<'_, S> {
    fn dial(&self) -> io::Result<Box<dyn Link>> {
        self.servers
            .dial(self.server)?
            .into_link()
            .ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}
