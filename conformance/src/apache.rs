//! Apache ZooKeeper as a separate process. `conformance/apache/start-apache` starts it; dropping
//! the value stops it.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use zoolet_protocol::{ConnectRequest, SessionId};

use crate::client::{Client, Handshake};
use crate::core_target::SESSION_TIMEOUTS_MS;
use crate::peers::conformance_folder;
use crate::target::TcpTarget;

/// A running server.
#[derive(Debug)]
pub struct Apache {
    process: Child,
    address: SocketAddr,
    /// The data directory, removed when this is dropped. `None` for a member of an ensemble, whose
    /// directory outlives the process.
    _data: Option<TempDir>,
}

/// The version that Debian packages, in the form of the tags in scripts.
pub const APACHE_VERSION: (u32, u32, u32) = (3, 8, 0);

/// How many times a server that has just started is asked for a session.
pub const PROBES_MAX: usize = 3_000;
const PROBE_PAUSE: Duration = Duration::from_millis(10);
const PROBE_PATIENCE: Duration = Duration::from_millis(100);

/// The timing of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// `tickTime` in milliseconds.
    pub tick_ms: i32,
    /// `initLimit` and `syncLimit`: how many ticks a member of an ensemble may be behind.
    pub limit_ticks: u32,
    /// `minSessionTimeout` in milliseconds.
    pub session_timeout_min_ms: i32,
}

impl Timing {
    /// Sessions expire soon, and members may be behind for seconds, as happens on a busy machine.
    pub const QUICK: Self =
        Self { tick_ms: 200, limit_ticks: 50, session_timeout_min_ms: SESSION_TIMEOUTS_MS.0 };

    /// ZooKeeper's defaults.
    pub const USUAL: Self = Self { tick_ms: 2_000, limit_ticks: 5, session_timeout_min_ms: 4_000 };
}

const VOTE_INTERVAL_MS: u32 = 1_000;

impl Apache {
    /// Starts a server with these arguments of the script, as JVM properties (`-D...`), and waits until it serves.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn start(arguments: &[String]) -> io::Result<Self> {
        let data = tempfile::tempdir()?;
        let (process, address) = launch(data.path(), Timing::QUICK, arguments)?;
        let server = Self { process, address, _data: Some(data) };
        // The script waits for four-letter words, which the server answers before it accepts
        // sessions.
        if is_serving(&server.target(), PROBES_MAX)? {
            Ok(server)
        } else {
            Err(io::Error::other("the server accepts no sessions"))
        }
    }

    /// Starts a member of an ensemble with these lines of configuration and further arguments of the
    /// script. It does not wait until the
    /// member serves, because that needs other members.
    ///
    /// # Errors
    ///
    /// If the process does not start.
    pub fn start_member(
        port: u16,
        timing: Timing,
        data: &Path,
        lines: &str,
        further: &[String],
    ) -> io::Result<Self> {
        let mut arguments = vec!["--port".to_owned(), port.to_string()];
        let limits = ["initLimit", "syncLimit"].map(|key| format!("{key}={}", timing.limit_ticks));
        for line in lines.lines().map(str::to_owned).chain(limits) {
            arguments.extend(["--config-line".to_owned(), line]);
        }
        // A member that looks for a leader sends its vote again at least this often. The default is
        // a minute.
        arguments
            .push(format!("-Dzookeeper.fastleader.maxNotificationInterval={VOTE_INTERVAL_MS}"));
        arguments.extend_from_slice(further);
        let (process, address) = launch(data, timing, &arguments)?;
        Ok(Self { process, address, _data: None })
    }

    /// The server as a target.
    #[must_use]
    pub fn target(&self) -> TcpTarget {
        TcpTarget::new(self.address)
    }

    /// The address on which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops the server by SIGSTOP, so that it stands still as during a long garbage collection.
    ///
    /// # Errors
    ///
    /// If the process is not found.
    pub fn stand_still(&self) -> io::Result<()> {
        Ok(kill_process(self.java()?, Signal::STOP)?)
    }

    /// Lets a server that stands still go on.
    ///
    /// # Errors
    ///
    /// As [`Apache::stand_still`].
    pub fn go_on(&self) -> io::Result<()> {
        Ok(kill_process(self.java()?, Signal::CONT)?)
    }

    /// The server, which is a child of the script.
    fn java(&self) -> io::Result<Pid> {
        let script = self.process.id();
        let children = fs::read_to_string(format!("/proc/{script}/task/{script}/children"))?;
        let first = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
        let pid = first.and_then(Pid::from_raw);
        pid.ok_or_else(|| io::Error::other("start-apache has no child: the server has ended"))
    }
}

/// Starts the script, and returns the process and the address on which the server listens.
fn launch(data: &Path, timing: Timing, arguments: &[String]) -> io::Result<(Child, SocketAddr)> {
    let Timing { tick_ms, session_timeout_min_ms: least, .. } = timing;
    let (_, most) = SESSION_TIMEOUTS_MS;
    let mut process = Command::new(conformance_folder().join("apache/start-apache"))
        .args(["--tick-time", &tick_ms.to_string()])
        .args(["--config-line", &format!("minSessionTimeout={least}")])
        .args(["--config-line", &format!("maxSessionTimeout={most}")])
        .arg("--data-dir")
        .arg(data)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let stdout = process.stdout.take().expect("stdout is piped");
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    match line.trim().strip_prefix("listening on ").and_then(|text| text.parse().ok()) {
        Some(address) => Ok((process, address)),
        None => {
            stop(&mut process);
            Err(io::Error::other(format!("start-apache printed {line:?} instead of its address")))
        }
    }
}

/// Whether a server accepts sessions. It asks at most `probes_max` times. A server that is not
/// ready closes the connection or does not answer. It asks for a session that does not exist, which
/// changes nothing in the server.
///
/// # Errors
///
/// If the server cannot be reached.
pub fn is_serving(target: &TcpTarget, probes_max: usize) -> io::Result<bool> {
    let request = ConnectRequest { session: SessionId(1), ..ConnectRequest::new(0) };
    let target = target.with_patience(PROBE_PATIENCE);
    for _ in 0..probes_max {
        let mut client = Client::dial(&target)?;
        if let Handshake::Answered(_) = client.shake_hands(&request) {
            return Ok(true);
        }
        pause();
    }
    Ok(false)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the server is a separate process, whose clock cannot be paused"
)]
fn pause() {
    std::thread::sleep(PROBE_PAUSE);
}

/// Kills the script, which takes its server with it.
fn stop(process: &mut Child) {
    let _ = process.kill();
    let _ = process.wait();
}

impl Drop for Apache {
    fn drop(&mut self) {
        stop(&mut self.process);
    }
}
