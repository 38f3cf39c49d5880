//! What caches, queues and discovery cost with Curator 5.4 and with our recipes: the same work, by a
//! process of each, through the same proxy, on our server and on Apache ZooKeeper.
//!
//! `ZOOLET_COSTS_ZNODES`, `ZOOLET_COSTS_ITEMS` and `ZOOLET_COSTS_LOOKUPS` are how much work it is. Times
//! mean something in a release build, with enough memory for Java:
//!
//! ```text
//! ZOOLET_COSTS_ZNODES=100000 ZOOLET_JAVA_OPTIONS=-Xmx4g \
//!     cargo test --release -p zoolet-conformance --test suite costs:: -- --nocapture
//! ```

#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use tokio::runtime::Runtime;
use zoolet_client::{Client, CreateMode};
use zoolet_conformance::apache::Apache;
use zoolet_conformance::fleet::{Fleet, FleetRecipe, Library};
use zoolet_conformance::harness::{InTurn, Section};
use zoolet_conformance::peers::Peer;
use zoolet_conformance::proxy::{Counts, Proxy};
use zoolet_conformance::script::Setting;
use zoolet_conformance::servers;
use zoolet_conformance::wire::Wire;
use zoolet_protocol::MultiOp;

const OURS: &str = env!("CARGO_BIN_EXE_zoolet-conformance");
const TREE: &str = "/tree";

const DATA_BYTES: usize = 100;
const CHILDREN_OF_EACH: usize = 1_000;
const CREATES_AT_ONCE: usize = 500;
const INSTANCES: usize = 10;

const PUT: &str = "queue: put";

/// Each of the puts of our member that are under way at a time has a receipt, which is created with the
/// first of them.
const RECEIPTS_MAX: usize = 64;

/// What a member is told to do may take this long, also with a million znodes.
const PATIENCE: Duration = Duration::from_secs(900);

/// A resync is over when nothing was sent or answered for this long, and longer for each znode: Java
/// may collect garbage meanwhile.
const QUIET: Duration = Duration::from_millis(500);
const QUIET_FOR_EACH: Duration = Duration::from_micros(2);
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

pub(crate) fn tests() -> Section {
    let mut section = Section::new("costs", 1);
    // One after the other, so that their times mean something.
    let turn = InTurn::new(());
    section.test_in_turn(&turn, &[Peer::Curator], "zoolet", |()| {
        let server = Wire::start(servers::config(Setting::Steady))?;
        compare("zoolet", server.address())
    });
    section.test_in_turn(&turn, &[Peer::Apache, Peer::Curator], "apache", |()| {
        let server = Apache::start(&servers::properties(Setting::Steady))?;
        compare("Apache ZooKeeper 3.8", server.address())
    });
    section
}

/// How much work it is.
#[derive(Debug, Clone, Copy)]
struct Scale {
    znodes: usize,
    items: usize,
    lookups: usize,
}

impl Scale {
    fn from_environment() -> Result<Self, Failed> {
        let number = |name: &str, usual| match std::env::var(name) {
            Ok(text) => text.parse().map_err(|_| format!("{name}={text} is no number")),
            Err(_) => Ok(usual),
        };
        Ok(Self {
            znodes: number("ZOOLET_COSTS_ZNODES", 2_000)?,
            items: number("ZOOLET_COSTS_ITEMS", 200)?,
            lookups: number("ZOOLET_COSTS_LOOKUPS", 10_000)?,
        })
    }
}

/// The cost of something that was done a number of times.
#[derive(Debug, Clone)]
struct Cost {
    what: &'static str,
    times: usize,
    time: Duration,
    requests: usize,
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.time.as_secs_f64();
        let (rate, each) =
            (self.times as f64 / seconds, self.requests as f64 / self.times.max(1) as f64);
        write!(f, "{seconds:.3} s, {rate:.0} a second, {each:.3} requests each")
    }
}

/// What one library costs.
struct Costs {
    costs: Vec<Cost>,
    bytes_for_each_znode: u64,
}

fn compare(server: &str, address: SocketAddr) -> Result<(), Failed> {
    let scale = Scale::from_environment()?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let client = Client::connect(address.to_string()).await?;
        plant(&client, scale.znodes).await
    })?;
    let theirs = Bench::new(&runtime, address, Library::Curator, scale)?.measure()?;
    let ours = Bench::new(&runtime, address, Library::Zoolet, scale)?.measure()?;
    println!("\non {server}: {scale:?}");
    for (theirs, ours) in theirs.costs.iter().zip(&ours.costs) {
        println!("{}\n    Curator 5.4: {theirs}\n    zoolet:      {ours}", ours.what);
    }
    println!(
        "memory of a cached znode with {DATA_BYTES} bytes\n    Curator 5.4: {} bytes of live heap\n    \
         zoolet:      {} bytes resident",
        theirs.bytes_for_each_znode, ours.bytes_for_each_znode
    );
    for (theirs, ours) in theirs.costs.iter().zip(&ours.costs) {
        let receipts = if ours.what == PUT { RECEIPTS_MAX } else { 0 };
        let requests_max = theirs.requests + receipts;
        assert!(ours.requests <= requests_max, "{ours:?} is more than {requests_max} requests");
    }
    Ok(())
}

