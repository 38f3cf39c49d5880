//! Fleets of processes with our recipes, Curator's and kazoo's on one path: exclusion is never
//! violated, tokens grow, and no member starves.
//!
//! `ZOOLET_FLEET_SECONDS` sets how long each fleet contends. It contends longer if its members had
//! no chance to do much.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use libtest_mimic::Failed;
use tokio::runtime::Builder;
use zoolet_client::Client;
use zoolet_conformance::apache::Apache;
use zoolet_conformance::fleet::{self, Entry, Fleet, FleetRecipe, Library};
use zoolet_conformance::fleet_queue::AnyQueue;
use zoolet_conformance::harness::Section;
use zoolet_conformance::peers::Peer;
use zoolet_conformance::script::Setting;
use zoolet_conformance::servers;
use zoolet_conformance::wire::Wire;
use zoolet_recipes::SharedCount;

use Library::{Curator, Kazoo, Zoolet};

const OURS: &str = env!("CARGO_BIN_EXE_zoolet-conformance");

const DEFAULT_SECONDS: u64 = 3;

/// The fewest holds of each member, or of each library where members share one number.
const ENTRIES_MIN: usize = 10;

/// How long the test waits for a member that must not pass a barrier.
/// Longer than the session of a member.
const PATIENCE: Duration = Duration::from_secs(60);
const A_WHILE: Duration = Duration::from_millis(300);

/// The capacity of the read-write lock: more than there are readers.
const READERS_MAX: u32 = 1_000;
const PERMITS: u32 = 3;

/// The path of the counter.
const NUMBER: &str = "/fleet-number";

pub(crate) fn tests() -> Section {
    let mut section = Section::new("fleet", 2);
    let four_each = [Zoolet, Curator, Kazoo].map(|library| [library; 4]).concat();
    let with_kazoo = [Zoolet, Kazoo].map(|library| [library; 4]).concat();
    let four_of_two = [Zoolet, Curator].map(|library| [library; 4]).concat();
    let four_with_kazoo = [Zoolet, Kazoo].map(|library| [library; 4]).concat();
    let mut on_both =
        |name, libraries, test: Test| add_on_both(&mut section, name, libraries, test);
    on_both("mutex", four_each.clone(), |at, all| excludes(at, "mutex", 1, all));
    on_both("stock-mutex", with_kazoo.clone(), |at, all| excludes(at, "stock-mutex", 1, all));
    on_both("pattern-mutex", with_kazoo, |at, all| excludes(at, "pattern-mutex", 1, all));
    on_both("read-write", four_of_two.clone(), |at, all| {
        excludes(at, "read-write", READERS_MAX, all)
    });
    on_both("semaphore", four_of_two.clone(), |at, all| excludes(at, "semaphore", PERMITS, all));
    on_both("semaphore-mutex", four_of_two.clone(), |at, all| {
        excludes(at, "semaphore-mutex", 1, all)
    });
    on_both("latch", four_of_two.clone(), |at, all| excludes(at, "latch", 1, all));
    on_both("count", four_each, number);
    on_both("long", four_of_two.clone(), |at, all| counts(at, "long", all));
    on_both("queue", four_of_two.clone(), |at, all| delivers(at, "queue", all));
    on_both("leased-queue", four_of_two.clone(), |at, all| delivers(at, "leased-queue", all));
    on_both("id-queue", four_of_two.clone(), |at, all| delivers(at, "id-queue", all));
    on_both("priority-queue", four_of_two.clone(), |at, all| delivers(at, "priority-queue", all));
    on_both("delay-queue", four_of_two, |at, all| delivers(at, "delay-queue", all));
    on_both("kazoo-queue", four_with_kazoo.clone(), |at, all| delivers(at, "kazoo-queue", all));
    on_both("kazoo-locking-queue", four_with_kazoo, |at, all| {
        delivers(at, "kazoo-locking-queue", all)
    });
    on_both("revocation", vec![Zoolet, Curator, Zoolet, Curator], revocation);
    on_both("counted-permits", vec![Zoolet, Curator, Zoolet, Curator], counted_permits);
    on_both("double-barrier", vec![Zoolet, Curator, Zoolet, Curator], double_barrier);
    on_both("copy", vec![Zoolet, Curator, Kazoo], copies);
    on_both("barrier", vec![Zoolet, Curator, Kazoo, Zoolet, Curator, Kazoo], barrier);
    section
}

