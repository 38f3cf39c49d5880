//! Queues in the simulated world: at most once, no item is delivered twice, and none is lost unless a
//! machine crashes; at least once, none is lost. After calm every queue is empty. Two wrong queues are
//! found: one that puts twice, and one that loses what it has taken.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use zoolet::client::{Client, Error};
use zoolet::protocol::{CreateMode, ErrorCode};
use zoolet::recipes::queue::{DistributedQueue, QueueError, encode_items};
use zoolet::sim::{FaultKind, MachineResult, Sim, ViolationKind, World};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Promise {
    AtMostOnce,
    AtLeastOnce,
}

/// What the machines know of the items.
#[derive(Default)]
struct Books(Mutex<Items>);

#[derive(Default)]
struct Items {
    /// The number of the next item.
    next: u64,
    /// The items that were put for sure.
    put: BTreeSet<u64>,
    /// How often each item was received.
    received: BTreeMap<u64, u32>,
    /// The items whose consumer knows that they are done.
    done: BTreeSet<u64>,
}

impl Books {
    fn with<T>(&self, act: impl FnOnce(&mut Items) -> T) -> T {
        act(&mut self.0.lock().expect("nobody panics with it"))
    }
}

fn queue(client: &Client, promise: Promise) -> Result<DistributedQueue, QueueError> {
    let queue = DistributedQueue::new(client, "/jobs")?;
    match promise {
        Promise::AtMostOnce => Ok(queue),
        Promise::AtLeastOnce => queue.with_lock_path("/job-locks"),
    }
}

async fn producer(world: World) -> MachineResult {
    let client = world.connect().await?;
    let queue = queue(&client, Promise::AtMostOnce)?;
    while world.goes_on() {
        let item = next_item(&world);
        queue.put(item.to_string()).await?;
        note_put(&world, item).await;
    }
    Ok(())
}

fn next_item(world: &World) -> u64 {
    world.shared::<Books>().with(|items| {
        items.next += 1;
        items.next
    })
}

async fn note_put(world: &World, item: u64) {
    world.shared::<Books>().with(|items| items.put.insert(item));
    world.sleep_up_to(Duration::from_millis(400)).await;
}

/// Puts with a plain create, and sends it again when the answer is lost.
async fn producer_that_repeats(world: World) -> MachineResult {
    let client = world.connect().await?;
    while world.goes_on() {
        let item = next_item(&world);
        let data = encode_items([item.to_string()])?;
        let create = || client.create("/jobs/queue-").data(data.clone());
        while let Err(error) = create().mode(CreateMode::PersistentSequential).await {
            if !error.is_retryable() {
                return Err(error.into());
            }
        }
        note_put(&world, item).await;
    }
    Ok(())
}

/// Takes with a plain delete, and sends it again when the answer is lost. If the item is gone then,
/// another consumer must have it.
async fn consumer_that_repeats(world: World) -> MachineResult {
    let client = world.connect().await?;
    let books = world.shared::<Books>();
    while world.goes_on() {
        world.sleep_up_to(Duration::from_millis(300)).await;
        let names = client.children("/jobs").until_answered().await?;
        let Some(first) = names.iter().min() else { continue };
        let path = format!("/jobs/{first}");
        let data = match client.get(&path).until_answered().await {
            Err(error) if error.is(ErrorCode::NO_NODE) => continue,
            got => got?.0,
        };
        let deleted = loop {
            match client.delete(&path).await {
                Err(error) if error.is_retryable() || error == Error::SessionExpired => {}
                deleted => break deleted,
            }
        };
        match deleted {
            Err(error) if error.is(ErrorCode::NO_NODE) => continue,
            deleted => deleted?,
        }
        let item = zoolet::recipes::queue::decode_items(&data)?[0].to_vec();
        let item: u64 = String::from_utf8(item)?.parse()?;
        books.with(|items| *items.received.entry(item).or_insert(0) += 1);
    }
    Ok(())
}

async fn create_queue(world: World) -> MachineResult {
    world.connect().await?.create("/jobs").await?;
    Ok(())
}

async fn consumer(world: World, promise: Promise) -> MachineResult {
    let client = world.connect().await?;
    let queue = queue(&client, promise)?;
    while world.goes_on() {
        receive(&world, &queue, promise, Duration::from_secs(2)).await?;
    }
    Ok(())
}

