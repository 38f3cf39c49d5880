//! A waiting client receives the event that makes it the holder, loses its connection, and is led
//! to a follower that does not know the change yet.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Failed;
use tokio::task::JoinHandle;
use zoolet_client::{Client, Parents};
use zoolet_conformance::ensemble::Ensemble;
use zoolet_conformance::proxy::Proxy;
use zoolet_conformance::quorum_network::QuorumNetwork;
use zoolet_recipes::{Guard, InterProcessMutex, InterProcessSemaphoreV2, LockError, Permits};

use super::common::{
    Roles, block_on, close, connect, connect_by_proxy, soon, until, until_watched,
};
use super::{Outcome, times};

/// The number of trials for each lag.
const LANES: usize = 5;

const DEFAULT_TRIALS: usize = 10;

/// The number of requests between the event and the cut: none in most trials, these in some.
const CUTS: [(usize, usize); 3] = [(0, 1), (1, 5), (2, 5)];

/// How long a trial waits for what must not happen.
const A_WHILE: Duration = Duration::from_millis(400);

const SESSION_TIMEOUT: Duration = Duration::from_secs(30);

/// A waiting client behind a proxy.
struct Waiter<T> {
    client: Client,
    proxy: Arc<Proxy>,
    task: JoinHandle<Result<T, LockError>>,
}

/// A trial: a holder and a waiter.
trait Lane: Sized {
    /// The violation that this trial looks for.
    const VIOLATION: &str;

    /// Lets one client hold and another wait.
    async fn prepare(near: SocketAddr, path: String) -> Result<Self, Failed>;

    /// Leads the waiter to a lagging server after the event that makes it the holder.
    fn arm_cut(&self, passes: usize, lagging: SocketAddr);

    /// Does what the lagging server does not learn of.
    async fn hand_over(&mut self) -> Outcome;

    /// Whether the waiter was led to the lagging server, or had finished before.
    fn was_led_away(&self) -> bool;

    /// Whether there was a violation.
    async fn end(self) -> Result<bool, Failed>;
}

/// One client has the only permit, and another waits for it.
struct OfPermit {
    holder: Waiter<Permits>,
    permits: Option<Permits>,
    waiter: Waiter<Permits>,
}

impl Lane for OfPermit {
    const VIOLATION: &str = "two holders of one permit";

    async fn prepare(near: SocketAddr, path: String) -> Result<Self, Failed> {
        let stand = async || {
            let (client, proxy) = connect_by_proxy(near, SESSION_TIMEOUT).await?;
            let semaphore = InterProcessSemaphoreV2::new(&client, &path, 1)?;
            Ok::<_, Failed>((client, proxy, semaphore))
        };
        let (client, proxy, semaphore) = stand().await?;
        // Now the directories exist.
        semaphore.acquire(1).await?.release().await?;
        // It takes its permit only after it has learned that it is in front.
        proxy.hold_answers(true);
        let task = tokio::spawn(async move { semaphore.acquire(1).await });
        let holder = Waiter { client, proxy, task };
        let (client, proxy, semaphore) = stand().await?;
        let gate = format!("{path}/locks");
        let names = async || Ok::<_, Failed>(client.children(&gate).await?);
        until("the first is at the gate", async || Ok(names().await?.len() == 1)).await?;
        let ahead = names().await?.iter().next().map(|name| format!("{gate}/{name}"));
        let task = tokio::spawn(async move { semaphore.acquire(1).await });
        until_watched(near, &ahead.ok_or("no client waits at the gate")?).await?;
        Ok(Self { holder, permits: None, waiter: Waiter { client, proxy, task } })
    }

    fn arm_cut(&self, passes: usize, lagging: SocketAddr) {
        self.waiter.proxy.cut_after_event(passes, lagging);
    }

    async fn hand_over(&mut self) -> Outcome {
        self.holder.proxy.hold_answers(false);
        self.permits = Some(soon("the first permit", &mut self.holder.task).await???);
        Ok(())
    }

    fn was_led_away(&self) -> bool {
        self.waiter.was_led_away()
    }

    async fn end(self) -> Result<bool, Failed> {
        let is_violated = self.waiter.task.is_finished();
        if let Some(permits) = self.permits {
            permits.release().await?;
        }
        soon("the second permit", self.waiter.task).await???.release().await?;
        close([self.holder.client, self.waiter.client]).await;
        Ok(is_violated)
    }
}

/// One client writes while it holds a mutex, and the next one reads.
struct OfMutex {
    holder: Client,
    guard: Option<Guard>,
    value: String,
    waiter: Waiter<Vec<u8>>,
}

impl Lane for OfMutex {
    const VIOLATION: &str = "a stale read under a mutex";

    async fn prepare(near: SocketAddr, path: String) -> Result<Self, Failed> {
        let holder = connect(near, SESSION_TIMEOUT).await?;
        let value = format!("{path}/value");
        holder.create(&value).data("0").parents(Parents::Persistent).await?;
        let path = format!("{path}/mutex");
        let guard = InterProcessMutex::new(&holder, &path)?.acquire().await?;
        let (client, proxy) = connect_by_proxy(near, SESSION_TIMEOUT).await?;
        let (reader, read) = (client.clone(), value.clone());
        let task = tokio::spawn(async move {
            let guard = InterProcessMutex::new(&reader, &path)?.acquire().await?;
            let (data, _) = reader.get(&read).await?;
            guard.release().await?;
            Ok(data.to_vec())
        });
        until_watched(near, guard.path()).await?;
        Ok(Self { holder, guard: Some(guard), value, waiter: Waiter { client, proxy, task } })
    }

