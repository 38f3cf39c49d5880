//! The requests that each server carries out.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use libtest_mimic::Failed;
use zoolet_client::{Client, Error};
use zoolet_conformance::four_letter;
use zoolet_protocol::{Acl, CreateMode, ErrorCode, Id, Permissions};
use zoolet_server::admin::MetricsConfig;
use zoolet_server::{Config, Dialect, MetricsProvider, ProcessMetrics, Server};

/// Longer than any run: no ping is sent.
const TIMEOUT: Duration = Duration::from_secs(40);

/// A server of ours with a page for Prometheus.
pub(crate) struct Ours {
    pub(crate) address: SocketAddr,
    pub(crate) page: SocketAddr,
    pub(crate) server: Server,
}

impl Ours {
    /// Starts a server in memory.
    pub(crate) async fn start(config: Config) -> Result<Self, Failed> {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let four_letter_words = "*".parse()?;
        let config = Config { listen: Some(any), four_letter_words, ..config };
        let dialect = match config.metrics_provider {
            MetricsProvider::Prometheus(dialect) => dialect,
            MetricsProvider::Default => Dialect::V3_9,
        };
        let server = Server::builder().config(config).start().await?;
        let page = MetricsConfig { listen: any, dialect, process: ProcessMetrics::Include };
        let page = server.start_metrics(page).await?;
        Ok(Self { address: server.local_addr().ok_or("it listens")?, page, server })
    }
}

/// Runs a future on a runtime of its own.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime?.block_on(future)
}

async fn connect(server: SocketAddr) -> Result<Client, Error> {
    Client::builder().session_timeout(TIMEOUT).connect(server.to_string().as_str()).await
}

/// An operation that the server must refuse.
fn refused<T>(result: Result<T, Error>, code: ErrorCode) -> Result<(), Failed> {
    match result {
        Err(error) if error.is(code) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => Err(format!("it is not refused with {code}").into()),
    }
}

/// Carries out requests of every kind that is counted or audited, from two clients one after the
/// other.
pub(crate) async fn carry_out(server: SocketAddr) -> Result<(), Failed> {
    let client = connect(server).await?;
    client.create("/app").data("12345").await?;
    client.create("/app/long").data(vec![7; 1_000]).await?;
    refused(client.create("/app").await, ErrorCode::NODE_EXISTS)?;
    for mode in [CreateMode::EphemeralSequential, CreateMode::PersistentSequential] {
        client.create("/app/n-").mode(mode).await?;
    }
    client.create("/app/ephemeral").mode(CreateMode::Ephemeral).await?;
    client.create("/app/container").mode(CreateMode::Container).await?;
    for _ in 0..10 {
        client.get("/app/long").await?;
        client.children("/app").await?;
        client.exists("/app/missing").await?;
    }
    let data = client.get("/app/long").and_watch().await?;
    let children = client.children("/app").and_watch().await?;
    client.set("/app/long", "short").await?;
    refused(client.set("/app/long", "").version(77).await, ErrorCode::BAD_VERSION)?;
    client.create("/app/child").await?;
    refused(client.delete("/app/missing").await, ErrorCode::NO_NODE)?;
    client.delete("/app/child").await?;
    let acl = vec![
        Acl { permissions: Permissions::READ, id: Id::new("digest", "ann:aGFzaCBvZiBhbm4=") },
        Acl::open(),
    ];
    client.set_acl("/app/long", acl).await?;
    let all = client.transaction().create("/multi", "", CreateMode::Persistent);
    all.set("/multi", "2", -1).check("/multi", 1).delete("/multi", -1).commit().await?;
    let none = client.transaction().create("/multi", "", CreateMode::Persistent);
    refused(none.delete("/app/missing", -1).commit().await, ErrorCode::NO_NODE)?;
    client.authenticate("digest", "bob:password-of-bob").await?;
    client.create("/second").await?;
    drop((data, children));
    client.close().await?;
    let second = connect(server).await?;
    second.create("/second/ephemeral").mode(CreateMode::Ephemeral).await?;
    second.close().await?;
    Ok(())
}

/// The keys and values of `mntr`, without the prefix.
pub(crate) fn mntr(server: SocketAddr) -> io::Result<Vec<(String, String)>> {
    let answer = four_letter::ask(server, "mntr")?;
    let entry = |line: &str| {
        let (key, value) = line.split_once('\t')?;
        Some((key.strip_prefix("zk_")?.to_owned(), value.to_owned()))
    };
    Ok(answer.lines().filter_map(entry).collect())
}
