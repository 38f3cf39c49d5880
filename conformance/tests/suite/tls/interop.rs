//! TLS between ours and others: their clients on our server, and ours on theirs. Each client creates a
//! znode of its own, whose access control list shows who it is for the server.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use libtest_mimic::Failed;
use tokio::runtime::Runtime;
use zoolet_client::protocol::Acl;
use zoolet_client::{Builder, Client, ConnectError, Error, FourLetterWord};
use zoolet_conformance::apache::Apache;
use zoolet_conformance::peers::{apache39_jars, conformance_folder, kazoo_python, secure_c};
use zoolet_server::{Config, Server, TlsConfig};
use zoolet_tls::{ClientAuth, ClientTls, ClientTlsOptions, ServerTls, ServerTlsOptions};

use super::workshop::{PASSWORD, Workshop, free_port, store};

const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// What a plaintext client is told of a port for TLS.
const SPEAKS_TLS: &str = "the server speaks TLS on this port";
/// For what is known at once.
const PATIENCE: Duration = Duration::from_secs(600);

/// The client for openssl, and by Java's name. The name has an attribute without a keyword, and an
/// escape.
const SUBJECT: &str = "/C=DE/O=Example/OU=Ops, Team/CN=client/emailAddress=ops@example.org";
const IDENTITY: &str = "x509:1.2.840.113549.1.9.1=#160f6f7073406578616d706c652e6f7267,CN=client,OU=Ops\\, \
                        Team,O=Example,C=DE";

/// Who may do what with a znode that is open.
const ANYONE: &str = "world:anyone";

/// A release of Apache ZooKeeper.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Release {
    /// Debian's, or that of the jars in `ZOOLET_APACHE_JARS`. Its TLS is 1.2.
    Debian,
    /// 3.9.5. Its TLS is 1.3.
    V395,
}

impl Release {
    /// The jars of the client.
    fn class_path(self) -> String {
        let folder = match self {
            Self::Debian => std::env::var("ZOOLET_APACHE_JARS").ok(),
            Self::V395 => Some(apache39_jars().display().to_string()),
        };
        if let Some(folder) = folder {
            return format!("{folder}/*");
        }
        // Those that `start-apache` uses.
        let jars =
            ["zookeeper", "netty-codec", "netty-resolver", "netty-transport-native-unix-common"];
        let jars = jars.into_iter().chain(["slf4j-nop"]);
        jars.map(|jar| format!("/usr/share/java/{jar}.jar")).collect::<Vec<_>>().join(":")
    }
}

/// The stores of a server and a client, each in all three types.
pub(crate) struct Stores(Workshop);

