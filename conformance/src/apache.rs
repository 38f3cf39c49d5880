//! Apache ZooKeeper as a process of its own, started by `conformance/apache/start-apache` and
//! stopped when the value is dropped.

use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
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
    /// Ours, because a script that is killed cannot remove one.
    _data: TempDir,
}

/// The version that Debian has, in the form in which tags name versions.
pub const APACHE_VERSION: (u32, u32, u32) = (3, 8, 0);

/// How often a server that has just started is asked for a session. While it takes none it closes
/// the connection at once, or forgets about it.
const PROBES_MAX: usize = 10_000;
const PROBE_PATIENCE: Duration = Duration::from_millis(100);

/// The tick that decides how soon sessions expire.
const TICK_MS: i32 = 200;

impl Apache {
    /// Starts a server with these JVM properties (`-D...`) and waits until it serves.
    ///
    /// # Errors
    ///
    /// When it does not come up.
    pub fn start(properties: &[String]) -> io::Result<Self> {
        let (least, most) = SESSION_TIMEOUTS_MS;
        let data = tempfile::tempdir()?;
        let mut process = Command::new(conformance_folder().join("apache/start-apache"))
            .args(["--tick-time", &TICK_MS.to_string()])
            .args(["--config-line", &format!("minSessionTimeout={least}")])
            .args(["--config-line", &format!("maxSessionTimeout={most}")])
            .arg("--data-dir")
            .arg(data.path())
            .args(properties)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let stdout = process.stdout.take().expect("stdout is piped");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line.trim().strip_prefix("listening on ").and_then(|text| text.parse().ok());
        let Some(address) = address else {
            stop(&mut process);
            return Err(io::Error::other(format!("start-apache said {line:?}")));
        };
        let server = Self { process, address, _data: data };
        server.await_sessions()?;
        Ok(server)
    }

    /// The server answers four-letter words before it takes sessions. Asking for a session that
    /// is not there leaves no trace in it.
    fn await_sessions(&self) -> io::Result<()> {
        let session = SessionId(1);
        let request = ConnectRequest { session, ..ConnectRequest::new(0) };
        let target = self.target().with_patience(PROBE_PATIENCE);
        for _ in 0..PROBES_MAX {
            let mut client = Client::dial(&target)?;
            if let Handshake::Answered(_) = client.shake_hands(&request) {
                return Ok(());
            }
        }
        Err(io::Error::other("the server takes no sessions"))
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
