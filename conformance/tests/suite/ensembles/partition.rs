//! A member is cut off from the others, while its clients still reach it. Clients of the other
//! members wait for what those clients hold, and get it when the sessions expire.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use libtest_mimic::Failed;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use zoolet_client::Client;
use zoolet_conformance::ensemble::{Ensemble, MEMBERS};
use zoolet_conformance::quorum_network::QuorumNetwork;
use zoolet_protocol::SessionId;
use zoolet_recipes::LockError;

use super::common::{Roles, block_on, close, connect, now, soon, until};
use super::holding::{HoldMethod, Holding};
use super::{Outcome, times};

const DEFAULT_PARTITIONS: usize = 1;

/// The session timeouts of the holders. The first is the shortest that a tick of two seconds
/// allows.
const SESSION_TIMEOUTS: [Duration; 3] =
    [Duration::from_secs(4), Duration::from_secs(6), Duration::from_secs(8)];

/// The session timeout of the waiters, which is longer than an election.
const LONG: Duration = Duration::from_secs(40);

/// How long nothing is cut at first, and how much longer at most, so that the cut falls
/// anywhere within a tick and anywhere between two pings.
const UNDISTURBED: Duration = Duration::from_secs(1);
const UNDISTURBED_MORE: Duration = Duration::from_secs(3);

/// How many times in a row a session may expire before anything is cut, as happens on a busy
/// machine.
const VOID_MAX: usize = 5;

const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// How long the test observes after every waiter has what it waited for.
const AFTERWARDS: Duration = Duration::from_secs(3);

/// Longer than a partition takes.
const PATIENCE: Duration = Duration::from_secs(90);

/// The member that is cut off.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Victim {
    Follower,
    Leader,
    /// A leader whose followers notice it at once.
    SeveredLeader,
}

/// Something that one client holds and another waits for.
struct Lane {
    method: HoldMethod,
    timeout: Duration,
    holder: Client,
    session: SessionId,
    first: Arc<Holding>,
    /// When the waiter acquired it.
    next: Arc<OnceLock<Holding>>,
    /// Whether the holder reported that it held it when the waiter acquired it.
    met: Arc<AtomicBool>,
    task: JoinHandle<Result<(), LockError>>,
}

/// The observations of a lane.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// How long both clients reported that they held it.
    together: Duration,
    met: bool,
    /// When the holder last reported it.
    held_until: Option<Instant>,
    next_at: Option<Instant>,
    /// How many times the holder reported it before the cut, and how many times it was asked.
    well: (u32, u32),
}

/// The worst observations of several lanes.
#[derive(Debug, Clone, Copy, Default)]
struct Worst {
    lanes: usize,
    overlaps: usize,
    together: Duration,
    /// From the holder's last report until the waiter acquired it.
    margin: Option<Duration>,
    /// From the cut until the holder's last report.
    held_for: Duration,
    /// From the cut until the waiter acquired it.
    waited: Duration,
    well: (u32, u32),
}

pub(crate) fn nobody_holds_beside_another(ensemble: &Ensemble, victim: Victim) -> Outcome {
    block_on(async {
        let partitions = times("ZOOLET_ENSEMBLE_PARTITIONS", DEFAULT_PARTITIONS)?;
        let mut by_way: BTreeMap<String, Worst> = BTreeMap::new();
        let (mut done, mut tries) = (0, 0);
        while done < partitions {
            tries += 1;
            let path = format!("/partition-{victim:?}-{tries}");
            let Some(seen) = partition(ensemble, victim, &path).await? else {
                assert!(tries < done + VOID_MAX, "sessions expire before anything is cut");
                continue;
            };
            done += 1;
            for (method, timeout, cut_at, seen) in seen {
                by_way.entry(method.to_string()).or_default().add(cut_at, seen);
                by_way.entry(format!("timeout {timeout:?}")).or_default().add(cut_at, seen);
            }
        }
        println!("{partitions} times a {victim:?} was cut off; the worst of each:");
        println!(
            "{:18} {:>7} {:>7} {:>10} {:>9} {:>9} {:>9} {:>9}",
            "", "held", "overlap", "together", "margin", "held for", "next at", "well"
        );
        for (what, worst) in &by_way {
            println!("{what:18} {worst}");
        }
        let overlaps = by_way.values().map(|worst| worst.overlaps).max().unwrap_or(0);
        if overlaps > 0 { Err(Failed::from("two held one thing")) } else { Ok(()) }
    })
}

