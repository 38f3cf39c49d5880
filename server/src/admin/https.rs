//! HTTPS on the port of the admin server.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_util::either::Either;
use zoolet_tls::{ClientAuth, ServerTls};

use super::http::{OverTls, Secured, Security, Site};
use crate::engine::lock::Engine;
use crate::server::Server;
use crate::transport::tls::{Acceptor, Advice, HandshakeFailure, TlsStream, watch_files};

/// HTTPS for the admin server: its port speaks nothing else (`admin.forceHttps`), or plaintext too.
///
/// ZooKeeper takes keys and certificates for it from `ssl.quorum.*`, not from the keys for clients.
///
/// ```no_run
/// use zoolet_server::Server;
/// use zoolet_server::admin::{AdminConfig, HttpsConfig};
/// use zoolet_server::tls::{ClientAuth, ServerTls, ServerTlsOptions, Store};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let options =
///     ServerTlsOptions::new(Store::new("server.pem")).client_auth(ClientAuth::None);
/// let https = Some(HttpsConfig::new(ServerTls::load(options)?));
/// let server = Server::builder().start().await?;
/// let address = server.start_admin(AdminConfig { https, ..AdminConfig::default() }).await?;
/// println!("https://{address}/commands");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct HttpsConfig {
    /// The keys, the certificates, and whether clients have to show some
    /// (`admin.needClientAuth`).
    pub stores: Arc<ServerTls>,
    /// `admin.portUnification`: whether the port speaks plaintext too. The first byte of a client
    /// decides. Off by default.
    pub port_unification: bool,
    /// `sslQuorumReloadCertFiles`: whether the files are looked at every few seconds, and read again
    /// when they have changed. Connections keep what they began with. Off by default.
    pub certificate_reload: bool,
}

impl HttpsConfig {
    /// HTTPS only, with these keys and certificates.
    #[must_use]
    pub fn new(stores: ServerTls) -> Self {
        Self { stores: Arc::new(stores), port_unification: false, certificate_reload: false }
    }

    /// Lets the port speak plaintext too.
    #[must_use]
    pub fn port_unification(self) -> Self {
        Self { port_unification: true, ..self }
    }

    /// Reads the files again when they have changed.
    #[must_use]
    pub fn certificate_reload(self) -> Self {
        Self { certificate_reload: true, ..self }
    }

    /// Whether only those are answered who have a certificate.
    pub(super) fn knows_all_clients(&self) -> bool {
        !self.port_unification && self.stores.client_auth() == ClientAuth::Need
    }
}

impl Server {
    /// Serves a site by HTTPS until the server ends.
    pub(super) fn serve_https(&self, config: &HttpsConfig, site: Site, listener: TcpListener) {
        let end = &self.cancelled;
        if config.certificate_reload {
            self.tasks.spawn(watch_files(Arc::clone(&config.stores), end.clone()));
        }
        let https = Https::new(config, Arc::clone(&self.engine));
        self.tasks.spawn(site.serve_over(https, listener, end.clone()));
    }
}

const ADVICE: Advice = Advice {
    plaintext: "ask for https://, or set admin.portUnification=true",
    no_certificate: "give it one, or remove admin.needClientAuth",
};

/// Makes TLS streams of the connections to a port.
#[derive(Debug, Clone)]
struct Https {
    acceptor: Arc<Acceptor>,
    is_unified: bool,
    engine: Arc<Engine>,
}

impl Https {
    fn new(config: &HttpsConfig, engine: Arc<Engine>) -> Self {
        // The limit of connections is low, and holds for handshakes too.
        let acceptor = Acceptor::new(Arc::clone(&config.stores), None, ADVICE);
        Self { acceptor: Arc::new(acceptor), is_unified: config.port_unification, engine }
    }

    async fn accept(&self, stream: TcpStream) -> Result<Secured<Stream>, HandshakeFailure> {
        let begun = self.acceptor.begin(&self.engine)?;
        if self.is_unified && !begins_with_tls(&stream, begun.deadline).await? {
            // As in `UnifiedConnectionFactory`.
            self.engine.stats.insecure_admin.add(1);
            return Ok(Secured { stream: Either::Left(stream), over_tls: None });
        }
        // The messages of a handshake are not delayed to be sent together.
        stream.set_nodelay(true).map_err(HandshakeFailure::Io)?;
        let (socket, input) =
            self.acceptor.accept(begun, stream, BytesMut::new(), &self.engine).await?;
        let stream = TlsStream::new(socket, input);
        let certificates = stream.peer_certificates().iter().map(|der| der.to_vec()).collect();
        Ok(Secured { stream: Either::Right(stream), over_tls: Some(OverTls { certificates }) })
    }
}

type Stream = Either<TcpStream, TlsStream>;

impl Security for Https {
    type Stream = Stream;

    async fn secure(&self, stream: TcpStream, peer: SocketAddr) -> Option<Secured<Stream>> {
        let failure = match self.accept(stream).await {
            Ok(secured) => return Some(secured),
            Err(failure) => failure,
        };
        let warned = match failure {
            // So do the health checks of load balancers.
            HandshakeFailure::Silent => None,
            _ => self.engine.warnings.connections.admit(self.engine.clock.now_ms()),
        };
        match warned {
            None => tracing::debug!(
                address = %peer,
                cause = %failure,
                "connection to the admin server closed"
            ),
            Some(others) => tracing::warn!(
                address = %peer,
                cause = %failure,
                others,
                "connection to the admin server closed"
            ),
        }
        None
    }
}

/// Whether the first byte is that of a handshake, which is left unread. HTTP begins with a letter.
async fn begins_with_tls(stream: &TcpStream, deadline: Instant) -> Result<bool, HandshakeFailure> {
    let mut first = [0];
    match tokio::time::timeout_at(deadline, stream.peek(&mut first)).await {
        Ok(Ok(0)) => Err(HandshakeFailure::Silent),
        Ok(Ok(_)) => Ok(first == [TLS_HANDSHAKE]),
        Ok(Err(error)) => Err(HandshakeFailure::Io(error)),
        Err(_) => Err(HandshakeFailure::Io(io::ErrorKind::TimedOut.into())),
    }
}

/// The type of the record that begins a handshake.
const TLS_HANDSHAKE: u8 = 0x16;
