//! One run: a server that crashes, a network that fails and clients that work; then no faults,
//! until all clients have finished.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use zoolet_planted_bugs::{in_gap, plant};
use zoolet_server::storage::StorageConfig;
use zoolet_server::{Config, Server, WallTime};
use zoolet_testkit::sim::parts::{Link, Network, Tap, play};

use super::clients::{self, Clients};
use super::counter;
use super::ensemble_world::EnsembleWorld;
use super::log_tap::LogTap;
use super::observer::Observer;
use super::options::{Options, Part};
use super::oracle::{Oracle, Verdict};
use super::worker::{Common, Worker};

const TICK_MS: u32 = 500;
const WALL_START_MS: i64 = 1_700_000_000_000;

struct World {
    rng: Rng,
    common: Arc<Common>,
    network: Network,
    tap: LogTap,
    config: Config,
    server: Option<Server>,
    /// The link of the observer.
    link: Link,
    wall_start_ms: i64,
}

/// Runs a seed. The same seed and options give the same run, message by message.
#[must_use]
pub fn run(seed: u64, options: &Options) -> Verdict {
    plant(options.bug.map(|bug| bug.0));
    let played = play(seed, async || {
        if options.is_ensemble {
            let world = EnsembleWorld::new(seed, options);
            let common = world.common();
            return judge(&common.oracle, world.play()).await;
        }
        let mut world = World::new(seed, options);
        let network = world.network.clone();
        in_gap(Some(Rc::new(move || network.let_one_arrive())));
        let common = Arc::clone(&world.common);
        judge(&common.oracle, world.play(seed)).await
    });
    plant(None);
    in_gap(None);
    let mut verdict = played.result.unwrap_or_default();
    if let Some(panic) = played.panic {
        verdict.violation.get_or_insert(panic);
    }
    verdict
}

/// Runs until the end, or until the first violation.
async fn judge(oracle: &Oracle, run: impl Future<Output = ()>) -> Verdict {
    let ended = tokio::select! {
        biased;
        () = oracle.stop.notified() => true,
        () = tokio::time::sleep(Duration::from_secs(3_600)) => false,
        () = run => true,
    };
    if !ended {
        oracle.violation("the run does not end");
    }
    oracle.verdict()
}

impl World {
    fn new(seed: u64, options: &Options) -> Self {
        let mut rng = Rng::with_seed(seed);
        let tick = i32::try_from(TICK_MS).expect("it is small");
        let timeouts_ms = 2 * tick..=20 * tick;
        let oracle = Arc::new(Oracle::new(TICK_MS.into(), timeouts_ms, options.keeps_trace));
        let network = Network::new(Arc::clone(&oracle) as Arc<dyn Tap>);
        let tap = LogTap::new(&oracle);
        let storage = StorageConfig {
            disk: Arc::new(tap.clone()),
            allocate_bytes: rng.choice([0, 4_096]).expect("there are two"),
            snap_count: rng.u64(10..200),
            ..StorageConfig::at("/data")
        };
        let config = Config {
            tick_time_ms: TICK_MS,
            container_check_interval: Duration::from_millis(rng.u64(500..5_000)),
            storage: Some(storage),
            ..Config::default()
        };
        let kinds = [Part::Mutexes, Part::ReadWriteLocks, Part::Semaphores, Part::MultiLocks];
        let focus = rng.choice(kinds).filter(|_| rng.bool());
        let common = Common::new(oracle, focus, options, None);
        let link = network.link(0, 0, 0);
        let common = Arc::new(common);
        let wall_start_ms = WALL_START_MS;
        Self { rng, common, network, tap, config, server: None, link, wall_start_ms }
    }

    fn violation(&self, violation: impl Into<String>) {
        self.common.oracle.violation(violation);
    }

    async fn play(&mut self, seed: u64) {
        self.start().await;
        clients::prepare(&self.common, &self.link).await;
        let clients = Clients::begin(&self.common, &self.network, seed, &mut self.rng);
        self.disturb_server().await;
        clients.end_faults();
        self.end(clients).await;
    }

    /// Starts the server from the disk, and reads everything before any client does.
    async fn start(&mut self) {
        let oracle = &self.common.oracle;
        let start_ms = self.wall_start_ms + i64::try_from(oracle.now_ms()).unwrap_or(0);
        oracle.starts(start_ms);
        let config = Config { wall_time: WallTime::Virtual { start_ms }, ..self.config.clone() };
        let server = match Server::builder().config(config).start().await {
            Ok(server) => server,
            Err(error) => return self.violation(format!("the server does not start: {error}")),
        };
        self.network.serve(Some(Arc::new(server.dialer())));
        self.server = Some(server);
        self.check_server();
        if self.read_all().await.is_none() {
            self.violation("the server does not answer");
        }
    }

    async fn read_all(&self) -> Option<()> {
        let mut observer = Observer::connect(&self.link).await?;
        observer.read_all(&self.common.oracle).await?;
        observer.close().await
    }

    /// Checks that the indexes and totals of the server agree with its znodes and watches.
    fn check_server(&self) {
        if let Some(Err(disagreements)) = self.server.as_ref().map(Server::check) {
            self.violation(disagreements.to_string());
        }
    }