/// Cuts a member off once, and returns the observations of each lane. Returns nothing if a session
/// expired before the cut, as on a machine that is too busy to ping.
async fn partition(
    ensemble: &Ensemble,
    victim: Victim,
    path: &str,
) -> Result<Option<Vec<(HoldMethod, Duration, Instant, Seen)>>, Failed> {
    let roles = Roles::of(ensemble).await?;
    let member = match victim {
        Victim::Follower => roles.a_follower(),
        Victim::Leader | Victim::SeveredLeader => roles.leader,
    };
    let (lanes, clients) = lanes(ensemble, member, path).await?;
    let mut seen = vec![Seen::default(); lanes.len()];
    let cut_from = now() + UNDISTURBED + UNDISTURBED_MORE.mul_f64(fastrand::f64());
    while now() < cut_from {
        for (lane, seen) in lanes.iter().zip(&mut seen) {
            seen.well = (seen.well.0 + u32::from((lane.first)()), seen.well.1 + 1);
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    if !do_all_hold(&lanes).await? {
        println!("a session ended before anything was cut");
        drop(lanes);
        close(clients).await;
        return Ok(None);
    }
    let cut_at = now();
    let cut = Cut(ensemble.network());
    match victim {
        Victim::Follower | Victim::Leader => cut.0.cut_off(member),
        Victim::SeveredLeader => cut.0.sever(member),
    }
    let watched = tokio::time::timeout(PATIENCE, watch(&lanes, &mut seen)).await;
    drop(cut);
    watched.map_err(|_| format!("nobody got what was waited for in {PATIENCE:?}: {seen:?}"))?;
    let mut all = Vec::new();
    for (lane, mut seen) in lanes.into_iter().zip(seen) {
        soon("the next one", lane.task).await???;
        seen.met = lane.met.load(Ordering::SeqCst);
        all.push((lane.method, lane.timeout, cut_at, seen));
    }
    close(clients).await;
    Ok(Some(all))
}

/// Waits until the holders report that they hold everything. Returns false if a session has
/// expired.
async fn do_all_hold(lanes: &[Lane]) -> Result<bool, Failed> {
    let is_over = || lanes.iter().any(|lane| lane.holder.session_id() != lane.session);
    let do_hold = async || Ok(is_over() || lanes.iter().all(|lane| (lane.first)()));
    until("all hold", do_hold).await?;
    let is_handed_over = lanes.iter().any(|lane| lane.task.is_finished());
    match is_over() {
        false if is_handed_over => Err("a waiter did not wait".into()),
        is_over => Ok(!is_over),
    }
}

/// A member is cut off until this is dropped.
struct Cut<'a>(&'a QuorumNetwork);

impl Drop for Cut<'_> {
    fn drop(&mut self) {
        self.0.heal();
    }
}

