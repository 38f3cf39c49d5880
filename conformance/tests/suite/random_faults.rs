//! Many clients acquire locks of all kinds at random while connections are cut, delayed and silent,
//! and members of an ensemble are killed, lag and are cut off. No two clients may report one
//! exclusive lock as held at the same time. A holder reads what the holder before it wrote. No
//! client waits forever, leaves a znode in a line, or sends requests when it neither holds nor
//! waits for anything.
//!
//! `ZOOLET_RANDOM_FAULTS_SECONDS` is the duration of each run.

mod checker;
mod clients;
mod faults;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use checker::Checker;
use clients::{Contender, Tally};
use libtest_mimic::Failed;
use tokio::time::Instant;
use zoolet_client::{Builder, Client, RetryPolicy};
use zoolet_conformance::apache::Timing;
use zoolet_conformance::ensemble::Ensemble;
use zoolet_conformance::harness::Section;
use zoolet_conformance::peers::Peer;
use zoolet_conformance::proxy::Proxy;
use zoolet_conformance::script::Setting;
use zoolet_conformance::servers;
use zoolet_conformance::wire::Wire;
use zoolet_protocol::OpCode;

/// The result of a run.
type Outcome = Result<(), Failed>;

const DEFAULT_SECONDS: u64 = 10;

const CONTENDERS: usize = 9;
const THREADS: usize = 3;

/// Longer than all clients need to finish, including elections and expired sessions.
const END: Duration = Duration::from_secs(200);

/// How long the idle clients are observed.
const IDLE: Duration = Duration::from_secs(2);
/// How many requests to keep its session alive a client sends meanwhile: one in a third of four seconds.
const SYNCS_MAX: usize = 2;

pub(crate) fn tests() -> Section {
    let short = Duration::from_secs(4);
    let mut section = Section::new("random_faults", 1);
    section.test(&[], "zoolet", move || on_zoolet(short));
    on_ensemble(&mut section, "ensemble", Timing::QUICK, short);
    on_ensemble(&mut section, "ensemble::with_the_usual_tick", Timing::USUAL, short);
    let long = Duration::from_secs(40);
    on_ensemble(&mut section, "ensemble::with_long_sessions", Timing::QUICK, long);
    section
}

fn on_ensemble(section: &mut Section, name: &str, timing: Timing, timeout: Duration) {
    section.test(&[Peer::Apache], name, move || {
        let mut ensemble = Ensemble::start_at(timing)?;
        let servers = ensemble.addresses();
        block_on(async {
            let world = World::new()?;
            let contest = Contest::start(&world, &servers, timeout).await?;
            faults::disturb_members(Arc::clone(&world), &mut ensemble).await?;
            contest.end(&world, &servers).await
        })
    });
}

fn on_zoolet(timeout: Duration) -> Outcome {
    let server = Wire::start(servers::config(Setting::Steady))?;
    let servers = [server.address()];
    block_on(async {
        let world = World::new()?;
        let contest = Contest::start(&world, &servers, timeout).await?;
        while !world.is_over() {
            world.pause(Duration::from_millis(100)).await;
        }
        contest.end(&world, &servers).await
    })
}

fn block_on(run: impl Future<Output = Outcome>) -> Outcome {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(run)
}

#[expect(clippy::disallowed_methods, reason = "the servers have clocks of their own")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// What all clients of a run share.
pub(crate) struct World {
    pub(crate) checker: Arc<Checker>,
    until: Instant,
}

impl World {
    fn new() -> Result<Arc<Self>, Failed> {
        let seconds = match std::env::var("ZOOLET_RANDOM_FAULTS_SECONDS") {
            Ok(seconds) => seconds.parse()?,
            Err(_) => DEFAULT_SECONDS,
        };
        let until = now() + Duration::from_secs(seconds);
        Ok(Arc::new(Self { checker: Arc::default(), until }))
    }

    pub(crate) fn is_over(&self) -> bool {
        now() >= self.until
    }

    /// Waits for this long, or until the run is over.
    pub(crate) async fn pause(&self, time: Duration) {
        tokio::time::sleep_until((now() + time).min(self.until)).await;
    }
}

fn builder(timeout: Duration) -> Builder {
    let retry = RetryPolicy::n_times(1_000, Duration::from_millis(20));
    Client::builder().session_timeout(timeout).retry_policy(retry)
}

