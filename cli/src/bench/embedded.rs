//! A server in this process, on threads of its own.

use std::io;
use std::net::SocketAddr;

use tokio::runtime::Runtime;
use zoolet_server::{Config, Dialer, Server};

use super::failure::Failure;

/// The name of its threads, by which its CPU time is told from that of the clients.
pub(crate) const THREAD_NAME: &str = "zoolet-server";

/// A server, and the runtime that drives it.
#[derive(Debug)]
pub(crate) struct Embedded {
    server: Option<Server>,
    runtime: Option<Runtime>,
}

impl Embedded {
    /// Starts a server in memory, which listens on a free port of this machine if `listens` is set.
    pub(crate) fn start(listens: bool) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name(THREAD_NAME)
            .enable_all()
            .build()
            .map_err(Failure::System)?;
        let config = Config { max_client_connections: 0, ..Config::default() };
        let mut builder = Server::builder().config(config);
        if listens {
            builder = builder.listen(([127, 0, 0, 1], 0).into());
        }
        let server = runtime
            .block_on(builder.start())
            .map_err(|error| Failure::System(io::Error::other(error)))?;
        Ok(Self { server: Some(server), runtime: Some(runtime) })
    }

    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.server.as_ref().and_then(Server::local_addr)
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
