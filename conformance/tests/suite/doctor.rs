//! `zoolet doctor` on our server and on Apache ZooKeeper: locks of our recipes, of Curator and of kazoo that
//! wait for each other in a cycle, and a directory with stock locks of both. And an ensemble of which not
//! all servers are named.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use libtest_mimic::Failed;
use serde_json::Value;
use tokio::runtime::Builder;
use zoolet_client::Client;
use zoolet_conformance::apache::Apache;
use zoolet_conformance::ensemble::Ensemble;
use zoolet_conformance::fleet::{Fleet, FleetRecipe, Library};
use zoolet_conformance::harness::Section;
use zoolet_conformance::peers::{Peer, apache39_jars, kazoo_python};
use zoolet_conformance::process::zoolet_binary;
use zoolet_conformance::script::Setting;
use zoolet_conformance::servers;
use zoolet_conformance::wire::Wire;
use zoolet_recipes::{InterProcessMutex, InterProcessReadWriteLock, KazooLine};
use zoolet_server::{Config, FourLetterWhitelist};

/// Longer than any test takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// Our member of fleets.
const OURS: &str = env!("CARGO_BIN_EXE_zoolet-conformance");

/// The pause between two questions whether something is so.
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) fn tests() -> Section {
    let mut section = Section::new("doctor", 1);
    on_all(&mut section, "deadlock", |address| run(deadlock(address)));
    on_all(&mut section, "mixed-libraries", |address| run(mixed_libraries(address)));
    section.test(&[Peer::Apache], "apache::ensemble", || {
        let servers = Ensemble::start()?;
        run(ensemble(&servers))
    });
    section
}

type Test = fn(SocketAddr) -> Result<(), Failed>;

/// One test on our server, one on Debian's Apache ZooKeeper, and one on 3.9.5.
fn on_all(section: &mut Section, name: &str, test: Test) {
    section.test(&[Peer::Kazoo, Peer::Curator], &format!("zoolet::{name}"), move || {
        let words = FourLetterWhitelist::all();
        let config = Config { four_letter_words: words, ..servers::config(Setting::Steady) };
        let server = Wire::start(config)?;
        test(server.address())
    });
    let peers = &[Peer::Kazoo, Peer::Curator, Peer::Apache];
    section.test(peers, &format!("apache::{name}"), move || {
        let server = Apache::start(&servers::properties(Setting::Steady))?;
        test(server.address())
    });
    let peers = &[Peer::Kazoo, Peer::Curator, Peer::Apache39];
    section.test(peers, &format!("apache-3.9::{name}"), move || {
        let mut arguments = vec!["--jars".to_owned(), apache39_jars().display().to_string()];
        arguments.extend(servers::properties(Setting::Steady));
        let server = Apache::start(&arguments)?;
        test(server.address())
    });
}

fn run(test: impl Future<Output = Result<(), Failed>>) -> Result<(), Failed> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        tokio::time::timeout(PATIENCE, test).await.map_err(|_| "it takes too long")?
    })
}

/// A process of kazoo that holds one lock and waits for another. Dropping it ends the process.
struct Kazoo(Child);

impl Kazoo {
    /// `wanted` may be empty. Its lock there has names that Curator's wait for.
    fn start(address: SocketAddr, held: &str, wanted: &str) -> Result<Self, Failed> {
        const PROGRAM: &str = "\
import sys
import time
from kazoo.client import KazooClient

address, held, wanted = sys.argv[1:4]
client = KazooClient(hosts=address)
client.start()
client.Lock(held, 'kazoo').acquire()
if wanted:
    client.Lock(wanted, 'kazoo', extra_lock_patterns=['-lock-']).acquire()
time.sleep(3600)
";
        let mut command = Command::new(kazoo_python());
        command.args(["-c", PROGRAM, &address.to_string(), held, wanted]);
        Ok(Self(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?))
    }
}

