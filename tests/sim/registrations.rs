//! Registrations, shares and leases in simulated worlds: whatever goes wrong, a name has one owner at a
//! time, each znode is there again after calm with its last data, and tokens grow.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zoolet::client::ConnectionState;
use zoolet::protocol::CreateMode;
use zoolet::recipes::{
    LockState, NodeState, NonBlockingLease, PersistentNode, SetPartitioner, ShallowParty, TakeOver,
};
use zoolet::sim::{FaultKind, Section, Sim, ViolationKind, World};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const SHORT: Duration = Duration::from_millis(300);
/// Longer than a session lasts.
const LONG: Duration = Duration::from_secs(15);
/// How long after the faults all items may take to have a member.
const CALM: Duration = Duration::from_secs(40);

/// Registers under a name that all machines use, and works while it is registered.
async fn same_name(world: World) -> Result<()> {
    let client = world.connect().await?;
    while world.goes_on() {
        let node = PersistentNode::builder(&client, "/names/one").data(world.name().to_owned());
        let node = Arc::new(node.start()?);
        node.registered().await?;
        let held = Arc::clone(&node);
        let section = world.enter("one", move || held.state() == NodeState::Present);
        world.sleep_up_to(SHORT).await;
        drop(section.leave());
        if let Some(node) = Arc::into_inner(node) {
            node.close().await?;
        }
        world.sleep_up_to(SHORT).await;
    }
    Ok(())
}

#[test]
fn a_name_has_one_owner_at_a_time() {
    Sim::new().machine("owner", 3, same_name).sweep(0..16);
}

#[test]
fn a_name_has_one_owner_at_a_time_on_an_ensemble() {
    Sim::new().machine("owner", 3, same_name).ensemble().sweep(0..8);
}

/// Keeps a znode of its own, changes its data, and finds both after calm.
async fn own_name(world: World) -> Result<()> {
    let client = world.connect().await?;
    let path = format!("/members/{}", world.name());
    let modes = [CreateMode::Ephemeral, CreateMode::Persistent, CreateMode::Container];
    let mode = modes[world.index() % modes.len()];
    // Only this machine has the name: what an earlier run of it has left may be replaced.
    let node = PersistentNode::builder(&client, &path).mode(mode).take_over(TakeOver::AtOnce);
    let node = node.start()?;
    let mut round = 0;
    while world.goes_on() {
        node.registered().await?;
        round += 1;
        node.set_data(format!("{round}")).await?;
        world.sleep_up_to(SHORT).await;
        if world.one_in(4) && mode != CreateMode::Ephemeral {
            // As an administrator does.
            match client.delete(&path).await {
                Err(error) if error.is_retryable() || error.code().is_some() => {}
                deleted => deleted?,
            }
        }
    }
    node.registered().await?;
    node.set_data("last").await?;
    let (data, stat) = client.get(&path).await?;
    if data != "last" {
        world.fail(format!("the data is {data:?}"));
    }
    if mode == CreateMode::Ephemeral && stat.ephemeral_owner != client.session_id() {
        world.fail(format!("the owner is {}", stat.ephemeral_owner));
    }
    node.close().await?;
    if client.exists(&path).await?.is_some() {
        world.fail("the znode is there after the node was closed");
    }
    Ok(())
}

#[test]
fn after_calm_each_znode_is_there_with_its_last_data() {
    Sim::new().machine("member", 3, own_name).sweep(0..16);
}

#[test]
fn after_calm_each_znode_is_there_with_its_last_data_on_an_ensemble() {
    Sim::new().machine("member", 3, own_name).ensemble().sweep(0..8);
}

/// Which machines believe that they have the name, and have no connection over which they would hear
/// that they have it no more.
#[derive(Default)]
struct Unaware(Mutex<BTreeMap<String, bool>>);

impl Unaware {
    fn set(&self, machine: &str, is_unaware: bool) {
        self.0.lock().expect("no machine panics").insert(machine.to_owned(), is_unaware);
    }

    fn any(&self) -> bool {
        self.0.lock().expect("no machine panics").values().any(|is_unaware| *is_unaware)
    }
}

