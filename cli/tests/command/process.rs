//! Runs the command `zoolet` for tests. Each wait has a limit, and no process outlives its test.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

/// Far more than anything here takes, on a machine that is busy.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) async fn within_limit<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, what).await.expect("it does not take this long")
}

/// The command with these arguments, without input, and with piped output. Dropping it kills it.
pub(crate) fn command(args: &[&str]) -> Command {
    prepared(Command::new(env!("CARGO_BIN_EXE_zoolet")), args)
}

/// The command, which ignores no signal, though whoever runs the tests may, as `nohup` does.
#[cfg(unix)]
pub(crate) fn command_with_default_signals(args: &[&str]) -> Command {
    if cfg!(not(target_os = "linux")) {
        return command(args);
    }
    let mut env = Command::new("env");
    env.args(["--default-signal=HUP,INT,TERM", env!("CARGO_BIN_EXE_zoolet")]);
    prepared(env, args)
}

/// The command with so many file descriptors at most.
fn command_with_descriptors(limit: u32, args: &[&str]) -> Command {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("ulimit -n {limit}; exec \"$0\" \"$@\""));
    shell.arg(env!("CARGO_BIN_EXE_zoolet"));
    prepared(shell, args)
}

fn prepared(mut command: Command, args: &[&str]) -> Command {
    command.args(args).kill_on_drop(true);
    command.env_remove("RUST_LOG").env_remove("NO_COLOR");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What a command left that ended by itself.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a command to its end.
pub(crate) async fn run(args: &[&str]) -> Ended {
    ended(command(args)).await
}

/// As [`run`], for a command that a test has prepared further.
pub(crate) async fn ended(mut command: Command) -> Ended {
    let output = within_limit(command.output()).await.expect("the command can be started");
    Ended::new(output)
}

/// As [`ended`], where stdout has no room for what is written.
#[cfg(target_os = "linux")]
pub(crate) async fn ended_without_room(mut command: Command) -> Ended {
    let full = std::fs::File::create("/dev/full").expect("Linux has it");
    let started = command.stdout(full).stderr(Stdio::piped()).spawn();
    let started = started.expect("the command can be started");
    let output = within_limit(started.wait_with_output()).await;
    Ended::new(output.expect("it ends"))
}

impl Ended {
    pub(crate) fn new(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the command writes UTF-8");
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        Self { code: output.status.code(), stdout, stderr }
    }
}

/// A command that goes on to print lines. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Printing {
    _child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Printing {
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut child = command(args).spawn().expect("the command can be started");
        let stdout = child.stdout.take().expect("it is piped");
        Self { _child: child, stdout: BufReader::new(stdout).lines() }
    }

    pub(crate) async fn next_line(&mut self) -> String {
        let line = within_limit(self.stdout.next_line()).await.expect("it can be read");
        line.expect("it goes on")
    }
}

/// A server that runs.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
    stderr: BufReader<ChildStderr>,
    pub(crate) address: SocketAddr,
}

impl Running {
    /// Returns when the first line has said where it listens.
    pub(crate) async fn start(args: &[&str]) -> Self {
        Self::spawn(command(args)).await
    }

    /// As [`Running::start`], with so many file descriptors at most.
    pub(crate) async fn start_with_descriptors(limit: u32, args: &[&str]) -> Self {
        Self::spawn(command_with_descriptors(limit, args)).await
    }

    /// As [`Running::start`], for a command that a test has prepared further.
    pub(crate) async fn spawn(mut command: Command) -> Self {
        let mut child = command.spawn().expect("the command can be started");
        let stdout = child.stdout.take().expect("it is piped");
        let mut stdout = BufReader::new(stdout).lines();
        let mut stderr = BufReader::new(child.stderr.take().expect("it is piped"));
        let Some(line) = within_limit(stdout.next_line()).await.expect("stdout can be read") else {
            let mut text = String::new();
            let _ = within_limit(stderr.read_to_string(&mut text)).await;
            panic!("the server did not start: {text}");
        };
        let address = line.strip_prefix("listening on ").expect("the first line says where");
        let address = address.parse().expect("it is an address");
        Self { child, stdout, stderr, address }
    }

    /// The address for clients on this machine.
    pub(crate) fn reachable(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.address.port()).into()
    }

    /// The number of its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    pub(crate) async fn next_stdout_line(&mut self) -> Option<String> {
        within_limit(self.stdout.next_line()).await.expect("stdout can be read")
    }

    /// The next line that it logs with this text.
    pub(crate) async fn logged(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            let bytes = within_limit(self.stderr.read_line(&mut line)).await;
            assert_ne!(bytes.expect("stderr can be read"), 0, "it did not log {text:?}");
            if line.contains(text) {
                return line;
            }
        }
    }

    /// The answer to a four-letter word.
    pub(crate) async fn ask(&self, word: &str) -> String {
        let talk = async {
            let mut stream = TcpStream::connect(self.reachable()).await?;
            stream.write_all(word.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.map(|_| answer)
        };
        within_limit(talk).await.expect("the server answers")
    }

    /// Closes the reading ends of stdout and stderr.
    pub(crate) fn deafen(self) -> Deaf {
        Deaf { child: self.child, address: self.address }
    }

    /// Sends a signal, `TERM` say, waits for the end, and returns what it logged.
    pub(crate) async fn end(mut self, signal: &str) -> (ExitStatus, String) {
        send(signal, self.child.id().expect("it runs")).await;
        let mut stderr = String::new();
        within_limit(self.stderr.read_to_string(&mut stderr)).await.expect("stderr can be read");
        let status = within_limit(self.child.wait()).await.expect("it can be waited for");
        (status, stderr)
    }
}

/// A server of which nobody reads what it prints.
#[derive(Debug)]
pub(crate) struct Deaf {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Deaf {
    pub(crate) async fn end(mut self, signal: &str) -> ExitStatus {
        send(signal, self.child.id().expect("it runs")).await;
        within_limit(self.child.wait()).await.expect("it can be waited for")
    }
}

/// Sends a signal, `TERM` say, to a process that runs.
pub(crate) async fn send(signal: &str, pid: u32) {
    let status = Command::new("sh").arg("-c").arg(format!("kill -{signal} {pid}")).status();
    assert!(within_limit(status).await.expect("sh can be started").success());
}

/// A file with this text. Tests that write the same file at the same time never read a part of it.
pub(crate) fn file(name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let new = PathBuf::from(format!("{}.{}.{number}", path.display(), std::process::id()));
    std::fs::write(&new, text).expect("the directory for tests can be written to");
    std::fs::rename(&new, &path).expect("the directory for tests can be written to");
    path
}

/// An empty directory whose name is for one test only.
pub(crate) fn directory(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    match std::fs::remove_dir_all(&path) {
        Ok(()) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}"),
    }
    std::fs::create_dir_all(&path).expect("the directory for tests can be written to");
    path
}
