//! Processes that a suite starts and measures: servers and clients, each on its own.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// A process that tells and is asked in lines. It ends when this is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

/// What a process has used so far.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// The CPU time of all its threads.
    pub cpu: Duration,
    /// How often a thread waited, so that another one ran.
    pub switches: u64,
}

impl Usage {
    /// What was used since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let cpu = self.cpu.saturating_sub(before.cpu);
        Self { cpu, switches: self.switches.saturating_sub(before.switches) }
    }
}

impl Process {
    /// Starts a process.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let no_pipe = || io::Error::other("the process has no pipe");
        let stdin = child.stdin.take().ok_or_else(no_pipe)?;
        let stdout = BufReader::new(child.stdout.take().ok_or_else(no_pipe)?);
        Ok(Self { child, stdin, stdout })
    }

    /// Starts this program again, which finds `role` in the variable `variable`.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn start_this(variable: &str, role: &str) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.env(variable, role);
        Self::start(command)
    }

    /// The next line that the process tells.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::UnexpectedEof`] if the process has ended.
    pub fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stdout.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }

    /// Writes a line to the process, and returns the line that it answers.
    ///
    /// # Errors
    ///
    /// As of [`Process::line`].
    pub fn ask(&mut self, line: &str) -> io::Result<String> {
        writeln!(self.stdin, "{line}")?;
        self.stdin.flush()?;
        self.line()
    }

    /// From `/proc`, over the threads that the process has now.
    ///
    /// # Errors
    ///
    /// Those of the system, as where there is no `/proc`.
    pub fn usage(&self) -> io::Result<Usage> {
        usage_of(self.child.id())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server that tells its address in its first line: this program again, or the binary. It ends when this is
/// dropped.
#[derive(Debug)]
pub struct ServerProcess {
    process: Process,
    address: SocketAddr,
}

impl ServerProcess {
    /// As [`Process::start_this`], and waits for the first line.
    ///
    /// # Errors
    ///
    /// Those of the system, and of a first line that is no address.
    pub fn start(variable: &str, role: &str) -> io::Result<Self> {
        let mut process = Process::start_this(variable, role)?;
        let address = process.line()?.parse().map_err(io::Error::other)?;
        Ok(Self { process, address })
    }

    /// Starts `zoolet serve` of this binary on a free port, with its data in memory.
    ///
    /// # Errors
    ///
    /// As of [`ServerProcess::start`].
    pub fn start_binary(binary: &Path) -> io::Result<Self> {
        let mut command = Command::new(binary);
        command.args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--log-level",
            "error",
            "--exit-with-stdin",
        ]);
        let mut process = Process::start(command)?;
        let line = process.line()?;
        let address = line.strip_prefix("listening on ").and_then(|address| address.parse().ok());
        let address = address.ok_or_else(|| io::Error::other(format!("no address: {line}")))?;
        Ok(Self { process, address })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// As [`Process::usage`].
    ///
    /// # Errors
    ///
    /// As of [`Process::usage`].
    pub fn usage(&self) -> io::Result<Usage> {
        self.process.usage()
    }
}

/// As [`Process::usage`], of the process with this id.
///
/// # Errors
///
/// Those of the system, as where there is no `/proc`.
pub fn usage_of(process: u32) -> io::Result<Usage> {
    let mut usage = Usage { cpu: Duration::ZERO, switches: 0 };
    let mut is_known = false;
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let thread = thread?.path();
        // A thread may end meanwhile.
        let Ok(scheduled) = std::fs::read_to_string(thread.join("schedstat")) else { continue };
        let ran = scheduled.split_whitespace().next().and_then(|text| text.parse().ok());
        let Some(ran) = ran else { continue };
        is_known = true;
        usage.cpu += Duration::from_nanos(ran);
        let Ok(status) = std::fs::read_to_string(thread.join("status")) else { continue };
        let switches = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))
            .and_then(|text| text.trim().parse::<u64>().ok());
        usage.switches += switches.unwrap_or_default();
    }
    // Without this a system that does not count would be told as a server that costs nothing.
    if !is_known {
        let reason = format!("no thread of process {process} tells its time in schedstat");
        return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
    }
    Ok(usage)
}

/// Waits until the end of stdin, at which a process that was started here ends.
///
/// # Errors
///
/// Those of the system.
pub async fn until_stdin_ends() -> io::Result<()> {
    let read = || io::copy(&mut io::stdin().lock(), &mut io::sink()).map(|_| ());
    tokio::task::spawn_blocking(read).await?
}
