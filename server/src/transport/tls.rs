//! Ports that speak TLS.

mod handshake;
mod reload;
mod socket;
#[cfg(feature = "admin")]
mod stream;

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use zoolet_tls::ServerTls;

use self::socket::TlsSocket;
use super::driver::{self, TLS_HANDSHAKE};
use super::socket::Socket;
use super::tcp::Port;
use crate::engine::clock::now;
use crate::engine::connection::Connection;
use crate::engine::lock::Engine;

pub(crate) use self::handshake::{Acceptor, Advice, HandshakeFailure};
pub(crate) use self::reload::watch_files;
#[cfg(feature = "admin")]
pub(crate) use self::stream::TlsStream;

/// TLS for clients: a port that speaks nothing else, the plaintext port that speaks it too, or both.
///
/// ```no_run
/// use zoolet_server::tls::{ServerTls, ServerTlsOptions, Store};
/// use zoolet_server::{Config, Server, TlsConfig};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let options = ServerTlsOptions::new(Store::new("server.pem")).trust_store(Store::new("ca.pem"));
/// let tls = TlsConfig::new(ServerTls::load(options)?).listen(([0, 0, 0, 0], 2281).into());
/// let server = Server::builder().tls(tls).start().await?;
/// println!("listening on {}", server.secure_addr().unwrap());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct TlsConfig {
    /// The keys, the certificates, and what clients have to show.
    pub stores: Arc<ServerTls>,
    /// `secureClientPort` and `secureClientPortAddress`: the address of the port that speaks only
    /// TLS; `None`, the default, for no such port. Port 0 picks a free one.
    pub listen: Option<SocketAddr>,
    /// `client.portUnification`: whether the plaintext port speaks TLS too. Off by default.
    pub port_unification: bool,
    /// `client.certReload`: whether the files are looked at every few seconds, and read again when
    /// they have changed. Connections keep what they began with. Off by default.
    pub certificate_reload: bool,
    /// `netty.server.outstandingHandshake.limit`: the limit of handshakes that are under way at the
    /// same time; connections beyond it are closed. `None`, the default, for no limit but that of
    /// connections.
    pub outstanding_handshakes_max: Option<usize>,
}

impl TlsConfig {
    /// TLS with these keys and certificates, on no port yet.
    #[must_use]
    pub fn new(stores: ServerTls) -> Self {
        Self {
            stores: Arc::new(stores),
            listen: None,
            port_unification: false,
            certificate_reload: false,
            outstanding_handshakes_max: None,
        }
    }

    /// Listens on an address for clients that speak TLS.
    #[must_use]
    pub fn listen(self, address: SocketAddr) -> Self {
        Self { listen: Some(address), ..self }
    }

    /// Lets the plaintext port speak TLS too.
    #[must_use]
    pub fn port_unification(self) -> Self {
        Self { port_unification: true, ..self }
    }

    /// Reads the files again when they have changed.
    #[must_use]
    pub fn certificate_reload(self) -> Self {
        Self { certificate_reload: true, ..self }
    }
}

const ADVICE: Advice = Advice {
    plaintext: "plaintext clients must connect to clientPort",
    no_certificate: "give it one, or set ssl.clientAuth to want or none",
};

/// A port that speaks TLS.
#[derive(Debug, Clone)]
pub(crate) struct TlsPort {
    acceptor: Arc<Acceptor>,
    /// Whether it speaks plaintext too.
    is_unified: bool,
}

impl TlsPort {
    /// The port that speaks only TLS.
    pub(crate) fn new(config: &TlsConfig) -> Self {
        let (stores, max) = (Arc::clone(&config.stores), config.outstanding_handshakes_max);
        Self { acceptor: Arc::new(Acceptor::new(stores, max, ADVICE)), is_unified: false }
    }

    /// The plaintext port that speaks TLS too. The limits hold for both ports together.
    pub(crate) fn unified(&self) -> Self {
        Self { acceptor: Arc::clone(&self.acceptor), is_unified: true }
    }
}

