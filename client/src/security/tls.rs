//! TLS between a client and its servers.

mod failure;
mod stream;
mod transport;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use zoolet_protocol::{Dialing, Transport};
use zoolet_tls::ClientTls;

use self::stream::Explained;
use self::transport::TlsTransport;
use super::{Opening, Security, Stream, probe};
use crate::builder::Builder;
use crate::four_letter::FourLetterWord;
use crate::hosts::Hosts;

impl Builder {
    /// Connects by TLS to the servers of a connection string. Each server's certificate must have
    /// the host that the connection string names, unless the [`ClientTls`] says otherwise. There is
    /// no fall-back to plaintext. Its files are read again before a connection if they have changed.
    ///
    /// Parsed hosts have TLS of their own, [`Hosts::tls`], and other dialers have none: `connect` to
    /// either fails with [`Error::Hosts`](crate::Error::Hosts).
    ///
    /// ```no_run
    /// use zoolet_client::Client;
    /// use zoolet_client::tls::{ClientTls, ClientTlsOptions, Store};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let options = ClientTlsOptions::new()
    ///     .trust_store(Store::new("ca.pem"))
    ///     .key_store(Store::new("client.pem"));
    /// let builder = Client::builder().tls(ClientTls::load(options)?);
    /// let client = builder.connect("zk1.example.org:2281,zk2.example.org:2281").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn tls(mut self, tls: impl Into<Arc<ClientTls>>) -> Self {
        self.security = Some(Arc::new(Tls::new(tls.into())));
        self
    }
}

impl Hosts {
    /// These servers by TLS, as [`Builder::tls`].
    #[must_use]
    pub fn tls(mut self, tls: impl Into<Arc<ClientTls>>) -> Self {
        self.security = Some(Arc::new(Tls::new(tls.into())));
        self
    }
}

impl FourLetterWord {
    /// Sends it by TLS, as [`Builder::tls`].
    pub fn tls(mut self, tls: impl Into<Arc<ClientTls>>) -> Self {
        self.security = Some(Arc::new(Tls::new(tls.into())));
        self
    }
}

/// The host of `HOST:PORT`, without the brackets of an IPv6 address.
fn host(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _port)| host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// TLS as what secures a socket.
#[derive(Clone)]
struct Tls {
    stores: Arc<ClientTls>,
    /// Whether there was a handshake that succeeded, so that these ports are the right ones.
    has_succeeded: Arc<AtomicBool>,
}

impl Tls {
    fn new(stores: Arc<ClientTls>) -> Self {
        Self { stores, has_succeeded: Arc::default() }
    }

    async fn shake_hands(
        self,
        socket: TcpStream,
        address: String,
    ) -> io::Result<TlsStream<TcpStream>> {
        socket.set_nodelay(true)?;
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let name = self.stores.server_name(host(&address)).map_err(invalid)?;
        let connector = TlsConnector::from(self.config().await);
        let server = socket.peer_addr()?;
        let error = match connector.connect(name, socket).await {
            Ok(stream) => {
                self.has_succeeded.store(true, Ordering::Relaxed);
                return Ok(stream);
            }
            Err(error) => failure::of_handshake(error, self.stores.setting_names()),
        };
        // A plaintext port of ZooKeeper ends the connection, as other ports do for other reasons.
        let has_ended = error.kind() != io::ErrorKind::InvalidData;
        let is_doubtful = has_ended && !self.has_succeeded.load(Ordering::Relaxed);
        if is_doubtful && probe::speaks_plaintext(server).await {
            return Err(failure::of_plaintext());
        }
        Err(error)
    }

    /// The configuration, from the files as they are now.
    async fn config(&self) -> Arc<zoolet_tls::rustls::ClientConfig> {
        let tls = Arc::clone(&self.stores);
        // A network file system may be slow.
        match tokio::task::spawn_blocking(move || tls.reload_if_changed()).await {
            Ok(Ok(false)) => {}
            Ok(Ok(true)) => tracing::info!("the certificates were read again"),
            Ok(Err(error)) => {
                tracing::warn!("the new certificates cannot be used, the old ones stay: {error}");
            }
            Err(error) => tracing::warn!("the certificates were not read again: {error}"),
        }
        self.stores.config()
    }
}

impl Security for Tls {
    fn transport(&self, socket: TcpStream, address: &str) -> Dialing {
        let (tls, address) = (self.clone(), address.to_owned());
        let names = self.stores.setting_names();
        Box::pin(async move {
            let (socket, session) = tls.shake_hands(socket, address.clone()).await?.into_inner();
            let transport = TlsTransport::new(socket, session, address, names);
            let transport: Box<dyn Transport> = Box::new(transport);
            Ok(transport)
        })
    }

    fn stream(&self, socket: TcpStream, address: &str) -> Opening {
        let shaken = self.clone().shake_hands(socket, address.to_owned());
        let names = self.stores.setting_names();
        Box::pin(async move {
            let stream: Box<dyn Stream> = Box::new(Explained::new(shaken.await?, names));
            Ok(stream)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_what_stands_before_the_port() {
        for (address, expected) in
            [("zk.example:2281", "zk.example"), ("10.0.0.1:1", "10.0.0.1"), ("[::1]:2281", "::1")]
        {
            assert_eq!(host(address), expected);
        }
    }
}