/// The clients of a run.
struct Contest {
    contenders: Vec<tokio::task::JoinHandle<Outcome>>,
    blocking: Vec<thread::JoinHandle<Outcome>>,
    faults: Vec<tokio::task::JoinHandle<()>>,
    clients: Vec<Client>,
    proxies: Vec<Arc<Proxy>>,
    tally: Arc<Tally>,
    checking: (Arc<AtomicBool>, thread::JoinHandle<()>),
}

impl Contest {
    async fn start(
        world: &Arc<World>,
        servers: &[std::net::SocketAddr],
        timeout: Duration,
    ) -> Result<Self, Failed> {
        let tally = Arc::new(Tally::default());
        let is_done = Arc::new(AtomicBool::new(false));
        let checking = world.checker.check_until(&is_done);
        let mut contest = Self {
            contenders: Vec::new(),
            blocking: Vec::new(),
            faults: Vec::new(),
            clients: Vec::new(),
            proxies: Vec::new(),
            tally: Arc::clone(&tally),
            checking: (is_done, checking),
        };
        for number in 0..CONTENDERS + THREADS {
            let mut proxies = Vec::new();
            for &server in servers {
                proxies.push(Arc::new(Proxy::start(server).await?));
            }
            let hosts: Vec<_> = proxies.iter().map(|proxy| proxy.address().to_string()).collect();
            let hosts = hosts.join(",");
            contest.proxies.extend(proxies.clone());
            let (world, tally) = (Arc::clone(world), Arc::clone(&tally));
            if number < CONTENDERS {
                let client = builder(timeout).connect(&*hosts).await?;
                if number == 0 {
                    clients::create_value(&client).await?;
                }
                contest.clients.push(client.clone());
                let name = format!("client {number}");
                let contender = Contender { name, world: Arc::clone(&world), client, tally };
                contest.contenders.push(tokio::spawn(contender.run()));
            } else {
                let (name, world) = (format!("thread {number}"), Arc::clone(&world));
                let live = move || {
                    clients::contend_on_thread(&name, &world, &tally, builder(timeout), &hosts)
                };
                contest.blocking.push(thread::spawn(live));
            }
            contest.faults.push(tokio::spawn(faults::disturb_connections(world, proxies)));
        }
        Ok(contest)
    }

    /// Waits until all clients have finished, and returns the violations.
    async fn end(self, world: &World, servers: &[std::net::SocketAddr]) -> Outcome {
        for faults in self.faults {
            faults.await?;
        }
        faults::clear(&self.proxies);
        let ending = async {
            for contender in self.contenders {
                contender.await??;
            }
            for thread in self.blocking {
                let ended = tokio::task::spawn_blocking(move || thread.join()).await?;
                ended.map_err(|_panic| "a thread panicked")??;
            }
            Ok::<_, Failed>(())
        };
        tokio::time::timeout(END, ending).await.map_err(|_| "a client waits for ever")??;
        // The clean-up in the background has finished by now.
        tokio::time::sleep(IDLE).await;
        self.proxies.iter().for_each(|proxy| proxy.reset_counts());
        tokio::time::sleep(IDLE).await;
        let requests: Vec<_> = self.proxies.iter().map(|proxy| proxy.counts().requests).collect();
        let hosts: Vec<_> = servers.iter().map(ToString::to_string).collect();
        let client = builder(Duration::from_secs(10)).connect(&*hosts.join(",")).await?;
        clients::acquire_everything(&client).await?;
        for client in self.clients.into_iter().chain([client]) {
            let _ = client.close().await;
        }
        let (is_done, checking) = self.checking;
        is_done.store(true, Ordering::SeqCst);
        checking.join().map_err(|_panic| "the checker panicked")?;
        let (violations, checks) = world.checker.verdict();
        let [held, abandoned, lost] = [&self.tally.held, &self.tally.abandoned, &self.tally.lost]
            .map(|count| count.load(Ordering::SeqCst));
        println!(
            "{held} holds, {abandoned} abandoned acquires, {lost} of them lost; {checks} checks"
        );
        println!("requests of idle clients: {requests:?}");
        let is_kept_alive =
            |(op, count): (&OpCode, &usize)| *op == OpCode::SYNC && *count <= SYNCS_MAX;
        if !requests.iter().flatten().all(is_kept_alive) {
            return Err("idle clients send more than a sync in place of each ping".into());
        }
        if violations.is_empty() { Ok(()) } else { Err(violations.join("\n").into()) }
    }
}