/// Creates the tree that is cached.
async fn plant(client: &Client, znodes: usize) -> Result<(), Failed> {
    client.create(TREE).await?;
    for parent in 0..znodes.div_ceil(CHILDREN_OF_EACH) {
        let parent_path = format!("{TREE}/{parent}");
        client.create(&parent_path).await?;
        let children = CHILDREN_OF_EACH.min(znodes - parent * CHILDREN_OF_EACH);
        let create = |child| {
            let path = format!("{parent_path}/{child}");
            MultiOp::create(path, vec![b'x'; DATA_BYTES], CreateMode::Persistent)
        };
        let ops: Vec<_> = (0..children).map(create).collect();
        for ops in ops.chunks(CREATES_AT_ONCE) {
            client.multi(ops.to_vec()).await?;
        }
    }
    Ok(())
}

/// A process that uses one library, behind a proxy.
struct Bench<'a> {
    runtime: &'a Runtime,
    fleet: Fleet,
    proxy: Proxy,
    library: Library,
    scale: Scale,
}

impl<'a> Bench<'a> {
    fn new(
        runtime: &'a Runtime,
        address: SocketAddr,
        library: Library,
        scale: Scale,
    ) -> Result<Self, Failed> {
        let proxy = runtime.block_on(Proxy::start(address))?;
        let through = proxy.address().to_string();
        let recipe = FleetRecipe { name: "costs", address: &through, path: "/", capacity: 0 };
        let fleet = Fleet::start(recipe, Path::new(OURS), &[library])?.with_patience(PATIENCE);
        Ok(Self { runtime, fleet, proxy, library, scale })
    }

    fn measure(mut self) -> Result<Costs, Failed> {
        let Scale { znodes, items, lookups } = self.scale;
        let queue = format!("/queue-of-{}", self.library.name());
        let services = format!("/services-of-{}", self.library.name());
        // What is done for the first time costs more: Java compiles it, and directories are missing.
        self.once("", &format!("put {queue} {INSTANCES}"), INSTANCES)?;
        self.once("", &format!("take {queue} {INSTANCES}"), INSTANCES)?;
        self.once("", &format!("put {queue} {INSTANCES}"), INSTANCES)?;
        self.once("", &format!("lease {queue} {INSTANCES}"), INSTANCES)?;
        let before = self.memory()?;
        let fill = self.once("cache: fill", &format!("cache {TREE}"), znodes)?;
        let bytes_for_each_znode = self.memory()?.saturating_sub(before) / znodes as u64;
        let mut costs = vec![fill, self.resync()?];
        let put = format!("put {queue} {items}");
        costs.push(self.once(PUT, &put, items)?);
        costs.push(self.once("queue: take", &format!("take {queue} {items}"), items)?);
        self.once("", &put, items)?;
        let lease = format!("lease {queue} {items}");
        costs.push(self.once("queue: take with a lease", &lease, items)?);
        self.once("", &format!("register {services} {INSTANCES}"), INSTANCES)?;
        let look = format!("look {services} {lookups}");
        self.once("", &look, lookups)?;
        costs.push(self.once("discovery: look up an instance", &look, lookups)?);
        self.fleet.stop()?;
        Ok(Costs { costs, bytes_for_each_znode })
    }

    /// What the process answers to a line.
    fn ask(&mut self, line: &str) -> Result<String, Failed> {
        Ok(self.fleet.ask(0, line)?)
    }

    fn memory(&mut self) -> Result<u64, Failed> {
        Ok(self.ask("memory /")?.parse()?)
    }

    /// The cost of one line.
    fn once(&mut self, what: &'static str, line: &str, times: usize) -> Result<Cost, Failed> {
        self.proxy.reset_counts();
        let start = Instant::now();
        self.ask(line)?;
        let time = start.elapsed();
        Ok(Cost { what, times, time, requests: self.proxy.counts().requests() })
    }

    /// The cost of a resync after a cut connection, with nothing changed, from the first request over
    /// the next connection to the last reply.
    fn resync(&self) -> Result<Cost, Failed> {
        let times = self.scale.znodes;
        let quiet = QUIET + QUIET_FOR_EACH * u32::try_from(times)?;
        self.proxy.cut();
        self.proxy.reset_counts();
        let (cut_at, mut before) = (Instant::now(), Counts::default());
        let (mut first, mut last) = (None, cut_at);
        while cut_at.elapsed() < PATIENCE {
            self.runtime.block_on(async { tokio::time::sleep(LOOK_INTERVAL).await });
            let counts = self.proxy.counts();
            if counts != before {
                last = Instant::now();
                first.get_or_insert(last);
                before = counts;
            } else if let Some(first) = first
                && last.elapsed() > quiet
                && before.replies >= before.requests()
            {
                let (time, requests) = (last - first, before.requests());
                let what = "cache: resync after a cut, nothing changed";
                return Ok(Cost { what, times, time, requests });
            }
        }
        Err("the resync does not end".into())
    }
}
