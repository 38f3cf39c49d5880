//! Authorities and certificates in a temporary directory, and handshakes in memory.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of this")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use tempfile::TempDir;
use zoolet_tls::rustls::{
    self, ClientConfig, ClientConnection, HandshakeKind, ProtocolVersion, ServerConnection,
};
use zoolet_tls::{ClientTls, ClientTlsOptions, ServerTls, ServerTlsOptions, Store};

/// An authority that issues certificates into files.
pub struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// An authority with its certificate in `ca.pem`.
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "Test CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let authority = Self { folder: tempfile::tempdir().unwrap(), issuer };
        authority.write("ca.pem", &authority.issuer.pem());
        authority
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    pub fn issuer(&self) -> &CertifiedIssuer<'static, KeyPair> {
        &self.issuer
    }

    /// Issues a certificate for `localhost`, and writes it after its key.
    pub fn issue(&self, name: &str) -> PathBuf {
        self.issue_with(name, |_| {})
    }

    pub fn issue_with(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> PathBuf {
        let key = KeyPair::generate().unwrap();
        let certificate = params(name, change).signed_by(&key, &self.issuer).unwrap();
        let file = format!("{name}.pem");
        self.write(&file, &[key.serialize_pem(), certificate.pem()].concat())
    }

    pub fn store(&self, name: &str) -> Store {
        Store::new(self.path(name))
    }

    pub fn server_options(&self) -> ServerTlsOptions {
        ServerTlsOptions::new(Store::new(self.issue("server"))).trust_store(self.store("ca.pem"))
    }

    pub fn client_options(&self) -> ClientTlsOptions {
        ClientTlsOptions::new()
            .key_store(Store::new(self.issue("client")))
            .trust_store(self.store("ca.pem"))
    }
}

/// A certificate for `localhost` with this common name.
pub fn params(name: &str, change: impl FnOnce(&mut CertificateParams)) -> CertificateParams {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    change(&mut params);
    params
}

/// What both sides agreed on.
#[derive(Debug)]
pub struct Agreed {
    pub version: ProtocolVersion,
    /// The name of the client, if it showed a certificate.
    pub client: Option<String>,
    /// Whether the handshake resumed a TLS session, and so verified no certificate.
    pub is_resumed: bool,
}

/// Shakes hands in memory.
pub fn handshake(server: &ServerTls, client: &ClientTls) -> Result<Agreed, rustls::Error> {
    handshake_with(server, client, "localhost")
}

pub fn handshake_with(
    server: &ServerTls,
    client: &ClientTls,
    host: &str,
) -> Result<Agreed, rustls::Error> {
    let name = client.server_name(host).unwrap();
    handshake_of(server, ClientConnection::new(client.config(), name)?)
}

/// Shakes hands with a client that resumes TLS sessions if the server lets it, as others' clients do.
pub fn handshake_resuming(
    server: &ServerTls,
    client: &Arc<ClientConfig>,
) -> Result<Agreed, rustls::Error> {
    let name = "localhost".try_into().unwrap();
    handshake_of(server, ClientConnection::new(Arc::clone(client), name)?)
}

fn handshake_of(server: &ServerTls, mut client: ClientConnection) -> Result<Agreed, rustls::Error> {
    let mut server = ServerConnection::new(server.config())?;
    while client.is_handshaking() || server.is_handshaking() || client.wants_write() {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        let mut sent = bytes.as_slice();
        while !sent.is_empty() {
            server.read_tls(&mut sent).unwrap();
            server.process_new_packets()?;
        }
        let mut bytes = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        let mut sent = bytes.as_slice();
        while !sent.is_empty() {
            client.read_tls(&mut sent).unwrap();
            client.process_new_packets()?;
        }
    }
    let certificate = server.peer_certificates().and_then(<[_]>::first);
    Ok(Agreed {
        version: server.protocol_version().unwrap(),
        client: certificate.map(|der| zoolet_tls::distinguished_name(der).unwrap()),
        is_resumed: server.handshake_kind() == Some(HandshakeKind::Resumed),
    })
}
