//! One run on an ensemble: members that lag and are cut off, a network that fails and clients that
//! work; then no faults, until all clients have finished.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use zoolet_testkit::ensemble::{CutOff, Ensemble, EnsembleSettings, MEMBERS, Notice};
use zoolet_testkit::sim::parts::{Link, Network, Tap};

use super::clients::{self, Clients};
use super::counter;
use super::ensemble_judge::Judge;
use super::options::{Options, Part};
use super::oracle::Oracle;
use super::worker::{Common, Worker};

/// The interval of the checks that each lock has one holder.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) struct EnsembleWorld {
    seed: u64,
    rng: Rng,
    settings: EnsembleSettings,
    common: Arc<Common>,
    ensemble: Ensemble,
    network: Network,
    /// The link of the client that prepares the run.
    link: Link,
}

/// Which members send the zxid with an event: all, as since ZooKeeper 3.9, or none, or some, as
/// during a rolling upgrade.
fn tell_zxids(rng: &mut Rng) -> [bool; MEMBERS] {
    match rng.u8(..5) {
        0 | 1 => [true; MEMBERS],
        2 | 3 => [false; MEMBERS],
        _ => std::array::from_fn(|_| rng.bool()),
    }
}

impl EnsembleWorld {
    pub(crate) fn new(seed: u64, options: &Options) -> Self {
        let mut rng = Rng::with_seed(seed);
        let oracle = Arc::new(Oracle::without_model(options.keeps_trace));
        let settings = EnsembleSettings {
            tick: Duration::from_millis(rng.choice([250, 500, 1_000]).expect("there are three")),
            sync_limit: rng.u32(2..=10),
            tell_zxids: tell_zxids(&mut rng),
        };
        oracle.remark(|| format!("{settings:?}"));
        let ensemble =
            Ensemble::new(rng.fork(), settings.clone(), Arc::new(Judge(Arc::clone(&oracle))));
        let network = Network::new(Arc::clone(&oracle) as Arc<dyn Tap>);
        network.serve(Some(Arc::new(ensemble.clone())));
        let kinds = [Part::Mutexes, Part::ReadWriteLocks, Part::Semaphores, Part::Latches];
        let focus = rng.choice(kinds);
        let common = Arc::new(Common::new(oracle, focus, options, Some(ensemble.clone())));
        let link = network.link(0, 0, 0);
        Self { seed, rng, settings, common, ensemble, network, link }
    }

    pub(crate) fn common(&self) -> Arc<Common> {
        Arc::clone(&self.common)
    }

    fn violation(&self, violation: impl Into<String>) {
        self.common.oracle.violation(violation);
    }

    pub(crate) async fn play(mut self) {
        let life = tokio::spawn(self.ensemble.clone().live());
        let checks = tokio::spawn(check_regularly(Arc::clone(&self.common)));
        clients::prepare(&self.common, &self.link).await;
        let clients = Clients::begin(&self.common, &self.network, self.seed, &mut self.rng);
        self.disturb_members().await;
        clients.end_faults();
        self.ensemble.change_faults(|state| state.end_faults());
        self.recover().await;
        self.end(clients).await;
        checks.abort();
        life.abort();
    }

    async fn disturb_members(&mut self) {
        let oracle = Arc::clone(&self.common.oracle);
        let end_ms = oracle.now_ms() + 1_000 * self.common.options.seconds;
        while oracle.now_ms() < end_ms {
            let mut rng = self.rng.fork();
            tokio::time::sleep(Duration::from_millis(rng.u64(50..1_000))).await;
            let patience = self.settings.tick * self.settings.sync_limit;
            let most_ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
            let member = rng.usize(..MEMBERS);
            let time = Duration::from_millis(rng.u64(..most_ms));
            let delay_ms = rng.choice([0, 20, 200, 1_000]).unwrap_or(0);
            let notice = Notice::drawn(&mut rng);
            let (kind, has) = (rng.u8(..8), |part| self.common.options.has(part));
            oracle.remark(|| format!("fault {kind} of member {member}"));
            self.ensemble.change_faults(|state| match kind {
                0 | 1 if has(Part::Lags) => state.delay(member, Duration::from_millis(delay_ms)),
                2 if has(Part::Lags) => state.hold_applying(member, time),
                3 | 4 if has(Part::Lags) => state.hold_link(member, time),
                5 | 6 if has(Part::FollowersCut) => {
                    state.cut_off(CutOff::Follower(member), notice, 2 * time);
                }
                7 if has(Part::LeadersCut) => state.cut_off(CutOff::Leader, notice, 2 * time),
                _ => {}
            });
        }
    }

    /// Waits until all members follow one leader.
    async fn recover(&self) {
        // The member that was cut off has to notice before the others can elect a leader.
        for _ in 0..2 * self.settings.sync_limit + 4 {
            tokio::time::sleep(self.settings.tick).await;
            if self.ensemble.inspect(|state| state.is_well()) {
                return;
            }
        }
        self.violation("the ensemble does not recover");
    }

    /// Waits until all clients have finished, and checks that nothing is left.
    async fn end(&self, clients: Clients) {
        let Some(mut clients) = clients.join().await else { return };
        let number = self.ensemble.inspect(|state| state.committed(counter::PATH));
        let number = number.and_then(|(data, _)| data);
        self.common.check(self.common.counter.check(number));
        clients::fire_all_watches(&self.common, &self.link, &mut clients).await;
        tokio::time::sleep(clients::BACKGROUND_LIMIT).await;
        self.look_for_remains(&clients);
        for worker in clients {
            if let Err(error) = worker.client.close().await {
                self.violation(format!("a client cannot be closed: {error}"));
            }
        }
        // The longest session timeout has passed by then.
        tokio::time::sleep(21 * self.settings.tick).await;
        let totals: Vec<_> =
            self.ensemble.inspect(|state| state.cores().map(|core| core.totals()).collect());
        let is_left =
            |core: &zoolet_core::Totals| core.sessions + core.ephemerals + core.watches > 0;
        if totals.iter().any(is_left) || totals.windows(2).any(|pair| pair[0] != pair[1]) {
            self.violation(format!("left at the end: {totals:?}"));
        }
        self.check_cores();
    }

    /// Checks that the indexes and totals of each member agree with its znodes and watches.
    fn check_cores(&self) {
        let found: Vec<_> = self
            .ensemble
            .inspect(|state| state.cores().filter_map(|core| core.check().err()).collect());
        for disagreements in found {
            self.violation(disagreements.to_string());
        }
    }

    /// Checks that no ephemeral znode and no watch is left.
    fn look_for_remains(&self, clients: &[Worker]) {
        self.check_cores();
        let watchers: usize = clients.iter().map(|worker| worker.client.watcher_count()).sum();
        let (owners, watches) = self.ensemble.inspect(|state| {
            let owners = state.cores().flat_map(|core| core.ephemeral_owners());
            let paths = owners.flat_map(|(_, paths)| paths).map(|path| path.to_string());
            let orphans: Vec<_> = paths.filter(|path| path.starts_with("/locks/")).collect();
            (orphans, state.cores().map(|core| core.totals().watches).sum::<usize>())
        });
        if !owners.is_empty() {
            self.violation(format!("left behind by the locks: {owners:?}"));
        }
        if watchers + watches > 0 {
            self.violation(format!("{watchers} watchers and {watches} watches are left"));
        }
    }
}

/// Checks again and again that no lock has more holders than it admits.
async fn check_regularly(common: Arc<Common>) {
    while !common.are_faults_over() {
        tokio::time::sleep(CHECK_INTERVAL).await;
        common.check(common.exclusion.check());
    }
}
