//! Asks one server whether it serves.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use zoolet_client::tls::ClientTls;
use zoolet_client::{ConnectError, FourLetterWord, Hosts};
use zoolet_protocol::{ConnectRequest, ConnectResponse, Dial, Encode, SessionId, decode_all};

use crate::connecting::PERHAPS_TOO_MANY;

/// The report of `srvr` has some hundred bytes.
const REPORT_BYTES_MAX: usize = 64 << 10;

/// A session that no server has: ids hold the time of their creation.
const NO_SESSION: SessionId = SessionId(1);

/// What a server says of itself that serves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Health {
    /// As ZooKeeper calls it: `standalone`, `leader`, `follower`, `observer`, `read-only`.
    mode: Option<String>,
    version: Option<String>,
    connections: Option<String>,
    znodes: Option<String>,
}

/// Why a server cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unhealthy {
    #[error("does not serve: {0}")]
    NotServing(String),
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    #[error("does not answer: {0}")]
    TimedOut(String),
    #[error("does not answer as a ZooKeeper server does: {0}")]
    Foreign(String),
}

impl Unhealthy {
    fn of(error: ConnectError, has_tls: bool) -> Self {
        match error {
            ConnectError::TimedOut(text) => Self::TimedOut(text),
            // A port that speaks no TLS may end the connection at a handshake.
            ConnectError::Closed(text) if has_tls => Self::Foreign(text),
            ConnectError::Closed(text) => Self::closed(&text),
            ConnectError::Tls(text) => Self::Foreign(text),
            other => Self::Unreachable(other.to_string()),
        }
    }

    /// A server that closes the connection and does not say why.
    fn closed(text: &str) -> Self {
        Self::NotServing(format!("{text}. {PERHAPS_TOO_MANY}"))
    }
}

/// How long a port may take to show that it speaks TLS. A server without TLS takes the question for a
/// client that speaks it, so it is asked as late as possible.
const TLS_PROBE: Duration = Duration::from_secs(1);

/// Asks a server, given as `HOST:PORT`. If it does not answer it is asked at the end whether its port
/// speaks TLS.
///
/// # Errors
///
/// [`Unhealthy`] if it does not serve.
pub(super) async fn ask(
    server: &str,
    tls: Option<&Arc<ClientTls>>,
    timeout: Duration,
) -> Result<Health, Unhealthy> {
    ask_within(server, tls, timeout, timeout.saturating_sub(TLS_PROBE)).await
}

/// As [`ask`], for a server that perhaps starts, and is asked again.
pub(super) async fn ask_patiently(
    server: &str,
    tls: Option<&Arc<ClientTls>>,
    timeout: Duration,
) -> Result<Health, Unhealthy> {
    ask_within(server, tls, timeout, Duration::MAX).await
}

async fn ask_within(
    server: &str,
    tls: Option<&Arc<ClientTls>>,
    timeout: Duration,
    silence: Duration,
) -> Result<Health, Unhealthy> {
    let asked = tokio::time::timeout(timeout, ask_in_time(server, tls, silence)).await;
    asked.unwrap_or_else(|_| Err(Unhealthy::TimedOut(format!("nothing came within {timeout:?}"))))
}

async fn ask_in_time(
    server: &str,
    tls: Option<&Arc<ClientTls>>,
    silence: Duration,
) -> Result<Health, Unhealthy> {
    // `ruok` would not do: ZooKeeper answers it with `imok` even if it does not serve.
    let mut word = FourLetterWord::new("srvr")
        .bytes_max(REPORT_BYTES_MAX)
        .timeout(Duration::MAX)
        .probe_tls_after(silence);
    if let Some(tls) = tls {
        word = word.tls(Arc::clone(tls));
    }
    let report = word.ask(server).await.map_err(|error| Unhealthy::of(error, tls.is_some()))?;
    if report.contains("Mode: ") {
        Ok(Health::of(&report))
    } else if report.contains("not in the whitelist") {
        shake_hands(server, tls).await.map(|()| Health::default())
    } else if report.contains("not currently serving") {
        Err(Unhealthy::NotServing(report.trim().to_owned()))
    } else if report.is_empty() {
        Err(Unhealthy::closed("it closes the connection without an answer"))
    } else {
        Err(Unhealthy::Foreign("it answers a four-letter word with something else".to_owned()))
    }
}

/// Asks for a session that does not exist. A server that serves refuses it, which changes nothing in
/// the server. Another closes the connection.
async fn shake_hands(server: &str, tls: Option<&Arc<ClientTls>>) -> Result<(), Unhealthy> {
    let mut hosts: Hosts = server
        .parse()
        .map_err(|error: zoolet_client::Error| Unhealthy::Unreachable(error.to_string()))?;
    if let Some(tls) = tls {
        hosts = hosts.tls(Arc::clone(tls));
    }
    let dialled = hosts.dial().await.map_err(ConnectError::from);
    let transport = dialled.map_err(|error| Unhealthy::of(error, tls.is_some()))?;
    let request = ConnectRequest { session: NO_SESSION, ..ConnectRequest::new(0) };
    let mut frame = BytesMut::new();
    request.encode(&mut frame);
    let closed = |_| Unhealthy::closed("it closes the connection");
    transport.send(frame.freeze()).map_err(closed)?;
    transport.flush().map_err(closed)?;
    let Some(answer) = poll_fn(|context| transport.poll_receive(context)).await else {
        return Err(Unhealthy::closed("it closes the connection at a handshake"));
    };
    match decode_all::<ConnectResponse>(&answer) {
        Ok(_) => Ok(()),
        Err(error) => {
            Err(Unhealthy::Foreign(format!("its answer to a handshake is none: {error}")))
        }
    }
}

