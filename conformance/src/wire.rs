//! Our server, and the test kit's ensemble, in this process but on real TCP ports.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::runtime::Runtime;
use zoolet_server::{Config, Server};
use zoolet_testkit::TestEnsemble;

use crate::apache::Timing;
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

/// A running `TestEnsemble` of three servers.
#[derive(Debug)]
pub struct WireEnsemble {
    ensemble: TestEnsemble,
    // Dropped after the ensemble, because its tasks run on it.
    _runtime: Runtime,
}

impl WireEnsemble {
    /// Starts an ensemble with the timing of Apache's ([`Timing::QUICK`]).
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn start() -> io::Result<Self> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let Timing { tick_ms, limit_ticks, session_timeout_min_ms } = Timing::QUICK;
        let builder = TestEnsemble::builder().tcp().sync_limit(limit_ticks).configure(|config| {
            config.tick_time_ms = tick_ms.unsigned_abs();
            config.min_session_timeout_ms = Some(session_timeout_min_ms);
        });
        let ensemble = runtime.block_on(builder.start()).map_err(io::Error::other)?;
        Ok(Self { ensemble, _runtime: runtime })
    }

    /// The ensemble.
    #[must_use]
    pub fn ensemble(&self) -> &TestEnsemble {
        &self.ensemble
    }

    /// The addresses on which its servers listen.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.ensemble.servers().iter().filter_map(zoolet_testkit::EnsembleServer::address).collect()
    }
}
