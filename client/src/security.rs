//! What lies between a socket and the bytes of the protocol: nothing, or what a [`Security`] adds.

pub(crate) mod probe;
#[cfg(feature = "tls")]
mod tls;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use zoolet_protocol::{Dialing, Transport};

use super::connecting::lookup_error;
use super::tcp::TcpTransport;

/// Secures a connected socket. TLS is one, of the feature `tls`.
pub(crate) trait Security: Send + Sync {
    /// A transport of frames over the socket, which leads to `HOST:PORT`.
    fn transport(&self, socket: TcpStream, address: &str) -> Dialing;

    /// The bytes of the protocol over the socket, which leads to `HOST:PORT`.
    fn stream(&self, socket: TcpStream, address: &str) -> Opening;
}

/// The bytes of the protocol.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// The future of a [`Stream`].
pub(crate) type Opening = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

/// Connects to `HOST:PORT`, by any of its addresses.
async fn connect(address: &str) -> io::Result<TcpStream> {
    let found = tokio::net::lookup_host(address).await;
    let found: Vec<_> = found.map_err(|error| lookup_error(address, &error))?.collect();
    TcpStream::connect(&found[..]).await.map_err(|error| at(address, error))
}

/// An error with the server's address before it.
pub(crate) fn at(address: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{address}: {error}"))
}

/// Opens a stream to `HOST:PORT`.
pub(crate) async fn open(
    address: &str,
    security: Option<&dyn Security>,
) -> io::Result<Box<dyn Stream>> {
    let socket = connect(address).await?;
    match security {
        None => Ok(Box::new(socket)),
        Some(security) => {
            security.stream(socket, address).await.map_err(|error| at(address, error))
        }
    }
}

/// Opens a transport to `HOST:PORT`. `has_answered` tells whether one of the servers has answered in
/// plaintext before, so that these ports are the right ones.
pub(crate) async fn dial(
    address: &str,
    security: Option<&dyn Security>,
    has_answered: Arc<AtomicBool>,
) -> io::Result<Box<dyn Transport>> {
    let socket = connect(address).await?;
    match security {
        None => Ok(Box::new(TcpTransport::new(socket, address, has_answered)?)),
        Some(security) => {
            security.transport(socket, address).await.map_err(|error| at(address, error))
        }
    }
}

/// Whether what a server sent first is an alert of TLS, and no message of ZooKeeper.
pub(crate) fn is_tls_alert(received: &[u8]) -> bool {
    received.starts_with(&[0x15, 0x03])
}

/// The error of a plaintext client on a port that speaks TLS.
pub(crate) fn speaks_tls() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, SPEAKS_TLS)
}

const SPEAKS_TLS: &str = "the server speaks TLS on this port, and this client does not; \
                                     give it TLS options, or the server's plaintext port";
