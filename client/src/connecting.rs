//! Why servers could not be connected to, as far as the driver has seen.

use std::io;
use std::time::Duration;

/// Why no server could be connected to: what the last try met.
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
    /// Nothing listens there, or the server turns connections away.
    #[error("{0}")]
    Refused(String),
    /// The name of the host is not known. When that is so of all servers it is told at once, without
    /// waiting for the connection timeout.
    #[error("{0}")]
    NoSuchHost(String),
    /// The server did not answer in time.
    #[error("{0}")]
    TimedOut(String),
    /// Something else, as the system or the server tells it.
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
            _ => Self::Other(text),
        }
    }
}

impl ConnectError {
    /// A server that nobody could be connected to in this time.
    pub(crate) fn unanswered(time: Duration) -> Self {
        Self::TimedOut(format!("no server answered within {time:?}"))
    }
}

/// What the last try met.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) cause: ConnectError,
    /// Whether nothing else is to be expected of another try.
    pub(crate) is_final: bool,
}

/// The tries that have failed one after the other.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// How many of them, up to the last, found no such host.
    without_host: usize,
}

impl Failures {
    /// Notes a failed try at one of so many servers.
    pub(crate) fn note(&mut self, cause: ConnectError, servers: usize, is_gone: bool) -> Failure {
        self.without_host = match cause {
            ConnectError::NoSuchHost(_) => self.without_host + 1,
            _ => 0,
        };
        Failure { cause, is_final: is_gone || self.without_host >= servers.max(1) }
    }
}

/// The error of a name that cannot be looked up: [`io::ErrorKind::NotFound`] unless it is for now.
///
/// The system's error has no code for that by the time it is seen here, only the text of the resolver.
pub(crate) fn lookup_error(address: &str, error: &io::Error) -> io::Error {
    let text = error.to_string();
    let is_for_now = ["emporary", "ry again"].iter().any(|words| text.contains(words));
    let kind = if is_for_now { io::ErrorKind::Other } else { io::ErrorKind::NotFound };
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
    fn only_when_no_server_has_a_known_host_is_it_final() {
        let unknown = || ConnectError::NoSuchHost("a".to_owned());
        let mut failures = Failures::default();
        assert!(!failures.note(unknown(), 2, false).is_final);
        assert!(!failures.note(ConnectError::Refused("b".to_owned()), 2, false).is_final);
        assert!(!failures.note(unknown(), 2, false).is_final);
        assert!(failures.note(unknown(), 2, false).is_final);
        assert!(Failures::default().note(unknown(), 2, true).is_final);
    }
}
