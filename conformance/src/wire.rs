//! Our server, in this process but on a real TCP port.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::runtime::Runtime;
use zoolet_server::{Config, Server};

use crate::target::TcpTarget;

/// A running server.
#[derive(Debug)]
pub struct Wire {
    address: SocketAddr,
    _server: Server,
    // Dropped after the server, because the tasks of the server run on it.
    _runtime: Runtime,
}

impl Wire {
    /// Starts a server that keeps everything in memory.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn start(config: Config) -> io::Result<Self> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listen = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let builder = Server::builder().config(Config { listen, ..config });
        let server = runtime.block_on(builder.start()).map_err(io::Error::other)?;
        let address = server.local_addr().expect("the server listens on a port");
        Ok(Self { address, _server: server, _runtime: runtime })
    }

    /// The address on which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The server as a target.
    #[must_use]
    pub fn target(&self) -> TcpTarget {
        TcpTarget::new(self.address)
    }
}