/// Receives an item, works on it and ends it. Returns whether there was one.
async fn receive(
    world: &World,
    queue: &DistributedQueue,
    promise: Promise,
    within: Duration,
) -> Result<bool, Box<dyn std::error::Error + Send + Sync>> {
    let books = world.shared::<Books>();
    let Some(delivery) = queue.take_within(within).await? else { return Ok(false) };
    let item: u64 = String::from_utf8_lossy(&delivery.items()?[0]).parse()?;
    let (times, is_done) = books.with(|items| {
        let times = items.received.entry(item).or_insert(0);
        *times += 1;
        (*times, items.done.contains(&item))
    });
    if promise == Promise::AtMostOnce && times > 1 {
        world.fail(format!("receives item {item} for the {times}. time"));
    }
    if promise == Promise::AtLeastOnce && is_done {
        world.fail(format!("receives item {item}, which was done"));
    }
    world.sleep_up_to(Duration::from_millis(300)).await;
    match delivery.done().await {
        Ok(()) => {
            books.with(|items| items.done.insert(item));
        }
        // It is delivered again, or was done.
        Err(QueueError::Lost(_) | QueueError::Unknown(_)) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(true)
}

/// Empties the queue and compares it with what was put.
async fn settle(world: World, promise: Promise, may_lose: bool) -> MachineResult {
    let client = world.connect().await?;
    let queue = queue(&client, promise)?;
    while receive(&world, &queue, promise, Duration::from_secs(120)).await? {}
    if queue.count().await? > 0 {
        world.fail("items are left that nobody receives");
    }
    let books = world.shared::<Books>();
    let lost: Vec<_> = books.with(|items| {
        let is_lost = |item: &&u64| !items.received.contains_key(*item);
        items.put.iter().filter(is_lost).copied().collect()
    });
    if !lost.is_empty() && !may_lose {
        world.fail(format!("the items {lost:?} are lost"));
    }
    Ok(())
}

fn machines(promise: Promise, may_lose: bool) -> Sim {
    Sim::new()
        .machine("producer", 2, producer)
        .machine("consumer", 3, move |world| consumer(world, promise))
        .at_end(move |world| settle(world, promise, may_lose))
        .finish_within(Duration::from_secs(600))
}

#[test]
fn at_least_once_loses_nothing() {
    machines(Promise::AtLeastOnce, false).sweep(0..12);
}

#[test]
fn at_least_once_loses_nothing_on_an_ensemble() {
    machines(Promise::AtLeastOnce, false).ensemble().sweep(0..8);
}

#[test]
fn at_most_once_delivers_nothing_twice() {
    machines(Promise::AtMostOnce, true).sweep(0..12);
}

#[test]
fn at_most_once_delivers_nothing_twice_on_an_ensemble() {
    machines(Promise::AtMostOnce, true).ensemble().sweep(0..8);
}

#[test]
fn at_most_once_loses_only_what_a_crashed_machine_had() {
    machines(Promise::AtMostOnce, false).without(FaultKind::Crashes).sweep(0..12);
}

#[test]
fn a_put_that_repeats_a_create_is_found() {
    let sim = Sim::new().setup(create_queue).machine("producer", 2, producer_that_repeats).machine(
        "consumer",
        2,
        |world| consumer(world, Promise::AtMostOnce),
    );
    let failure = sim.search(0..2_000).expect_err("it puts twice");
    assert_eq!(failure.violation().kind, ViolationKind::Failed("consumer".to_owned()));
    assert!(failure.to_string().contains("for the 2. time"), "{failure}");
}

#[test]
fn a_take_that_repeats_a_delete_is_found() {
    let sim = Sim::new()
        .setup(create_queue)
        .machine("producer", 2, producer)
        .machine("consumer", 2, consumer_that_repeats)
        .without(FaultKind::Crashes)
        .at_end(|world| settle(world, Promise::AtMostOnce, false))
        .finish_within(Duration::from_secs(600));
    let failure = sim.search(0..2_000).expect_err("it loses items");
    assert!(failure.to_string().contains("are lost"), "{failure}");
}
