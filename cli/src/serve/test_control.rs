//! `--test-control`: the faults of [`zoolet::testing`](zoolet_testkit) over HTTP, for tests in
//! other languages.
//!
//! `openapi.json` describes it.
//!
//! On this machine only, and only for programs: a page in a browser cannot send what is asked for here.

mod control;
mod description;
mod refusal;
mod request;
mod servers;
mod subject;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::middleware;
use axum::routing::{MethodRouter, get, post};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use zoolet_server::admin::http::{Site, gather_body};

use self::control::Control;
pub(super) use self::subject::Subject;

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
pub(super) async fn start(address: SocketAddr, subject: Subject) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let router = router(Control::new(subject));
    let site = Site::new("the test control", router, IDLE_TIMEOUT);
    // It ends with the process.
    tokio::spawn(site.serve(listener, CancellationToken::new()));
    Ok(address)
}

/// A client that sends nothing for so long is disconnected.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

fn router(control: Control) -> Router {
    let mut router = Router::new().route("/", get(control::help));
    for (path, methods) in routes() {
        router = router.route(path, methods);
    }
    router
        .fallback(control::unknown)
        .method_not_allowed_fallback(control::unknown_method)
        .layer(middleware::from_fn(gather_body))
        .with_state(control)
}

/// What [`description`] describes.
fn routes() -> [(&'static str, MethodRouter<Control>); 17] {
    [
        (description::PATH, get(control::describe)),
        ("/v1/connections", get(control::connections)),
        ("/v1/expire", post(control::expire)),
        ("/v1/cut", post(control::cut)),
        ("/v1/faults", get(control::faults).post(control::set).delete(control::heal)),
        ("/v1/faults/{id}", get(control::fault).delete(control::lift)),
        ("/v1/time", post(control::time)),
        ("/v1/restart", post(control::restart)),
        ("/v1/reset", post(control::reset)),
        ("/v1/servers", get(servers::show)),
        ("/v1/servers/{server}/lag", post(servers::lag).delete(servers::release)),
        ("/v1/servers/{server}/cut_off", post(servers::cut_off)),
        ("/v1/servers/{server}/rejoin", post(servers::rejoin)),
        ("/v1/servers/{server}/stop", post(servers::stop)),
        ("/v1/servers/{server}/start", post(servers::start)),
        ("/v1/servers/{server}/elect", post(servers::elect)),
        ("/v1/partition", post(servers::partition).delete(servers::unite)),
    ]
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::sync::mpsc;
    use zoolet_testkit::Faults;

    use super::*;

    async fn started() -> SocketAddr {
        let (restarts, _) = mpsc::channel(1);
        let subject = Subject::Server { faults: Faults::default(), restarts };
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        start(address, subject).await.expect("a port is free")
    }

    #[tokio::test]
    async fn the_description_has_every_route_with_every_method_and_no_other() {
        let address = started().await;
        let described = description::methods_by_path();
        let paths: Vec<_> = routes().iter().map(|(path, _)| *path).collect();
        let mut known = paths.clone();
        known.sort_unstable();
        assert_eq!(described.keys().collect::<Vec<_>>(), known.iter().collect::<Vec<_>>());
        for path in paths {
            for method in ["GET", "PUT", "POST", "DELETE", "PATCH"] {
                let mut stream = TcpStream::connect(address).await.expect("it listens");
                let target = path.replace("{id}", "7").replace("{server}", "0");
                let request = format!(
                    "{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                );
                stream.write_all(request.as_bytes()).await.expect("it reads");
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await.expect("it answers and closes");
                let is_there = !answer.starts_with("HTTP/1.1 405 ");
                let is_described = described[path].iter().any(|known| known == method);
                assert_eq!(is_there, is_described, "{method} {path}: {answer}");
            }
        }
    }

    #[tokio::test]
    async fn a_page_in_a_browser_is_refused() {
        let address = started().await;
        for header in ["Host: example.org", "Host: localhost\r\nOrigin: http://example.org"] {
            let mut stream = TcpStream::connect(address).await.expect("it listens");
            let head = "POST /v1/cut HTTP/1.1\r\nContent-Type: application/json\r\n";
            let request =
                format!("{head}{header}\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}");
            stream.write_all(request.as_bytes()).await.expect("it reads");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.expect("it answers and closes");
            assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
        }
    }
}