/// Registers under a name that others want too, and that is deleted while the one that has it has no
/// connection, so that another may have it before that one hears of it. After calm it knows who has it.
/// Whoever has it finds data of its own there, although the others change their data all the time.
async fn contested_name(world: World) -> Result<()> {
    let unaware = world.shared::<Unaware>();
    unaware.set(world.name(), false);
    let client = world.connect().await?;
    let take_overs = [TakeOver::OfOwnSessions, TakeOver::AtOnce];
    let take_over = take_overs[world.index() % take_overs.len()];
    let builder = PersistentNode::builder(&client, "/names/one").data(world.name().to_owned());
    let node = builder.take_over(take_over).start()?;
    let mut round = 0;
    while world.goes_on() {
        round += 1;
        // It waits for as long as this machine does not have the name; the data is written then.
        let data = format!("{} {round}", world.name());
        let _ = tokio::time::timeout(SHORT / 3, node.set_data(data)).await;
        world.sleep_up_to(SHORT / 3).await;
        if let Ok((data, stat)) = client.get("/names/one").await
            && stat.ephemeral_owner == client.session_id()
            && !data.starts_with(world.name().as_bytes())
        {
            world.fail(format!("another machine wrote {data:?} to the znode of this one"));
        }
        let is_connected = client.state().borrow().is_some_and(ConnectionState::is_connected);
        unaware.set(world.name(), !is_connected && node.state() == NodeState::Present);
        if is_connected && unaware.any() {
            // As an administrator does. Whether it succeeds does not matter.
            let _ = client.delete("/names/one").await;
        }
    }
    tokio::time::sleep(CALM).await;
    let (believes, stat) = (node.state(), client.exists("/names/one").await?);
    let owner = stat.map(|stat| stat.ephemeral_owner);
    let has = owner == Some(client.session_id());
    if owner.is_none() || has != (believes == NodeState::Present) {
        world.fail(format!("it is {believes:?}, and the owner is {owner:?}"));
    }
    // The others look too, while this one has what it has.
    tokio::time::sleep(CALM).await;
    Ok(())
}

/// Machines that lose their connections often.
fn contest() -> Sim {
    let sim = Sim::new().machine("owner", 3, contested_name);
    sim.rate(FaultKind::Cuts, 20.0).rate(FaultKind::Refusals, 10.0)
}

#[test]
fn after_calm_a_machine_knows_who_has_the_name() {
    contest().sweep(0..16);
}

#[test]
fn after_calm_a_machine_knows_who_has_the_name_on_an_ensemble() {
    contest().ensemble().sweep(0..8);
}

/// Believes for ever in a name that it registered.
async fn believes(world: World) -> Result<()> {
    let client = world.connect().await?;
    while world.goes_on() {
        let node = PersistentNode::builder(&client, "/names/one").start()?;
        node.registered().await?;
        let section = world.enter("one", ());
        world.sleep_up_to(LONG).await;
        section.leave();
        node.close().await?;
        world.sleep_up_to(SHORT).await;
    }
    Ok(())
}

#[test]
fn a_program_that_does_not_ask_whether_it_is_still_registered_is_found() {
    let sim = Sim::new().machine("owner", 3, believes);
    let failure = sim.search(0..500).expect_err("a session ends while its program works");
    assert_eq!(failure.violation().kind, ViolationKind::Exclusion("one".to_owned()));
}

const ITEMS: [&str; 4] = ["a", "b", "c", "d"];

/// What each machine has after calm.
#[derive(Default)]
struct Owned(Mutex<BTreeMap<String, Vec<String>>>);

impl Owned {
    fn set(&self, machine: &str, items: Vec<String>) {
        self.0.lock().expect("no machine panics").insert(machine.to_owned(), items);
    }

    /// The items that nobody has.
    fn missing(&self) -> Vec<&'static str> {
        let owned = self.0.lock().expect("no machine panics");
        let is_owned = |item: &str| owned.values().flatten().any(|owned| owned == item);
        ITEMS.into_iter().filter(|item| !is_owned(item)).collect()
    }
}

/// Takes part in sharing out items, and works on each item of its share.
async fn shares(world: World) -> Result<()> {
    let client = world.connect().await?;
    let builder = SetPartitioner::builder(&client, "/work", world.name(), ITEMS);
    let partitioner = builder.time_boundary(SHORT).start().await?;
    while world.goes_on() {
        let share = Arc::new(partitioner.acquire().await?);
        let mut sections = Vec::new();
        for item in share.items() {
            let held = Arc::clone(&share);
            sections.push(world.enter(item, move || held.state() == LockState::Held));
        }
        world.sleep_up_to(SHORT).await;
        sections.into_iter().for_each(|section| drop(section.leave()));
        if let Some(share) = Arc::into_inner(share) {
            // A share that was lost is no error of this program.
            let _ = share.release().await;
        }
    }
    has_all_items_after_calm(&world, &partitioner).await?;
    partitioner.finish().await?;
    Ok(())
}

