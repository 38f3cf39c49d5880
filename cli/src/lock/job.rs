//! The command: a process group of its own, to which signals are passed on, and which is stopped when the
//! lock is lost.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

use super::failure::{Failure, signalled};
use super::held_lock::HeldLock;
use super::signals::Signals;
use super::terminal::Terminal;

/// A running command.
#[derive(Debug)]
pub(super) struct Job {
    child: Child,
    group: Pid,
    terminal: Terminal,
}

/// How a command ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// By itself, with this exit status.
    Ended(u8),
    /// It was stopped, because the lock was lost.
    Stopped,
}

/// How often to look whether the process group still has a process.
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Job {
    /// Starts a command.
    pub(super) fn start(command: &[OsString], held: &HeldLock) -> Result<Self, Failure> {
        let Some((program, arguments)) = command.split_first() else {
            unreachable!("a command is required");
        };
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
        Ok(Self { child, group, terminal: Terminal::hand_to(group) })
    }

    /// Waits for the end of the command, and stops it when `lost` is ready. Passes signals on to it.
    pub(super) async fn run(
        mut self,
        lost: impl Future<Output = ()>,
        signals: &mut Signals,
        kill_after: Duration,
    ) -> Result<Ending, Failure> {
        let mut lost = std::pin::pin!(lost);
        let ending = loop {
            tokio::select! {
                // A command that has ended need not be stopped.
                biased;
                status = self.child.wait() => break Ending::Ended(code(status)?),
                () = &mut lost => {
                    self.stop(kill_after).await?;
                    break Ending::Stopped;
                }
                signal = signals.next_or_child() => match signal {
                    Some(signal) => self.tell(signal),
                    None => self.terminal.follow(self.group),
                },
            }
        };
        self.terminal.take_back();
        Ok(ending)
    }

    /// Stops all processes of the group: with SIGTERM, and after a time with SIGKILL.
    async fn stop(&mut self, kill_after: Duration) -> Result<(), Failure> {
        self.tell(Signal::SIGTERM);
        // A process that was stopped by SIGSTOP handles SIGTERM only after SIGCONT.
        self.tell(Signal::SIGCONT);
        let group = self.group;
        let gone = async {
            self.child.wait().await?;
            while killpg(group, None) != Err(Errno::ESRCH) {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            Ok(())
        };
        match tokio::time::timeout(kill_after, gone).await {
            Ok(result) => result.map_err(Failure::System),
            Err(_) => {
                self.tell(Signal::SIGKILL);
                self.child.wait().await.map(drop).map_err(Failure::System)
            }
        }
    }

    fn tell(&self, signal: Signal) {
        match killpg(self.group, signal) {
            // It has just ended.
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => tracing::error!("{signal} cannot be passed on: {error}"),
        }
    }
}

fn code(status: io::Result<ExitStatus>) -> Result<u8, Failure> {
    let status = status.map_err(Failure::System)?;
    Ok(match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(u8::MAX),
        (None, signal) => signalled(signal.unwrap_or_default()),
    })
}
