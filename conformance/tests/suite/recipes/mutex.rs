//! The mutex.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use zoolet_client::Client;
use zoolet_protocol::{Acl, ErrorCode, Permissions};
use zoolet_recipes::{Guard, InterProcessMutex, LockError, LockState};

use super::Outcome;
use super::scene::{A_WHILE, Inside, Scene, soon, waits};

const CLIENTS: usize = 6;
const ROUNDS: usize = 10;

const SHORT: Duration = Duration::from_millis(300);

type Waiting = JoinHandle<Result<Guard, LockError>>;

fn mutex(scene: &Scene, client: &Client) -> Result<InterProcessMutex, LockError> {
    InterProcessMutex::new(client, &scene.path("mutex"))
}

/// Starts to acquire the mutex. When this returns, it is the last of `count` in the line.
async fn waiting(
    scene: &Scene,
    client: &Client,
    count: usize,
) -> Result<Waiting, libtest_mimic::Failed> {
    let mutex = mutex(scene, client)?;
    let task = tokio::spawn(async move { mutex.acquire().await });
    scene.until_in_line(&scene.path("mutex"), count).await?;
    Ok(task)
}

pub(crate) async fn one_client_holds_the_mutex_at_a_time_and_tokens_grow(
    scene: Arc<Scene>,
) -> Outcome {
    let inside = Arc::new(Inside::default());
    let mut tasks = Vec::new();
    for _ in 0..CLIENTS {
        let mutex = mutex(&scene, &scene.client().await?)?;
        let inside = Arc::clone(&inside);
        tasks.push(tokio::spawn(async move {
            for _ in 0..ROUNDS {
                let guard = mutex.acquire().await?;
                inside.visit_alone(guard.fencing_token()).await;
                guard.release().await?;
            }
            Ok::<_, LockError>(())
        }));
    }
    inside.await_visits(tasks, CLIENTS * ROUNDS).await
}

pub(crate) async fn the_holder_learns_that_its_session_has_expired(scene: Arc<Scene>) -> Outcome {
    let (a, b) = (scene.client().await?, scene.client().await?);
    let held = mutex(&scene, &a)?.acquire().await?;
    let next = waiting(&scene, &b, 2).await?;
    waits(&next).await;
    scene.expire(&a).await?;
    soon(held.lost()).await?;
    assert_eq!(held.state(), LockState::Lost);
    let next = soon(next).await???;
    assert!(next.fencing_token() > held.fencing_token());
    assert!(matches!(held.release().await, Err(LockError::Lost(_))));
    let again = waiting(&scene, &a, 2).await?;
    waits(&again).await;
    next.release().await?;
    soon(again).await???.release().await?;
    Ok(())
}

pub(crate) async fn a_waiter_enters_again_in_a_new_session(scene: Arc<Scene>) -> Outcome {
    let (a, b) = (scene.client().await?, scene.client().await?);
    let held = mutex(&scene, &a)?.acquire().await?;
    let next = waiting(&scene, &b, 2).await?;
    let line = scene.line(&scene.path("mutex")).await?;
    scene.expire(&b).await?;
    let is_new = async || {
        let now = scene.line(&scene.path("mutex")).await?;
        Ok(now.len() == 2 && now[0] == line[0] && now[1] != line[1])
    };
    scene.until("a new place", is_new).await?;
    waits(&next).await;
    held.release().await?;
    soon(next).await???.release().await?;
    Ok(())
}

pub(crate) async fn the_holder_learns_that_its_znode_was_deleted(scene: Arc<Scene>) -> Outcome {
    let (a, b, admin) = (scene.client().await?, scene.client().await?, scene.client().await?);
    let held = mutex(&scene, &a)?.acquire().await?;
    let next = waiting(&scene, &b, 2).await?;
    let work = held.run(std::future::pending::<()>());
    admin.delete(held.path()).await?;
    assert!(matches!(soon(work).await?, Err(LockError::Lost(_))));
    assert_eq!(held.state(), LockState::Lost);
    let next = soon(next).await???;
    assert!(next.fencing_token() > held.fencing_token());
    assert!(matches!(held.release().await, Err(LockError::Lost(_))));
    next.release().await?;
    Ok(())
}

pub(crate) async fn a_waiter_enters_again_when_its_znode_was_deleted(scene: Arc<Scene>) -> Outcome {
    let (a, b, c) = (scene.client().await?, scene.client().await?, scene.client().await?);
    let held = mutex(&scene, &a)?.acquire().await?;
    let second = waiting(&scene, &b, 2).await?;
    let third = waiting(&scene, &c, 3).await?;
    let line = scene.line(&scene.path("mutex")).await?;
    a.delete(&format!("{}/{}", scene.path("mutex"), line[1])).await?;
    let is_new = async || {
        let now = scene.line(&scene.path("mutex")).await?;
        Ok(now.len() == 3 && now[..2] == [line[0].clone(), line[2].clone()])
    };
    scene.until("a new place after the third", is_new).await?;
    waits(&second).await;
    waits(&third).await;
    held.release().await?;
    let held = soon(third).await???;
    waits(&second).await;
    held.release().await?;
    soon(second).await???.release().await?;
    Ok(())
}

