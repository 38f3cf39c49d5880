//! What Curator's recipes offer beside their algorithm: atomic values of all types, the error policy
//! of leaders, data of participants, sessions that are handed over, migrations, and the deletion of
//! trees.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use zoolet_client::{Client, CreateMode, Parents};
use zoolet_protocol::MultiOp;
use zoolet_recipes::migration::{Migration, MigrationManager, MigrationSet};
use zoolet_recipes::{
    CachedAtomicLong, DistributedAtomicInteger, DistributedAtomicLong, DistributedAtomicValue,
    ErrorPolicy, InterProcessMutex, InterProcessSemaphoreV2, LeaderLatch, ValueError,
};

use super::Outcome;
use super::scene::Scene;

const CLIENTS: usize = 4;
const ROUNDS: usize = 20;

pub(crate) async fn one_client_replaces_a_value(scene: Arc<Scene>) -> Outcome {
    let path = scene.path("owner");
    let first = DistributedAtomicValue::new(&scene.client().await?, &path)?;
    assert!(first.initialize("nobody").await?);
    let mut tasks = Vec::new();
    for number in 0..CLIENTS {
        let value = DistributedAtomicValue::new(&scene.client().await?, &path)?;
        let own = number.to_string();
        tasks.push(tokio::spawn(async move {
            Ok::<_, ValueError>(value.compare_and_set("nobody", own.clone()).await?.then_some(own))
        }));
    }
    let mut winners = Vec::new();
    for task in tasks {
        winners.extend(task.await??);
    }
    let [winner] = &winners[..] else { panic!("one of them replaces it: {winners:?}") };
    let after = first.try_set("somebody").await?;
    assert_eq!(after.before.as_deref(), Some(winner.as_bytes()));
    Ok(())
}

pub(crate) async fn numbers_of_32_bits_and_reserved_ones_are_unique(scene: Arc<Scene>) -> Outcome {
    let mut tasks = Vec::new();
    for _ in 0..CLIENTS {
        let client = scene.client().await?;
        let number = DistributedAtomicInteger::new(&client, &scene.path("n"))?;
        let ids = DistributedAtomicLong::new(&client, &scene.path("ids"))?;
        let ids = CachedAtomicLong::new(&ids, 10);
        tasks.push(tokio::spawn(async move {
            let (mut counted, mut reserved) = (Vec::new(), Vec::new());
            while counted.len() < ROUNDS {
                match number.increment().await {
                    Err(ValueError::Contended { .. }) => {}
                    change => counted.push(change?.after),
                }
            }
            while reserved.len() < ROUNDS {
                match ids.next().await {
                    Err(ValueError::Contended { .. }) => {}
                    number => reserved.push(number?),
                }
            }
            Ok::<_, ValueError>((counted, reserved))
        }));
    }
    let (mut counted, mut reserved) = (BTreeSet::new(), BTreeSet::new());
    for task in tasks {
        let (more, others) = task.await??;
        counted.extend(more);
        reserved.extend(others);
    }
    assert_eq!(counted, (1..).take(CLIENTS * ROUNDS).collect());
    assert_eq!(reserved, (1..).take(CLIENTS * ROUNDS).collect(), "each block is used up");
    Ok(())
}

pub(crate) async fn a_disconnect_ends_a_term_by_the_policy_connection(
    scene: Arc<Scene>,
) -> Outcome {
    let (client, way) = scene.client_behind_proxy().await?;
    let builder = LeaderLatch::builder(&client, &scene.path("leader")).id("one");
    let latch = builder.error_policy(ErrorPolicy::Connection).start()?;
    let term = latch.await_leadership().await?;
    let mut terms = latch.term();
    way.refuse(true);
    way.cut();
    terms.wait_for(Option::is_none).await?;
    way.refuse(false);
    let again = latch.await_leadership().await?;
    assert_eq!(again.fencing_token(), term.fencing_token(), "the session and the place live on");
    latch.close().await?;
    Ok(())
}

