//! What locks and queues cost on the wire with Curator 5.4 and with our recipes: the same steps,
//! counted by the same proxy, on our server and on Apache ZooKeeper.

use std::path::Path;
use std::time::Duration;

use libtest_mimic::Failed;
use tokio::runtime::Runtime;
use zoolet_client::Client;
use zoolet_conformance::apache::Apache;
use zoolet_conformance::fleet::{Fleet, FleetRecipe, Library};
use zoolet_conformance::four_letter;
use zoolet_conformance::harness::Section;
use zoolet_conformance::peers::Peer;
use zoolet_conformance::proxy::{Counts, Proxy};
use zoolet_conformance::script::Setting;
use zoolet_conformance::servers;
use zoolet_conformance::wire::Wire;
use zoolet_protocol::ErrorCode;
use zoolet_server::Config;

const OURS: &str = env!("CARGO_BIN_EXE_zoolet-conformance");

/// The processes that contend for a lock: one holds it and the others wait.
const CONTENDERS: usize = 3;
const CONTENDED_ROUNDS: usize = 9;

/// How many times a step is measured. The best counts, because the proxy sees one flight as two
/// when the client is not scheduled between its requests.
const ROUNDS: usize = 5;

const CONTENDED: &str = "mutex: contended acquisition and release";

/// Create, list, watches and deletion; and where events have no zxid, a read or another list.
/// Sometimes a client is not scheduled in time and lists once more.
const CONTENDED_REQUESTS_MAX: f64 = 4.3;
const CONTENDED_REQUESTS_MAX_BEFORE_3_9: f64 = 5.3;

/// How many items a step puts or takes.
const ITEMS: usize = 100;

const WAITERS: usize = 20;
const WRITERS: usize = 5;
const READERS: usize = 20;

/// Everything has arrived when nothing arrived for this long. Curator sends some requests in the
/// background.
const QUIET: Duration = Duration::from_millis(40);
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
const LOOKS_MAX: usize = 4_000;

pub(crate) fn tests() -> Section {
    let mut section = Section::new("request_counts", 1);
    section.test(&[Peer::Curator], "zoolet", || {
        let four_letter_words = "*".parse()?;
        let config = Config { four_letter_words, ..servers::config(Setting::Steady) };
        let server = Wire::start(config)?;
        compare("zoolet", server.address(), CONTENDED_REQUESTS_MAX)
    });
    section.test(&[Peer::Apache, Peer::Curator], "apache", || {
        let server = Apache::start(&servers::properties(Setting::Steady))?;
        compare("Apache ZooKeeper 3.8", server.address(), CONTENDED_REQUESTS_MAX_BEFORE_3_9)
    });
    section
}

/// The cost of a step.
#[derive(Debug, Clone, PartialEq)]
struct Cost {
    what: &'static str,
    requests: f64,
    flights: f64,
    events: f64,
    /// The number of watches that are left on the server.
    watches: usize,
}

fn compare(server: &str, address: std::net::SocketAddr, contended_max: f64) -> Result<(), Failed> {
    let theirs = Bench::new(address, Library::Curator)?.measure()?;
    let ours = Bench::new(address, Library::Zoolet)?.measure()?;
    println!("\nrequests / flights / events / watches left, on {server}");
    println!("{:42} {:>22} {:>22}", "", "Curator 5.4", "zoolet");
    for (theirs, ours) in theirs.iter().zip(&ours) {
        assert_eq!(theirs.what, ours.what);
        println!("{:42} {:>22} {:>22}", ours.what, theirs.to_string(), ours.to_string());
    }
    let contended = ours
        .iter()
        .find(|cost| cost.what == CONTENDED)
        .ok_or("the contended acquisition was not measured")?;
    assert!(contended.requests <= contended_max, "{CONTENDED}: more than {contended_max} requests");
    for (theirs, ours) in theirs.iter().zip(&ours) {
        assert!(ours.requests <= theirs.requests, "{} costs us more requests", ours.what);
        assert!(ours.flights <= theirs.flights, "{} costs us more flights", ours.what);
        assert_eq!(ours.watches, 0, "{} leaves watches", ours.what);
    }
    Ok(())
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { requests, flights, events, watches, .. } = self;
        write!(f, "{requests:.1} / {flights:.1} / {events:.1} / {watches}")
    }
}

/// Processes that use one library, each with its own proxy.
struct Bench {
    runtime: Runtime,
    address: std::net::SocketAddr,
    path: String,
    parties: Vec<(Fleet, Proxy)>,
    /// A client without a proxy.
    observer: Client,
}

