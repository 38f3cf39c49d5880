//! A server for code without async: it has a thread of its own.

use std::net::SocketAddr;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use zoolet_core::Totals;

use crate::server::{Builder, StartError};
use crate::transport::in_process::Dialer;

/// A running server with a thread of its own, which ends with it. Dropping it ends it at once;
/// [`Server::shutdown`] lets clients take what is theirs first.
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
/// To start it and to shut it down panics within async code.
#[derive(Debug)]
pub struct Server {
    // Before the thread, on which it runs.
    server: crate::server::Server,
    runtime: Handle,
    /// Dropped, it tells the thread to end.
    _end: oneshot::Sender<()>,
}

impl Server {
    /// Starts a server as a builder says.
    ///
    /// # Errors
    ///
    /// As [`Builder::start`]; [`StartError::Thread`] too.
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

    /// Where it listens, with the port that was picked; `None` if it serves in process only.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.server.local_addr()
    }

    /// What makes connections to it in the same process.
    #[must_use]
    pub fn dialer(&self) -> Dialer {
        self.server.dialer()
    }

    /// Numbers for monitoring: znodes, watches, sessions.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.server.totals()
    }

    /// Ends the server, as [`Server::shutdown`](crate::Server::shutdown) does.
    pub fn shutdown(self) {
        let Self { server, runtime, _end } = self;
        runtime.block_on(server.shutdown());
    }
}
