//! The certificates of a server in this process and of its clients, for the time of a run.

use std::sync::Arc;

use tempfile::TempDir;
use zoolet_client::tls::{ClientTls, ClientTlsOptions, Store, TlsError};
use zoolet_server::TlsConfig;
use zoolet_server::tls::{ServerTls, ServerTlsOptions};

use super::failure::Failure;
use crate::certs::Certs;

/// A folder with the files of `zoolet certs`. Server and clients show their certificates to each other.
#[derive(Debug)]
pub(crate) struct Certificates {
    folder: TempDir,
    pub(crate) client: Arc<ClientTls>,
}

impl Certificates {
    /// Makes and loads them.
    pub(crate) fn new() -> Result<Self, Failure> {
        let folder = tempfile::tempdir().map_err(Failure::System)?;
        Certs::for_this_machine(folder.path())?;
        let store = |name: &str| Store::new(folder.path().join(name));
        let client = ClientTls::load(
            ClientTlsOptions::new().trust_store(store("ca.pem")).key_store(store("client.pem")),
        )?;
        Ok(Self { client: Arc::new(client), folder })
    }

    /// TLS for the server, on a free port of this machine.
    pub(crate) fn server(&self) -> Result<TlsConfig, TlsError> {
        let store = |name: &str| Store::new(self.folder.path().join(name));
        let options = ServerTlsOptions::new(store("server.pem")).trust_store(store("ca.pem"));
        Ok(TlsConfig::new(ServerTls::load(options)?).listen(([127, 0, 0, 1], 0).into()))
    }
}