type Test = fn(SocketAddr, &[Library]) -> Result<(), Failed>;

/// Adds a test of a fleet on our server and one on Apache ZooKeeper.
fn add_on_both(section: &mut Section, name: &str, libraries: Vec<Library>, test: Test) {
    let peers = peers(&libraries);
    let others = libraries.clone();
    section.test(&peers, &format!("zoolet::{name}"), move || {
        let server = Wire::start(servers::config(Setting::Steady))?;
        test(server.address(), &libraries)
    });
    section.test(&[&[Peer::Apache], &*peers].concat(), &format!("apache::{name}"), move || {
        let server = Apache::start(&servers::properties(Setting::Steady))?;
        test(server.address(), &others)
    });
}

fn peers(libraries: &[Library]) -> Vec<Peer> {
    let known = [(Curator, Peer::Curator), (Kazoo, Peer::Kazoo)];
    let is_needed = |(library, _): &(Library, Peer)| libraries.contains(library);
    known.into_iter().filter(is_needed).map(|(_, peer)| peer).collect()
}

fn seconds() -> u64 {
    let text = std::env::var("ZOOLET_FLEET_SECONDS");
    text.map_or(DEFAULT_SECONDS, |text| text.parse().expect("a number of seconds"))
}

/// Lets all members contend for some time. The holds never exceed `capacity`.
fn excludes(
    address: SocketAddr,
    recipe: &str,
    capacity: u32,
    libraries: &[Library],
) -> Result<(), Failed> {
    let address = address.to_string();
    let contended = FleetRecipe { name: recipe, address: &address, path: "/fleet/place", capacity };
    let mut fleet = Fleet::start(contended, Path::new(OURS), libraries)?;
    let names: Vec<_> = (0..libraries.len()).map(|member| fleet.name(member).to_owned()).collect();
    let entries = fleet.contend(Duration::from_secs(seconds()), |entries| {
        let of = |name: &String| entries.iter().filter(|entry| entry.who == *name).count();
        names.iter().all(|name| of(name) >= ENTRIES_MIN)
    })?;
    let inside = fleet::check(entries, capacity)?;
    println!("{recipe}: {} entered, {inside:?}", inside.values().sum::<usize>());
    assert_eq!(inside.len(), libraries.len(), "a member never held the lock");
    assert!(inside.values().all(|&count| count >= ENTRIES_MIN), "a member starved: {inside:?}");
    Ok(())
}

/// Creates the counter before the members start. If kazoo starts first, it creates the znode
/// without data, which Curator and we cannot parse until kazoo has set it.
fn number(address: SocketAddr, libraries: &[Library]) -> Result<(), Failed> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = Client::connect(address.to_string().as_str()).await?;
        SharedCount::start(&client, NUMBER, 0).await?;
        client.close().await?;
        Ok::<_, Failed>(())
    })?;
    counts(address, "count", libraries)
}

/// All members increment a counter. Each number is reached once.
fn counts(address: SocketAddr, recipe: &str, libraries: &[Library]) -> Result<(), Failed> {
    let address = address.to_string();
    let contended = FleetRecipe { name: recipe, address: &address, path: NUMBER, capacity: 0 };
    let mut fleet = Fleet::start(contended, Path::new(OURS), libraries)?;
    let of = |entries: &[Entry], library: &Library| {
        entries.iter().filter(|entry| entry.who.starts_with(library.name())).count()
    };
    let entries = fleet.contend(Duration::from_secs(seconds()), |entries| {
        libraries.iter().all(|library| of(entries, library) >= ENTRIES_MIN)
    })?;
    println!("{recipe}: counted to {}", entries.len());
    let numbers: BTreeSet<_> = entries.iter().map(|entry| entry.token).collect();
    assert_eq!(numbers.len(), entries.len(), "a number was reached twice");
    assert_eq!(numbers.last().copied(), i64::try_from(entries.len()).ok(), "a number was left out");
    for library in libraries {
        assert!(of(&entries, library) > 0, "no member of {} ever incremented", library.name());
    }
    Ok(())
}

/// The weight with which a member notes an item that it is about to put. The token is the item.
const PUT: u32 = 1;

