//! Many clients acquire locks of all kinds at random while connections are cut, delayed and held
//! back, and members of an ensemble are killed, lag and are cut off. At no time may two clients
//! report one exclusive lock as held. A holder reads what the holder before it wrote. No client
//! waits forever, leaves a znode in a queue, or sends requests when it holds nothing and waits for
//! nothing.
//!
//! `ZOOLET_STORM_SECONDS` is how long each storm lasts.

mod judge;
mod lives;
mod weather;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use judge::Judge;
use libtest_mimic::{Arguments, Failed, Trial};
use lives::{Done, Life};
use tokio::time::Instant;
use zoolet_client::{Builder, Client, RetryPolicy};
use zoolet_conformance::apache::Timing;
use zoolet_conformance::ensemble::Ensemble;
use zoolet_conformance::harness;
use zoolet_conformance::peers::Peer;
use zoolet_conformance::proxy::Proxy;
use zoolet_conformance::script::Setting;
use zoolet_conformance::servers;
use zoolet_conformance::wire::Wire;

/// What came of a storm.
type Outcome = Result<(), Failed>;

const DEFAULT_SECONDS: u64 = 10;

const LIVES: usize = 9;
const BLOCKING_LIVES: usize = 3;

/// Longer than all need to come to an end, elections and expired sessions included.
const END: Duration = Duration::from_secs(200);

