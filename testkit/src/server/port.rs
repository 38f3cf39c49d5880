//! A port that stays reserved while its server is stopped.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

/// A port of the loopback address. The system gives it to no other program as long as this value
/// lives.
#[derive(Debug)]
pub(super) struct Port {
    address: SocketAddr,
    /// Bound but not listening: the server can bind the port too, and the system picks it for no
    /// other program.
    _reserved: Option<TcpSocket>,
}

impl Port {
    /// Reserves a free port.
    pub(super) fn pick() -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let address = socket.local_addr()?;
        // On other systems the server could not bind a port that is bound already.
        let reserved = cfg!(target_os = "linux").then_some(socket);
        Ok(Self { address, _reserved: reserved })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}