impl Stores {
    pub(crate) fn new(workshop: &Workshop) -> Result<Self, Failed> {
        let workshop = workshop.copy()?;
        let w = &workshop;
        fs::write(w.path("password"), PASSWORD)?;
        w.run(&format!(
            "openssl req -newkey rsa:2048 -nodes -keyout client.key -out client.csr -subj '{SUBJECT}'"
        ))?;
        w.sign("client", 30)?;
        for (name, to) in [("rsa", "server"), ("client", "client")] {
            w.join(&[&format!("{name}.key"), &format!("{name}.crt")], &format!("{to}.pem"))?;
            w.run(&format!(
                "openssl pkcs12 -export -inkey {name}.key -in {name}.crt -certfile ca.pem -name {to} \
                 -passout pass:PASSWORD -out {to}.p12"
            ))?;
            w.keystore(&format!("{to}.p12"), &format!("{to}.jks"), "-deststoretype JKS")?;
        }
        for (store_type, file) in [("PKCS12", "ca.p12"), ("JKS", "ca.jks")] {
            w.run(&format!(
                "keytool -importcert -noprompt -alias ca -file ca.pem -storetype {store_type} \
                 -keystore {file} -storepass PASSWORD"
            ))?;
        }
        Ok(Self(workshop))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    /// Our client, with a certificate or without.
    fn client(&self, store_type: Option<&str>) -> Result<ClientTls, Failed> {
        let mut options = ClientTlsOptions::new().trust_store(store(&self.path("ca.pem")));
        if let Some(store_type) = store_type {
            options = options.key_store(store(&self.path(&format!("client.{store_type}"))));
        }
        Ok(ClientTls::load(options)?)
    }

    /// Our server, with stores of a type.
    fn server(&self, store_type: &str, client_auth: ClientAuth) -> Result<Ours, Failed> {
        let own = store(&self.path(&format!("server.{store_type}")));
        let trusted = store(&self.path(&format!("ca.{store_type}")));
        let options = ServerTlsOptions::new(own).trust_store(trusted).client_auth(client_auth);
        Ours::start(ServerTls::load(options)?)
    }

    /// The properties by which ZooKeeper in Java finds stores of a type.
    fn properties(&self, prefix: &str, own: Option<&str>, store_type: &str) -> Vec<String> {
        let own = own.map(|name| ("keyStore", format!("{name}.{store_type}")));
        let stores = own.into_iter().chain([("trustStore", format!("ca.{store_type}"))]);
        let mut properties = Vec::new();
        for (store, file) in stores {
            properties.push(format!("{prefix}{store}.location={}", self.path(&file).display()));
            if store_type != "pem" {
                let password = self.path("password");
                properties.push(format!("{prefix}{store}.passwordPath={}", password.display()));
            }
        }
        properties
    }

    /// The file with the properties of Java's client, with a certificate or without.
    fn java_client(&self, store_type: &str, own: Option<&str>) -> Result<PathBuf, Failed> {
        let mut lines = self.properties("zookeeper.ssl.", own, store_type);
        lines.push("zookeeper.client.secure=true".to_owned());
        let socket = "org.apache.zookeeper.ClientCnxnSocketNetty";
        lines.push(format!("zookeeper.clientCnxnSocket={socket}"));
        let path = self.path(&format!("{}-{store_type}.properties", own.unwrap_or("nobody")));
        fs::write(&path, lines.join("\n"))?;
        Ok(path)
    }

    fn kazoo(&self, address: SocketAddr, path: &str, own: bool) -> Command {
        let mut kazoo = Command::new(kazoo_python());
        kazoo.arg(conformance_folder().join("foreign/tls-kazoo"));
        kazoo.args([&address.to_string(), path]).arg(self.path("ca.pem"));
        if own {
            kazoo.arg(self.path("client.pem"));
        }
        kazoo
    }

    /// The C client, which cannot be without a certificate.
    fn c(&self, address: SocketAddr, path: &str, acl: &str) -> Command {
        let files = ["ca.pem", "client.crt", "client.key"]
            .map(|name| self.path(name).display().to_string());
        let mut client = Command::new(secure_c());
        client.args([&address.to_string(), path, acl, "tls", &files.join(",")]);
        client
    }
}

/// Our server, with a port for TLS only.
struct Ours {
    address: SocketAddr,
    _server: Server,
    // Dropped after the server, because the tasks of the server run on it.
    _runtime: Runtime,
}

impl Ours {
    fn start(tls: ServerTls) -> Result<Self, Failed> {
        let runtime = runtime()?;
        let tls = TlsConfig::new(tls).listen((Ipv4Addr::LOCALHOST, 0).into());
        let config = Config { tls: Some(tls), ..Config::default() };
        let server = runtime.block_on(Server::builder().config(config).start())?;
        let address = server.secure_addr().ok_or("there is no port for TLS")?;
        Ok(Self { address, _server: server, _runtime: runtime })
    }
}

fn runtime() -> Result<Runtime, Failed> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Ok(builder.worker_threads(1).enable_all().build()?)
}

