//! A port that stays with a server while it is down.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

/// A port of the loopback address. Nobody else is given it as long as this lives.
#[derive(Debug)]
pub(super) struct Port {
    address: SocketAddr,
    /// Bound and not listened on, so that the server may bind the port too, and nobody else picks it.
    _kept: Option<TcpSocket>,
}

impl Port {
    /// Picks a free one.
    pub(super) fn pick() -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let address = socket.local_addr()?;
        // Elsewhere the server could not bind it then.
        let kept = cfg!(target_os = "linux").then_some(socket);
        Ok(Self { address, _kept: kept })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}