impl Health {
    /// Reads a report of `srvr`.
    fn of(report: &str) -> Self {
        let value = |name: &str| {
            let value = report.lines().find_map(|line| line.strip_prefix(name))?;
            // A version is followed by the date of its build.
            let value = value.split(", built on").next().unwrap_or(value).trim();
            // What a server says must not forge another line, or colour the terminal.
            Some(value.chars().filter(|c| !c.is_control()).take(FIELD_CHARS_MAX).collect())
        };
        Self {
            mode: value("Mode: "),
            version: value("Zookeeper version: "),
            connections: value("Connections: "),
            znodes: value("Node count: "),
        }
    }

    /// The mode; a server that does not tell it can only be said to serve.
    #[cfg(unix)]
    pub(super) fn mode(&self) -> &str {
        self.mode.as_deref().unwrap_or("unknown")
    }
}

/// More of a value would make the line unreadable.
const FIELD_CHARS_MAX: usize = 100;

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("serves")?;
        let fields = [
            ("mode ", &self.mode),
            ("version ", &self.version),
            ("connections ", &self.connections),
            ("znodes ", &self.znodes),
        ];
        let mut separator = ": ";
        for (name, value) in fields {
            if let Some(value) = value {
                write!(f, "{separator}{name}{value}")?;
                separator = ", ";
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// The address of a server that answers each connection with the next of these, and closes it.
    async fn server(answers: Vec<&'static [u8]>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut word = [0; 4];
                stream.read_exact(&mut word).await.unwrap();
                stream.write_all(answer).await.unwrap();
            }
        });
        address
    }

    const PATIENCE: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn a_report_is_read() {
        let report: &[u8] = b"Zookeeper version: 3.9.5-293c895a, built on 2026-02-11 20:18 UTC\n\
            Latency min/avg/max: 0/0.0/0\nReceived: 1\nSent: 0\nConnections: 2\nOutstanding: 0\n\
            Zxid: 0x0\nMode: standalone\nNode count: 5\n";
        let health = ask(&server(vec![report]).await, None, PATIENCE).await.unwrap();
        let expected = "serves: mode standalone, version 3.9.5-293c895a, connections 2, znodes 5";
        assert_eq!(health.to_string(), expected);
    }

    #[tokio::test]
    async fn a_server_that_does_not_serve_says_so() {
        let text: &[u8] = b"This ZooKeeper instance is not currently serving requests\n";
        let error = ask(&server(vec![text]).await, None, PATIENCE).await.unwrap_err();
        assert!(matches!(error, Unhealthy::NotServing(_)), "{error}");
        let error = ask(&server(vec![b""]).await, None, PATIENCE).await.unwrap_err();
        assert!(matches!(error, Unhealthy::NotServing(_)), "{error}");
    }

    #[tokio::test]
    async fn without_the_word_a_handshake_tells() {
        const REFUSAL: &[u8] = b"srvr is not executed because it is not in the whitelist.\n";
        // A refused session: version 0, timeout 0, session 0, a password of 16 bytes.
        const REFUSED: &[u8] = b"\0\0\0\x24\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10\
            \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
        let health = ask(&server(vec![REFUSAL, REFUSED]).await, None, PATIENCE).await.unwrap();
        assert_eq!(health.to_string(), "serves");
        let error = ask(&server(vec![REFUSAL, b""]).await, None, PATIENCE).await.unwrap_err();
        assert!(matches!(error, Unhealthy::NotServing(_)), "{error}");
        let error =
            ask(&server(vec![REFUSAL, b"\0\0\0\x02no"]).await, None, PATIENCE).await.unwrap_err();
        assert!(matches!(error, Unhealthy::Foreign(_)), "{error}");
    }

    #[tokio::test]
    async fn a_handshake_creates_no_session() {
        let server = zoolet_server::Server::builder().listen(([127, 0, 0, 1], 0).into());
        let server = server.start().await.unwrap();
        let before = server.totals();
        shake_hands(&server.local_addr().unwrap().to_string(), None).await.unwrap();
        assert_eq!(server.totals(), before);
    }

    #[tokio::test]
    async fn another_server_is_told_apart() {
        let http = server(vec![b"HTTP/1.1 400 Bad Request\r\n\r\n"]).await;
        let error = ask(&http, None, PATIENCE).await.unwrap_err();
        assert!(matches!(error, Unhealthy::Foreign(_)), "{error}");
    }

    #[tokio::test]
    async fn what_a_server_says_stays_on_its_line() {
        let report: &[u8] = b"Zookeeper version: 1\x1b[31m, built on x\nMode: a\x07b\r\n";
        let health = ask(&server(vec![report]).await, None, PATIENCE).await.unwrap();
        assert_eq!(health.to_string(), "serves: mode ab, version 1[31m");
    }

    #[tokio::test]
    async fn a_server_that_resets_the_connection_does_not_serve() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let resetting = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            stream.readable().await.unwrap();
            // A socket that is closed with unread input resets the connection.
            drop(stream);
        });
        let error = ask(&address, None, PATIENCE).await.unwrap_err();
        assert!(matches!(error, Unhealthy::NotServing(_)), "{error}");
        resetting.await.unwrap();
    }

    #[tokio::test]
    async fn silence_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let limit = Duration::from_millis(50);
        let error = ask(&address, None, limit).await.unwrap_err();
        assert!(matches!(error, Unhealthy::TimedOut(_)), "{error}");
        drop(listener);
        let error = ask(&address, None, PATIENCE).await.unwrap_err();
        assert!(matches!(error, Unhealthy::Unreachable(_)), "{error}");
    }
}
