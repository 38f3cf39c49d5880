//! The barrier.

use std::sync::Arc;

use zoolet_client::Client;
use zoolet_recipes::{DistributedBarrier, LockError};

use super::Outcome;
use super::scene::{A_WHILE, Scene, soon, waits};

const CLIENTS: usize = 5;

fn barrier(scene: &Scene, client: &Client) -> Result<DistributedBarrier, LockError> {
    DistributedBarrier::new(client, &scene.path("barrier"))
}

pub(crate) async fn removing_the_barrier_releases_all_waiters(scene: Arc<Scene>) -> Outcome {
    let gate = barrier(&scene, &scene.client().await?)?;
    gate.wait().await?; // there is none
    gate.set().await?;
    let mut waiting = Vec::new();
    for _ in 0..CLIENTS {
        let client = scene.client().await?;
        client.sync(&scene.path("barrier")).await?;
        let barrier = barrier(&scene, &client)?;
        waiting.push(tokio::spawn(async move { barrier.wait().await }));
    }
    for task in &waiting {
        waits(task).await;
    }
    gate.remove().await?;
    for task in waiting {
        soon(task).await???;
    }
    Ok(())
}

pub(crate) async fn a_wait_continues_after_a_disconnect_and_after_expiry(
    scene: Arc<Scene>,
) -> Outcome {
    let gate = barrier(&scene, &scene.client().await?)?;
    let (client, way) = scene.client_behind_proxy().await?;
    gate.set().await?;
    client.sync(&scene.path("barrier")).await?;
    let waiting = barrier(&scene, &client)?;
    let waiting = tokio::spawn(async move { waiting.wait().await });
    waits(&waiting).await;
    way.cut();
    waits(&waiting).await;
    scene.expire(&client).await?;
    waits(&waiting).await;
    way.refuse(true);
    way.cut();
    gate.remove().await?;
    waits(&waiting).await;
    way.refuse(false);
    soon(waiting).await???;
    Ok(())
}

pub(crate) async fn a_wait_that_times_out_leaves_nothing(scene: Arc<Scene>) -> Outcome {
    let barrier = barrier(&scene, &scene.client().await?)?;
    barrier.set().await?;
    assert!(matches!(soon(barrier.wait_within(A_WHILE)).await?, Err(LockError::TimedOut(_))));
    // The barrier is set, so a watch could be left.
    scene.assert_clean().await?;
    barrier.remove().await?;
    Ok(())
}
