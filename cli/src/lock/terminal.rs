//! The terminal: a command that runs in a process group of its own may read it only while that
//! group is in front.

use std::io::{self, IsTerminal};

use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// The terminal that stdin is, if it is one and was ours to give.
#[derive(Debug)]
pub(super) struct Terminal {
    is_given: bool,
}

impl Terminal {
    /// Gives the terminal to a process group, if it is ours.
    pub(super) fn hand_to(group: Pid) -> Self {
        let is_given = is_ours();
        if is_given {
            put_in_front(group);
            // It may have been stopped for having asked the terminal too early.
            let _ = killpg(group, Signal::SIGCONT);
        }
        Self { is_given }
    }

    /// Takes the terminal back for this process.
    pub(super) fn take_back(&self) {
        if self.is_given {
            put_in_front(getpgrp());
        }
    }

    /// Stops this process when the command was stopped by Ctrl-Z, so that the shell notices, and
    /// has the command go on when this process does.
    pub(super) fn follow(&mut self, group: Pid) {
        if !is_stopped(group) {
            return;
        }
        self.take_back();
        // Here this process stands still until the shell wants it to go on.
        let _ = kill(Pid::this(), Signal::SIGSTOP);
        self.is_given = is_ours();
        if self.is_given {
            put_in_front(group);
        }
        let _ = killpg(group, Signal::SIGCONT);
    }
}

/// Whether stdin is a terminal, and this process is in front there.
fn is_ours() -> bool {
    io::stdin().is_terminal() && tcgetpgrp(io::stdin()) == Ok(getpgrp())
}

fn put_in_front(group: Pid) {
    let mut set = SigSet::empty();
    set.add(Signal::SIGTTOU);
    // A process that is not in front is stopped for this, unless it does not hear of it.
    let is_blocked = set.thread_block().is_ok();
    if let Err(error) = tcsetpgrp(io::stdin(), group) {
        tracing::debug!("the terminal cannot be given to {group}: {error}");
    }
    if is_blocked {
        let _ = set.thread_unblock();
    }
}

/// Whether the command was just stopped.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
fn is_stopped(leader: Pid) -> bool {
    use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};

    let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG;
    matches!(waitid(Id::Pid(leader), flags), Ok(WaitStatus::Stopped(..)))
}

/// Elsewhere nobody can tell without taking the command's exit status from who waits for it.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
fn is_stopped(_leader: Pid) -> bool {
    false
}
