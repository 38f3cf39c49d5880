//! What exclusion costs on an ensemble: the requests, counted by a proxy.

use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Failed;
use zoolet_client::Client;
use zoolet_conformance::ensemble::Ensemble;
use zoolet_conformance::proxy::{Counts, Proxy};
use zoolet_recipes::{Guard, InterProcessMutex};

use super::Outcome;
use super::common::{Roles, block_on, close, connect_by_proxy, soon, until_watched};

const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

/// How long locks are held, or none is, in thirds of the session timeout.
const THIRDS: u32 = 4;

const HAND_OVERS: usize = 30;

/// Create, list, watches and deletion; and where events have no zxid, a read.
const HAND_OVER_REQUESTS_MAX: f64 = 5.3;

/// The number of locks that a client holds at the same time.
const LOCKS: usize = 5;

/// Long enough for the replies to the last requests.
const SETTLED: Duration = Duration::from_millis(200);

struct Party {
    client: Client,
    proxy: Arc<Proxy>,
}

pub(crate) fn are_counted(ensemble: &Ensemble) -> Outcome {
    block_on(async {
        let roles = Roles::of(ensemble).await?;
        let server = ensemble.addresses()[roles.a_follower()];
        let mut parties = Vec::new();
        for _ in 0..2 {
            let (client, proxy) = connect_by_proxy(server, SESSION_TIMEOUT).await?;
            parties.push(Party { client, proxy });
        }
        println!("{:45} {:>8}", "requests", "each");
        let contended = contended(server, &parties).await?;
        let party = &parties[0];
        let idle = party.while_idle("nothing held, a third of the timeout", 0).await?;
        let one = party.while_idle("one lock held, a third of the timeout", 1).await?;
        let many = party.while_idle("5 locks held, a third of the timeout", LOCKS).await?;
        close(parties.into_iter().map(|party| party.client)).await;
        assert!(contended <= HAND_OVER_REQUESTS_MAX, "a hand-over costs too many requests");
        // One more, because the measured time may begin and end at a request.
        let once = 1.0 + 1.0 / f64::from(THIRDS);
        assert!(idle <= once, "more than a sync in place of a ping");
        // A sync and a check.
        let twice = 2.0 * once;
        assert!(
            one <= twice && many <= twice,
            "more than one proof in a third of the session timeout"
        );
        Ok(())
    })
}

/// Two clients hand a mutex over to each other.
async fn contended(server: std::net::SocketAddr, parties: &[Party]) -> Result<f64, Failed> {
    let path = "/costs/contended";
    let mut held = parties[0].acquire(path).await?;
    parties.iter().for_each(|party| party.proxy.reset_counts());
    for round in 1..=HAND_OVERS {
        let client = parties[round % parties.len()].client.clone();
        let waiting =
            tokio::spawn(async move { InterProcessMutex::new(&client, path)?.acquire().await });
        until_watched(server, held.path()).await?;
        held.release().await?;
        held = soon("the mutex", waiting).await???;
    }
    tokio::time::sleep(SETTLED).await;
    let counts: Vec<_> = parties.iter().map(|party| party.proxy.counts()).collect();
    held.release().await?;
    Ok(report("contended hand-over of a mutex", &counts, HAND_OVERS as f64))
}

impl Party {
    async fn acquire(&self, path: &str) -> Result<Guard, Failed> {
        Ok(InterProcessMutex::new(&self.client, path)?.acquire().await?)
    }

    /// The requests in a third of the session timeout while this many locks are held.
    async fn while_idle(&self, what: &str, locks: usize) -> Result<f64, Failed> {
        let mut guards = Vec::new();
        for lock in 0..locks {
            guards.push(self.acquire(&format!("/costs/idle-{lock}")).await?);
        }
        tokio::time::sleep(SETTLED).await;
        self.proxy.reset_counts();
        tokio::time::sleep(SESSION_TIMEOUT / 3 * THIRDS).await;
        let cost = report(what, &[self.proxy.counts()], f64::from(THIRDS));
        for guard in guards {
            guard.release().await?;
        }
        tokio::time::sleep(SETTLED).await;
        Ok(cost)
    }
}

/// Prints the cost of each of `times`, and returns its requests.
fn report(what: &str, counts: &[Counts], times: f64) -> f64 {
    let mut by_operation = std::collections::BTreeMap::new();
    for (operation, count) in counts.iter().flat_map(|counts| &counts.requests) {
        *by_operation.entry(operation).or_insert(0) += count;
    }
    let requests = by_operation.values().sum::<usize>() as f64 / times;
    println!("{what:45} {requests:>8.2}  {by_operation:?} in {times}");
    requests
}
