//! Helpers of the experiments.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Failed;
use tokio::time::Instant;
use zoolet_client::{Client, RetryPolicy};
use zoolet_conformance::ensemble::{Ensemble, MEMBERS};
use zoolet_conformance::four_letter;
use zoolet_conformance::proxy::Proxy;

use super::Outcome;

/// The time limit for what must happen, the election of a leader included.
const SOON: Duration = Duration::from_secs(60);
const RETRIES: u32 = 1_000;
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Runs an experiment.
pub(crate) fn block_on(experiment: impl Future<Output = Outcome>) -> Outcome {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(experiment)
}

#[expect(clippy::disallowed_methods, reason = "the servers are processes with clocks of their own")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The leader and the followers.
pub(crate) struct Roles {
    pub(crate) leader: usize,
    pub(crate) followers: Vec<usize>,
}

impl Roles {
    /// The roles of an ensemble. Waits until all members work together.
    pub(crate) async fn of(ensemble: &Ensemble) -> Result<Self, Failed> {
        until("all members work together", async || Ok(ensemble.is_whole())).await?;
        let leader = ensemble.leader().ok_or("there is no leader")?;
        let followers = (0..MEMBERS).filter(|member| *member != leader).collect();
        Ok(Self { leader, followers })
    }

    /// One of the followers.
    pub(crate) fn a_follower(&self) -> usize {
        self.followers[fastrand::usize(..self.followers.len())]
    }

    /// A member other than this one.
    pub(crate) fn other_than(&self, member: usize) -> usize {
        let others: Vec<_> = (0..MEMBERS).filter(|other| *other != member).collect();
        others[fastrand::usize(..others.len())]
    }
}

/// A client of one server.
pub(crate) async fn connect(server: SocketAddr, timeout: Duration) -> Result<Client, Failed> {
    let server = server.to_string();
    // A request that was lost with a connection is repeated at once.
    let retry = RetryPolicy::n_times(RETRIES, RETRY_INTERVAL);
    let builder = Client::builder().session_timeout(timeout).retry_policy(retry);
    Ok(builder.connect(server.as_str()).await?)
}

/// A client of one server, with a proxy between them.
pub(crate) async fn connect_by_proxy(
    server: SocketAddr,
    timeout: Duration,
) -> Result<(Client, Arc<Proxy>), Failed> {
    let proxy = Arc::new(Proxy::start(server).await?);
    Ok((connect(proxy.address(), timeout).await?, proxy))
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, is_so: impl AsyncFn() -> Result<bool, Failed>) -> Outcome {
    until_within(SOON, what, is_so).await
}

/// [`until`] with another limit.
pub(crate) async fn until_within(
    limit: Duration,
    what: &str,
    is_so: impl AsyncFn() -> Result<bool, Failed>,
) -> Outcome {
    let looking = async {
        while !is_so().await? {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        Ok(())
    };
    tokio::time::timeout(limit, looking).await.map_err(|_| format!("in vain: {what}"))?
}

/// Waits until a server has a watch on a znode.
pub(crate) async fn until_watched(server: SocketAddr, path: &str) -> Outcome {
    let is_watched = async || {
        let said = four_letter::ask(server, "wchp")?;
        Ok(said.lines().any(|line| line == path))
    };
    until(&format!("{path} is watched"), is_watched).await
}

/// Waits for a future, which must be ready soon.
pub(crate) async fn soon<T>(what: &str, coming: impl Future<Output = T>) -> Result<T, Failed> {
    Ok(tokio::time::timeout(SOON, coming).await.map_err(|_| format!("it does not come: {what}"))?)
}

/// Closes clients. Sessions that have expired need no closing.
pub(crate) async fn close(clients: impl IntoIterator<Item = Client>) {
    for client in clients {
        let _ = client.close().await;
    }
}
