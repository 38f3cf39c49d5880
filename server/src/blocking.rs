//! A server for code without async, with a thread of its own.

use std::net::SocketAddr;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use zoolet_core::Totals;

use crate::server::{Builder, StartError};
use crate::transport::in_process::Dialer;

/// A running server with a thread of its own, which ends with it. Dropping it stops it at once;
/// [`Server::shutdown`] lets clients receive their messages first.
///
/// ```
/// use zoolet_server::blocking::Server;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::start(zoolet_server::Server::builder().listen(([127, 0, 0, 1], 0).into()))?;
/// println!("listening on {}", server.local_addr().unwrap());
/// server.shutdown();
/// # Ok(())
/// # }
/// ```
///
/// # Panics
///
/// [`Server::start`] and [`Server::shutdown`] panic within async code.
#[derive(Debug)]
pub struct Server {
    // Declared first, so that it is dropped before the thread on which it runs.
    server: crate::server::Server,
    runtime: Handle,
    /// Ends the thread when it is dropped.
    _end: oneshot::Sender<()>,
}

impl Server {
    /// Starts the server of a builder.
    ///
    /// # Errors
    ///
    /// As [`Builder::start`], and [`StartError::Thread`].
    pub fn start(builder: Builder) -> Result<Self, StartError> {
        let thread = |error| StartError::Thread(error);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(thread)?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        let keep = move || drop(runtime.block_on(ended));
        std::thread::Builder::new().name("zoolet-server".to_owned()).spawn(keep).map_err(thread)?;
        let server = handle.block_on(builder.start())?;
        Ok(Self { server, runtime: handle, _end: end })
    }

    /// The address on which it listens, with the port that was picked; `None` if it serves
    /// in-process clients only.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.server.local_addr()
    }

    /// As [`Server::secure_addr`](crate::Server::secure_addr).
    #[must_use]
    pub fn secure_addr(&self) -> Option<SocketAddr> {
        self.server.secure_addr()
    }

    /// Makes connections to it in the same process.
    #[must_use]
    pub fn dialer(&self) -> Dialer {
        self.server.dialer()
    }

    /// The numbers of znodes, watches and sessions.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.server.totals()
    }

    /// Stops the server, as [`Server::shutdown`](crate::Server::shutdown) does.
    pub fn shutdown(self) {
        let Self { server, runtime, _end } = self;
        runtime.block_on(server.shutdown());
    }
}
