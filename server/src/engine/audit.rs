//! The audit log: who has changed what, one line for each change and each refused one
//! (`org.apache.zookeeper.audit`).
//!
//! - `line` is the format of a line, `records` which lines a write makes.
//! - `writer` is the queue of the lines, and the thread that writes them.
//!
//! A line enters the queue under the engine's lock, so the lines have the order of the changes. The
//! lock never waits for the disk: at the limit of the queue the server reads no more requests from
//! sockets until the lines are written.

mod line;
mod records;
mod writer;

use std::fmt;
use std::io;
use std::path::PathBuf;

pub(crate) use self::line::Outcome;
pub(crate) use self::records::{Administrator, Asked, Audit};

/// Where the audit log goes: `audit.enable`.
///
/// ```
/// use zoolet_server::{AuditLog, Config};
///
/// let config = Config {
///     audit: Some(AuditLog::File("/var/log/zoolet/audit.log".into())),
///     ..Config::default()
/// };
/// assert!(config.audit.is_some());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditLog {
    /// To the log of the program, with the target `zoolet::audit`: what failed at the level `ERROR`,
    /// everything else at `INFO`.
    Log,
    /// To a file, which is appended to. When the file is renamed or deleted, another of its name is
    /// begun, so that `logrotate` needs no more than its defaults.
    File(PathBuf),
}

impl fmt::Display for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log => f.write_str("to the log"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// The audit log cannot be begun.
///
/// ```
/// use zoolet_server::{AuditLog, Config, Server, StartError};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let audit = Some(AuditLog::File("/no/such/directory/audit.log".into()));
/// let error = Server::builder().config(Config { audit, ..Config::default() }).start().await;
/// assert!(matches!(error.unwrap_err(), StartError::Audit(_)));
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[error("the audit log {log} cannot be written: {source}; see --audit-log")]
pub struct AuditError {
    log: AuditLog,
    source: io::Error,
}