    fn arm_cut(&self, passes: usize, lagging: SocketAddr) {
        self.waiter.proxy.cut_after_event(passes, lagging);
    }

    async fn hand_over(&mut self) -> Outcome {
        self.holder.set(&self.value, "1").await?;
        let guard = self.guard.take().ok_or("the mutex was handed over already")?;
        Ok(guard.release().await?)
    }

    fn was_led_away(&self) -> bool {
        self.waiter.was_led_away()
    }

    async fn end(self) -> Result<bool, Failed> {
        let read = soon("the mutex", self.waiter.task).await???;
        close([self.holder, self.waiter.client]).await;
        Ok(read != b"1")
    }
}

impl<T> Waiter<T> {
    fn was_led_away(&self) -> bool {
        self.proxy.was_cut_after_event() || self.task.is_finished()
    }
}

pub(crate) fn a_permit_has_one_holder(ensemble: &Ensemble) -> Outcome {
    block_on(trials::<OfPermit>(ensemble, "/lag/permit"))
}

pub(crate) fn a_holder_reads_what_was_written(ensemble: &Ensemble) -> Outcome {
    block_on(trials::<OfMutex>(ensemble, "/lag/mutex"))
}

async fn trials<L: Lane>(ensemble: &Ensemble, folder: &str) -> Outcome {
    let all = times("ZOOLET_ENSEMBLE_TRIALS", DEFAULT_TRIALS)?;
    let mut violations = 0;
    for (passes, share) in CUTS {
        let count = all.div_ceil(share);
        let mut of_these = 0;
        for begin in (0..count).step_by(LANES) {
            let lanes = LANES.min(count - begin);
            let path = format!("{folder}-{passes}-{begin}");
            of_these += round::<L>(ensemble, &path, lanes, passes).await?;
        }
        println!("cut after {passes} requests: {} in {of_these} of {count} trials", L::VIOLATION);
        violations += of_these;
    }
    if violations > 0 {
        return Err(format!("{violations} times: {}", L::VIOLATION).into());
    }
    Ok(())
}

/// A follower lags until this is dropped.
struct Lag<'a>(&'a QuorumNetwork);

impl<'a> Lag<'a> {
    fn of(ensemble: &'a Ensemble, follower: usize) -> Self {
        ensemble.network().lag(follower);
        Self(ensemble.network())
    }
}

impl Drop for Lag<'_> {
    fn drop(&mut self) {
        self.0.heal();
    }
}

/// A follower that lags answers from its old state and keeps its connections, until it is healed.
pub(crate) fn a_follower_answers_from_its_old_state(ensemble: &Ensemble) -> Outcome {
    block_on(async {
        let Roles { leader, followers } = Roles::of(ensemble).await?;
        let addresses = ensemble.addresses();
        let writer = connect(addresses[leader], SESSION_TIMEOUT).await?;
        let reader = connect(addresses[followers[0]], SESSION_TIMEOUT).await?;
        let path = "/lag-of-a-follower";
        writer.create(path).data("0").await?;
        reader.sync(path).await?;
        let lag = Lag::of(ensemble, followers[0]);
        writer.set(path, "1").await?;
        tokio::time::sleep(A_WHILE).await;
        assert_eq!(&*reader.get(path).await?.0, b"0", "the follower does not lag");
        let synced = tokio::time::timeout(A_WHILE, reader.sync(path).into_future()).await;
        assert!(synced.is_err(), "the follower answers a sync before it has caught up");
        assert!(ensemble.is_whole(), "the leader has dropped the follower");
        drop(lag);
        reader.sync(path).await?;
        assert_eq!(&*reader.get(path).await?.0, b"1", "the follower has not caught up");
        close([writer, reader]).await;
        Ok(())
    })
}

/// Runs some trials at the same time, and returns the number of violations.
async fn round<L: Lane>(
    ensemble: &Ensemble,
    path: &str,
    count: usize,
    passes: usize,
) -> Result<usize, Failed> {
    let roles = Roles::of(ensemble).await?;
    let lagging = roles.a_follower();
    let near = ensemble.addresses()[roles.other_than(lagging)];
    let mut lanes = Vec::new();
    for lane in 0..count {
        lanes.push(L::prepare(near, format!("{path}-{lane}")).await?);
    }
    let lagging_address = ensemble.addresses()[lagging];
    // All members know what was done until now.
    let observer = connect(lagging_address, SESSION_TIMEOUT).await?;
    observer.sync("/").await?;
    let lag = Lag::of(ensemble, lagging);
    for lane in &mut lanes {
        lane.arm_cut(passes, lagging_address);
        lane.hand_over().await?;
    }
    let are_sprung = async || Ok(lanes.iter().all(L::was_led_away));
    let sprung = until("all are led to the server that lags", are_sprung);
    if passes == 0 {
        sprung.await?;
    } else {
        // The waiter may send no more requests.
        let _ = tokio::time::timeout(A_WHILE, sprung).await;
    }
    tokio::time::sleep(A_WHILE).await;
    drop(lag);
    // Replies that waited for the lagging server arrive now.
    tokio::time::sleep(A_WHILE).await;
    let mut violations = 0;
    for lane in lanes {
        violations += usize::from(lane.end().await?);
    }
    close([observer]).await;
    Ok(violations)
}