/// All members put and take. No item is taken twice, members take the items of the other library,
/// and where the recipe promises it, each item is taken or still there.
fn delivers(address: SocketAddr, recipe: &str, libraries: &[Library]) -> Result<(), Failed> {
    let address = address.to_string();
    let path = "/fleet-queue";
    let contended = FleetRecipe { name: recipe, address: &address, path, capacity: 0 };
    let mut fleet = Fleet::start(contended, Path::new(OURS), libraries)?;
    let entries = fleet.contend(Duration::from_secs(seconds()), |entries| {
        takers_of_foreign_items(entries, libraries).len() == 2
    })?;
    let left = left_in_queue(&address, recipe, path)?;
    let (put, taken): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| entry.weight == PUT);
    println!("{recipe}: {} put, {} taken, {} left", put.len(), taken.len(), left.len());
    let mut by: BTreeMap<_, &Entry> = BTreeMap::new();
    for entry in put.iter().copied() {
        if let Some(other) = by.insert(entry.token, entry) {
            return Err(format!("two puts have one number: {other:?}, {entry:?}").into());
        }
    }
    let mut seen: BTreeMap<_, &Entry> = BTreeMap::new();
    for entry in taken.iter().copied() {
        let putter = by.get(&entry.token).ok_or("an item is taken that nobody put")?;
        if let Some(first) = seen.insert(entry.token, entry) {
            return Err(format!("{putter:?} is taken twice: {first:?}, {entry:?}").into());
        }
    }
    let foreign = takers_of_foreign_items(&entries, libraries);
    assert_eq!(foreign.len(), 2, "each library takes items of the other: {foreign:?}");
    // A member of Curator that ends may have deleted an item that it has not noted.
    if recipe != "queue" {
        let is_known = |item: &i64| seen.contains_key(item) || left.contains(item);
        let lost: Vec<_> = by.keys().filter(|item| !is_known(item)).collect();
        assert!(lost.is_empty(), "{} items are lost: {lost:?}", lost.len());
    }
    Ok(())
}

/// The libraries whose members have taken an item that a member of another library has put.
fn takers_of_foreign_items(entries: &[Entry], libraries: &[Library]) -> BTreeSet<&'static str> {
    let library = |who: &str| libraries.iter().find(|it| who.starts_with(it.name())).copied();
    let (put, taken): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| entry.weight == PUT);
    let by: BTreeMap<_, _> = put.iter().map(|entry| (entry.token, library(&entry.who))).collect();
    let is_foreign =
        |entry: &&&Entry| by.get(&entry.token).is_some_and(|it| *it != library(&entry.who));
    let takers = taken.iter().filter(is_foreign).filter_map(|entry| library(&entry.who));
    takers.map(Library::name).collect()
}

/// Takes what is left in a queue.
fn left_in_queue(address: &str, recipe: &str, path: &str) -> Result<BTreeSet<i64>, Failed> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = Client::connect(address).await?;
        let mut left = BTreeSet::new();
        let queue = AnyQueue::new(&client, recipe, path)?;
        while queue.count().await? > 0 {
            // Items of a delay queue may not be due, and those of a dead member be leased.
            let item = queue.take_within(PATIENCE).await?.ok_or("an item is not delivered")?;
            left.insert(item);
        }
        Ok(left)
    })
}

/// All members enter when the last one does, and leave when the last one does. Each member is the
/// last one once.
fn double_barrier(address: SocketAddr, libraries: &[Library]) -> Result<(), Failed> {
    let address = address.to_string();
    let members = libraries.len();
    let contended = FleetRecipe {
        name: "double-barrier",
        address: &address,
        path: "/fleet-double-barrier",
        capacity: u32::try_from(members)?,
    };
    let mut fleet = Fleet::start(contended, Path::new(OURS), libraries)?;
    for last in 0..members {
        for step in ["enter", "leave"] {
            for member in (0..members).filter(|&member| member != last) {
                fleet.tell(member, step)?;
            }
            fleet.hear_nothing(A_WHILE)?;
            fleet.tell(last, step)?;
            let mut done = BTreeSet::new();
            while done.len() < members {
                let (member, said) = fleet.hear()?;
                assert!(said == step && done.insert(member), "member {member} printed {said}");
            }
        }
    }
    fleet.stop()?;
    Ok(())
}

