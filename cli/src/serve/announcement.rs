//! What a server prints when it is ready.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde_json::json;
use zoolet_server::Server;
use zoolet_server::storage::{Durability, StorageConfig};
use zoolet_testkit::{EnsembleServer, TestEnsemble};

/// In which form a server says that it is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// For people; programs read the first lines.
    Text,
    /// One line of JSON.
    Json,
}

/// Where a server can be reached, or the servers of an ensemble for tests.
#[derive(Debug, Clone)]
pub(super) struct Addresses {
    plain: Vec<SocketAddr>,
    secure: Option<SocketAddr>,
    control: Option<SocketAddr>,
    console: Option<String>,
}

impl Addresses {
    pub(super) fn of(
        server: &Server,
        control: Option<SocketAddr>,
        console: Option<String>,
    ) -> Self {
        let plain = server.local_addr().into_iter().collect();
        Self { plain, secure: server.secure_addr(), control, console }
    }

    pub(super) fn of_ensemble(ensemble: &TestEnsemble, control: Option<SocketAddr>) -> Self {
        let plain = ensemble.servers().iter().filter_map(EnsembleServer::address).collect();
        Self { plain, secure: None, control, console: None }
    }

    /// Prints them.
    pub(super) fn announce(&self, form: Form, storage: Option<&StorageConfig>) {
        print(&match form {
            Form::Text => self.text(storage),
            Form::Json => self.line_of_json(),
        });
    }

    /// The same for an ensemble for tests.
    pub(super) fn announce_ensemble(&self, form: Form) {
        print(&match form {
            Form::Text => self.text_of_ensemble(),
            Form::Json => self.line_of_json(),
        });
    }

    /// An address that the server does not have is null.
    fn line_of_json(&self) -> String {
        let ready = json!({
            "ready": true,
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "address": self.connect_string(),
            "secure_address": self.secure.map(|address| reachable(address).to_string()),
            "test_control": self.control.map(|control| format!("http://{control}")),
            "console": self.console,
        });
        format!("{ready}\n")
    }

    /// What clients are given; `None` if there is no address.
    fn connect_string(&self) -> Option<String> {
        let addresses: Vec<_> =
            self.plain.iter().map(|address| reachable(*address).to_string()).collect();
        Some(addresses.join(",")).filter(|all| !all.is_empty())
    }

    fn control_text(&self) -> String {
        self.control.map_or_else(String::new, |control| {
            format!(
                "test control on http://{control}\nWho can open that page can break this server.\n"
            )
        })
    }

    fn text_of_ensemble(&self) -> String {
        let listening: String =
            self.plain.iter().map(|address| format!("listening on {address}\n")).collect();
        format!(
            "{listening}{control}\
             zoolet {version}, a test double of an ensemble: nothing is replicated or kept.\n\
             Connect with any ZooKeeper client:\n\
             \x20 zkCli.sh -server {all}\n\
             \x20 KazooClient(hosts=\"{all}\")\n\
             Stop with Ctrl-C or `kill {pid}`.\n",
            control = self.control_text(),
            version = env!("CARGO_PKG_VERSION"),
            all = self.connect_string().unwrap_or_default(),
            pid = std::process::id(),
        )
    }

    fn text(&self, storage: Option<&StorageConfig>) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let data = match storage {
            None => "Data is in memory, and gone when it stops.".to_owned(),
            Some(StorageConfig { data_dir, durability: Durability::Synced, .. }) => {
                format!("Data is in {}, and synced.", data_dir.display())
            }
            Some(StorageConfig { data_dir, .. }) => {
                format!("Data is in {}, not synced.", data_dir.display())
            }
        };
        let control = self.control_text();
        let (mut listening, mut connecting) = (String::new(), String::new());
        if let Some(&address) = self.plain.first() {
            let reachable = reachable(address);
            listening += &format!("listening on {address}\n");
            connecting += &format!(
                "Connect with any ZooKeeper client:\n\
                 \x20 zkCli.sh -server {reachable}\n\
                 \x20 KazooClient(hosts=\"{reachable}\")\n"
            );
        }
        if let Some(address) = self.secure {
            let port = address.port();
            listening += &format!("listening on {address} for TLS\n");
            connecting += &format!(
                "Connect by TLS, with the names and files of your certificates:\n\
                 \x20 zoolet cli --server HOST:{port} --tls-ca CA.pem --tls-cert CLIENT.pem\n"
            );
        }
        let console =
            self.console.as_ref().map_or_else(String::new, |url| format!("console on {url}\n"));
        format!(
            "{listening}{control}{console}\
             zoolet {version}, a single ZooKeeper node. {data}\n\
             {connecting}\
             Stop with Ctrl-C or `kill {pid}`.\n",
            pid = std::process::id(),
        )
    }
}

/// Prints at once. The server runs even if nobody reads it.
fn print(text: &str) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// Where clients on this machine connect: they cannot connect to the address of all interfaces.
fn reachable(address: SocketAddr) -> SocketAddr {
    let host = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        host => host,
    };
    SocketAddr::new(host, address.port())
}
