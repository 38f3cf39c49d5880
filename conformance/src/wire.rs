//! Our own server, in this process but over a real TCP port.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::runtime::Runtime;
use zoolet_server::{Config, Server};

use crate::target::TcpTarget;

/// A running server of ours.
#[derive(Debug)]
pub struct Wire {
    address: SocketAddr,
    _server: Server,
    // Dropped after the server, whose tasks run on it.
    _runtime: Runtime,
}

impl Wire {
    /// Starts a server that keeps everything in memory.
    ///
    /// # Errors
    ///
    /// When it does not come up.
    pub fn start(config: Config) -> io::Result<Self> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listen = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let builder = Server::builder().config(Config { listen, ..config });
        let server = runtime.block_on(builder.start()).map_err(io::Error::other)?;
        let address = server.local_addr().expect("it was told to listen");
        Ok(Self { address, _server: server, _runtime: runtime })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The server, to connect to.
    #[must_use]
    pub fn target(&self) -> TcpTarget {
        TcpTarget::new(self.address)
    }
}
