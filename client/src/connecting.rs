//! Why the driver could not connect to a server.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::subscription::Subscription;

/// Why a server may close a connection without a word: nothing tells that from other causes.
#[doc(hidden)]
pub const PERHAPS_TOO_MANY: &str = "It may have all the connections from this address that its maxClientCnxns allows, by default 60";

/// Why the last attempt to connect to a server failed.
///
/// ```
/// use zoolet_client::{Client, ConnectError, Error};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let builder = Client::builder().connection_timeout(std::time::Duration::from_millis(100));
/// let error = builder.connect("127.0.0.1:1").await.unwrap_err();
/// assert!(matches!(error, Error::Unreachable(ConnectError::Refused(_))), "{error}");
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The server refused the connection, or nothing listens there.
    #[error("{0}")]
    Refused(String),
    /// The host name is not known. When that is so for all servers, connecting fails at once, and
    /// not after the connection timeout.
    #[error("{0}")]
    NoSuchHost(String),
    /// The server did not answer in time.
    #[error("{0}")]
    TimedOut(String),
    /// The server closed the connection, or the network did, before an answer.
    #[error("{0}")]
    Closed(String),
    /// TLS could not be established, and another attempt would fail in the same way: a certificate
    /// is not trusted or not for this host, the server refuses ours, or only one side speaks TLS.
    /// When that is so for all servers, connecting fails at once.
    #[error("{0}")]
    Tls(String),
    /// The server refused the credentials. [`Builder::connect`](crate::Builder::connect) reports it
    /// as [`Error::AuthFailed`](crate::Error::AuthFailed).
    #[error("the server refused the credentials")]
    AuthFailed,
    /// Something else, in the words of the system or the server.
    #[error("{0}")]
    Other(String),
}

impl From<io::Error> for ConnectError {
    fn from(error: io::Error) -> Self {
        let text = error.to_string();
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused(text),
            io::ErrorKind::NotFound => Self::NoSuchHost(text),
            io::ErrorKind::TimedOut => Self::TimedOut(text),
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof => Self::Closed(text),
            // What a peer sent is not valid: of an attempt to connect, only TLS has said so.
            io::ErrorKind::InvalidData => Self::Tls(text),
            _ => Self::Other(text),
        }
    }
}

impl ConnectError {
    /// An error of the connection to a server.
    pub(crate) fn at(address: &str, error: io::Error) -> Self {
        crate::security::at(address, error).into()
    }

    /// Whether another attempt at the same server would fail in the same way.
    fn is_lasting(&self) -> bool {
        matches!(self, Self::NoSuchHost(_) | Self::Tls(_))
    }

    /// No server answered within this time.
    pub(crate) fn unanswered(time: Duration) -> Self {
        Self::TimedOut(format!("no server answered within {time:?}"))
    }
}

/// Is told the causes of failed attempts: [`Builder::on_failed_attempt`](crate::Builder).
pub(crate) type FailedAttempt = Arc<dyn Fn(&ConnectError) + Send + Sync>;

/// Reports failed attempts, for as long as it is polled.
pub(crate) async fn report(
    mut failures: Subscription<Option<Failure>>,
    failed_attempt: Option<FailedAttempt>,
) {
    // One that came before is reported too.
    failures.mark_changed();
    while let (Some(tell), Ok(())) = (&failed_attempt, failures.changed().await) {
        if let Some(failure) = &*failures.borrow_and_update() {
            tell(&failure.cause);
        }
    }
    std::future::pending().await
}

/// A failed attempt to connect.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) cause: ConnectError,
    /// Whether another attempt would fail in the same way.
    pub(crate) is_final: bool,
}

impl Failure {
    /// The server refused the credentials; all servers of an ensemble would.
    pub(crate) fn auth_failed() -> Self {
        Self { cause: ConnectError::AuthFailed, is_final: true }
    }
}

/// The attempts to connect that have failed since the last success.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// How many in a row, up to the last, would fail again.
    lasting: usize,
}

impl Failures {
    /// Whether the last attempt would fail again.
    pub(crate) fn are_lasting(&self) -> bool {
        self.lasting > 0
    }

    /// Records a failed attempt at one of so many servers.
    pub(crate) fn record(&mut self, cause: ConnectError, servers: usize, is_gone: bool) -> Failure {
        self.lasting = if cause.is_lasting() { self.lasting + 1 } else { 0 };
        Failure { cause, is_final: is_gone || self.lasting >= servers.max(1) }
    }
}

/// The error of a name that cannot be resolved: [`io::ErrorKind::NotFound`], unless the failure is
/// temporary.
///
/// The error that arrives here has no code for that, only the text of the resolver.
pub(crate) fn lookup_error(address: &str, error: &io::Error) -> io::Error {
    let text = error.to_string();
    let is_temporary = ["emporary", "ry again"].iter().any(|words| text.contains(words));
    let kind = if is_temporary { io::ErrorKind::Other } else { io::ErrorKind::NotFound };
    io::Error::new(kind, format!("{address}: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_cannot_be_looked_up_for_now_is_tried_again() {
        let kind = |text: &str| lookup_error("host:1", &io::Error::other(text)).kind();
        // glibc and musl.
        assert_eq!(kind("Temporary failure in name resolution"), io::ErrorKind::Other);
        assert_eq!(kind("Try again"), io::ErrorKind::Other);
        assert_eq!(kind("Name or service not known"), io::ErrorKind::NotFound);
        assert_eq!(kind("Name does not resolve"), io::ErrorKind::NotFound);
    }

    #[test]
    fn only_when_every_server_fails_for_good_is_it_final() {
        let unknown = || ConnectError::NoSuchHost("a".to_owned());
        let mut failures = Failures::default();
        assert!(!failures.record(unknown(), 2, false).is_final);
        assert!(!failures.record(ConnectError::Refused("b".to_owned()), 2, false).is_final);
        assert!(!failures.record(unknown(), 2, false).is_final);
        let untrusted = ConnectError::Tls("a".to_owned());
        assert!(failures.record(untrusted, 2, false).is_final);
        assert!(Failures::default().record(unknown(), 2, true).is_final);
    }
}