impl Port for TlsPort {
    fn is_secure(&self) -> bool {
        !self.is_unified
    }

    async fn serve(
        self,
        stream: TcpStream,
        connection: Arc<Connection>,
        engine: Arc<Engine>,
        cancelled: CancellationToken,
    ) {
        let opened = self.open(stream, &connection, &engine);
        let Some(opened) = cancelled.run_until_cancelled(opened).await else { return };
        let peer = &connection.peer;
        match opened {
            Ok(Some(Opened::Plaintext(stream, received))) => {
                engine.stats.plaintext_connection(peer.address);
                driver::converse(stream, received, connection, engine, cancelled).await;
            }
            Ok(Some(Opened::Tls(socket, input))) => {
                driver::converse(socket, input, connection, engine, cancelled).await;
            }
            Ok(None) => {}
            // So do the health checks of load balancers.
            Err(failure @ HandshakeFailure::Silent) => {
                tracing::debug!(
                    address = peer.address_text(),
                    cause = %failure,
                    "connection closed"
                );
            }
            Err(failure) => {
                let now_ms = engine.clock.now_ms();
                engine.warnings.connection_closed(peer, now_ms, &failure);
            }
        }
    }
}

/// A connection on which the protocol is spoken, and what came in for it.
enum Opened {
    Plaintext(TcpStream, BytesMut),
    Tls(TlsSocket, BytesMut),
}

impl TlsPort {
    /// Finds out what a client speaks, and shakes hands. `None` if the connection has ended.
    async fn open(
        &self,
        mut stream: TcpStream,
        connection: &Connection,
        engine: &Engine,
    ) -> Result<Option<Opened>, HandshakeFailure> {
        // A hook may have frozen the connection.
        connection.peer.outbox.thawed().await;
        let begun = self.acceptor.begin(engine)?;
        let mut received = BytesMut::new();
        if self.is_unified {
            match beginning(&mut stream, &mut received, begun.deadline, engine).await {
                Beginning::Tls => {}
                Beginning::Plaintext => return Ok(Some(Opened::Plaintext(stream, received))),
                Beginning::Late => return Err(handshake::timed_out(engine)),
                Beginning::Silence => {
                    engine.stats.sessionless_expired.add(1);
                    return Ok(None);
                }
                Beginning::End => return Ok(None),
            }
        }
        let (socket, input) = self.acceptor.accept(begun, stream, received, engine).await?;
        self.acceptor.identify(&socket, connection)?;
        Ok(Some(Opened::Tls(socket, input)))
    }
}

/// What a client of a unified port begins with.
enum Beginning {
    Tls,
    Plaintext,
    /// It begins like a handshake, and goes on too late.
    Late,
    /// It sends nothing in the time that a connection may be without a session.
    Silence,
    End,
}

/// Reads until it is known whether a client speaks TLS. As in
/// `NettyServerCnxnFactory.DualModeSslHandler` that takes five bytes, and fewer if the first cannot
/// begin a handshake: a four-letter word has four. What begins like a handshake has the time of one.
async fn beginning(
    stream: &mut TcpStream,
    received: &mut BytesMut,
    deadline: Instant,
    engine: &Engine,
) -> Beginning {
    let sessionless = now() + engine.config.sessionless_timeout;
    while received.len() < 5 {
        let until = match received.first() {
            None => sessionless,
            Some(first) if *first == TLS_HANDSHAKE[0] => deadline,
            Some(_) => return Beginning::Plaintext,
        };
        match timeout_at(until, stream.read(received)).await {
            Ok(Ok(1..)) => {}
            Ok(_) => return Beginning::End,
            Err(_) if received.is_empty() => return Beginning::Silence,
            Err(_) => return Beginning::Late,
        }
    }
    if received.starts_with(&TLS_HANDSHAKE) { Beginning::Tls } else { Beginning::Plaintext }
}
