//! Apache ZooKeeper as a process of its own, started by `conformance/apache/start-apache` and
//! stopped when the value is dropped.

use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

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
    /// Ours, because a script that is killed cannot remove one; a member of an ensemble has none.
    _data: Option<TempDir>,
}

/// The version that Debian has, in the form in which tags name versions.
pub const APACHE_VERSION: (u32, u32, u32) = (3, 8, 0);

/// How often a server that has just started is asked for a session.
pub const PROBES_MAX: usize = 3_000;
const PROBE_PAUSE: Duration = Duration::from_millis(10);
const PROBE_PATIENCE: Duration = Duration::from_millis(100);

/// How time is measured in a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// The tick decides how soon sessions expire.
    pub tick_ms: i32,
    /// How many ticks a member of an ensemble may be behind.
    pub limit_ticks: u32,
    /// The shortest session timeout.
    pub session_timeout_min_ms: i32,
}

impl Pace {
    /// Sessions expire soon, and members may be behind for seconds, as on a busy machine.
    pub const QUICK: Self =
        Self { tick_ms: 200, limit_ticks: 50, session_timeout_min_ms: SESSION_TIMEOUTS_MS.0 };

    /// ZooKeeper's defaults.
    pub const USUAL: Self = Self { tick_ms: 2_000, limit_ticks: 5, session_timeout_min_ms: 4_000 };
}

const VOTE_INTERVAL_MS: u32 = 1_000;

impl Apache {
    /// Starts a server with these JVM properties (`-D...`) and waits until it serves.
    ///
    /// # Errors
    ///
    /// When it does not come up.
    pub fn start(properties: &[String]) -> io::Result<Self> {
        let data = tempfile::tempdir()?;
        let (process, address) = launch(data.path(), Pace::QUICK, properties)?;
        let server = Self { process, address, _data: Some(data) };
        // It answers four-letter words before it takes sessions.
        if is_serving(&server.target(), PROBES_MAX)? {
            Ok(server)
        } else {
            Err(io::Error::other("the server takes no sessions"))
        }
    }

    /// Starts a member of an ensemble with these lines of configuration, and does not wait until it
    /// serves: that takes others.
    ///
    /// # Errors
    ///
    /// When the process does not come up.
    pub fn start_member(port: u16, pace: Pace, data: &Path, lines: &str) -> io::Result<Self> {
        let mut arguments = vec!["--port".to_owned(), port.to_string()];
        let limits = ["initLimit", "syncLimit"].map(|key| format!("{key}={}", pace.limit_ticks));
        for line in lines.lines().map(str::to_owned).chain(limits) {
            arguments.extend(["--config-line".to_owned(), line]);
        }
        // Who looks for a leader asks again at least this often: a minute by default.
        arguments
            .push(format!("-Dzookeeper.fastleader.maxNotificationInterval={VOTE_INTERVAL_MS}"));
        let (process, address) = launch(data, pace, &arguments)?;
        Ok(Self { process, address, _data: None })
    }

    /// The server, to connect to.
    #[must_use]
    pub fn target(&self) -> TcpTarget {
        TcpTarget::new(self.address)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Starts the script, and returns where the server listens.
fn launch(data: &Path, pace: Pace, arguments: &[String]) -> io::Result<(Child, SocketAddr)> {
    let Pace { tick_ms, session_timeout_min_ms: least, .. } = pace;
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
            Err(io::Error::other(format!("start-apache said {line:?}")))
        }
    }
}

/// Whether a server takes sessions, of which it is asked for at most this many. While it takes none
/// it closes the connection at once, or forgets about it. Asking for a session that is not there
/// leaves no trace in it.
///
/// # Errors
///
/// When it cannot be reached.
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

#[expect(clippy::disallowed_methods, reason = "the server is a process with a clock of its own")]
fn pause() {
    std::thread::sleep(PROBE_PAUSE);
}

/// Killed, the script takes its server along.
fn stop(process: &mut Child) {
    let _ = process.kill();
    let _ = process.wait();
}

impl Drop for Apache {
    fn drop(&mut self) {
        stop(&mut self.process);
    }
}
