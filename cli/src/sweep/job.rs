//! The command: a process group of its own, without input, whose output is kept, and which does not
//! outlive its run.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use parking_lot::Mutex;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use super::failure::Failure;
use super::limits::{LINE_CHARACTERS_MAX, OUTPUT_BYTES_MAX, OUTPUT_WITHIN};

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// With this exit status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// Not within the time limit.
    Hung,
}

impl Ending {
    pub(super) fn is_success(self) -> bool {
        self == Self::Exited(0)
    }

    fn of(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exited(code),
            (None, signal) => Self::Killed(signal.unwrap_or_default()),
        }
    }
}

/// What happens to the output of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Show {
    /// Its end is kept.
    Keep,
    /// It goes where that of this process goes.
    Pass,
}

/// A running command. Dropping it kills its process group.
#[derive(Debug)]
pub(super) struct Job {
    /// Dropped before the child: when that is dropped, its number may become free.
    group: Group,
    child: Child,
    output: Option<Output>,
}

/// A process group that is killed when this is dropped. This is safe while nobody has waited for its
/// first process: until then no other group has its number.
#[derive(Debug)]
struct Group(Pid);

impl Group {
    /// Waits until the first process has ended, and leaves it to be waited for.
    async fn ended(&self) -> io::Result<()> {
        // Before the first look, so that no end is missed.
        let mut children = signal(SignalKind::child())?;
        while !self.has_ended()? {
            children.recv().await;
        }
        Ok(())
    }

    fn has_ended(&self) -> io::Result<bool> {
        let Some(first) = rustix::process::Pid::from_raw(self.0.as_raw()) else { return Ok(true) };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(first), options)?.is_some())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Nobody is left, or all are killed.
        let _ = killpg(self.0, Signal::SIGKILL);
    }
}

impl Job {
    /// Starts a command with more variables in its environment.
    pub(super) fn start(
        words: &[OsString],
        variables: &[(&str, &OsStr)],
        show: Show,
    ) -> Result<Self, Failure> {
        let Some((program, arguments)) = words.split_first() else {
            unreachable!("a command is required");
        };
        let mut command = Command::new(program);
        command.args(arguments).envs(variables.iter().copied());
        command.stdin(Stdio::null()).process_group(0);
        let reader = match show {
            Show::Pass => None,
            Show::Keep => {
                let (reader, writer) = io::pipe().map_err(Failure::System)?;
                // One pipe, so that what is written to both stays in order.
                command.stdout(writer.try_clone().map_err(Failure::System)?).stderr(writer);
                Some(OwnedFd::from(reader))
            }
        };
        let child = command.spawn().map_err(|error| not_started(program, error))?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let group =
            Group(Pid::from_raw(id.expect("a process that is not waited for has a number")));
        let output = reader.map(Output::follow).transpose().map_err(Failure::System)?;
        Ok(Self { group, child, output })
    }

    /// Waits for the end of the command, kills what is left of its group, and returns the end of its
    /// output. Dropping the future kills the group too.
    pub(super) async fn end(self, limit: Duration) -> Result<(Ending, String), Failure> {
        let is_hung = match tokio::time::timeout(limit, self.group.ended()).await {
            Ok(ended) => ended.map(|()| false).map_err(Failure::System)?,
            Err(_) => true,
        };
        let Self { group, mut child, output } = self;
        drop(group);
        let status = child.wait().await.map_err(Failure::System)?;
        let ending = if is_hung { Ending::Hung } else { Ending::of(status) };
        let text = match output {
            Some(output) => output.text().await,
            None => String::new(),
        };
        Ok((ending, text))
    }
}

/// Why a command could not be started.
fn not_started(program: &OsStr, error: io::Error) -> Failure {
    let command = program.to_string_lossy().into_owned();
    match error.kind() {
        // Without a slash it is looked for in the folders of PATH only.
        io::ErrorKind::NotFound => match (Path::new(program).exists(), command.contains('/')) {
            (false, _) => Failure::NoCommand { command },
            (true, false) => Failure::NotInPath { command },
            (true, true) => Failure::NoInterpreter { command },
        },
        io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => Failure::System(error),
        _ => Failure::NotExecutable { command, error },
    }
}

/// The end of what a command prints.
#[derive(Debug)]
struct Output {
    tail: Arc<Mutex<VecDeque<u8>>>,
    reading: JoinHandle<()>,
}

impl Output {
    fn follow(reader: OwnedFd) -> io::Result<Self> {
        let mut reader = pipe::Receiver::from_owned_fd(reader)?;
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let kept = Arc::clone(&tail);
        let reading = tokio::spawn(async move {
            let mut buffer = vec![0; READ_BYTES];
            while let Ok(count @ 1..) = reader.read(&mut buffer).await {
                let mut kept = kept.lock();
                kept.extend(&buffer[..count]);
                let surplus = kept.len().saturating_sub(OUTPUT_BYTES_MAX);
                kept.drain(..surplus);
            }
        });
        Ok(Self { tail, reading })
    }

    /// What has been printed up to the end.
    async fn text(mut self) -> String {
        let _ = tokio::time::timeout(OUTPUT_WITHIN, &mut self.reading).await;
        let mut tail = std::mem::take(&mut *self.tail.lock());
        readable(&String::from_utf8_lossy(tail.make_contiguous()))
    }
}

/// The lines as a terminal would leave them, without colours and other control characters. Of a long
/// line the beginning is kept.
fn readable(text: &str) -> String {
    let plain = anstream::adapter::strip_str(text).to_string();
    let line = |line: &str| {
        let shown = line.rsplit('\r').find(|part| !part.is_empty()).unwrap_or_default();
        let characters = shown.chars().filter(|c| *c == '\t' || !c.is_control());
        characters.take(LINE_CHARACTERS_MAX).chain(['\n']).collect::<String>()
    };
    plain.lines().map(line).collect()
}

impl Drop for Output {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

/// How much is read of a pipe at once.
const READ_BYTES: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_process_of_a_group_can_be_found_to_have_ended_without_being_waited_for() {
        let words = ["sh", "-c", "exit 3"].map(OsString::from);
        let job = Job::start(&words, &[], Show::Keep).unwrap();
        job.group.ended().await.unwrap();
        let still_there = nix::sys::signal::kill(job.group.0, None::<Signal>);
        assert_eq!(still_there, Ok(()), "its number is its own as long as nobody has waited");
        let (ending, _) = job.end(Duration::from_secs(60)).await.unwrap();
        assert_eq!(ending, Ending::Exited(3));
    }

    #[test]
    fn output_is_readable_as_a_report() {
        for (output, expected) in [
            ("", ""),
            ("one\ntwo", "one\ntwo\n"),
            ("\u{1b}[31mred\u{1b}[0m \u{1}<&>\r\n", "red <&>\n"),
            ("\u{1b}[2J\u{1b}]0;title\u{7}ok", "ok\n"),
            ("10 %\r 20 %\rdone\r", "done\n"),
            ("a\tb\n\n\u{7f}\u{9b}c", "a\tb\n\nc\n"),
        ] {
            assert_eq!(readable(output), expected, "{output:?}");
        }
        let long = "x".repeat(OUTPUT_BYTES_MAX);
        assert_eq!(readable(&long).len(), LINE_CHARACTERS_MAX + 1);
    }
}
