//! Queues.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use zoolet_client::{Client, CreateMode, Error, Parents};
use zoolet_protocol::{Acl, Permissions};
use zoolet_recipes::LockState;
use zoolet_recipes::queue::{Delivery, DistributedQueue, KazooLockingQueue, QueueError};

use super::Outcome;
use super::scene::{A_WHILE, Scene, soon, waits};

const CLIENTS: usize = 4;
const ITEMS: usize = 20;

/// How many times connections are cut, and at which intervals.
const CUTS: usize = 15;
const BETWEEN_CUTS: Duration = Duration::from_millis(40);

fn queue(scene: &Scene, client: &Client, is_leased: bool) -> Result<DistributedQueue, QueueError> {
    let queue = DistributedQueue::new(client, &scene.path("queue"))?;
    if is_leased { queue.with_lock_path(&scene.path("locks")) } else { Ok(queue) }
}

fn number(delivery: &Delivery) -> usize {
    let items = delivery.items().expect("it was put by such a queue");
    String::from_utf8_lossy(&items[0]).parse().expect("a number was put")
}

/// Puts items and takes as many with several clients, while their connections are cut.
async fn no_item_is_lost_or_taken_twice(scene: &Scene, is_leased: bool) -> Outcome {
    let (mut tasks, mut ways) = (Vec::new(), Vec::new());
    for index in 0..CLIENTS {
        let (client, way) = scene.client_behind_proxy().await?;
        let queue = queue(scene, &client, is_leased)?;
        ways.push(way);
        tasks.push(tokio::spawn(async move {
            let mut taken = Vec::new();
            for item in 0..ITEMS {
                queue.put((index * ITEMS + item).to_string()).await?;
                let delivery = queue.take().await?;
                taken.push(number(&delivery));
                delivery.done().await?;
            }
            Ok::<_, QueueError>(taken)
        }));
    }
    for cut in 0..CUTS {
        tokio::time::sleep(BETWEEN_CUTS).await;
        ways[cut % ways.len()].cut();
    }
    let mut taken = Vec::new();
    for task in tasks {
        taken.extend(soon(task).await???);
    }
    taken.sort_unstable();
    assert_eq!(taken, (0..CLIENTS * ITEMS).collect::<Vec<_>>());
    Ok(())
}

pub(crate) async fn at_most_once_loses_nothing_over_cut_connections(scene: Arc<Scene>) -> Outcome {
    no_item_is_lost_or_taken_twice(&scene, false).await
}

pub(crate) async fn at_least_once_ends_each_item_over_cut_connections(
    scene: Arc<Scene>,
) -> Outcome {
    no_item_is_lost_or_taken_twice(&scene, true).await
}

pub(crate) async fn the_item_of_an_ended_session_is_delivered_again(scene: Arc<Scene>) -> Outcome {
    let (owner, heir) = (scene.client().await?, scene.client().await?);
    queue(&scene, &owner, true)?.put("7").await?;
    let delivery = soon(queue(&scene, &owner, true)?.take()).await??;
    heir.sync(&scene.path("queue")).await?;
    let next = queue(&scene, &heir, true)?;
    let waiting = tokio::spawn(async move { next.take().await });
    waits(&waiting).await;
    scene.expire(&owner).await?;
    let again = soon(waiting).await???;
    assert_eq!(number(&again), 7);
    assert!(again.fencing_token() > delivery.fencing_token());
    soon(delivery.lost()).await?;
    assert!(matches!(soon(delivery.done()).await?, Err(QueueError::Lost(_))));
    soon(again.done()).await??;
    Ok(())
}

pub(crate) async fn a_waiting_consumer_survives_a_cut_and_the_end_of_its_session(
    scene: Arc<Scene>,
) -> Outcome {
    let (client, way) = scene.client_behind_proxy().await?;
    let waiting = queue(&scene, &client, false)?;
    let waiting = tokio::spawn(async move { waiting.take().await });
    waits(&waiting).await;
    way.cut();
    waits(&waiting).await;
    scene.expire(&client).await?;
    waits(&waiting).await;
    queue(&scene, &scene.client().await?, false)?.put("7").await?;
    assert_eq!(number(&soon(waiting).await???), 7);
    Ok(())
}

pub(crate) async fn a_take_that_times_out_leaves_nothing(scene: Arc<Scene>) -> Outcome {
    let client = scene.client().await?;
    for is_leased in [false, true] {
        let queue = queue(&scene, &client, is_leased)?;
        assert!(soon(queue.take_within(A_WHILE)).await??.is_none());
        scene.assert_clean().await?;
    }
    Ok(())
}