/// The clients of the victim, which hold, and the clients of the other members, which wait.
async fn lanes(
    ensemble: &Ensemble,
    victim: usize,
    path: &str,
) -> Result<(Vec<Lane>, Vec<Client>), Failed> {
    let addresses = ensemble.addresses();
    let others = (0..MEMBERS).filter(|member| *member != victim);
    let others: Vec<_> = others.map(|member| addresses[member].to_string()).collect();
    let (mut lanes, mut clients) = (Vec::new(), Vec::new());
    for timeout in SESSION_TIMEOUTS {
        let holder = connect(addresses[victim], timeout).await?;
        assert_eq!(holder.session_timeout(), timeout, "the server granted another timeout");
        let waiter = Client::builder().session_timeout(LONG).connect(&*others.join(",")).await?;
        for (number, method) in HoldMethod::ALL.into_iter().enumerate() {
            let path = format!("{path}/{}/{number}", timeout.as_millis());
            let first = Arc::new(method.hold(&holder, &path).await?);
            lanes.push(Lane::wait(method, timeout, (holder.clone(), first), &waiter, path));
        }
        // Each waiter has set its watches.
        let wait = async || Ok(waiter.watcher_count() >= HoldMethod::ALL.len());
        until("all wait", wait).await?;
        clients.extend([holder, waiter]);
    }
    Ok((lanes, clients))
}

impl Lane {
    fn wait(
        method: HoldMethod,
        timeout: Duration,
        (holder, first): (Client, Arc<Holding>),
        waiter: &Client,
        path: String,
    ) -> Self {
        let (next, met): (Arc<OnceLock<_>>, Arc<AtomicBool>) = Default::default();
        let task = {
            let (first, next, met) = (Arc::clone(&first), Arc::clone(&next), Arc::clone(&met));
            let waiter = waiter.clone();
            tokio::spawn(async move {
                let holding = method.hold(&waiter, &path).await?;
                met.store(first(), Ordering::SeqCst);
                let _ = next.set(holding);
                Ok(())
            })
        };
        Self { method, timeout, session: holder.session_id(), holder, first, next, met, task }
    }
}

/// Observes all lanes until the waiters have held everything for some time, and the holders report
/// that they hold nothing.
async fn watch(lanes: &[Lane], seen: &mut [Seen]) {
    let mut last = now();
    let mut over_at: Option<Instant> = None;
    while over_at.is_none_or(|over_at| last < over_at) {
        tokio::time::sleep(LOOK_INTERVAL).await;
        let at = now();
        for (lane, seen) in lanes.iter().zip(&mut *seen) {
            let is_held = (lane.first)();
            let next = lane.next.get();
            if is_held {
                seen.held_until = Some(at);
            }
            if next.is_some() {
                seen.next_at = seen.next_at.or(Some(at));
            }
            if is_held && next.is_some_and(|next| next()) {
                seen.together += at - last;
            }
        }
        last = at;
        let is_over = seen
            .iter()
            .all(|seen| seen.next_at.is_some() && seen.held_until.is_none_or(|until| until < last));
        if is_over {
            over_at = over_at.or(Some(last + AFTERWARDS));
        }
    }
}

impl Worst {
    fn add(&mut self, cut_at: Instant, seen: Seen) {
        let held_until = seen.held_until.unwrap_or(cut_at);
        let next_at = seen.next_at.unwrap_or(cut_at);
        let margin = next_at.saturating_duration_since(held_until);
        self.lanes += 1;
        self.overlaps += usize::from(seen.met || !seen.together.is_zero());
        self.together = self.together.max(seen.together);
        self.margin = Some(self.margin.map_or(margin, |least| least.min(margin)));
        self.held_for = self.held_for.max(held_until - cut_at);
        self.waited = self.waited.max(next_at - cut_at);
        self.well = (self.well.0 + seen.well.0, self.well.1 + seen.well.1);
    }
}

impl std::fmt::Display for Worst {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { lanes, overlaps, together, margin, held_for, waited, well } = self;
        let seconds = |time: &Duration| format!("{:.2} s", time.as_secs_f64());
        let well = format!("{:.1} %", 100.0 * f64::from(well.0) / f64::from(well.1.max(1)));
        let margin = margin.as_ref().map_or_else(String::new, seconds);
        let (together, held_for, waited) = (seconds(together), seconds(held_for), seconds(waited));
        write!(
            f,
            "{lanes:7} {overlaps:7} {together:>10} {margin:>9} {held_for:>9} {waited:>9} {well:>9}"
        )
    }
}
