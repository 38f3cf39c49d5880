//! TLS between ours and others: their clients on our server, and ours on theirs. Each client creates a
//! znode of its own, whose access control list shows who it is for the server.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use libtest_mimic::Failed;
use tokio::runtime::Runtime;
use zoolet_client::Client;
use zoolet_client::protocol::Acl;
use zoolet_conformance::apache::Apache;
use zoolet_conformance::peers::{conformance_folder, kazoo_python};
use zoolet_server::{Config, Server, TlsConfig};
use zoolet_tls::{ClientAuth, ClientTls, ClientTlsOptions, ServerTls, ServerTlsOptions};

use crate::workshop::{PASSWORD, Workshop, free_port, store};

const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// The client for openssl, and by Java's name. The name has an attribute without a keyword, and an
/// escape.
const SUBJECT: &str = "/C=DE/O=Example/OU=Ops, Team/CN=client/emailAddress=ops@example.org";
const IDENTITY: &str = "x509:1.2.840.113549.1.9.1=#160f6f7073406578616d706c652e6f7267,CN=client,OU=Ops\\, \
                        Team,O=Example,C=DE";

/// The stores of a server and a client, each in all three types.
struct Stores(Workshop);

impl Stores {
    fn new() -> Result<Self, Failed> {
        let workshop = Workshop::new()?;
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

    fn java(&self, address: SocketAddr, path: &str, store_type: &str, own: bool) -> Command {
        let own = own.then_some("client");
        let mut java = Command::new("java");
        java.args(["-XX:TieredStopAtLevel=1", "-cp", &java_class_path()]);
        java.args(["-Dzookeeper.client.secure=true", "-Djava.awt.headless=true"]);
        java.arg("-Dzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty");
        java.args(self.properties("-Dzookeeper.ssl.", own, store_type));
        java.arg(conformance_folder().join("foreign/TlsClient.java"));
        java.args([&address.to_string(), path]).arg(if own.is_some() { "auth" } else { "open" });
        java
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
}

/// The jars of Apache ZooKeeper's client: those that `start-apache` uses.
fn java_class_path() -> String {
    if let Ok(jars) = std::env::var("ZOOLET_APACHE_JARS") {
        return format!("{jars}/*");
    }
    let jars = ["zookeeper", "netty-codec", "netty-resolver", "netty-transport-native-unix-common"];
    let jars = jars.into_iter().chain(["slf4j-nop"]);
    jars.map(|jar| format!("/usr/share/java/{jar}.jar")).collect::<Vec<_>>().join(":")
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
pub(crate) fn java_on_ours() -> Result<(), Failed> {
    let stores = Stores::new()?;
    for (on_server, on_client) in [("pem", "p12"), ("p12", "jks"), ("jks", "pem")] {
        let server = stores.server(on_server, ClientAuth::Need)?;
        let output = stores.java(server.address, "/own", on_client, true).output()?;
        assert_eq!(said(&output)?, IDENTITY, "{on_client} on {on_server}");
    }
    for client_auth in [ClientAuth::None, ClientAuth::Want] {
        let server = stores.server("pem", client_auth)?;
        let output = stores.java(server.address, "/open", "p12", false).output()?;
        assert_eq!(said(&output)?, "world:anyone", "{client_auth}");
    }
    Ok(())
}

/// kazoo, with and without a certificate; without one it does not get in where one is needed.
pub(crate) fn kazoo_on_ours() -> Result<(), Failed> {
    let stores = Stores::new()?;
    let server = stores.server("p12", ClientAuth::Need)?;
    assert_eq!(said(&stores.kazoo(server.address, "/own", true).output()?)?, IDENTITY);
    let refused = stores.kazoo(server.address, "/open", false).output()?;
    assert!(!refused.status.success(), "a client without a certificate got in");
    let server = stores.server("jks", ClientAuth::Want)?;
    assert_eq!(said(&stores.kazoo(server.address, "/own", true).output()?)?, IDENTITY);
    assert_eq!(said(&stores.kazoo(server.address, "/open", false).output()?)?, "world:anyone");
    Ok(())
}

/// Our client on our server, with stores that others made.
pub(crate) fn ours_on_ours() -> Result<(), Failed> {
    let stores = Stores::new()?;
    for (on_server, on_client) in [("pem", "jks"), ("p12", "pem"), ("jks", "p12")] {
        let server = stores.server(on_server, ClientAuth::Need)?;
        let seen =
            runtime()?.block_on(own_znode(stores.client(Some(on_client))?, server.address))?;
        assert_eq!(seen, IDENTITY, "{on_client} on {on_server}");
    }
    Ok(())
}

/// Our client on Apache ZooKeeper's server, with and without a certificate.
pub(crate) fn ours_on_apache() -> Result<(), Failed> {
    let stores = Stores::new()?;
    let runtime = runtime()?;
    for (store_type, client_auth) in [("p12", "need"), ("pem", "need"), ("jks", "none")] {
        let (_apache, address) = start_apache(&stores, store_type, client_auth)?;
        if client_auth == "need" {
            let seen = runtime.block_on(own_znode(stores.client(Some("pem"))?, address))?;
            assert_eq!(seen, IDENTITY, "{store_type}");
            let anonymous = runtime.block_on(connect(stores.client(None)?, address));
            assert!(anonymous.is_err(), "a client without a certificate got in");
        } else {
            let client = runtime.block_on(connect(stores.client(None)?, address))?;
            runtime.block_on(async { client.create("/open").await })?;
        }
    }
    Ok(())
}

fn start_apache(
    stores: &Stores,
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
    let arguments: Vec<_> =
        lines.into_iter().flat_map(|line| ["--config-line".to_owned(), line]).collect();
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
