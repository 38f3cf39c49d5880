//! The signals that this process passes on to the command.

use std::io;

use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

/// Signals that arrived before they are awaited are kept.
#[derive(Debug)]
pub(super) struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hangup: unix::Signal,
    /// Ctrl-Z, once there is a command that can be stopped.
    stop: Option<unix::Signal>,
    /// A child process changed its state.
    child: unix::Signal,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            stop: None,
            child: signal(SignalKind::child())?,
        })
    }

    /// From now on SIGTSTP is passed on, and does not stop this process.
    ///
    /// Not where this process cannot tell when the command is stopped, and so could not stop with it.
    pub(super) fn take_stops(&mut self) -> io::Result<()> {
        if cfg!(any(target_os = "linux", target_os = "android", target_os = "freebsd")) {
            self.stop = Some(signal(SignalKind::from_raw(Signal::SIGTSTP as i32))?);
        }
        Ok(())
    }

    /// The next signal to pass on.
    pub(super) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::SIGINT,
            _ = self.terminate.recv() => Signal::SIGTERM,
            _ = self.hangup.recv() => Signal::SIGHUP,
        }
    }

    /// The next signal to pass on; `None` when a child process changed its state.
    pub(super) async fn next_or_child(&mut self) -> Option<Signal> {
        let stop = async {
            match &mut self.stop {
                Some(stop) => stop.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.child.recv() => None,
            _ = self.interrupt.recv() => Some(Signal::SIGINT),
            _ = self.terminate.recv() => Some(Signal::SIGTERM),
            _ = self.hangup.recv() => Some(Signal::SIGHUP),
            _ = stop => Some(Signal::SIGTSTP),
        }
    }
}