pub(crate) async fn kazoos_locking_queue_delivers_each_entry(scene: Arc<Scene>) -> Outcome {
    let (client, other) = (scene.client().await?, scene.client().await?);
    let path = scene.path("kazoo");
    let (first, second) =
        (KazooLockingQueue::new(&client, &path)?, KazooLockingQueue::new(&other, &path)?);
    first.put_all((0..ITEMS).map(|item| item.to_string()), 100).await?;
    other.sync(&path).await?;
    let mut taken = BTreeSet::new();
    for _ in 0..ITEMS / 2 {
        for queue in [&first, &second] {
            let delivery = soon(queue.take()).await??;
            assert!(taken.insert(delivery.data().clone()), "an entry is taken once");
            soon(delivery.done()).await??;
        }
    }
    assert_eq!(taken.len(), ITEMS);
    Ok(())
}

/// Somebody deletes the lease of a consumer that lives, and another has the item then.
pub(crate) async fn done_of_a_lost_lease_ends_nothing(scene: Arc<Scene>) -> Outcome {
    let (owner, next) = (scene.client().await?, scene.client().await?);
    queue(&scene, &owner, true)?.put("7").await?;
    let delivery = soon(queue(&scene, &owner, true)?.take()).await??;
    let lease = delivery.lease_path().ok_or("it is leased")?;
    next.sync(lease).await?;
    next.delete(lease).await?;
    let again = soon(queue(&scene, &next, true)?.take()).await??;
    assert!(again.fencing_token() > delivery.fencing_token());
    soon(delivery.lost()).await?;
    assert!(matches!(soon(delivery.done()).await?, Err(QueueError::Lost(_))));
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(again.state(), LockState::Held);
    soon(again.done()).await??;
    Ok(())
}

pub(crate) async fn an_item_that_may_not_be_read_is_passed_over(scene: Arc<Scene>) -> Outcome {
    let client = scene.client().await?;
    client.create(&scene.path("queue")).parents(Parents::Containers).await?;
    let acl = vec![Acl::open().with_permissions(Permissions::DELETE)];
    let hidden = put_as_others(&scene, &client, Vec::new(), acl).await?;
    queue(&scene, &client, false)?.put("7").await?;
    for is_leased in [false, true] {
        let queue = queue(&scene, &client, is_leased)?;
        client.sync(queue.path()).await?;
        assert_eq!(queue.try_take().await.map(drop), Err(QueueError::Unreadable(hidden.clone())));
        let delivery = soon(queue.take()).await??;
        assert_eq!(number(&delivery), 7);
        delivery.requeue().await?;
    }
    client.delete(&hidden).await?;
    Ok(())
}

/// Another library puts it by a request that has just room in the server's `jute.maxbuffer`.
pub(crate) async fn an_item_that_could_not_be_put_back_stays(scene: Arc<Scene>) -> Outcome {
    let client = scene.client().await?;
    client.create(&scene.path("queue")).parents(Parents::Containers).await?;
    let acl = || vec![Acl::open()];
    let mut bytes = 0xf_ffff;
    while let Err(error) = put_as_others(&scene, &client, vec![7; bytes], acl()).await {
        let is_too_long = matches!(error, Error::TooLong { .. } | Error::ConnectionLoss { .. });
        assert!(is_too_long || matches!(error, Error::NotSent { .. }), "{error}");
        // The server needs room for the rest of the request, and for that of an ensemble's.
        bytes -= 20;
    }
    let plain = queue(&scene, &client, false)?;
    client.sync(plain.path()).await?;
    let error = soon(plain.take()).await?.map(drop).expect_err("it would be lost");
    assert!(matches!(error, QueueError::NoWayBack { .. }), "{error}");
    assert_eq!(plain.count().await?, 1);
    let delivery = soon(queue(&scene, &client, true)?.take()).await??;
    assert_eq!(delivery.data().len(), bytes);
    soon(delivery.done()).await??;
    Ok(())
}

/// Puts an item as another library does, with one request. Returns its path.
async fn put_as_others(
    scene: &Scene,
    client: &Client,
    data: Vec<u8>,
    acl: Vec<Acl>,
) -> Result<String, Error> {
    let path = scene.path("queue/queue-");
    let create = client.create(&path).mode(CreateMode::PersistentSequential);
    create.data(data).acl(acl).await.map(|created| created.path)
}