impl Bench {
    fn new(address: std::net::SocketAddr, library: Library) -> Result<Self, Failed> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let path = format!("/{}", library.name());
        let mut parties = Vec::new();
        for _ in 0..CONTENDERS {
            let proxy = runtime.block_on(Proxy::start(address))?;
            let through = proxy.address().to_string();
            let recipe = FleetRecipe { name: "shell", address: &through, path: &path, capacity: 0 };
            parties.push((Fleet::start(recipe, Path::new(OURS), &[library])?, proxy));
        }
        let observer = runtime.block_on(Client::connect(address.to_string().as_str()))?;
        Ok(Self { runtime, address, path, parties, observer })
    }

    fn measure(mut self) -> Result<Vec<Cost>, Failed> {
        let mut costs = vec![self.once("acquire, three directories missing", &["fresh"])?];
        self.all(
            0,
            &[
                "unfresh", "mutex", "unmutex", "read", "unread", "permit", "unpermit", "all",
                "unall",
            ],
        )?;
        for (what, steps, after) in [
            ("mutex: acquire", &["mutex"][..], &["unmutex"][..]),
            ("mutex: acquire and release", &["mutex", "unmutex"], &[]),
            ("read: acquire and release", &["read", "unread"], &[]),
            ("write: acquire and release", &["write", "unwrite"], &[]),
            ("write, then keep it to read", &["write", "read", "unwrite"], &["unread"]),
            ("semaphore: one of three", &["permit"], &["unpermit"]),
            ("semaphore: one of three, and back", &["permit", "unpermit"], &[]),
            ("semaphore: three of three, and back", &["permits", "unpermits"], &[]),
            ("multi-lock of three: acquire", &["all"], &["unall"]),
            ("multi-lock of three: acquire and release", &["all", "unall"], &[]),
        ] {
            costs.push(self.best(what, steps, after)?);
        }
        costs.push(self.tried()?);
        costs.extend(self.queued()?);
        let (once, again) = (self.contended()?, self.contended()?);
        costs.push(if again.requests < once.requests { again } else { once });
        costs.push(self.drained(
            "20 waiters on one object, each",
            WAITERS,
            "mutex",
            &["wait"; WAITERS],
        )?);
        let queue = [vec!["wait-write"; WRITERS], vec!["wait-read"; READERS]].concat();
        costs.push(self.drained(
            "5 writers, then 20 readers, each",
            queue.len(),
            "write",
            &queue,
        )?);
        for (mut fleet, _) in self.parties {
            fleet.stop()?;
        }
        Ok(costs)
    }

    fn all(&mut self, party: usize, steps: &[&str]) -> Result<(), Failed> {
        steps.iter().try_for_each(|step| self.does(party, step))
    }

    fn does(&mut self, party: usize, step: &str) -> Result<(), Failed> {
        self.parties[party].0.tell(0, step)?;
        self.done(party, step)
    }

    fn done(&mut self, party: usize, step: &str) -> Result<(), Failed> {
        let (_, said) = self.parties[party].0.hear()?;
        assert_eq!(said, step);
        Ok(())
    }

    /// The cost of steps of one process.
    fn once(&mut self, what: &'static str, steps: &[&str]) -> Result<Cost, Failed> {
        self.forget();
        let before = self.watches()?;
        self.all(0, steps)?;
        let cost = self.cost(what, 1);
        self.with_watches(cost, before)
    }

    /// The least cost of steps.
    fn best(&mut self, what: &'static str, steps: &[&str], after: &[&str]) -> Result<Cost, Failed> {
        let mut best: Option<Cost> = None;
        for _ in 0..ROUNDS {
            let cost = self.once(what, steps)?;
            self.all(0, after)?;
            if best.as_ref().is_none_or(|best| cost.flights < best.flights) {
                best = Some(cost);
            }
        }
        Ok(best.expect("there were rounds"))
    }

    /// The cost of an attempt to acquire a lock that is held.
    fn tried(&mut self) -> Result<Cost, Failed> {
        self.does(1, "mutex")?;
        let cost = self.best("mutex: try, in vain", &["try"], &[])?;
        self.does(1, "unmutex")?;
        Ok(cost)
    }

    /// The costs of an item of a queue.
    fn queued(&mut self) -> Result<Vec<Cost>, Failed> {
        self.all(0, &["put", "take", "put", "take-leased"])?;
        let mut costs = Vec::new();
        for (what, step, before) in [
            ("queue: put", "put", None),
            ("queue: take, at most once", "take", None),
            ("queue: take, at least once", "take-leased", Some("put")),
        ] {
            self.all(0, before.as_slice())?;
            let cost = self.once(what, &[step])?;
            let each = |count: f64| count / ITEMS as f64;
            let (requests, flights) = (each(cost.requests), each(cost.flights));
            costs.push(Cost { requests, flights, events: each(cost.events), ..cost });
        }
        Ok(costs)
    }

    /// The cost of a contended acquisition: one process holds the lock and the others wait, in
    /// turn.
    fn contended(&mut self) -> Result<Cost, Failed> {
        let before = self.watches()?;
        self.does(0, "mutex")?;
        for waiter in 1..CONTENDERS {
            self.parties[waiter].0.tell(0, "mutex")?;
            self.await_line("mutex", waiter + 1)?;
        }
        self.forget();
        for round in 0..CONTENDED_ROUNDS {
            let holder = self.hand_over(round)?;
            self.parties[holder].0.tell(0, "mutex")?;
            self.await_line("mutex", CONTENDERS)?;
        }
        let cost = self.cost(CONTENDED, CONTENDED_ROUNDS);
        for round in CONTENDED_ROUNDS..CONTENDED_ROUNDS + CONTENDERS - 1 {
            self.hand_over(round)?;
        }
        self.does((CONTENDED_ROUNDS + CONTENDERS - 1) % CONTENDERS, "unmutex")?;
        self.with_watches(cost, before)
    }

    /// The holder of a round releases the lock to the next process. Returns the holder.
    fn hand_over(&mut self, round: usize) -> Result<usize, Failed> {
        let holder = round % CONTENDERS;
        self.does(holder, "unmutex")?;
        self.done((round + 1) % CONTENDERS, "mutex")?;
        Ok(holder)
    }

    /// The cost for many waiters in one process behind a holder of another process, until all have
    /// held the lock.
    fn drained(
        &mut self,
        what: &'static str,
        count: usize,
        lock: &'static str,
        queue: &[&str],
    ) -> Result<Cost, Failed> {
        let directory = if lock == "mutex" { "mutex" } else { "read-write" };
        let before = self.watches()?;
        self.does(1, lock)?;
        self.forget();
        for (index, waiter) in queue.iter().enumerate() {
            self.does(0, waiter)?;
            self.await_line(directory, index + 2)?;
        }
        self.settle();
        self.does(1, &format!("un{lock}"))?;
        self.does(0, "join")?;
        self.settle();
        self.parties[1].1.reset_counts();
        let cost = self.cost(what, count);
        self.with_watches(cost, before)
    }

    fn forget(&self) {
        self.settle();
        self.parties.iter().for_each(|(_, proxy)| proxy.reset_counts());
    }

    /// The cost of all processes since the last reset, divided by `count`.
    fn cost(&self, what: &'static str, count: usize) -> Cost {
        self.settle();
        let counts = self.counts();
        let each = |part: fn(&Counts) -> usize| {
            counts.iter().map(part).sum::<usize>() as f64 / count as f64
        };
        Cost {
            what,
            requests: each(Counts::requests),
            flights: each(|counts| counts.flights),
            events: each(|counts| counts.events),
            watches: 0,
        }
    }

    /// A cost with the watches that were added since `before`.
    fn with_watches(&self, cost: Cost, before: usize) -> Result<Cost, Failed> {
        self.settle();
        Ok(Cost { watches: self.watches()?.saturating_sub(before), ..cost })
    }

    fn counts(&self) -> Vec<Counts> {
        self.parties.iter().map(|(_, proxy)| proxy.counts()).collect()
    }

    /// Waits until nothing more arrives.
    fn settle(&self) {
        let mut before = None;
        while before.replace(self.counts()) != Some(self.counts()) {
            self.runtime.block_on(async { tokio::time::sleep(QUIET).await });
        }
    }

    fn watches(&self) -> Result<usize, Failed> {
        let said = four_letter::ask(self.address, "mntr")?;
        let line = said.lines().find_map(|line| line.strip_prefix("zk_watch_count"));
        Ok(line.ok_or("mntr has no zk_watch_count")?.trim().parse()?)
    }

    /// Waits until a line has this many places and their watches are set.
    fn await_line(&self, name: &str, count: usize) -> Result<(), Failed> {
        let directory = format!("{}/{name}", self.path);
        self.runtime.block_on(async {
            for _ in 0..LOOKS_MAX {
                match self.observer.children(&directory).await {
                    Ok(names) if names.len() == count => return Ok(()),
                    Err(error) if !error.is(ErrorCode::NO_NODE) => return Err(error.into()),
                    _ => tokio::time::sleep(LOOK_INTERVAL).await,
                }
            }
            Err(Failed::from(format!("{directory} does not get {count} children")))
        })?;
        self.settle();
        Ok(())
    }
}
