//! `--test-control`: the faults of [`zoolet::testing`](zoolet_server::faults) over HTTP, for tests in
//! other languages.
//!
//! On this machine only, and only for programs: a page in a browser cannot send what is asked for here.

mod control;
mod wish;

use std::io;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use zoolet_server::faults::Faults;

pub(super) use self::control::Restart;
use self::control::{Control, Refusal};

/// An address for the control, if it is one of this machine alone.
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

/// Serves the control in a task of its own, and returns where.
///
/// # Errors
///
/// If the address cannot be had.
pub(super) async fn start(
    address: SocketAddr,
    faults: Faults,
    restarts: mpsc::Sender<Restart>,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let router = routes(Control::new(faults, restarts));
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!("the test control ends: {error}");
        }
    });
    Ok(address)
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
        .layer(middleware::from_fn(for_programs))
        .with_state(control)
}

/// Refuses what a page in a browser could have sent under a name of its own for this machine.
async fn for_programs(request: Request, next: Next) -> Result<Response, Refusal> {
    let host = request.headers().get("host").and_then(|host| host.to_str().ok()).unwrap_or("");
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    if matches!(name, "localhost" | "127.0.0.1" | "[::1]" | "") {
        Ok(next.run(request).await)
    } else {
        Err(Refusal::Host(host.to_owned()))
    }
}
