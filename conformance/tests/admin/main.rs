//! The admin server beside that of Apache ZooKeeper 3.9.5, its snapshots, and hostile requests.

mod commands;
mod http;
mod masking;
mod snapshots;

use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;

use zoolet_server::admin::AdminConfig;
use zoolet_server::storage::StorageConfig;
use zoolet_server::{Config, Server};

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// A server of ours with an admin server.
struct Administered {
    server: Server,
    admin: SocketAddr,
}

impl Administered {
    /// Starts one that keeps its data in `directory`, or in memory, with the settings of the admin
    /// server that `choose` changes.
    async fn start(
        directory: Option<&Path>,
        choose: impl FnOnce(&mut AdminConfig),
    ) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let storage = directory.map(StorageConfig::at);
        let listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        let config = Config { listen, storage, ..Config::default() };
        let server = Server::builder().config(config).start().await?;
        let mut config = AdminConfig {
            listen: ([127, 0, 0, 1], 0).into(),
            rate_limiter_interval: std::time::Duration::ZERO,
            ..AdminConfig::default()
        };
        choose(&mut config);
        let admin = server.start_admin(config).await?;
        Ok(Self { server, admin })
    }

    fn address(&self) -> String {
        self.server.local_addr().map(|address| address.to_string()).unwrap_or_default()
    }
}
