//! A server in this process, on threads of its own.

use std::io;
use std::net::SocketAddr;

use tokio::runtime::Runtime;
use zoolet_server::{Config, Dialer, Server};

use super::certificates::Certificates;
use super::failure::Failure;

/// The name of its threads, by which its CPU time is told from that of the clients.
pub(crate) const THREAD_NAME: &str = "zoolet-server";

/// Which port of this machine a server listens on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ports<'a> {
    /// None: it is reached by calls.
    None,
    /// A free one, in plaintext.
    Plaintext,
    /// A free one, by TLS.
    Tls(&'a Certificates),
}

/// A server, and the runtime that drives it.
#[derive(Debug)]
pub(crate) struct Embedded {
    server: Option<Server>,
    runtime: Option<Runtime>,
}

impl Embedded {
    /// Starts a server in memory.
    pub(crate) fn start(ports: Ports<'_>) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name(THREAD_NAME)
            .enable_all()
            .build()
            .map_err(Failure::System)?;
        let config = Config { max_client_connections: 0, ..Config::default() };
        let mut builder = Server::builder().config(config);
        match ports {
            Ports::None => {}
            Ports::Plaintext => builder = builder.listen(([127, 0, 0, 1], 0).into()),
            Ports::Tls(certificates) => builder = builder.tls(certificates.server()?),
        }
        let server = runtime
            .block_on(builder.start())
            .map_err(|error| Failure::System(io::Error::other(error)))?;
        Ok(Self { server: Some(server), runtime: Some(runtime) })
    }

    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.server.as_ref().and_then(|server| server.secure_addr().or_else(|| server.local_addr()))
    }

    pub(crate) fn dialer(&self) -> Option<Dialer> {
        self.server.as_ref().map(Server::dialer)
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        drop(self.server.take());
        if let Some(runtime) = self.runtime.take() {
            // Async code must not block.
            runtime.shutdown_background();
        }
    }
}