/// Each member in turn sets a shared count, and all others get the new value.
fn copies(address: SocketAddr, libraries: &[Library]) -> Result<(), Failed> {
    let address = address.to_string();
    let contended =
        FleetRecipe { name: "copy", address: &address, path: "/fleet-copy", capacity: 0 };
    let mut fleet = Fleet::start(contended, Path::new(OURS), libraries)?;
    for (number, setter) in [-7, 0, i32::MAX, 1, i32::MIN, 8].into_iter().zip(0..) {
        let setter = setter % libraries.len();
        fleet.tell(setter, &format!("set {number}"))?;
        assert_eq!(fleet.hear()?, (setter, format!("set {number}")));
        for member in 0..libraries.len() {
            fleet.tell(member, &format!("await {number}"))?;
            assert_eq!(fleet.hear()?, (member, format!("await {number}")));
        }
    }
    fleet.stop()?;
    Ok(())
}

/// Each member in turn holds a mutex, and releases it when another member revokes it.
fn revocation(address: SocketAddr, libraries: &[Library]) -> Result<(), Failed> {
    let address = address.to_string();
    let contended =
        FleetRecipe { name: "shell", address: &address, path: "/fleet-revocation", capacity: 0 };
    let mut fleet = Fleet::start(contended, Path::new(OURS), libraries)?;
    for holder in 0..libraries.len() {
        for revoker in (0..libraries.len()).filter(|&revoker| revoker != holder) {
            fleet.tell(holder, "revocable")?;
            assert_eq!(fleet.hear()?, (holder, "revocable".to_owned()));
            fleet.tell(revoker, "revoke")?;
            let said = BTreeSet::from([fleet.hear()?, fleet.hear()?]);
            let expected =
                BTreeSet::from([(holder, "revoked".to_owned()), (revoker, "revoke".to_owned())]);
            assert_eq!(said, expected);
        }
    }
    fleet.stop()?;
    Ok(())
}

/// There is one permit. One more member acquires each time a member increments the number of
/// permits.
fn counted_permits(address: SocketAddr, libraries: &[Library]) -> Result<(), Failed> {
    let address = address.to_string();
    let contended =
        FleetRecipe { name: "shell", address: &address, path: "/fleet-counted", capacity: 0 };
    let mut fleet = Fleet::start(contended, Path::new(OURS), libraries)?;
    fleet.tell(0, "counted")?;
    assert_eq!(fleet.hear()?, (0, "counted".to_owned()));
    for next in 1..libraries.len() {
        fleet.tell(next, "counted")?;
        fleet.hear_nothing(A_WHILE)?;
        fleet.tell(next - 1, "grow")?;
        let said = BTreeSet::from([fleet.hear()?, fleet.hear()?]);
        let expected =
            BTreeSet::from([(next, "counted".to_owned()), (next - 1, "grow".to_owned())]);
        assert_eq!(said, expected);
    }
    for member in 0..libraries.len() {
        fleet.tell(member, "uncounted")?;
        assert_eq!(fleet.hear()?, (member, "uncounted".to_owned()));
    }
    fleet.stop()?;
    Ok(())
}

/// Each member in turn sets a barrier. All others wait, and pass when another member
/// removes it, and not before.
fn barrier(address: SocketAddr, libraries: &[Library]) -> Result<(), Failed> {
    let address = address.to_string();
    let path = "/fleet-barrier";
    let contended = FleetRecipe { name: "barrier", address: &address, path, capacity: 0 };
    let mut fleet = Fleet::start(contended, Path::new(OURS), libraries)?;
    for setter in 0..libraries.len() {
        let remover = (setter + 1) % libraries.len();
        fleet.tell(setter, "set")?;
        assert_eq!(fleet.hear()?, (setter, "set".to_owned()));
        let waiting: Vec<_> = (0..libraries.len()).filter(|&member| member != remover).collect();
        for &member in &waiting {
            fleet.tell(member, "wait")?;
        }
        fleet.hear_nothing(A_WHILE)?;
        fleet.tell(remover, "remove")?;
        let mut through = BTreeSet::new();
        // The one that removes it may be the last to say so.
        let mut is_removed = false;
        while through.len() < waiting.len() || !is_removed {
            match fleet.hear()? {
                (member, line) if line == "remove" => is_removed = member == remover,
                (member, line) => assert!(line == "wait" && through.insert(member)),
            }
        }
    }
    fleet.stop()?;
    Ok(())
}
