//! The multi-lock.

use std::sync::Arc;

use libtest_mimic::Failed;
use tokio::task::JoinHandle;
use zoolet_client::Client;
use zoolet_recipes::{InterProcessMultiLock, InterProcessMutex, LockError, MultiGuard};

use super::Outcome;
use super::scene::{Inside, Scene, soon, waits};

const CLIENTS: usize = 4;
const ROUNDS: usize = 10;

type Waiting = JoinHandle<Result<MultiGuard, LockError>>;

fn paths(scene: &Scene) -> [String; 3] {
    ["one", "two", "three"].map(|name| scene.path(name))
}

fn all(scene: &Scene, client: &Client) -> Result<InterProcessMultiLock, LockError> {
    let paths = paths(scene);
    InterProcessMultiLock::new(client, &[&paths[0], &paths[1], &paths[2]])
}

/// Starts to acquire all locks. When this returns, it is the last of `count` in every line.
async fn waiting(scene: &Scene, client: &Client, count: usize) -> Result<Waiting, Failed> {
    let lock = all(scene, client)?;
    let task = tokio::spawn(async move { lock.acquire().await });
    until_in_lines(scene, count).await?;
    Ok(task)
}

async fn until_in_lines(scene: &Scene, count: usize) -> Outcome {
    for path in paths(scene) {
        scene.until_in_line(&path, count).await?;
    }
    Ok(())
}

pub(crate) async fn opposite_orders_do_not_deadlock(scene: Arc<Scene>) -> Outcome {
    let inside: Arc<[Inside; 3]> = Arc::default();
    let mut tasks = Vec::new();
    for number in 0..CLIENTS {
        let (client, paths) = (scene.client().await?, paths(&scene));
        let inside = Arc::clone(&inside);
        tasks.push(tokio::spawn(async move {
            for round in 0..ROUNDS {
                // Two of the three, in both orders.
                let (first, second) = ((number + round) % 3, (number + round * 2 + 1) % 3);
                let lock = InterProcessMultiLock::new(&client, &[&paths[first], &paths[second]])?;
                let guard = lock.acquire().await?;
                let mut had = vec![first, second];
                had.dedup();
                had.iter().for_each(|&path| inside[path].enter(guard.fencing_token()));
                tokio::task::yield_now().await;
                had.iter().for_each(|&path| inside[path].leave(1));
                guard.release().await?;
            }
            Ok::<_, LockError>(())
        }));
    }
    for task in tasks {
        soon(task).await???;
    }
    assert!(inside.iter().all(|inside| inside.total() > ROUNDS));
    Ok(())
}

pub(crate) async fn all_locks_are_free_when_the_session_has_ended(scene: Arc<Scene>) -> Outcome {
    let (a, b) = (scene.client().await?, scene.client().await?);
    let held = all(&scene, &a)?.acquire().await?;
    let next = waiting(&scene, &b, 2).await?;
    waits(&next).await;
    scene.expire(&a).await?;
    let next = soon(next).await???;
    assert!(next.fencing_token() > held.fencing_token());
    assert!(matches!(held.release().await, Err(LockError::Lost(_))));
    next.release().await?;
    Ok(())
}

pub(crate) async fn a_deleted_znode_makes_the_lock_enter_all_lines_again(
    scene: Arc<Scene>,
) -> Outcome {
    let (a, b) = (scene.client().await?, scene.client().await?);
    let held = all(&scene, &a)?.acquire().await?;
    let next = waiting(&scene, &b, 2).await?;
    // The place in the line where it waits, the first by name.
    let mut paths = paths(&scene);
    paths.sort();
    let line = scene.line(&paths[0]).await?;
    a.delete(&format!("{}/{}", paths[0], line[1])).await?;
    let are_new = async || {
        let now = scene.line(&paths[0]).await?;
        Ok(now.len() == 2 && now[1] != line[1])
    };
    scene.until("new places", are_new).await?;
    until_in_lines(&scene, 2).await?;
    waits(&next).await;
    held.release().await?;
    soon(next).await???.release().await?;
    Ok(())
}

pub(crate) async fn a_timeout_leaves_all_lines(scene: Arc<Scene>) -> Outcome {
    let (a, b, c) = (scene.client().await?, scene.client().await?, scene.client().await?);
    let held = all(&scene, &a)?.acquire().await?;
    let second = waiting(&scene, &b, 2).await?;
    let third = waiting(&scene, &c, 3).await?;
    waits(&second).await;
    second.abort();
    until_in_lines(&scene, 2).await?;
    waits(&third).await;
    // A mutex in one of the lines.
    held.release().await?;
    let third = soon(third).await???;
    let alone = InterProcessMutex::new(&a, &paths(&scene)[1])?;
    assert!(alone.try_acquire().await?.is_none());
    third.release().await?;
    Ok(())
}

pub(crate) async fn a_lost_reply_leaves_one_znode_in_each_line(scene: Arc<Scene>) -> Outcome {
    let a = scene.client().await?;
    let (b, way) = scene.client_behind_proxy().await?;
    all(&scene, &a)?.acquire().await?.release().await?;
    way.deafen();
    let next = waiting(&scene, &b, 1).await?;
    way.cut();
    let held = soon(next).await???;
    until_in_lines(&scene, 1).await?;
    held.release().await?;
    Ok(())
}
