//! Tells the service manager that started the server how it fares, and takes the sockets that it
//! passes: systemd, and others that speak its protocol (sd_notify(3), sd_listen_fds(3)).

use std::env;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use listenfd::ListenFd;
use tokio::task::JoinSet;
use zoolet_server::{Probe, Totals};

/// A file descriptor takes four bytes of the process; a service has one or two sockets.
const PASSED_MAX: usize = 16;

/// A shorter watchdog would cost more than it is worth: each answer takes a thread and the lock.
const REASSURANCE_PAUSE_MIN: Duration = Duration::from_millis(50);

/// How the server is told what it listens on.
const LISTEN_FDS: &str = "LISTEN_FDS";

/// Takes the listening socket that the service manager has passed, if there is one.
///
/// It changes the environment, so it is called before the first thread is started.
///
/// # Errors
///
/// [`PassedError`] if what was passed is not one TCP socket.
pub(super) fn passed_listener() -> Result<Option<TcpListener>, PassedError> {
    match env::var(LISTEN_FDS).ok().and_then(|count| count.parse::<usize>().ok()) {
        None | Some(0) => return Ok(None),
        Some(count) if count > PASSED_MAX => return Err(PassedError::Count(count)),
        Some(_) => {}
    }
    let mut passed = ListenFd::from_env();
    match passed.len() {
        // They are for another process.
        0 => Ok(None),
        1 => passed.take_tcp_listener(0).map_err(PassedError::Kind),
        count => Err(PassedError::Count(count)),
    }
}

/// What a service manager passed is of no use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PassedError {
    #[error(
        "the service manager passed {0} sockets, but zoolet listens on one; keep one ListenStream= \
         line in the socket unit"
    )]
    Count(usize),
    #[error(
        "the service manager passed something else than a TCP socket ({0}); a socket unit for \
         zoolet has a line such as ListenStream=2181"
    )]
    Kind(io::Error),
}

/// The service manager, if it wants to hear of the server.
#[derive(Debug)]
pub(super) struct ServiceManager {
    is_listening: bool,
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// The one that the environment names.
    pub(super) fn from_env() -> Self {
        let is_listening = env::var_os("NOTIFY_SOCKET").is_some();
        let watchdog = protocol::watchdog().filter(|limit| is_listening && !limit.is_zero());
        Self { is_listening, watchdog }
    }

    /// The server recovers its data, and cannot be reached yet.
    pub(super) fn starting(&self) {
        self.tell("STATUS=recovering the data");
    }

    /// Clients can connect. What this returns tells the service manager that the server answers, as
    /// long as it does, until it is dropped.
    pub(super) fn ready(&self, address: SocketAddr, server: Probe) -> JoinSet<()> {
        self.tell(&format!("READY=1\nSTATUS=serving on {address}"));
        let mut task = JoinSet::new();
        if let Some(limit) = self.watchdog {
            task.spawn(reassure(limit, address, server));
        }
        task
    }

    /// The server stops because it was asked to.
    pub(super) fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=shutting down");
    }

    /// The server ends by itself, because of an error.
    pub(super) fn failed(&self, error: &impl std::fmt::Display) {
        // A line break would begin another message.
        let text = error.to_string().replace(['\n', '\r'], " ");
        self.tell(&format!("STATUS=failed: {text}"));
    }

    fn tell(&self, message: &str) {
        if self.is_listening {
            tell(message);
        }
    }
}

fn tell(message: &str) {
    if let Err(error) = protocol::notify(message) {
        tracing::warn!("the service manager cannot be told: {error}");
    }
}

/// Tells the service manager twice in each time limit that the server answers. A server that hangs is
/// not vouched for, and is restarted.
async fn reassure(limit: Duration, address: SocketAddr, server: Probe) {
    let pause = (limit / 2).max(REASSURANCE_PAUSE_MIN);
    loop {
        let mut answer = std::pin::pin!(server.answer());
        let totals = match tokio::time::timeout(pause, &mut answer).await {
            Ok(totals) => totals,
            Err(_) => {
                tracing::error!(
                    "the server has carried out nothing for {pause:?}; the service manager's \
                     watchdog restarts it after {limit:?}"
                );
                answer.as_mut().await
            }
        };
        let Some(totals) = totals else { return };
        tell(&format!("WATCHDOG=1\nSTATUS={}", status(address, totals)));
        tokio::time::sleep(pause).await;
    }
}

/// What `systemctl status` shows.
fn status(address: SocketAddr, totals: Totals) -> String {
    let Totals { znodes, sessions, watches, .. } = totals;
    format!("serving on {address}: {znodes} znodes, {sessions} sessions, {watches} watches")
}

#[cfg(unix)]
mod protocol {
    use std::io;
    use std::time::Duration;

    pub(super) fn notify(message: &str) -> io::Result<()> {
        sd_notify::notify(&[sd_notify::NotifyState::Custom(message)])
    }

    /// The time after which a server that has not answered is restarted.
    pub(super) fn watchdog() -> Option<Duration> {
        sd_notify::watchdog_enabled()
    }
}

/// Other systems have no such service manager.
#[cfg(not(unix))]
mod protocol {
    use std::io;
    use std::time::Duration;

    pub(super) fn notify(_message: &str) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn watchdog() -> Option<Duration> {
        None
    }
}