/// What a client printed, if it succeeded.
fn said(output: &Output) -> Result<String, Failed> {
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout.clone())?.trim_end().to_owned());
    }
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    Err(format!("{}\n{}", output.status, String::from_utf8_lossy(&said)).into())
}

/// Java's client, which knows all types of stores, on our server with each of them.
pub(crate) fn java_on_ours(stores: &Stores, release: Release) -> Result<(), Failed> {
    let (mut servers, mut expected) = (Vec::new(), BTreeMap::new());
    let mut java = Command::new("java");
    java.args(["-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true"]);
    java.args(["-cp", &release.class_path()]);
    java.arg(conformance_folder().join("foreign/TlsClient.java"));
    for (on_server, client_auth, on_client, own) in [
        ("pem", ClientAuth::Need, "p12", Some("client")),
        ("p12", ClientAuth::Need, "jks", Some("client")),
        ("jks", ClientAuth::Need, "pem", Some("client")),
        ("pem", ClientAuth::None, "p12", None),
        ("pem", ClientAuth::Want, "p12", None),
    ] {
        let server = stores.server(on_server, client_auth)?;
        let path = format!("/{on_client}-on-{on_server}-{client_auth}");
        java.args([&server.address.to_string(), &path]);
        java.arg(stores.java_client(on_client, own)?);
        java.arg(if own.is_some() { "auth" } else { "open" });
        servers.push(server);
        expected.insert(path, if own.is_some() { IDENTITY } else { ANYONE });
    }
    let said = said(&java.output()?)?;
    let found: BTreeMap<_, _> = said.lines().filter_map(|line| line.split_once(' ')).collect();
    let expected: BTreeMap<_, _> = expected.iter().map(|(path, id)| (path.as_str(), *id)).collect();
    assert_eq!(found, expected, "{release:?}");
    Ok(())
}

/// kazoo, with and without a certificate; without one it does not get in where one is needed.
pub(crate) fn kazoo_on_ours(stores: &Stores) -> Result<(), Failed> {
    let server = stores.server("p12", ClientAuth::Need)?;
    assert_eq!(said(&stores.kazoo(server.address, "/own", true).output()?)?, IDENTITY);
    let refused = stores.kazoo(server.address, "/open", false).output()?;
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && told.contains("not connected"), "{refused:?}");
    let server = stores.server("jks", ClientAuth::Want)?;
    assert_eq!(said(&stores.kazoo(server.address, "/own", true).output()?)?, IDENTITY);
    assert_eq!(said(&stores.kazoo(server.address, "/open", false).output()?)?, ANYONE);
    Ok(())
}

/// Our client on our server, with stores that others made.
pub(crate) fn ours_on_ours(stores: &Stores) -> Result<(), Failed> {
    for (on_server, on_client) in [("pem", "jks"), ("p12", "pem"), ("jks", "p12")] {
        let server = stores.server(on_server, ClientAuth::Need)?;
        let seen =
            runtime()?.block_on(own_znode(stores.client(Some(on_client))?, server.address))?;
        assert_eq!(seen, IDENTITY, "{on_client} on {on_server}");
    }
    Ok(())
}

/// The C client, with a certificate: on a server that needs one, and on one that does not ask.
pub(crate) fn c_on_ours(stores: &Stores) -> Result<(), Failed> {
    for (store_type, client_auth) in [("p12", ClientAuth::Need), ("pem", ClientAuth::None)] {
        let server = stores.server(store_type, client_auth)?;
        c_client(stores, server.address, client_auth != ClientAuth::None)?;
    }
    Ok(())
}

/// The C client on a server that asks for a certificate, or does not.
fn c_client(stores: &Stores, address: SocketAddr, is_known: bool) -> Result<(), Failed> {
    let (acl, expected) = if is_known { ("auth", IDENTITY) } else { ("open", ANYONE) };
    let seen = said(&stores.c(address, "/by-c", acl).output()?)?;
    assert_eq!(seen, expected, "the C client on {address}");
    Ok(())
}