pub(crate) async fn a_cut_connection_keeps_the_place(scene: Arc<Scene>) -> Outcome {
    let (a, way_of_a) = scene.client_behind_proxy().await?;
    let (b, way_of_b) = scene.client_behind_proxy().await?;
    let c = scene.client().await?;
    let held = mutex(&scene, &a)?.acquire().await?;
    let second = waiting(&scene, &b, 2).await?;
    let third = waiting(&scene, &c, 3).await?;
    let line = scene.line(&scene.path("mutex")).await?;
    for _ in 0..3 {
        way_of_a.cut();
        way_of_b.cut();
        waits(&second).await;
    }
    scene.until("held for sure", async || Ok(held.state() == LockState::Held)).await?;
    assert_eq!(scene.line(&scene.path("mutex")).await?, line);
    held.release().await?;
    let held = soon(second).await???;
    assert!(held.path().ends_with(&line[1]), "{} is not {}", held.path(), line[1]);
    waits(&third).await;
    held.release().await?;
    soon(third).await???.release().await?;
    Ok(())
}

pub(crate) async fn changes_during_a_disconnect_are_noticed_afterwards(
    scene: Arc<Scene>,
) -> Outcome {
    let a = scene.client().await?;
    let (b, way) = scene.client_behind_proxy().await?;
    let held = mutex(&scene, &a)?.acquire().await?;
    let next = waiting(&scene, &b, 2).await?;
    waits(&next).await;
    way.refuse(true);
    way.cut();
    held.release().await?;
    waits(&next).await;
    way.refuse(false);
    soon(next).await???.release().await?;
    Ok(())
}

pub(crate) async fn a_lost_reply_leaves_one_znode(scene: Arc<Scene>) -> Outcome {
    let a = scene.client().await?;
    let (b, way) = scene.client_behind_proxy().await?;
    mutex(&scene, &a)?.acquire().await?.release().await?;
    way.deafen();
    let first = waiting(&scene, &b, 1).await?;
    way.cut();
    let held = soon(first).await???;
    assert_eq!(scene.line(&scene.path("mutex")).await?.len(), 1);
    assert_eq!(held.state(), LockState::Held);
    let second = waiting(&scene, &a, 2).await?;
    way.deafen();
    let leaving = tokio::spawn(held.release());
    soon(second).await???.release().await?;
    way.cut();
    // The deletion succeeded, or was sent twice and the second found no znode.
    let left = soon(leaving).await??;
    assert!(matches!(left, Ok(()) | Err(LockError::Lost(_))), "{left:?}");
    Ok(())
}

pub(crate) async fn a_waiter_that_times_out_admits_nobody(scene: Arc<Scene>) -> Outcome {
    let (a, b, c) = (scene.client().await?, scene.client().await?, scene.client().await?);
    let held = mutex(&scene, &a)?.acquire().await?;
    let second = waiting(&scene, &b, 2).await?;
    let third = waiting(&scene, &c, 3).await?;
    waits(&second).await;
    second.abort();
    scene.until_in_line(&scene.path("mutex"), 2).await?;
    waits(&third).await;
    held.release().await?;
    soon(third).await???.release().await?;
    Ok(())
}

pub(crate) async fn a_waiter_that_times_out_while_disconnected_leaves_nothing(
    scene: Arc<Scene>,
) -> Outcome {
    let a = scene.client().await?;
    let (b, way) = scene.client_behind_proxy().await?;
    let held = mutex(&scene, &a)?.acquire().await?;
    let second = waiting(&scene, &b, 2).await?;
    way.refuse(true);
    way.cut();
    tokio::time::sleep(A_WHILE).await;
    second.abort();
    way.refuse(false);
    scene.until_in_line(&scene.path("mutex"), 1).await?;
    held.release().await?;
    Ok(())
}

pub(crate) async fn acquire_within_times_out_with_and_without_a_connection(
    scene: Arc<Scene>,
) -> Outcome {
    let a = scene.client().await?;
    let (b, way) = scene.client_behind_proxy().await?;
    let held = mutex(&scene, &a)?.acquire().await?;
    let mutex = mutex(&scene, &b)?;
    assert!(mutex.try_acquire().await?.is_none());
    assert!(matches!(soon(mutex.acquire_within(SHORT)).await?, Err(LockError::TimedOut(_))));
    way.refuse(true);
    way.cut();
    assert!(matches!(soon(mutex.acquire_within(SHORT)).await?, Err(LockError::TimedOut(_))));
    way.refuse(false);
    scene.until_in_line(&scene.path("mutex"), 1).await?;
    held.release().await?;
    let free = async || Ok(mutex.try_acquire().await?.is_some());
    scene.until("it can be had", free).await
}

pub(crate) async fn a_waiter_behind_an_unreadable_znode_acquires_the_lock(
    scene: Arc<Scene>,
) -> Outcome {
    let a = scene.client().await?;
    // After a third of this it checks whether it receives events of the znode ahead.
    let b = scene.client_with_timeout(Duration::from_secs(6)).await?;
    // Everyone may use the directory.
    mutex(&scene, &a)?.acquire().await?.release().await?;
    let unreadable = vec![Acl { permissions: Permissions::WRITE, ..Acl::open() }];
    let held = mutex(&scene, &a)?.with_acl(unreadable).acquire().await?;
    // The follower that `b` asks may not have the znode yet.
    b.sync(held.path()).await?;
    let read = b.get(held.path()).await;
    assert!(read.as_ref().is_err_and(|error| error.is(ErrorCode::NO_AUTH)), "{read:?}");
    let next = waiting(&scene, &b, 2).await?;
    waits(&next).await;
    held.release().await?;
    soon(next).await???.release().await?;
    Ok(())
}
