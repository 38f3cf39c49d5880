//! Where a script runs: on one server, or on the servers of an ensemble.

use std::error::Error;
use std::io;

use zoolet_protocol::{SessionId, Zxid};

use super::cleanup::Janitor;
use super::command::ServerCommand;
use super::trace::Trace;
use crate::client::Client;
use crate::target::Target;

/// The servers of a script.
pub(crate) trait Ground {
    /// Called before the first command. Returns the last zxid.
    fn begin(&mut self) -> io::Result<Zxid>;

    /// Connects to the server of this name.
    fn dial(&mut self, server: Option<&str>) -> io::Result<Client>;

    /// Does something to a server of an ensemble, or asks it. Returns what the trace shows.
    fn control(
        &mut self,
        server: &str,
        command: &ServerCommand,
        trace: &mut Trace,
    ) -> Result<Vec<String>, Box<dyn Error>>;

    /// So many writes were sent to a server, and their replies are not waited for.
    fn sent_writes(&mut self, server: Option<&str>, writes: usize) -> io::Result<()>;

    /// Waits until all servers that can have applied what is committed.
    fn settle(&mut self) -> io::Result<()>;

    /// Whether a request may wait for what a later command does.
    fn may_block(&self) -> bool;

    /// Expires a session on a server without a clock.
    fn expire(&mut self, session: SessionId);

    /// Deletes due znodes on a server without a clock.
    fn sweep(&mut self);

    /// Called after the last command, with the sessions of the script.
    fn end(&mut self, sessions: &[SessionId]) -> io::Result<()>;
}

/// One server.
pub(crate) struct Single<'a> {
    target: &'a dyn Target,
    /// Whether the server is new and no other script uses it.
    is_fresh: bool,
    janitor: Option<Janitor>,
}

impl<'a> Single<'a> {
    pub(crate) fn new(target: &'a dyn Target, is_fresh: bool) -> Self {
        Self { target, is_fresh, janitor: None }
    }
}

impl Ground for Single<'_> {
    fn begin(&mut self) -> io::Result<Zxid> {
        if self.is_fresh {
            return Ok(Zxid::ZERO);
        }
        self.janitor.insert(Janitor::new(self.target)?).last_zxid()
    }

    fn dial(&mut self, server: Option<&str>) -> io::Result<Client> {
        match server {
            None => Client::dial(self.target),
            Some(server) => Err(io::Error::other(format!(
                "there is no server {server:?}: this script runs on one server"
            ))),
        }
    }

    fn control(
        &mut self,
        server: &str,
        command: &ServerCommand,
        _: &mut Trace,
    ) -> Result<Vec<String>, Box<dyn Error>> {
        Err(format!("{server}: {command:?} needs an ensemble; move the script to ensemble-scripts")
            .into())
    }

    fn sent_writes(&mut self, _: Option<&str>, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn settle(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn may_block(&self) -> bool {
        false
    }

    fn expire(&mut self, session: SessionId) {
        self.target.expire(session);
    }

    fn sweep(&mut self) {
        self.target.sweep();
    }

    fn end(&mut self, sessions: &[SessionId]) -> io::Result<()> {
        match &mut self.janitor {
            Some(janitor) => janitor.clean(self.target, sessions),
            None => Ok(()),
        }
    }
}
