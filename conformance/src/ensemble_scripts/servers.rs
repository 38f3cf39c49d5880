//! The servers of an ensemble as a script needs them.

use std::io;

use crate::client::Client;
use crate::target::{Link, Received};

/// Three servers.
pub(super) trait Servers {
    /// Connects a client. The connection to a server that serves nobody is closed.
    fn dial(&self, server: usize) -> io::Result<Client>;

    /// The answer to a four-letter word.
    fn word(&self, server: usize, word: &str) -> io::Result<String>;

    /// It applies nothing.
    fn lag(&mut self, server: usize);

    /// Ends a lag.
    fn catch_up(&mut self, server: usize);

    /// It reaches no other server.
    fn cut_off(&mut self, server: usize);

    /// Ends a cut.
    fn rejoin(&mut self, server: usize);

    /// Its process ends.
    fn stop(&mut self, server: usize);

    /// Its process begins again.
    fn start(&mut self, server: usize) -> io::Result<()>;

    /// Lets a little time pass between two looks.
    fn pause(&self);
}

/// A connection that is closed.
pub(super) struct ClosedLink;

impl Link for ClosedLink {
    fn send(&mut self, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::NotConnected.into())
    }

    fn receive(&mut self) -> Received {
        Received::Closed
    }
}
