//! The semaphore.

use std::sync::Arc;

use libtest_mimic::Failed;
use tokio::task::JoinHandle;
use zoolet_client::Client;
use zoolet_recipes::{InterProcessSemaphoreV2, LockError, Permits};

use super::Outcome;
use super::scene::{Inside, Scene, soon, waits};

const CLIENTS: usize = 6;
const ROUNDS: usize = 10;
const PERMITS: usize = 3;

type Waiting = JoinHandle<Result<Permits, LockError>>;

fn semaphore(scene: &Scene, client: &Client) -> Result<InterProcessSemaphoreV2, LockError> {
    InterProcessSemaphoreV2::new(client, &scene.path("semaphore"), PERMITS)
}

fn gate(scene: &Scene) -> String {
    scene.path("semaphore/locks")
}

fn permits(scene: &Scene) -> String {
    scene.path("semaphore/leases")
}

/// Starts to acquire permits. When this returns, it is the last of `before` at the gate.
async fn waiting(
    scene: &Scene,
    client: &Client,
    count: usize,
    before: usize,
) -> Result<Waiting, Failed> {
    let semaphore = semaphore(scene, client)?;
    let task = tokio::spawn(async move { semaphore.acquire(count).await });
    scene.until_in_line(&gate(scene), before).await?;
    Ok(task)
}

pub(crate) async fn clients_never_hold_more_permits_than_the_maximum(scene: Arc<Scene>) -> Outcome {
    let inside = Arc::new(Inside::default());
    let mut tasks = Vec::new();
    for number in 0..CLIENTS {
        let (semaphore, inside) = (semaphore(&scene, &scene.client().await?)?, Arc::clone(&inside));
        tasks.push(tokio::spawn(async move {
            for round in 0..ROUNDS {
                let count = (number + round) % PERMITS + 1;
                let permits = semaphore.acquire(count).await?;
                inside.visit(count, PERMITS).await;
                permits.release().await?;
            }
            Ok::<_, LockError>(())
        }));
    }
    inside.await_visits(tasks, CLIENTS * ROUNDS).await
}

pub(crate) async fn the_permits_of_an_ended_session_are_free(scene: Arc<Scene>) -> Outcome {
    let (a, b) = (scene.client().await?, scene.client().await?);
    let held = semaphore(&scene, &a)?.acquire(2).await?;
    let next = waiting(&scene, &b, PERMITS, 1).await?;
    waits(&next).await;
    scene.expire(&a).await?;
    let next = soon(next).await???;
    assert!(next.fencing_token() > held.fencing_token());
    assert!(matches!(held.release().await, Err(LockError::Lost(_))));
    assert_eq!(scene.line(&permits(&scene)).await?.len(), PERMITS);
    next.release().await?;
    Ok(())
}

pub(crate) async fn a_deleted_permit_is_free(scene: Arc<Scene>) -> Outcome {
    let (a, b) = (scene.client().await?, scene.client().await?);
    let held = semaphore(&scene, &a)?.acquire(PERMITS).await?;
    let next = waiting(&scene, &b, 1, 1).await?;
    waits(&next).await;
    b.delete(&held.paths()[0]).await?;
    soon(next).await???.release().await?;
    assert!(matches!(held.release().await, Err(LockError::Lost(_))));
    scene.until_in_line(&permits(&scene), 0).await?;
    Ok(())
}

pub(crate) async fn the_next_waiter_acquires_when_the_one_in_front_times_out(
    scene: Arc<Scene>,
) -> Outcome {
    let (a, b, c) = (scene.client().await?, scene.client().await?, scene.client().await?);
    let held = semaphore(&scene, &a)?.acquire(2).await?;
    let wants_all = waiting(&scene, &b, PERMITS, 1).await?;
    let wants_one = waiting(&scene, &c, 1, 2).await?;
    waits(&wants_one).await;
    wants_all.abort();
    soon(wants_one).await???.release().await?;
    held.release().await?;
    Ok(())
}

pub(crate) async fn a_cut_connection_keeps_the_place(scene: Arc<Scene>) -> Outcome {
    let (a, way_of_a) = scene.client_behind_proxy().await?;
    let (b, way_of_b) = scene.client_behind_proxy().await?;
    let (c, way_of_c) = scene.client_behind_proxy().await?;
    let held = semaphore(&scene, &a)?.acquire(PERMITS).await?;
    let first = waiting(&scene, &b, 2, 1).await?;
    let second = waiting(&scene, &c, 2, 2).await?;
    let line = scene.line(&gate(&scene)).await?;
    for way in [&way_of_a, &way_of_b, &way_of_c] {
        way.cut();
        waits(&first).await;
        waits(&second).await;
    }
    assert_eq!(scene.line(&gate(&scene)).await?, line);
    held.release().await?;
    let first = soon(first).await???;
    waits(&second).await;
    way_of_c.refuse(true);
    way_of_c.cut();
    first.release().await?;
    way_of_c.refuse(false);
    soon(second).await???.release().await?;
    Ok(())
}

pub(crate) async fn a_lost_reply_does_not_take_permits_twice(scene: Arc<Scene>) -> Outcome {
    let a = scene.client().await?;
    let (b, way) = scene.client_behind_proxy().await?;
    let held = semaphore(&scene, &a)?.acquire(PERMITS).await?;
    let next = waiting(&scene, &b, 2, 1).await?;
    waits(&next).await;
    // Either the reply that gave it the permits is lost, or the event that would have made it ask
    // for them.
    way.deafen();
    held.release().await?;
    way.cut();
    let next = soon(next).await???;
    assert_eq!(scene.line(&permits(&scene)).await?.len(), 2);
    assert_eq!(next.len(), 2);
    way.deafen();
    let again = waiting(&scene, &b, 1, 1).await?;
    way.cut();
    let again = soon(again).await???;
    assert_eq!(scene.line(&permits(&scene)).await?.len(), PERMITS);
    again.release().await?;
    next.release().await?;
    Ok(())
}