/// How long it is watched whether anybody goes on asking.
const QUIET: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // They share two cores.
    arguments.test_threads = Some(1);
    let short = Duration::from_secs(4);
    let trials = vec![
        Trial::test("zoolet", move || on_zoolet(short)),
        ensemble("ensemble", Timing::QUICK, short),
        ensemble("ensemble::with_the_usual_tick", Timing::USUAL, short),
        ensemble("ensemble::with_long_sessions", Timing::QUICK, Duration::from_secs(40)),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn ensemble(name: &str, timing: Timing, timeout: Duration) -> Trial {
    harness::needs(&[Peer::Apache], name, move || {
        let mut ensemble = Ensemble::start_at(timing)?;
        let servers = ensemble.addresses();
        block_on(async {
            let world = World::new()?;
            let contest = Contest::start(&world, &servers, timeout).await?;
            weather::over_ensemble(Arc::clone(&world), &mut ensemble).await?;
            contest.end(&world, &servers).await
        })
    })
}

fn on_zoolet(timeout: Duration) -> Outcome {
    let server = Wire::start(servers::config(Setting::Steady))?;
    let servers = [server.address()];
    block_on(async {
        let world = World::new()?;
        let contest = Contest::start(&world, &servers, timeout).await?;
        while !world.is_over() {
            world.rest(Duration::from_millis(100)).await;
        }
        contest.end(&world, &servers).await
    })
}

fn block_on(storm: impl Future<Output = Outcome>) -> Outcome {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(storm)
}

#[expect(clippy::disallowed_methods, reason = "the servers have clocks of their own")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// What all have in common.
pub(crate) struct World {
    pub(crate) judge: Arc<Judge>,
    until: Instant,
}

impl World {
    fn new() -> Result<Arc<Self>, Failed> {
        let seconds = match std::env::var("ZOOLET_STORM_SECONDS") {
            Ok(seconds) => seconds.parse()?,
            Err(_) => DEFAULT_SECONDS,
        };
        let until = now() + Duration::from_secs(seconds);
        Ok(Arc::new(Self { judge: Arc::default(), until }))
    }

    pub(crate) fn is_over(&self) -> bool {
        now() >= self.until
    }

    /// Waits for so long, or until it is over.
    pub(crate) async fn rest(&self, time: Duration) {
        tokio::time::sleep_until((now() + time).min(self.until)).await;
    }
}

fn builder(timeout: Duration) -> Builder {
    let retry = RetryPolicy::n_times(1_000, Duration::from_millis(20));
    Client::builder().session_timeout(timeout).retry_policy(retry)
}

/// Those who contend.
struct Contest {
    lives: Vec<tokio::task::JoinHandle<Outcome>>,
    blocking: Vec<thread::JoinHandle<Outcome>>,
    weather: Vec<tokio::task::JoinHandle<()>>,
    clients: Vec<Client>,
    proxies: Vec<Arc<Proxy>>,
    done: Arc<Done>,
    judging: (Arc<AtomicBool>, thread::JoinHandle<()>),
}

impl Contest {
    async fn start(
        world: &Arc<World>,
        servers: &[std::net::SocketAddr],
        timeout: Duration,
    ) -> Result<Self, Failed> {
        let done = Arc::new(Done::default());
        let is_judged = Arc::new(AtomicBool::new(false));
        let judging = world.judge.look_until(&is_judged);
        let mut contest = Self {
            lives: Vec::new(),
            blocking: Vec::new(),
            weather: Vec::new(),
            clients: Vec::new(),
            proxies: Vec::new(),
            done: Arc::clone(&done),
            judging: (is_judged, judging),
        };
        for number in 0..LIVES + BLOCKING_LIVES {
            let mut proxies = Vec::new();
            for &server in servers {
                proxies.push(Arc::new(Proxy::start(server).await?));
            }
            let hosts: Vec<_> = proxies.iter().map(|proxy| proxy.address().to_string()).collect();
            let hosts = hosts.join(",");
            contest.proxies.extend(proxies.clone());
            let (world, done) = (Arc::clone(world), Arc::clone(&done));
            if number < LIVES {
                let client = builder(timeout).connect(&*hosts).await?;
                if number == 0 {
                    lives::create_value(&client).await?;
                }
                contest.clients.push(client.clone());
                let name = format!("life {number}");
                let life = Life { name, world: Arc::clone(&world), client, done };
                contest.lives.push(tokio::spawn(life.live()));
            } else {
                let (name, world) = (format!("thread {number}"), Arc::clone(&world));
                let live =
                    move || lives::live_blocking(&name, &world, &done, builder(timeout), &hosts);
                contest.blocking.push(thread::spawn(live));
            }
            contest.weather.push(tokio::spawn(weather::over_proxies(world, proxies)));
        }
        Ok(contest)
    }

    /// Waits until all have come to an end, and judges.
    async fn end(self, world: &World, servers: &[std::net::SocketAddr]) -> Outcome {
        for weather in self.weather {
            weather.await?;
        }
        weather::clear(&self.proxies);
        let ending = async {
            for life in self.lives {
                life.await??;
            }
            for thread in self.blocking {
                let ended = tokio::task::spawn_blocking(move || thread.join()).await?;
                ended.map_err(|_panic| "a thread panicked")??;
            }
            Ok::<_, Failed>(())
        };
        tokio::time::timeout(END, ending).await.map_err(|_| "somebody waits for ever")??;
        // What is given up in the background is done by now.
        tokio::time::sleep(QUIET).await;
        self.proxies.iter().for_each(|proxy| proxy.reset_counts());
        tokio::time::sleep(QUIET).await;
        let asked: Vec<_> = self.proxies.iter().map(|proxy| proxy.counts().requests()).collect();
        let hosts: Vec<_> = servers.iter().map(ToString::to_string).collect();
        let client = builder(Duration::from_secs(10)).connect(&*hosts.join(",")).await?;
        lives::take_everything(&client).await?;
        for client in self.clients.into_iter().chain([client]) {
            let _ = client.close().await;
        }
        let (is_judged, judging) = self.judging;
        is_judged.store(true, Ordering::SeqCst);
        judging.join().map_err(|_panic| "the judge panicked")?;
        let (violations, looks) = world.judge.verdict();
        let [held, given_up, lost] = [&self.done.held, &self.done.given_up, &self.done.lost]
            .map(|count| count.load(Ordering::SeqCst));
        println!(
            "{held} times held, {given_up} times given up, {lost} of them lost; {looks} looks"
        );
        println!("requests when all was quiet: {asked:?}");
        if asked.iter().sum::<usize>() > 0 {
            return Err("somebody goes on asking when all is quiet".into());
        }
        if violations.is_empty() { Ok(()) } else { Err(violations.join("\n").into()) }
    }
}
