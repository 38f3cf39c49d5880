//! An authority and its certificates in a temporary directory, and servers and clients that have
//! them.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use zoolet::client::tls::{ClientTls, ClientTlsOptions, Store};
use zoolet::client::{Builder, Client, FourLetterWord};
use zoolet::server::tls::{ClientAuth, ServerTls, ServerTlsOptions};
use zoolet::server::{Config, FourLetterWhitelist, Server, TlsConfig};

/// The address of a free port.
pub(crate) const ANY: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// An authority that issues certificates for `localhost` and 127.0.0.1 into files.
pub(crate) struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "Test CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let authority = Self { folder: tempfile::tempdir().unwrap(), issuer };
        fs::write(authority.path("ca.pem"), authority.issuer.pem()).unwrap();
        authority
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The file of a new key and its certificate, whose subject is `CN=name`.
    pub(crate) fn issue(&self, name: &str) -> PathBuf {
        self.issue_for(name, &["localhost", "127.0.0.1"])
    }

    pub(crate) fn issue_for(&self, name: &str, hosts: &[&str]) -> PathBuf {
        let hosts: Vec<_> = hosts.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let path = self.path(&format!("{name}.pem"));
        fs::write(&path, [key.serialize_pem(), certificate.pem()].concat()).unwrap();
        path
    }

    pub(crate) fn trust(&self) -> Store {
        Store::new(self.path("ca.pem"))
    }

    /// The options of a server with a certificate of this authority, which trusts it.
    pub(crate) fn server_options(&self) -> ServerTlsOptions {
        ServerTlsOptions::new(Store::new(self.issue("server"))).trust_store(self.trust())
    }

    /// TLS for a server, on a free port.
    pub(crate) fn server_tls(&self, client_auth: ClientAuth) -> TlsConfig {
        let stores = ServerTls::load(self.server_options().client_auth(client_auth)).unwrap();
        TlsConfig::new(stores).listen(ANY.into())
    }

    /// A client that trusts this authority, and shows a certificate of this name.
    pub(crate) fn client(&self, name: &str) -> Arc<ClientTls> {
        let options = ClientTlsOptions::new().trust_store(self.trust());
        Arc::new(ClientTls::load(options.key_store(Store::new(self.issue(name)))).unwrap())
    }

    /// A client that trusts this authority, and shows a certificate of another one.
    pub(crate) fn client_of(&self, other: &Self, name: &str) -> Arc<ClientTls> {
        let options = ClientTlsOptions::new().trust_store(self.trust());
        Arc::new(ClientTls::load(options.key_store(Store::new(other.issue(name)))).unwrap())
    }

    /// A client that trusts this authority, and shows no certificate.
    pub(crate) fn anonymous(&self) -> Arc<ClientTls> {
        Arc::new(ClientTls::load(ClientTlsOptions::new().trust_store(self.trust())).unwrap())
    }
}

/// The configuration that lets a test ask for everything.
pub(crate) fn config() -> Config {
    Config {
        four_letter_words: FourLetterWhitelist::all(),
        max_client_connections: 0,
        ..Config::default()
    }
}

/// A server with a plaintext port and a port for TLS.
pub(crate) async fn server(tls: TlsConfig) -> Server {
    server_with(config(), tls).await
}

pub(crate) async fn server_with(config: Config, tls: TlsConfig) -> Server {
    Server::builder().config(config).listen(ANY.into()).tls(tls).start().await.unwrap()
}

/// A client's options that give up soon.
pub(crate) fn builder() -> Builder {
    Client::builder().connection_timeout(Duration::from_secs(30))
}

pub(crate) async fn connect(address: SocketAddr, tls: &Arc<ClientTls>) -> Client {
    builder().tls(Arc::clone(tls)).connect(address.to_string()).await.unwrap()
}

/// A TLS connection without a ZooKeeper client.
pub(crate) async fn open(address: SocketAddr, tls: &ClientTls) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(address).await.unwrap();
    let name = tls.server_name("localhost").unwrap();
    TlsConnector::from(tls.config()).connect(name, stream).await.unwrap()
}

/// A number of `mntr`.
pub(crate) async fn metric(server: &Server, name: &str) -> f64 {
    let address = server.local_addr().unwrap().to_string();
    let report = FourLetterWord::new("mntr").ask(&address).await.unwrap();
    let key = format!("zk_{name}\t");
    let value = report.lines().find_map(|line| line.strip_prefix(&key));
    value.unwrap_or_else(|| panic!("there is no {name}")).parse().unwrap()
}
