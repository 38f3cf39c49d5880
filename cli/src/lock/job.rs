//! The command: a process group of its own, to which signals are passed on, and which is stopped when the
//! lock is lost. A watchdog is started beside it, for when this process cannot stop it, and knows of it before it
//! begins.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::Child;
use zoolet_client::Client;

use super::NOTICE_MAX;
use super::failure::{Failure, Loss, signalled};
use super::gate::Gate;
use super::held_lock::HeldLock;
use super::signals::Signals;
use super::terminal::Terminal;
use super::watchdog::Watchdog;

/// A command that waits at its gate.
#[derive(Debug)]
pub(super) struct Job {
    name: String,
    gate: Gate,
    child: Child,
    group: Pid,
    watchdog: Watchdog,
}

/// How a command ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// By itself, with this exit status.
    Ended(u8),
    /// It did not begin.
    NotBegun(Failure),
    /// It was stopped, because the lock was lost.
    Stopped(Loss),
}

/// How often to look whether the process group still has a process.
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Job {
    /// Starts the process of a command, and its watchdog.
    pub(super) fn start(command: &[OsString], held: &HeldLock) -> Result<Self, Failure> {
        let name = command.first().expect("a command is required").to_string_lossy().into_owned();
        let watchdog = Watchdog::start()?;
        let token = held.token().0.to_string();
        let variables =
            [("ZOOLET_FENCING_TOKEN", token.as_str()), ("ZOOLET_LOCK_PATH", held.path())];
        match Gate::start(command, &variables) {
            Ok((gate, child, group)) => Ok(Self { name, gate, child, group, watchdog }),
            Err(error) => Err(Failure::NotExecutable { command: name, error }),
        }
    }

    /// Runs the command to its end, and stops it when the lock is lost. Passes signals on to it.
    pub(super) async fn run(
        self,
        held: &HeldLock,
        client: &Client,
        signals: &mut Signals,
        kill_after: Duration,
    ) -> Result<Ending, Failure> {
        let Self { name, gate, mut child, group, mut watchdog } = self;
        let time_to_end = kill_after.min(client.session_timeout() / NOTICE_MAX);
        // Before the command begins, so that it does not read the terminal too early.
        let mut terminal = Terminal::hand_to(group);
        let ending = if watchdog.is_told_in_time(group, client, time_to_end).await {
            let mut lost = std::pin::pin!(held.lost(client, time_to_end));
            let mut told = std::pin::pin!(watchdog.keep_told(group, client, time_to_end));
            let mut ended = std::pin::pin!(end(name, gate, &mut child));
            loop {
                tokio::select! {
                    // A command that has ended need not be stopped.
                    biased;
                    ending = &mut ended => break ending?,
                    loss = &mut lost => break Ending::Stopped(loss),
                    never = &mut told => match never {},
                    signal = signals.next_or_child() => match signal {
                        Some(signal) => tell(group, signal),
                        None => terminal.follow(group),
                    },
                }
            }
        } else {
            drop(gate);
            Ending::Stopped(Loss::Before)
        };
        if let Ending::Stopped(_) = ending {
            watchdog.leave_to_this_process(group, kill_after).await;
            stop(&mut child, group, kill_after).await?;
        }
        watchdog.end().await;
        terminal.take_back();
        Ok(ending)
    }
}

/// Opens the gate of a command, and waits for its end.
async fn end(command: String, gate: Gate, child: &mut Child) -> Result<Ending, Failure> {
    match gate.open().await {
        Ok(()) => {
            let status = child.wait().await.map_err(Failure::System)?;
            Ok(Ending::Ended(code(status)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(Ending::NotBegun(Failure::NoCommand { command }))
        }
        Err(error) => Ok(Ending::NotBegun(Failure::NotExecutable { command, error })),
    }
}

/// Stops all processes of the group: with SIGTERM, and after a time with SIGKILL.
async fn stop(child: &mut Child, group: Pid, kill_after: Duration) -> Result<(), Failure> {
    tell(group, Signal::SIGTERM);
    // A process that was stopped by SIGSTOP handles SIGTERM only after SIGCONT.
    tell(group, Signal::SIGCONT);
    let gone = async {
        child.wait().await?;
        while killpg(group, None) != Err(Errno::ESRCH) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    };
    match tokio::time::timeout(kill_after, gone).await {
        Ok(result) => result.map_err(Failure::System),
        Err(_) => {
            tell(group, Signal::SIGKILL);
            child.wait().await.map(drop).map_err(Failure::System)
        }
    }
}

fn tell(group: Pid, signal: Signal) {
    match killpg(group, signal) {
        // It has just ended.
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(error) => tracing::error!("{signal} cannot be passed on: {error}"),
    }
}

fn code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(u8::MAX),
        (None, signal) => signalled(signal.unwrap_or_default()),
    }
}