/// Our client and the C client on Apache ZooKeeper's server, with and without a certificate.
pub(crate) fn on_apache(stores: &Stores, release: Release) -> Result<(), Failed> {
    let runtime = runtime()?;
    for (store_type, client_auth) in [("p12", "need"), ("pem", "need"), ("jks", "none")] {
        let (apache, address) = start_apache(stores, release, store_type, client_auth)?;
        c_client(stores, address, client_auth == "need")?;
        if client_auth == "need" {
            let seen = runtime.block_on(own_znode(stores.client(Some("pem"))?, address))?;
            assert_eq!(seen, IDENTITY, "{store_type}");
            let anonymous = runtime.block_on(connect(stores.client(None)?, address));
            assert!(anonymous.is_err(), "a client without a certificate got in");
        } else {
            let client = runtime.block_on(connect(stores.client(None)?, address))?;
            runtime.block_on(async { client.create("/open").await })?;
            let tls = Client::builder().tls(stores.client(None)?);
            runtime.block_on(wrong_port(
                tls,
                apache.address(),
                "does not speak TLS on this port",
            ))?;
            let plain = Client::builder();
            runtime.block_on(wrong_port(plain, address, SPEAKS_TLS))?;
            let word = FourLetterWord::new("srvr").timeout(PATIENCE);
            let asked = runtime.block_on(word.ask(&address.to_string()));
            let is_told =
                matches!(&asked, Err(ConnectError::Tls(text)) if text.contains(SPEAKS_TLS));
            assert!(is_told, "{asked:?}");
        }
    }
    Ok(())
}

/// What a client is told of a port that speaks TLS, or does not. Both are known long before it gives up.
async fn wrong_port(client: Builder, address: SocketAddr, expected: &str) -> Result<(), Failed> {
    let connected = client.connection_timeout(PATIENCE).connect(address.to_string()).await;
    match connected {
        Err(Error::Unreachable(ConnectError::Tls(text))) if text.contains(expected) => Ok(()),
        other => Err(format!("{address}: {expected:?} is expected: {other:?}").into()),
    }
}

fn start_apache(
    stores: &Stores,
    release: Release,
    store_type: &str,
    client_auth: &str,
) -> Result<(Apache, SocketAddr), Failed> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
    let mut lines = vec![
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory".to_owned(),
        format!("secureClientPort={}", address.port()),
        "secureClientPortAddress=127.0.0.1".to_owned(),
        format!("ssl.clientAuth={client_auth}"),
        "authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider".to_owned(),
    ];
    lines.extend(stores.properties("ssl.", Some("server"), store_type));
    let mut arguments: Vec<_> =
        lines.into_iter().flat_map(|line| ["--config-line".to_owned(), line]).collect();
    if let Release::V395 = release {
        arguments.extend(["--jars".to_owned(), apache39_jars().display().to_string()]);
    }
    Ok((Apache::start(&arguments)?, address))
}

async fn connect(tls: ClientTls, address: SocketAddr) -> Result<Client, Failed> {
    let builder = Client::builder().tls(tls).connection_timeout(CONNECTION_TIMEOUT);
    // By the address, which is in the certificate too.
    Ok(builder.connect(address.to_string()).await?)
}

/// Creates a znode of the client's own, and returns whose it is.
async fn own_znode(tls: ClientTls, address: SocketAddr) -> Result<String, Failed> {
    let client = connect(tls, address).await?;
    client.create("/own-znode").acl(vec![Acl::creator_all()]).await?;
    let (acl, _) = client.acl("/own-znode").await?;
    let [entry] = &acl[..] else { return Err(format!("one identity is expected: {acl:?}").into()) };
    let (scheme, id) = (entry.id.scheme.as_deref(), entry.id.id.as_deref());
    Ok(format!("{}:{}", scheme.unwrap_or_default(), id.unwrap_or_default()))
}
