//! The signals that are passed on to the command.

use std::io;

use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

/// What came of them so far is kept.
#[derive(Debug)]
pub(super) struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hangup: unix::Signal,
    /// Something happened to a process that this one has started.
    child: unix::Signal,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            child: signal(SignalKind::child())?,
        })
    }

    /// The next that is to be passed on.
    pub(super) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::SIGINT,
            _ = self.terminate.recv() => Signal::SIGTERM,
            _ = self.hangup.recv() => Signal::SIGHUP,
        }
    }

    /// The next that is to be passed on; `None` when something happened to the command.
    pub(super) async fn next_or_child(&mut self) -> Option<Signal> {
        tokio::select! {
            _ = self.child.recv() => None,
            _ = self.interrupt.recv() => Some(Signal::SIGINT),
            _ = self.terminate.recv() => Some(Signal::SIGTERM),
            _ = self.hangup.recv() => Some(Signal::SIGHUP),
        }
    }
}