impl Drop for Kazoo {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process of Curator that holds the mutex `PATH/mutex` and waits for the write lock `PATH/read-write`.
fn curator(address: &str, path: &str) -> Result<Fleet, Failed> {
    let recipe = FleetRecipe { name: "shell", address, path, capacity: 1 };
    let mut member = Fleet::start(recipe, Path::new(OURS), &[Library::Curator])?;
    member.tell(0, "mutex")?;
    member.hear()?;
    member.tell(0, "write")?;
    Ok(member)
}

/// Four sessions over four paths: two of our recipes, one of kazoo and one of Curator, each a process or a
/// client of its own.
async fn deadlock(address: SocketAddr) -> Result<(), Failed> {
    let server = address.to_string();
    let (one, two) =
        (Client::connect(server.as_str()).await?, Client::connect(server.as_str()).await?);
    let lock = InterProcessReadWriteLock::new(&one, "/java/read-write")?;
    let _first = lock.write_lock().acquire().await?;
    let _second = InterProcessMutex::new(&two, "/second")?.acquire().await?;
    // It prints what it does, so it is started where waiting for that holds up nobody.
    let _curator =
        tokio::task::spawn_blocking(move || curator(&server, "/java").map_err(text)).await??;
    let _kazoo = Kazoo::start(address, "/third", "/java/mutex")?;
    children(&one, "/third", 1).await;
    let second = InterProcessMutex::new(&one, "/second")?;
    let third = InterProcessMutex::new(&two, "/third")?.beside_kazoo(KazooLine::Stock);
    let waits = async { tokio::join!(second.acquire(), third.acquire()) };
    let looks = async {
        for path in PATHS {
            children(&one, path, 2).await;
        }
        doctor(address).await
    };
    let report = tokio::select! {
        _ = waits => return Err("none of them acquires its lock".into()),
        report = looks => report?,
    };
    let deadlock = finding(&report, "deadlock")?;
    let mut paths: Vec<_> =
        deadlock["paths"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    paths.sort_unstable();
    assert_eq!(paths, PATHS, "{report:#}");
    let details = deadlock["details"].to_string();
    for session in [one.session_id(), two.session_id()] {
        assert!(details.contains(&session.to_string()), "{details}");
    }
    assert!(details.contains("127.0.0.1:"), "the clients have addresses: {details}");
    Ok(())
}

/// The directories of the deadlock, in their order.
const PATHS: [&str; 4] = ["/java/mutex", "/java/read-write", "/second", "/third"];

fn text(failed: Failed) -> String {
    failed.message().unwrap_or_default().to_owned()
}

/// A stock lock of kazoo where one with Curator's names is held: both hold.
async fn mixed_libraries(address: SocketAddr) -> Result<(), Failed> {
    let client = Client::connect(address.to_string().as_str()).await?;
    let _held = InterProcessMutex::new(&client, "/mixed")?.acquire().await?;
    let _kazoo = Kazoo::start(address, "/mixed", "")?;
    children(&client, "/mixed", 2).await;
    let report = doctor(address).await?;
    let mixed = finding(&report, "mixed-libraries")?;
    assert_eq!(mixed["severity"], "critical", "{report:#}");
    assert_eq!(mixed["paths"], serde_json::json!(["/mixed"]));
    Ok(())
}

/// Three servers: each knows the clients that are connected to it, and the report says which servers were
/// not named.
async fn ensemble(servers: &Ensemble) -> Result<(), Failed> {
    let addresses = servers.addresses();
    let holder = Client::connect(addresses[1].to_string().as_str()).await?;
    let waiter = Client::connect(addresses[2].to_string().as_str()).await?;
    let _held = InterProcessMutex::new(&holder, "/lock")?.acquire().await?;
    let mutex = InterProcessMutex::new(&waiter, "/lock")?;
    let looks = async {
        children(&waiter, "/lock", 2).await;
        let first = doctor(addresses[0]).await?;
        Ok::<_, Failed>((first, doctor(servers.connect_string()).await?))
    };
    let (first, all) = tokio::select! {
        _ = mutex.acquire() => return Err("the other one holds the lock".into()),
        reports = looks => reports?,
    };
    let names = |report: &Value| report["not_seen"].to_string().contains("it has 3 servers");
    let client = |report: &Value| report["locks"][0]["contenders"][0]["client"].is_string();
    assert!(names(&first) && !client(&first), "{first:#}");
    assert!(!names(&all) && client(&all), "{all:#}");
    for report in [&first, &all] {
        assert!(finding(report, "silent-holder").is_err(), "{report:#}");
    }
    Ok(())
}

/// Waits until a directory has so many children.
async fn children(client: &Client, path: &str, count: usize) {
    while client.children(path).await.map_or(0, |names| names.len()) < count {
        tokio::time::sleep(PAUSE).await;
    }
}

/// The report on a server, or on several.
async fn doctor(servers: impl ToString) -> Result<Value, Failed> {
    let (binary, servers) = (zoolet_binary()?, servers.to_string());
    let run = move || Command::new(binary).args(["doctor", &servers, "--json"]).output();
    let output = tokio::task::spawn_blocking(run).await??;
    let code = output.status.code();
    if !matches!(code, Some(0 | 1 | 3)) {
        return Err(format!("{code:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn finding<'a>(report: &'a Value, kind: &str) -> Result<&'a Value, Failed> {
    let findings = report["findings"].as_array().ok_or("there are findings")?;
    let found = findings.iter().find(|finding| finding["kind"] == kind);
    found.ok_or_else(|| format!("no {kind} in {report:#}").into())
}
