//! The terminal: a command in a process group of its own may read it only while that group is in the
//! foreground.

use std::io::{self, IsTerminal};

use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// The terminal of stdin, if this process was in its foreground.
#[derive(Debug)]
pub(super) struct Terminal {
    is_given: bool,
}

impl Terminal {
    /// Puts a process group into the foreground, if this process is there. The group is not to read the terminal
    /// before that, since it would be stopped for it.
    pub(super) fn hand_to(group: Pid) -> Self {
        let is_given = is_ours();
        if is_given {
            put_in_front(group);
        }
        Self { is_given }
    }

    /// Puts this process into the foreground again.
    pub(super) fn take_back(&self) {
        if self.is_given {
            put_in_front(getpgrp());
        }
    }

    /// Stops this process when Ctrl-Z stopped the command, so that the shell notices, and continues the command
    /// when this process continues. Whoever stops the command alone, with SIGSTOP, continues it too.
    pub(super) fn follow(&mut self, group: Pid) {
        if !is_stopped(group) {
            return;
        }
        self.take_back();
        // This process stands still here until the shell continues it.
        let _ = kill(Pid::this(), Signal::SIGSTOP);
        self.is_given = is_ours();
        if self.is_given {
            put_in_front(group);
        }
        let _ = killpg(group, Signal::SIGCONT);
    }
}

/// Whether stdin is a terminal, and this process is in its foreground.
fn is_ours() -> bool {
    io::stdin().is_terminal() && tcgetpgrp(io::stdin()) == Ok(getpgrp())
}

fn put_in_front(group: Pid) {
    let mut set = SigSet::empty();
    set.add(Signal::SIGTTOU);
    // The system stops a process in the background for this, unless it blocks the signal.
    let is_blocked = set.thread_block().is_ok();
    if let Err(error) = tcsetpgrp(io::stdin(), group) {
        tracing::debug!("the terminal cannot be given to {group}: {error}");
    }
    if is_blocked {
        let _ = set.thread_unblock();
    }
}

/// Whether the command was just stopped, and not by SIGSTOP.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
fn is_stopped(leader: Pid) -> bool {
    use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};

    let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG;
    let stopped = waitid(Id::Pid(leader), flags);
    matches!(stopped, Ok(WaitStatus::Stopped(_, signal)) if signal != Signal::SIGSTOP)
}

/// Other systems cannot tell without consuming the exit status of the command.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
fn is_stopped(_leader: Pid) -> bool {
    false
}
