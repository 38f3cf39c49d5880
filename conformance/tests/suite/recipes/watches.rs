//! Several watchers of one client on one path.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use zoolet_client::{Parents, PersistentWatcher};
use zoolet_protocol::{EventType, WatchMode};
use zoolet_recipes::InterProcessMutex;

use super::Outcome;
use super::scene::{Scene, soon};

const ROUNDS: usize = 20;

async fn hears(watcher: &mut PersistentWatcher, event_type: EventType) -> Outcome {
    let event = soon(watcher.next()).await??;
    if event.event_type == event_type {
        Ok(())
    } else {
        Err(format!("{event:?} came where {event_type} was expected").into())
    }
}

pub(crate) async fn dropping_a_one_shot_watch_keeps_a_persistent_one(scene: Arc<Scene>) -> Outcome {
    let (client, other) = (scene.client().await?, scene.client().await?);
    let path = scene.path("a");
    client.create(&path).parents(Parents::Persistent).await?;
    other.sync(&path).await?;
    for mode in [WatchMode::PERSISTENT, WatchMode::PERSISTENT_RECURSIVE] {
        let mut lasting = client.watch(&path, mode).await?;
        for _ in 0..3 {
            let data = client.get(&path).and_watch().await?;
            let child = client.children(&path).and_watch().await?;
            drop((data, child));
            client.sync(&path).await?;
            other.set(&path, "x").await?;
            hears(&mut lasting, EventType::NODE_DATA_CHANGED).await?;
        }
    }
    Ok(())
}

pub(crate) async fn a_one_shot_watch_does_not_replace_a_persistent_one(
    scene: Arc<Scene>,
) -> Outcome {
    let (client, other) = (scene.client().await?, scene.client().await?);
    let path = scene.path("a");
    client.create(&path).parents(Parents::Persistent).await?;
    other.sync(&path).await?;
    let mut all = client.watch(&path, WatchMode::PERSISTENT_RECURSIVE).await?;
    let data = client.get(&path).and_watch().await?;
    let below = format!("{path}/below");
    other.create(&below).await?;
    hears(&mut all, EventType::NODE_CREATED).await?;
    other.set(&path, "x").await?;
    hears(&mut all, EventType::NODE_DATA_CHANGED).await?;
    assert_eq!(soon(data.watcher).await??.event_type, EventType::NODE_DATA_CHANGED);
    other.delete(&below).await?;
    hears(&mut all, EventType::NODE_DELETED).await?;
    Ok(())
}

pub(crate) async fn a_pending_watch_survives_the_drop_of_another(scene: Arc<Scene>) -> Outcome {
    let (client, other) = (scene.client().await?, scene.client().await?);
    let path = scene.path("a");
    client.create(&path).parents(Parents::Persistent).await?;
    other.sync(&path).await?;
    for round in 0..ROUNDS {
        let first = client.get(&path).and_watch().await?;
        let mut second = pin!(client.get(&path).and_watch());
        let is_under_way = poll_fn(|context| Poll::Ready(second.as_mut().poll(context))).await;
        assert!(is_under_way.is_pending(), "the reply is held back");
        drop(first);
        let second = second.await?;
        client.sync(&path).await?;
        other.set(&path, format!("{round}")).await?;
        soon(second.watcher).await??;
    }
    Ok(())
}

pub(crate) async fn a_place_in_line_keeps_a_persistent_watch(scene: Arc<Scene>) -> Outcome {
    let (client, other) = (scene.client().await?, scene.client().await?);
    let path = scene.path("lock");
    let holder = InterProcessMutex::new(&client, &path)?.acquire().await?;
    let mut lasting = client.watch(holder.path(), WatchMode::PERSISTENT).await?;
    // The waiter watches the znode of the holder with the same client.
    let (waiter, of_holder) = (InterProcessMutex::new(&client, &path)?, holder.path().to_owned());
    let waiting = tokio::spawn(async move { waiter.acquire().await });
    scene.until_in_line(&path, 2).await?;
    client.sync(&path).await?;
    waiting.abort();
    scene.until_in_line(&path, 1).await?;
    other.set(&of_holder, "x").await?;
    hears(&mut lasting, EventType::NODE_DATA_CHANGED).await?;
    other.set(&of_holder, "y").await?;
    hears(&mut lasting, EventType::NODE_DATA_CHANGED).await?;
    holder.release().await?;
    Ok(())
}
