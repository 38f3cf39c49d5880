//! `--test-control`: the faults of [`zoolet::testing`](zoolet_testkit) over HTTP, for tests in
//! other languages.
//!
//! On this machine only, and only for programs: a page in a browser cannot send what is asked for here.

mod control;
mod request;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use zoolet_testkit::Faults;

pub(super) use self::control::Restart;
use self::control::{Control, Refusal};

/// Parses the address of the control, which must be a loopback address.
pub(super) fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| {
        "it must be an address and a port, as 127.0.0.1:8080, or port 0 for any free one".to_owned()
    })?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err("whoever reaches it can break the server, so it must be a loopback address: \
             127.0.0.1 or [::1]"
            .to_owned())
    }
}

/// Serves the control in a task of its own, and returns its address.
///
/// # Errors
///
/// If the address cannot be bound.
pub(super) async fn start(
    address: SocketAddr,
    faults: Faults,
    restarts: mpsc::Sender<Restart>,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let router = routes(Control::new(faults, restarts));
    tokio::spawn(accept(listener, router));
    Ok(address)
}

/// How long a client may take for the head of a request, and again for its body. A client that sends only
/// half of one is disconnected.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// How long to wait after a connection could not be accepted.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// The most bytes of a body. Requests have some hundred.
const BODY_BYTES_MAX: usize = 64 << 10;

async fn accept(listener: TcpListener, router: Router) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!("the test control cannot accept a connection: {error}");
                tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
                continue;
            }
        };
        let service = TowerToHyperService::new(router.clone());
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(READ_TIMEOUT)
            .serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("a connection of the test control ended: {error}");
            }
        });
    }
}

fn routes(control: Control) -> Router {
    Router::new()
        .route("/", get(control::help))
        .route("/connections", get(control::connections))
        .route("/expire", post(control::expire))
        .route("/cut", post(control::cut))
        .route("/faults", get(control::faults).post(control::set).delete(control::heal))
        .route("/faults/{id}", get(control::fault).delete(control::lift))
        .route("/time", post(control::time))
        .route("/restart", post(control::restart))
        .fallback(control::unknown)
        .layer(middleware::from_fn(whole))
        .layer(middleware::from_fn(for_programs))
        .with_state(control)
}

/// Refuses requests for other host names, which a page in a browser could have sent (DNS rebinding).
async fn for_programs(request: Request, next: Next) -> Result<Response, Refusal> {
    // A program need not say for whom it asks.
    let hosts = request.headers().get_all("host").iter();
    let hosts = hosts.map(|host| String::from_utf8_lossy(host.as_bytes()));
    match hosts.into_iter().find(|host| !is_of_this_machine(host)) {
        Some(host) => Err(Refusal::Host(host.chars().take(HOST_CHARS_SHOWN_MAX).collect())),
        None => Ok(next.run(request).await),
    }
}

/// Refuses a request whose body does not arrive or is too long.
async fn whole(request: Request, next: Next) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, BODY_BYTES_MAX);
    let body = match tokio::time::timeout(READ_TIMEOUT, body).await {
        Ok(Ok(body)) => body,
        Ok(Err(error)) => return Err(Refusal::Body(error.to_string())),
        Err(_) => return Err(Refusal::Slow(READ_TIMEOUT)),
    };
    Ok(next.run(Request::from_parts(head, body.into())).await)
}

/// How many characters of an unknown host name the answer repeats.
const HOST_CHARS_SHOWN_MAX: usize = 100;

/// Whether a `Host` header names this machine, with or without a port. Host names are compared without
/// case, and an IPv6 address has colons between its brackets.
fn is_of_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => name,
        _ => host,
    };
    name.is_empty() || OWN_NAMES.iter().any(|own| name.eq_ignore_ascii_case(own))
}

const OWN_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    /// What the control answers to these bytes until it closes the connection.
    async fn answer(sent: &str) -> String {
        let (restarts, _) = mpsc::channel(1);
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let address = start(address, Faults::default(), restarts).await.expect("a port is free");
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.write_all(sent.as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        // The server may close the socket while bytes are unread, which resets the connection.
        let _ = stream.read_to_string(&mut answer).await;
        answer
    }

    #[tokio::test(start_paused = true)]
    async fn half_a_request_is_given_up() {
        let head = answer("GET / HTTP/1.1\r\nHost: loc");
        tokio::time::timeout(2 * READ_TIMEOUT, head).await.expect("half a head is given up");
        let head = "POST /cut HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
        let body = format!("{head}Content-Length: 100\r\n\r\n{{");
        let half = tokio::time::timeout(2 * READ_TIMEOUT, answer(&body)).await;
        let half = half.expect("half a body is given up");
        assert!(half.starts_with("HTTP/1.1 408 "), "{half}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_too_long_is_refused() {
        let length = BODY_BYTES_MAX + 1;
        let head = "POST /cut HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
        let body = " ".repeat(length);
        let answer = answer(&format!("{head}Content-Length: {length}\r\n\r\n{body}")).await;
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_for_another_machine_is_refused_however_that_is_written() {
        for hosts in ["Host: example.org", "Host: local\u{f6}st", "Host: localhost\r\nHost: a.org"]
        {
            let request = format!("GET / HTTP/1.1\r\n{hosts}\r\nConnection: close\r\n\r\n");
            let answer = answer(&request).await;
            assert!(answer.starts_with("HTTP/1.1 403 "), "{hosts}: {answer}");
        }
        let answer = answer("GET / HTTP/1.1\r\nConnection: close\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }

    #[test]
    fn names_of_this_machine_are_taken_in_any_case_with_and_without_a_port() {
        for host in ["", "localhost", "LOCALHOST:80", "127.0.0.1:1", "[::1]", "[::1]:8080"] {
            assert!(is_of_this_machine(host), "{host}");
        }
        for host in ["example.org", "localhost.example.org", "[::2]", "[::1].org", "127.0.0.1.x:80"]
        {
            assert!(!is_of_this_machine(host), "{host}");
        }
    }
}
