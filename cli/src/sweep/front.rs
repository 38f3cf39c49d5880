//! One port for an ensemble, as a load balancer is: it leads each connection to the server that is
//! chosen at that moment.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::copy;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use zoolet_server::limits::ACCEPT_RETRY;

/// One port for several servers. The connections end when it is dropped.
#[derive(Debug)]
pub(super) struct Front {
    address: SocketAddr,
    _connections: JoinSet<()>,
}

impl Front {
    /// Opens a free port of the loopback address. `choose` is asked for each connection.
    pub(super) async fn open(choose: impl Fn() -> SocketAddr + Send + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let mut all = JoinSet::new();
        all.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => match accepted {
                        Ok((stream, _)) => drop(connections.spawn(carry(stream, choose()))),
                        // No descriptor is left, perhaps: it would fail again at once.
                        Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
                    },
                    Some(_ended) = connections.join_next() => {}
                }
            }
        });
        Ok(Self { address, _connections: all })
    }

    /// Where clients connect to.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Carries what one connection sends and receives, until either side ends it.
async fn carry(mut client: TcpStream, server: SocketAddr) {
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    // Without it replies wait for acknowledgements; a connection works either way.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut requests, mut to_client) = client.split();
    let (mut replies, mut to_server) = server.split();
    tokio::select! {
        _ended = copy(&mut requests, &mut to_server) => {}
        _ended = copy(&mut replies, &mut to_client) => {}
    }
}
