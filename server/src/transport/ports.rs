//! The addresses at which a server listens.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::tcp::{self, PlainPort, Port};
#[cfg(feature = "tls")]
use super::tls::{self, TlsPort};
use crate::config::Config;
use crate::engine::lock::Engine;
use crate::server::StartError;

/// The open listeners of a server, before it serves anyone.
#[derive(Debug)]
pub(crate) struct Ports {
    plain: Option<TcpListener>,
    secure: Option<TcpListener>,
}

impl Ports {
    /// Listens at the addresses of a configuration, or for plaintext connections at a socket that was
    /// passed.
    pub(crate) fn open(
        config: &Config,
        passed: Option<&std::net::TcpListener>,
    ) -> Result<Self, StartError> {
        let listen = |address: Option<SocketAddr>| {
            let listen = |address| {
                let error = |source| StartError::Listen { address, source };
                tcp::listen(address, config).map_err(error)
            };
            address.map(listen).transpose()
        };
        #[cfg(feature = "tls")]
        let secure = config.tls.as_ref().and_then(|tls| tls.listen);
        #[cfg(not(feature = "tls"))]
        let secure = None;
        let plain = match passed {
            Some(passed) => Some(tcp::adopt(passed, config).map_err(StartError::Listener)?),
            None => listen(config.listen)?,
        };
        Ok(Self { plain, secure: listen(secure)? })
    }

    /// The addresses of plaintext and of TLS connections.
    pub(crate) fn addresses(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        let address = |listener: &Option<TcpListener>| listener.as_ref()?.local_addr().ok();
        (address(&self.plain), address(&self.secure))
    }

    /// Serves the clients that connect, until that is cancelled.
    pub(crate) fn serve(
        self,
        engine: &Arc<Engine>,
        tasks: &TaskTracker,
        cancelled: &CancellationToken,
    ) {
        let accept = Accept { engine, tasks, cancelled };
        #[cfg(feature = "tls")]
        if let Some(config) = &engine.config.tls {
            let port = TlsPort::new(config);
            if config.certificate_reload {
                tasks.spawn(tls::watch_files(Arc::clone(&config.stores), cancelled.clone()));
            }
            accept.at(self.secure, port.clone());
            if config.port_unification {
                return accept.at(self.plain, port.unified());
            }
        }
        accept.at(self.plain, PlainPort);
    }
}

/// What the tasks that accept connections need.
struct Accept<'a> {
    engine: &'a Arc<Engine>,
    tasks: &'a TaskTracker,
    cancelled: &'a CancellationToken,
}

impl Accept<'_> {
    fn at(&self, listener: Option<TcpListener>, port: impl Port) {
        let Some(listener) = listener else { return };
        let (engine, tasks) = (Arc::clone(self.engine), self.tasks.clone());
        self.tasks.spawn(tcp::accept(listener, port, engine, tasks, self.cancelled.clone()));
    }
}
