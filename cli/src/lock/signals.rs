//! The signals that this process passes on to the command.

use std::fs;
use std::io;

use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

/// Signals that arrived before they are awaited are kept. One that is ignored since this process was started, as
/// `nohup` has it, is ignored by this process and by the command.
#[derive(Debug)]
pub(super) struct Signals {
    interrupt: Option<unix::Signal>,
    terminate: Option<unix::Signal>,
    hangup: Option<unix::Signal>,
    /// Ctrl-Z, once there is a command that can be stopped.
    stop: Option<unix::Signal>,
    /// A child process changed its state.
    child: unix::Signal,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: unless_ignored(Signal::SIGINT)?,
            terminate: unless_ignored(Signal::SIGTERM)?,
            hangup: unless_ignored(Signal::SIGHUP)?,
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
            () = receive(&mut self.interrupt) => Signal::SIGINT,
            () = receive(&mut self.terminate) => Signal::SIGTERM,
            () = receive(&mut self.hangup) => Signal::SIGHUP,
        }
    }

    /// The next signal to pass on; `None` when a child process changed its state.
    pub(super) async fn next_or_child(&mut self) -> Option<Signal> {
        tokio::select! {
            _ = self.child.recv() => None,
            () = receive(&mut self.interrupt) => Some(Signal::SIGINT),
            () = receive(&mut self.terminate) => Some(Signal::SIGTERM),
            () = receive(&mut self.hangup) => Some(Signal::SIGHUP),
            () = receive(&mut self.stop) => Some(Signal::SIGTSTP),
        }
    }
}

async fn receive(signals: &mut Option<unix::Signal>) {
    match signals {
        Some(signals) => drop(signals.recv().await),
        None => std::future::pending().await,
    }
}

fn unless_ignored(kind: Signal) -> io::Result<Option<unix::Signal>> {
    match is_ignored(kind) {
        true => Ok(None),
        false => signal(SignalKind::from_raw(kind as i32)).map(Some),
    }
}

/// Whether this process ignores a signal. Known on Linux, where `/proc` is mounted.
fn is_ignored(kind: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (kind as i32 - 1) & 1 == 1)
}
