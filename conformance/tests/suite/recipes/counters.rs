//! Counters that several clients change.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Failed;
use zoolet_client::Error;
use zoolet_recipes::{DistributedAtomicLong, SharedCount, ValueError};

use super::Outcome;
use super::scene::Scene;

const CLIENTS: usize = 4;
const ROUNDS: usize = 20;

/// How many times connections are cut, and at which intervals.
const CUTS: usize = 15;
const BETWEEN_CUTS: Duration = Duration::from_millis(40);

pub(crate) async fn concurrent_increments_all_count(scene: Arc<Scene>) -> Outcome {
    let mut tasks = Vec::new();
    for _ in 0..CLIENTS {
        let client = scene.client().await?;
        let number = DistributedAtomicLong::new(&client, &scene.path("number"))?;
        tasks.push(tokio::spawn(async move {
            let mut reached = Vec::new();
            while reached.len() < ROUNDS {
                match number.increment().await {
                    Err(ValueError::Contended { .. }) => {}
                    change => reached.push(change?.after),
                }
            }
            Ok::<_, ValueError>(reached)
        }));
    }
    let mut reached = BTreeSet::new();
    for task in tasks {
        reached.extend(task.await??);
    }
    let all: BTreeSet<_> = (1..).take(CLIENTS * ROUNDS).collect();
    assert_eq!(reached, all);
    Ok(())
}

pub(crate) async fn no_change_is_made_twice_over_cut_connections(scene: Arc<Scene>) -> Outcome {
    let (mut tasks, mut ways) = (Vec::new(), Vec::new());
    let number = scene.path("number");
    DistributedAtomicLong::new(&scene.client().await?, &number)?.initialize(0).await?;
    for _ in 0..CLIENTS {
        let (client, way) = scene.client_behind_proxy().await?;
        let number = DistributedAtomicLong::new(&client, &number)?;
        ways.push(way);
        tasks.push(tokio::spawn(async move {
            let (mut made, mut unknown) = (0, 0);
            while made < ROUNDS {
                match number.increment().await {
                    Ok(_) => made += 1,
                    Err(ValueError::Client(Error::ConnectionLoss { .. })) => unknown += 1,
                    Err(ValueError::Contended { .. }) => {}
                    Err(ValueError::Client(error)) if error.is_retryable() => {}
                    Err(error) => return Err(Failed::from(error)),
                }
            }
            Ok((made, unknown))
        }));
    }
    for cut in 0..CUTS {
        // One or two replies are lost first.
        ways[cut % CLIENTS].deafen();
        tokio::time::sleep(BETWEEN_CUTS).await;
        ways[cut % CLIENTS].cut();
    }
    let (mut made, mut unknown) = (0, 0);
    for task in tasks {
        let (more, may_be) = task.await??;
        made += more;
        unknown += may_be;
    }
    let client = scene.client().await?;
    client.sync(&number).await?;
    let reached = DistributedAtomicLong::new(&client, &number)?.get().await?;
    let reached = usize::try_from(reached)?;
    assert!(
        (made..=made + unknown).contains(&reached),
        "{reached} is not {made} to {unknown} more"
    );
    Ok(())
}

pub(crate) async fn all_copies_receive_the_last_count(scene: Arc<Scene>) -> Outcome {
    let mut counts = Vec::new();
    for _ in 0..CLIENTS {
        let client = scene.client().await?;
        counts.push(Arc::new(SharedCount::start(&client, &scene.path("count"), 0).await?));
    }
    let mut tasks = Vec::new();
    for count in &counts {
        let count = Arc::clone(count);
        tasks.push(tokio::spawn(async move {
            let mut made = 0;
            while made < ROUNDS {
                let before = count.count()?;
                if count.try_set(before, before + 1).await? {
                    made += 1;
                }
            }
            Ok::<_, ValueError>(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    let last = i32::try_from(CLIENTS * ROUNDS)?;
    for count in &counts {
        scene.until("the last count", async || Ok(count.count()? == last)).await?;
    }
    Ok(())
}
