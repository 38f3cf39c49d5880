//! The latch and the selector.

use std::sync::Arc;

use libtest_mimic::Failed;
use zoolet_client::Client;
use zoolet_recipes::{InterProcessMutex, LeaderLatch, LeaderSelector, LockError, Requeue, Term};

use super::Outcome;
use super::scene::{A_WHILE, Inside, Scene, soon, waits};

const CLIENTS: usize = 4;
const TERMS: usize = 5;

/// Starts a latch. When this returns, it is the last of `count` in the line.
async fn latch(scene: &Scene, client: &Client, count: usize) -> Result<LeaderLatch, Failed> {
    let latch = LeaderLatch::start(client, &scene.path("latch"), &count.to_string())?;
    scene.until_in_line(&scene.path("latch"), count).await?;
    Ok(latch)
}

/// Waits until a latch leads, and returns its fencing token.
async fn leads(latch: &LeaderLatch) -> Result<Term, Failed> {
    Ok(soon(latch.await_leadership()).await??)
}

pub(crate) async fn one_client_leads_after_another(scene: Arc<Scene>) -> Outcome {
    let inside = Arc::new(Inside::default());
    let mut tasks = Vec::new();
    for _ in 0..CLIENTS {
        let (client, inside) = (scene.client().await?, Arc::clone(&inside));
        let path = scene.path("latch");
        tasks.push(tokio::spawn(async move {
            for _ in 0..TERMS {
                let latch = LeaderLatch::start(&client, &path, "one")?;
                let term = latch.await_leadership().await?;
                inside.visit_alone(term.fencing_token()).await;
                latch.close().await?;
            }
            Ok::<_, LockError>(())
        }));
    }
    inside.await_visits(tasks, CLIENTS * TERMS).await
}

pub(crate) async fn the_next_leads_when_the_session_has_ended(scene: Arc<Scene>) -> Outcome {
    let (a, b) = (scene.client().await?, scene.client().await?);
    let (first, second) = (latch(&scene, &a, 1).await?, latch(&scene, &b, 2).await?);
    let before = leads(&first).await?;
    assert!(!second.is_leader());
    scene.expire(&a).await?;
    let after = leads(&second).await?;
    assert!(after.fencing_token() > before.fencing_token());
    // The former leader is now at the end of the line.
    scene.until_in_line(&scene.path("latch"), 2).await?;
    scene.until("it does not lead any more", async || Ok(!first.is_leader())).await?;
    assert!(matches!(before.transaction(Vec::new()).await.map(drop), Err(LockError::Lost(_))));
    second.close().await?;
    leads(&first).await?;
    first.close().await?;
    Ok(())
}

pub(crate) async fn the_next_leads_when_the_znode_was_deleted(scene: Arc<Scene>) -> Outcome {
    let (a, b) = (scene.client().await?, scene.client().await?);
    let (first, second) = (latch(&scene, &a, 1).await?, latch(&scene, &b, 2).await?);
    b.delete(leads(&first).await?.path()).await?;
    leads(&second).await?;
    scene.until("it does not lead any more", async || Ok(!first.is_leader())).await?;
    scene.until_in_line(&scene.path("latch"), 2).await?;
    first.close().await?;
    second.close().await?;
    Ok(())
}

pub(crate) async fn a_cut_connection_keeps_the_leadership(scene: Arc<Scene>) -> Outcome {
    let (a, way_of_a) = scene.client_behind_proxy().await?;
    let (b, way_of_b) = scene.client_behind_proxy().await?;
    let (first, second) = (latch(&scene, &a, 1).await?, latch(&scene, &b, 2).await?);
    let term = leads(&first).await?;
    way_of_a.refuse(true);
    way_of_a.cut();
    let is_connected =
        |client: &Client| client.state().borrow().is_some_and(|it| it.is_connected());
    scene.until("the leader has no connection", async || Ok(!is_connected(&a))).await?;
    way_of_b.cut();
    tokio::time::sleep(A_WHILE).await;
    // A leader needs no connection while the proof of its session holds.
    assert!(first.is_leader() && !second.is_leader());
    way_of_a.refuse(false);
    scene.until("it is connected again", async || Ok(is_connected(&a))).await?;
    assert!(first.is_leader());
    assert_eq!(leads(&first).await?.fencing_token(), term.fencing_token());
    first.close().await?;
    leads(&second).await?;
    second.close().await?;
    Ok(())
}

pub(crate) async fn the_selector_uses_the_line_of_the_mutex(scene: Arc<Scene>) -> Outcome {
    let (a, b) = (scene.client().await?, scene.client().await?);
    let path = scene.path("selector");
    let lead = |_: Term| std::future::pending();
    let selector = LeaderSelector::start(&a, &path, "one", Requeue::Always, lead)?;
    scene.until("it leads", async || Ok(selector.has_leadership())).await?;
    let mutex = InterProcessMutex::new(&b, &path)?;
    let waiting = tokio::spawn(async move { mutex.acquire().await });
    scene.until_in_line(&path, 2).await?;
    waits(&waiting).await;
    selector.interrupt_leadership();
    let held = soon(waiting).await???;
    // The selector waits behind the mutex.
    scene.until_in_line(&path, 2).await?;
    tokio::time::sleep(A_WHILE).await;
    assert!(!selector.has_leadership());
    held.release().await?;
    scene.until("it leads again", async || Ok(selector.has_leadership())).await?;
    scene.expire(&a).await?;
    let mutex = InterProcessMutex::new(&b, &path)?;
    let held = soon(mutex.acquire()).await??;
    tokio::time::sleep(A_WHILE).await;
    assert!(!selector.has_leadership());
    held.release().await?;
    scene.until("it leads in its new session", async || Ok(selector.has_leadership())).await?;
    selector.close().await?;
    Ok(())
}
