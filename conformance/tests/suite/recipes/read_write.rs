//! The read-write lock.

use std::sync::Arc;

use libtest_mimic::Failed;
use tokio::task::JoinHandle;
use zoolet_client::Client;
use zoolet_recipes::{Guard, InterProcessReadWriteLock, LockError, LockState};

use super::Outcome;
use super::scene::{Inside, Scene, soon, waits};

const CLIENTS: usize = 6;
const ROUNDS: usize = 10;
const READERS_MAX: usize = 1_000;

type Waiting = JoinHandle<Result<Guard, LockError>>;

fn lock(scene: &Scene, client: &Client) -> Result<InterProcessReadWriteLock, LockError> {
    InterProcessReadWriteLock::new(client, &scene.path("lock"))
}

/// Starts to acquire the read lock. When this returns, it is the last of `count` in the line.
async fn reading(scene: &Scene, client: &Client, count: usize) -> Result<Waiting, Failed> {
    let lock = lock(scene, client)?.read_lock();
    let task = tokio::spawn(async move { lock.acquire().await });
    scene.until_in_line(&scene.path("lock"), count).await?;
    Ok(task)
}

/// Starts to acquire the write lock. When this returns, it is the last of `count` in the line.
async fn writing(scene: &Scene, client: &Client, count: usize) -> Result<Waiting, Failed> {
    let lock = lock(scene, client)?.write_lock();
    let task = tokio::spawn(async move { lock.acquire().await });
    scene.until_in_line(&scene.path("lock"), count).await?;
    Ok(task)
}

pub(crate) async fn a_writer_holds_the_lock_alone(scene: Arc<Scene>) -> Outcome {
    let inside = Arc::new(Inside::default());
    let mut tasks = Vec::new();
    for number in 0..CLIENTS {
        let (lock, inside) = (lock(&scene, &scene.client().await?)?, Arc::clone(&inside));
        tasks.push(tokio::spawn(async move {
            for round in 0..ROUNDS {
                let is_writer = (number + round) % 3 == 0;
                let guard = match is_writer {
                    true => lock.write_lock().acquire().await?,
                    false => lock.read_lock().acquire().await?,
                };
                let weight = if is_writer { READERS_MAX } else { 1 };
                inside.visit(weight, READERS_MAX).await;
                guard.release().await?;
            }
            Ok::<_, LockError>(())
        }));
    }
    inside.await_visits(tasks, CLIENTS * ROUNDS).await
}

pub(crate) async fn a_reader_behind_a_waiting_writer_waits(scene: Arc<Scene>) -> Outcome {
    let (a, b, c) = (scene.client().await?, scene.client().await?, scene.client().await?);
    let first = lock(&scene, &a)?.read_lock().acquire().await?;
    let beside = lock(&scene, &b)?.read_lock().acquire().await?;
    let writer = writing(&scene, &c, 3).await?;
    let last = reading(&scene, &scene.client().await?, 4).await?;
    waits(&last).await;
    first.release().await?;
    waits(&writer).await;
    beside.release().await?;
    let writer = soon(writer).await???;
    waits(&last).await;
    writer.release().await?;
    soon(last).await???.release().await?;
    Ok(())
}

pub(crate) async fn a_downgraded_lock_admits_no_writer(scene: Arc<Scene>) -> Outcome {
    let (a, b, c) = (scene.client().await?, scene.client().await?, scene.client().await?);
    let lock = lock(&scene, &a)?;
    let write = lock.write_lock().acquire().await?;
    let writer = writing(&scene, &b, 2).await?;
    let reader = reading(&scene, &c, 3).await?;
    let read = lock.read_lock().acquire_beside(&write).await?;
    assert_eq!(read.fencing_token(), write.fencing_token());
    write.release().await?;
    waits(&writer).await;
    waits(&reader).await;
    read.release().await?;
    let writer = soon(writer).await???;
    waits(&reader).await;
    writer.release().await?;
    soon(reader).await???.release().await?;
    Ok(())
}

pub(crate) async fn readers_acquire_when_the_session_of_the_writer_has_ended(
    scene: Arc<Scene>,
) -> Outcome {
    let (a, b, c) = (scene.client().await?, scene.client().await?, scene.client().await?);
    let writer = lock(&scene, &a)?.write_lock().acquire().await?;
    let readers = [reading(&scene, &b, 2).await?, reading(&scene, &c, 3).await?];
    waits(&readers[1]).await;
    scene.expire(&a).await?;
    soon(writer.lost()).await?;
    let [b, c] = readers;
    let (b, c) = (soon(b).await???, soon(c).await???);
    assert_eq!((b.state(), c.state()), (LockState::Held, LockState::Held));
    assert!(matches!(writer.release().await, Err(LockError::Lost(_))));
    b.release().await?;
    c.release().await?;
    Ok(())
}

pub(crate) async fn readers_acquire_when_the_writer_ahead_times_out(scene: Arc<Scene>) -> Outcome {
    let (a, b, c) = (scene.client().await?, scene.client().await?, scene.client().await?);
    let first = lock(&scene, &a)?.read_lock().acquire().await?;
    let writer = writing(&scene, &b, 2).await?;
    let reader = reading(&scene, &c, 3).await?;
    waits(&reader).await;
    writer.abort();
    soon(reader).await???.release().await?;
    first.release().await?;
    Ok(())
}

pub(crate) async fn a_writer_does_not_wait_for_a_deleted_reader(scene: Arc<Scene>) -> Outcome {
    let (a, b, c) = (scene.client().await?, scene.client().await?, scene.client().await?);
    let first = lock(&scene, &a)?.read_lock().acquire().await?;
    let second = lock(&scene, &b)?.read_lock().acquire().await?;
    let writer = writing(&scene, &c, 3).await?;
    c.delete(second.path()).await?;
    soon(second.lost()).await?;
    waits(&writer).await;
    first.release().await?;
    soon(writer).await???.release().await?;
    assert!(matches!(second.release().await, Err(LockError::Lost(_))));
    Ok(())
}

pub(crate) async fn a_cut_connection_keeps_the_place(scene: Arc<Scene>) -> Outcome {
    let (a, way_of_a) = scene.client_behind_proxy().await?;
    let (b, way_of_b) = scene.client_behind_proxy().await?;
    let (c, way_of_c) = scene.client_behind_proxy().await?;
    let first = lock(&scene, &a)?.read_lock().acquire().await?;
    let writer = writing(&scene, &b, 2).await?;
    let reader = reading(&scene, &c, 3).await?;
    let line = scene.line(&scene.path("lock")).await?;
    for way in [&way_of_a, &way_of_b, &way_of_c] {
        way.cut();
        waits(&writer).await;
        waits(&reader).await;
    }
    assert_eq!(scene.line(&scene.path("lock")).await?, line);
    first.release().await?;
    let writer = soon(writer).await???;
    waits(&reader).await;
    way_of_c.cut();
    writer.release().await?;
    soon(reader).await???.release().await?;
    Ok(())
}
