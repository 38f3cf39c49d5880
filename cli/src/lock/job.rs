//! The command: a process group of its own, to which signals are passed on, and which is stopped when the
//! lock is lost. A watchdog is started beside it, for when this process cannot stop it.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use zoolet_client::Client;

use super::NOTICE_MAX;
use super::failure::{Failure, Loss, signalled};
use super::held_lock::HeldLock;
use super::signals::Signals;
use super::terminal::Terminal;
use super::watchdog::Watchdog;

/// A running command.
#[derive(Debug)]
pub(super) struct Job {
    child: Child,
    group: Pid,
    terminal: Terminal,
    watchdog: Watchdog,
}

/// How a command ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// By itself, with this exit status.
    Ended(u8),
    /// It was stopped, because the lock was lost.
    Stopped(Loss),
}

/// How often to look whether the process group still has a process.
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Job {
    /// Starts a command.
    pub(super) fn start(command: &[OsString], held: &HeldLock) -> Result<Self, Failure> {
        let Some((program, arguments)) = command.split_first() else {
            unreachable!("a command is required");
        };
        let watchdog = Watchdog::start()?;
        let started = Command::new(program)
            .args(arguments)
            .env("ZOOLET_FENCING_TOKEN", held.token().0.to_string())
            .env("ZOOLET_LOCK_PATH", held.path())
            .process_group(0)
            .spawn();
        let child = started.map_err(|error| {
            let command = program.to_string_lossy().into_owned();
            match error.kind() {
                io::ErrorKind::NotFound => Failure::NoCommand { command },
                _ => Failure::NotExecutable { command, error },
            }
        })?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let group = Pid::from_raw(id.expect("a process that is not waited for has a number"));
        Ok(Self { child, group, terminal: Terminal::hand_to(group), watchdog })
    }

    /// Waits for the end of the command, and stops it when the lock is lost. Passes signals on to it.
    pub(super) async fn run(
        self,
        held: &HeldLock,
        client: &Client,
        signals: &mut Signals,
        kill_after: Duration,
    ) -> Result<Ending, Failure> {
        let Self { mut child, group, mut terminal, mut watchdog } = self;
        let time_to_end = kill_after.min(client.session_timeout() / NOTICE_MAX);
        let ending = {
            let mut lost = std::pin::pin!(held.lost(client, time_to_end));
            let mut told = std::pin::pin!(watchdog.keep_told(group, client, time_to_end));
            loop {
                tokio::select! {
                    // A command that has ended need not be stopped.
                    biased;
                    status = child.wait() => break Ending::Ended(code(status)?),
                    loss = &mut lost => break Ending::Stopped(loss),
                    never = &mut told => match never {},
                    signal = signals.next_or_child() => match signal {
                        Some(signal) => tell(group, signal),
                        None => terminal.follow(group),
                    },
                }
            }
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

fn code(status: io::Result<ExitStatus>) -> Result<u8, Failure> {
    let status = status.map_err(Failure::System)?;
    Ok(match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(u8::MAX),
        (None, signal) => signalled(signal.unwrap_or_default()),
    })
}