/// Keeps the share of this machine until all items have a member.
async fn has_all_items_after_calm(world: &World, partitioner: &SetPartitioner) -> Result<()> {
    let owned = world.shared::<Owned>();
    let start = world.elapsed();
    while !owned.missing().is_empty() {
        let share = partitioner.acquire().await?;
        owned.set(world.name(), share.items().map(str::to_owned).collect());
        while !owned.missing().is_empty() && !share.is_change_requested() {
            if world.elapsed() - start > CALM {
                world.fail(format!("nobody has {:?}", owned.missing()));
                return Ok(());
            }
            tokio::time::sleep(SHORT).await;
        }
        if !owned.missing().is_empty() {
            owned.set(world.name(), Vec::new());
        }
        let _ = share.release().await;
    }
    Ok(())
}

#[test]
fn an_item_has_one_member_at_a_time_and_after_calm_all_have_one() {
    Sim::new().machine("worker", 3, shares).sweep(0..16);
}

#[test]
fn an_item_has_one_member_at_a_time_and_after_calm_all_have_one_on_an_ensemble() {
    Sim::new().machine("worker", 3, shares).ensemble().sweep(0..8);
}

/// Takes its part of the items as the party is, without their locks, as of a hash ring.
async fn without_locks(world: World) -> Result<()> {
    let client = world.connect().await?;
    let party = ShallowParty::new(&client, "/work/party")?;
    let _member = party.join(world.name()).await?;
    while world.goes_on() {
        let mut members = party.participants().await?;
        members.sort_unstable();
        let rank = members.iter().position(|member| member == world.name());
        let items =
            ITEMS.into_iter().skip(rank.unwrap_or(ITEMS.len())).step_by(members.len().max(1));
        let sections: Vec<_> = items.map(|item| world.enter(item, ())).collect();
        world.sleep_up_to(SHORT).await;
        sections.into_iter().for_each(Section::leave);
    }
    Ok(())
}

#[test]
fn shares_without_locks_are_found() {
    let sim = Sim::new().machine("worker", 3, without_locks);
    let failure = sim.search(0..500).expect_err("members see the party at different times");
    assert!(matches!(failure.violation().kind, ViolationKind::Exclusion(_)), "{failure}");
}

/// Shares the items out by a function that forgets one.
async fn forgets_an_item(world: World) -> Result<()> {
    let client = world.connect().await?;
    let first_has_most = |own: &str, members: &[String], items: &[String]| {
        let is_first = members.first().is_some_and(|first| first == own);
        items.iter().skip(1).filter(|_| is_first).cloned().collect()
    };
    let builder = SetPartitioner::builder(&client, "/work", world.name(), ITEMS);
    let partitioner = builder.time_boundary(SHORT).partition_by(first_has_most).start().await?;
    has_all_items_after_calm(&world, &partitioner).await
}

#[test]
fn an_item_that_nobody_has_is_found() {
    let sim = Sim::new().machine("worker", 2, forgets_an_item);
    let failure = sim.search(0..20).expect_err("nobody has the first item");
    assert!(failure.to_string().contains("nobody has"), "{failure}");
}

/// The greatest token of all leases so far.
#[derive(Default)]
struct Greatest(AtomicI64);

/// Obtains a lease by a clock that jumps.
async fn leases(world: World) -> Result<()> {
    let client = world.connect().await?;
    let clock = world.clone();
    let lease = NonBlockingLease::new(&client, "/leases/one", world.name())?;
    let lease = lease.with_clock(move || clock.wall_clock());
    let greatest = world.shared::<Greatest>();
    while world.goes_on() {
        let before = greatest.0.load(Ordering::SeqCst);
        if let Some(lease) = lease.obtain(Duration::from_secs(1)).await? {
            let token = lease.fencing_token().0;
            if token <= before {
                world.fail(format!("the token {token:#x} is not greater than {before:#x}"));
            }
            greatest.0.fetch_max(token, Ordering::SeqCst);
        }
        world.sleep_up_to(SHORT).await;
    }
    Ok(())
}

#[test]
fn tokens_of_leases_grow_whatever_the_clocks_say() {
    Sim::new().machine("client", 3, leases).sweep(0..16);
    Sim::new().machine("client", 3, leases).ensemble().sweep(0..8);
}