/// Two clients carry out two migrations that could be carried out any number of times, while the
/// connection of one is cut.
pub(crate) async fn no_migration_runs_twice_over_cut_connections(scene: Arc<Scene>) -> Outcome {
    let (client, way) = scene.client_behind_proxy().await?;
    let other = scene.client().await?;
    for round in 0..10 {
        let path = |name: &str| scene.path(&format!("{name}-{round}"));
        let (runs, meta_data) = (path("runs"), path("meta"));
        // The server deletes no container in which something is.
        other.create(&format!("{meta_data}/app")).parents(Parents::Persistent).await?;
        other.create(&runs).await?;
        let run = MultiOp::create(format!("{runs}/run-"), "", CreateMode::PersistentSequential);
        let migrations = [vec![run.clone()], vec![run]].map(Migration::new);
        let set = MigrationSet::new("app", migrations.to_vec());
        let manager = |client| MigrationManager::new(client, &path("locks"), &meta_data);
        let (one, two) = (manager(&client), manager(&other));
        let cut = async {
            tokio::time::sleep(Duration::from_millis(3 * round)).await;
            way.cut();
        };
        let (first, second, ()) = tokio::join!(one.migrate(&set), two.migrate(&set), cut);
        first?;
        second?;
        let found = other.children(&runs).await?.iter().count();
        assert_eq!(found, 2, "in round {round}");
    }
    Ok(())
}

pub(crate) async fn a_tree_is_deleted_over_a_cut_connection(scene: Arc<Scene>) -> Outcome {
    let (client, way) = scene.client_behind_proxy().await?;
    let other = scene.client().await?;
    let top = scene.path("top");
    for branch in 0..3 {
        other.create(&format!("{top}/{branch}/x")).parents(Parents::Persistent).await?;
        let creates = (0..200).map(|leaf| other.create(&format!("{top}/{branch}/x/{leaf}")).send());
        for created in creates.collect::<Vec<_>>() {
            created.await?;
        }
    }
    client.sync(&top).await?;
    let cut = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        way.cut();
    };
    let (deleted, ()) = tokio::join!(client.delete_with_descendants(&top), cut);
    deleted?;
    assert_eq!(client.exists(&top).await?, None);
    Ok(())
}

pub(crate) async fn participants_have_data(scene: Arc<Scene>) -> Outcome {
    let (one, other) = (scene.client().await?, scene.client().await?);
    let of = |client: &Client, data: &'static str| {
        InterProcessMutex::new(client, &scene.path("lock")).map(|lock| lock.with_data(data))
    };
    let guard = of(&one, "holder")?.acquire().await?;
    let waiting = of(&other, "waiter")?;
    let waiter = tokio::spawn(async move { waiting.acquire().await });
    scene.until_in_line(&scene.path("lock"), 2).await?;
    one.sync(&scene.path("lock")).await?;
    let participants = of(&one, "")?.participants_with_data().await?;
    let data: Vec<_> = participants.iter().map(|(_, data)| &data[..]).collect();
    assert_eq!(data, [b"holder", b"waiter"]);
    guard.release().await?;
    waiter.await??.release().await?;
    let seats = InterProcessSemaphoreV2::new(&one, &scene.path("seats"), 3)?.with_data("seat");
    let permits = seats.acquire(3).await?;
    let held = seats.participants_with_data().await?;
    assert!(held.len() == 3 && held.iter().all(|(_, data)| data == "seat"), "{held:?}");
    permits.release().await?;
    Ok(())
}

pub(crate) async fn a_session_goes_on_in_another_client(scene: Arc<Scene>) -> Outcome {
    let raw = scene.client().await?;
    let path = scene.path("member");
    let old = scene.unlisted_client().await?;
    old.create(&path).mode(CreateMode::Ephemeral).parents(Parents::Containers).await?;
    let saved = old.hand_over().ok_or("it has a session")?;
    let id = saved.id();
    let new = scene.client_with_session(saved.clone()).await?;
    assert_eq!(new.session_id(), id);
    let stat = new.exists(&path).await?.ok_or("the ephemeral has stayed")?;
    assert_eq!(stat.ephemeral_owner, id);
    new.close().await?;
    raw.sync(&path).await?;
    assert_eq!(raw.exists(&path).await?, None, "the new client has the whole session");
    let late = scene.client_with_session(saved.clone()).await?;
    assert_ne!(late.session_id(), id, "a session that is over is replaced");
    Ok(())
}