    /// Stops the server, with everything in flight.
    fn lose_server(&mut self) {
        self.check_server();
        self.common.oracle.crashed();
        self.network.lose_server();
        self.server = None;
    }

    /// Crashes and restarts the server until the time of the faults is over.
    async fn disturb_server(&mut self) {
        let end_ms = self.common.oracle.now_ms() + 1_000 * self.common.options.seconds;
        while self.common.oracle.now_ms() < end_ms {
            let mut rng = self.rng.fork();
            tokio::time::sleep(Duration::from_millis(rng.u64(500..8_000))).await;
            let part = [Part::Crashes, Part::TornWrites, Part::FailedSyncs][rng.usize(..3)];
            if !self.common.options.has(part) {
                continue;
            }
            self.common.oracle.remark(|| format!("fault: {part}"));
            let disk = self.tap.disk.clone();
            match part {
                Part::TornWrites => {
                    self.common.oracle.arm();
                    disk.lose_power_after(disk.steps() + rng.u64(..2_000));
                    self.wait_for_failure().await;
                    disk.lose_power_after(disk.steps());
                }
                Part::FailedSyncs => {
                    self.common.oracle.arm();
                    disk.fail_to_sync(true);
                    self.wait_for_failure().await;
                }
                _ => {}
            }
            let is_stopped = part == Part::Crashes && rng.u8(..3) == 0;
            if part == Part::Crashes && !is_stopped {
                disk.lose_power_after(disk.steps());
            }
            self.lose_server();
            disk.fail_to_sync(false);
            self.restart(&mut rng, is_stopped).await;
        }
    }

    async fn wait_for_failure(&self) {
        if let Some(server) = &self.server {
            let _ = tokio::time::timeout(Duration::from_secs(2), server.failure()).await;
        }
    }

    async fn restart(&mut self, rng: &mut Rng, is_stopped: bool) {
        let (down, survives) = (rng.u64(..3_000), rng.u64(..));
        let is_killed = is_stopped || rng.u8(..3) == 0;
        let jump_ms = rng.i64(-3_000..3_000);
        if self.common.options.has(Part::ClockJumps) {
            self.wall_start_ms += jump_ms;
        }
        tokio::time::sleep(Duration::from_millis(down)).await;
        let disk = self.tap.disk.clone();
        if is_killed {
            disk.kill_process();
        } else {
            disk.restore_power(survives);
        }
        let (fails_at_start, steps) = (rng.u8(..4) == 0, rng.u64(..200));
        if fails_at_start && self.common.options.has(Part::TornWrites) {
            // Before the server serves clients, and perhaps while it repairs the files.
            self.common.oracle.count("power losses at the start");
            disk.lose_power_after(disk.steps() + steps);
            let started = Server::builder().config(self.config.clone()).start().await;
            disk.lose_power_after(disk.steps());
            drop(started);
            disk.restore_power(survives ^ 1);
        }
        self.start().await;
    }

    /// Waits until all clients have finished, and checks that nothing is left.
    async fn end(&self, clients: Clients) {
        let Some(mut clients) = clients.join().await else { return };
        self.common.check(self.common.registers.check());
        let number = self.common.oracle.inspect(|model| model.tree.data(counter::PATH));
        self.common.check(self.common.counter.check(number));
        clients::fire_all_watches(&self.common, &self.link, &mut clients).await;
        self.look_for_remains(&clients).await;
        self.close(clients).await;
    }

    /// Checks that no ephemeral znode of a lock and no watch is left.
    async fn look_for_remains(&self, clients: &[Worker]) {
        tokio::time::sleep(clients::BACKGROUND_LIMIT).await;
        self.network.drain();
        let ephemerals = self.common.oracle.inspect(|model| model.tree.all_ephemerals());
        let orphans: Vec<_> =
            ephemerals.iter().filter(|path| path.starts_with("/locks/")).collect();
        if !orphans.is_empty() {
            self.violation(format!("left behind by the locks: {orphans:?}"));
        }
        let watchers: usize = clients.iter().map(|worker| worker.client.watcher_count()).sum();
        let watches = self.server.as_ref().map_or(0, |server| server.totals().watches);
        if watchers + watches > 0 {
            self.violation(format!("{watchers} watchers and {watches} watches are left"));
        }
    }

    /// Closes all clients and with them their sessions; sessions that were lost have expired by
    /// then.
    async fn close(&self, clients: Vec<Worker>) {
        for worker in clients {
            if let Err(error) = worker.client.close().await {
                self.violation(format!("a client cannot be closed: {error}"));
            }
        }
        tokio::time::sleep(Duration::from_secs(20)).await;
        if self.read_all().await.is_none() {
            self.violation("the server does not answer");
        }
        self.check_server();
        let Some(totals) = self.server.as_ref().map(Server::totals) else { return };
        let sessions = self.common.oracle.inspect(|model| model.session_count());
        if (totals.sessions, sessions, totals.ephemerals, totals.watches) != (0, 0, 0, 0) {
            self.violation(format!("left at the end: {totals:?}, {sessions} sessions"));
        }
    }
}
