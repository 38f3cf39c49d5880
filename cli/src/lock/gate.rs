//! The gate: what a command waits at until the watchdog knows of it.
//!
//! The process of the command starts as this program, which waits. So its number, which is that of the process
//! group, is known before the command begins. `zoolet lock` tells the watchdog, and then opens the gate; the
//! process executes the command in its place. If `zoolet lock` is killed before that, the process ends and has
//! executed nothing.
//!
//! The two talk by a pair of sockets, of which nobody else has an end. One end is the stdin of the process, since
//! a process that starts has no other descriptor to find it by. The message that opens the gate therefore brings
//! the stdin of the command. The end of the answer says that the command is executed or the process is gone; a
//! number says why the command cannot be executed.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::os::unix::process::CommandExt;
use std::process::{self, ExitCode};

use nix::unistd::Pid;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

use super::watchdog::program;

/// The first argument of the process at the gate, before the command. No help names it, since nobody calls it by
/// hand.
pub(crate) const ARGUMENT: &str = "lock-gate";

/// What opens the gate, beside the stdin of the command.
const OPEN: [u8; 1] = [1];

/// The gate as `zoolet lock` sees it. Dropping it ends the process at the gate.
#[derive(Debug)]
pub(super) struct Gate {
    socket: UnixStream,
}

impl Gate {
    /// Starts a process, the first of a group, that waits to execute a command with these variables.
    pub(super) fn start(
        command: &[OsString],
        variables: &[(&str, &str)],
    ) -> io::Result<(Self, Child, Pid)> {
        let (ours, theirs) = StdStream::pair()?;
        ours.set_nonblocking(true)?;
        let socket = UnixStream::from_std(ours)?;
        let child = Command::new(program())
            .arg0("zoolet")
            .arg(ARGUMENT)
            .args(command)
            .envs(variables.iter().copied())
            .stdin(OwnedFd::from(theirs))
            .process_group(0)
            .spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let group = Pid::from_raw(id.expect("a process that is not waited for has a number"));
        Ok((Self { socket }, child, group))
    }

    /// Has the command executed. There is no error if a signal ends the process before that: its exit status
    /// tells.
    pub(super) async fn open(mut self) -> io::Result<()> {
        match send_stdin(&self.socket) {
            Err(Errno::PIPE) => return Ok(()),
            sent => sent?,
        }
        let mut answer = Vec::new();
        // It fails if the process has ended without reading the message.
        let _ = self.socket.read_to_end(&mut answer).await;
        match answer.try_into().map(i32::from_ne_bytes) {
            Ok(code) => Err(io::Error::from_raw_os_error(code)),
            Err(_) => Ok(()),
        }
    }
}

fn send_stdin(socket: impl AsFd) -> Result<(), Errno> {
    let stdin = io::stdin();
    let stdin = [stdin.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    assert!(message.push(SendAncillaryMessage::ScmRights(&stdin)), "there is space for one");
    let bytes = [IoSlice::new(&OPEN)];
    retry_on_intr(|| sendmsg(&socket, &bytes, &mut message, SendFlags::empty())).map(drop)
}

/// The process at the gate.
pub(crate) fn run(command: &[OsString]) -> ExitCode {
    let Some((program, arguments)) = command.split_first() else { return ExitCode::FAILURE };
    // The new descriptor is closed when the command is executed.
    let Ok(socket) = io::stdin().as_fd().try_clone_to_owned() else { return ExitCode::FAILURE };
    let mut socket = StdStream::from(socket);
    let error = match wait_for_stdin(&socket) {
        Ok(true) => process::Command::new(program).args(arguments).exec(),
        Ok(false) => return ExitCode::FAILURE,
        Err(error) => error.into(),
    };
    let code = error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error());
    let _ = socket.write_all(&code.to_ne_bytes());
    ExitCode::FAILURE
}

/// Waits until the gate is open, and puts the stdin of the command in its place. It returns whether the gate was
/// opened before `zoolet lock` ended.
fn wait_for_stdin(socket: impl AsFd) -> Result<bool, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; OPEN.len()];
    let received = retry_on_intr(|| {
        recvmsg(&socket, &mut [IoSliceMut::new(&mut bytes)], &mut message, RecvFlags::empty())
    })?;
    if received.bytes == 0 {
        return Ok(false);
    }
    let stdin = message.drain().find_map(|part| match part {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    // The system leaves out what exceeds the limit of descriptors.
    rustix::stdio::dup2_stdin(stdin.ok_or(Errno::MFILE)?)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// Opens a gate whose other end is handled by this function.
    async fn open(other_end: impl FnOnce(StdStream) + Send + 'static) -> io::Result<()> {
        let (ours, theirs) = StdStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let gate = Gate { socket: UnixStream::from_std(ours).unwrap() };
        let other_end = std::thread::spawn(|| other_end(theirs));
        let opened = gate.open().await;
        other_end.join().unwrap();
        opened
    }

    #[tokio::test]
    async fn the_answer_says_why_the_command_is_not_executed() {
        let opened = open(|mut socket| {
            socket.read_exact(&mut [0; OPEN.len()]).unwrap();
            socket.write_all(&Errno::NOEXEC.raw_os_error().to_ne_bytes()).unwrap();
        });
        assert_eq!(opened.await.unwrap_err().raw_os_error(), Some(Errno::NOEXEC.raw_os_error()));
    }

    #[tokio::test]
    async fn the_end_of_the_process_ends_the_wait_whenever_it_comes() {
        open(|mut socket| socket.read_exact(&mut [0; OPEN.len()]).unwrap()).await.unwrap();
        open(drop).await.unwrap();

        let (ours, theirs) = StdStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        drop(theirs);
        Gate { socket: UnixStream::from_std(ours).unwrap() }.open().await.unwrap();
    }
}
