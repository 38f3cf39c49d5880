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
use axum::middleware;
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use zoolet_server::admin::http::{Site, gather_body};
use zoolet_testkit::Faults;

use self::control::Control;
pub(super) use self::control::Restart;

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
    let site = Site { name: "the test control", router, idle_timeout: IDLE_TIMEOUT };
    // It ends with the process.
    tokio::spawn(site.serve(listener, CancellationToken::new()));
    Ok(address)
}

/// A client that sends nothing for so long is disconnected.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

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
        .method_not_allowed_fallback(control::unknown_method)
        .layer(middleware::from_fn(gather_body))
        .with_state(control)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn a_page_in_a_browser_is_refused() {
        let (restarts, _) = mpsc::channel(1);
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let address = start(address, Faults::default(), restarts).await.expect("a port is free");
        for header in ["Host: example.org", "Host: localhost\r\nOrigin: http://example.org"] {
            let mut stream = TcpStream::connect(address).await.expect("it listens");
            let head = "POST /cut HTTP/1.1\r\nContent-Type: application/json\r\n";
            let request =
                format!("{head}{header}\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}");
            stream.write_all(request.as_bytes()).await.expect("it reads");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.expect("it answers and closes");
            assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
        }
    }
}
