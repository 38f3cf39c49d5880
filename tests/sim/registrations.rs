//! Registrations, shares and leases in simulated worlds: whatever goes wrong, a name has one owner at a
//! time, each znode is there again after calm with its last data, and tokens grow.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use zoolet::protocol::CreateMode;
use zoolet::recipes::{NodeState, NonBlockingLease, PersistentNode, SetPartitioner, TakeOver};
use zoolet::sim::{Sim, World};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const SHORT: Duration = Duration::from_millis(300);

/// Registers under a name that all machines use, and works while it is registered.
async fn same_name(world: World) -> Result<()> {
    let client = world.connect().await?;
    while world.goes_on() {
        let node = PersistentNode::builder(&client, "/names/one").data(world.name().to_owned());
        let node = std::sync::Arc::new(node.start()?);
        node.registered().await?;
        let held = std::sync::Arc::clone(&node);
        let section = world.enter("one", move || held.state() == NodeState::Present);
        world.sleep_up_to(SHORT).await;
        drop(section.leave());
        if let Some(node) = std::sync::Arc::into_inner(node) {
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

/// Takes part in sharing out items, and works on each item of its share.
async fn shares(world: World) -> Result<()> {
    let client = world.connect().await?;
    let items = ["a", "b", "c", "d"];
    let builder = SetPartitioner::builder(&client, "/work", world.name(), items);
    let partitioner = builder.time_boundary(Duration::from_millis(500)).start().await?;
    while world.goes_on() {
        let share = std::sync::Arc::new(partitioner.acquire().await?);
        let owned: Vec<_> = share.items().map(str::to_owned).collect();
        let mut sections = Vec::new();
        for item in owned {
            let held = std::sync::Arc::clone(&share);
            let is_held = move || held.state() == zoolet::recipes::LockState::Held;
            sections.push(world.enter(&item, is_held));
        }
        world.sleep_up_to(SHORT).await;
        sections.into_iter().for_each(|section| drop(section.leave()));
        if let Some(share) = std::sync::Arc::into_inner(share) {
            // A share that was lost is no error of this program.
            let _ = share.release().await;
        }
    }
    partitioner.finish().await?;
    Ok(())
}

#[test]
fn an_item_has_one_member_at_a_time() {
    Sim::new().machine("worker", 3, shares).sweep(0..16);
}

#[test]
fn an_item_has_one_member_at_a_time_on_an_ensemble() {
    Sim::new().machine("worker", 3, shares).ensemble().sweep(0..8);
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
