//! The scenarios of Curator's own tests of its atomic numbers, by their names there.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use libtest_mimic::Failed;
use zoolet_client::{Client, RetryPolicy};
use zoolet_recipes::{
    AtomicStats, CachedAtomicLong, Change, DistributedAtomicLong, DistributedAtomicValue,
    InterProcessMutex, ValueError,
};

use super::Outcome;
use super::scene::{Scene, soon};

/// What the changes of a number have cost.
type Costs = Arc<Mutex<Vec<AtomicStats>>>;

fn counted(client: &Client, path: &str) -> Result<(DistributedAtomicLong, Costs), Failed> {
    let costs = Costs::default();
    let told = Arc::clone(&costs);
    let tell = move |cost: &AtomicStats| told.lock().expect("nobody panics").push(*cost);
    Ok((DistributedAtomicLong::new(client, path)?.with_statistics(tell), costs))
}

/// `TestDistributedAtomicLong.testBasic`.
pub(crate) async fn basic(scene: Arc<Scene>) -> Outcome {
    let (number, costs) = counted(&scene.client().await?, &scene.path("foo/bar/counter"))?;
    assert_eq!(number.increment().await?, Change { before: 0, after: 1 });
    assert_eq!(number.decrement().await?, Change { before: 1, after: 0 });
    assert_eq!(number.add(10).await?, Change { before: 0, after: 10 });
    assert_eq!(number.subtract(5).await?, Change { before: 10, after: 5 });
    let costs = costs.lock().expect("nobody panics");
    let tries: Vec<_> =
        costs.iter().map(|cost| (cost.optimistic_tries, cost.promoted_lock_tries)).collect();
    assert_eq!(tries, [(1, 0); 4]);
    Ok(())
}

/// `TestDistributedAtomicLong`: `testCompareAndSet`, `testCompareAndSetWithFreshInstance` and
/// `testCorruptedValue`. A number that does not exist is 0 here, and has no value in Curator, as a
/// `DistributedAtomicValue`.
pub(crate) async fn compare_and_set(scene: Arc<Scene>) -> Outcome {
    let client = scene.client().await?;
    let value = DistributedAtomicValue::new(&client, &scene.path("value"))?;
    assert!(!value.compare_and_set("0", "1").await?);
    assert!(value.initialize("0").await?);
    assert!(value.compare_and_set("0", "1").await?);
    assert!(!value.initialize("0").await?);

    let number = DistributedAtomicLong::new(&client, &scene.path("counter"))?;
    number.force_set(1).await?;
    assert!(number.compare_and_set(1, 5).await?);
    assert!(!number.compare_and_set(1, 5).await?);
    assert_eq!(number.get().await?, 5);

    client.set(&scene.path("counter"), "foo").await?;
    assert!(matches!(number.get().await, Err(ValueError::Corrupt { length: 3, .. })));
    Ok(())
}

const FORCED: i64 = 30;

/// `TestDistributedAtomicLong.testForceSet`: a number that is set to 0 beside increments.
pub(crate) async fn force_set(scene: Arc<Scene>) -> Outcome {
    let (client, other) = (scene.client().await?, scene.client().await?);
    let path = scene.path("counter");
    let (number, resetting) =
        (DistributedAtomicLong::new(&client, &path)?, DistributedAtomicLong::new(&other, &path)?);
    let resets = tokio::spawn(async move {
        for _ in 0..FORCED {
            resetting.force_set(0).await?;
        }
        Ok::<_, ValueError>(())
    });
    for _ in 0..FORCED {
        let Change { before, after } = number.increment().await?;
        assert_eq!(after, before + 1);
    }
    soon(resets).await???;
    assert!((0..=FORCED).contains(&number.get().await?));
    Ok(())
}

const CLIENTS: usize = 10;
const ROUNDS: usize = 15;
const PAUSE: Duration = Duration::from_millis(3);

/// `TestDistributedAtomicLong.testSimulation`: clients that lose races too often acquire a mutex.
pub(crate) async fn simulation(scene: Arc<Scene>) -> Outcome {
    let (mut tasks, mut all_costs) = (Vec::new(), Vec::new());
    for _ in 0..CLIENTS {
        let client = scene.client().await?;
        let (number, costs) = counted(&client, &scene.path("counter"))?;
        let mutex = InterProcessMutex::new(&client, &scene.path("lock"))?;
        let retry = RetryPolicy::n_times(1, PAUSE);
        let patient = RetryPolicy::n_times(100, PAUSE);
        let within = Duration::from_secs(20);
        let number = number.with_retry_policy(retry).with_promotion(&mutex, within, patient);
        all_costs.push(costs);
        tasks.push(tokio::spawn(async move {
            let mut reached = Vec::new();
            for _ in 0..ROUNDS {
                reached.push(number.increment().await?.after);
            }
            Ok::<_, ValueError>(reached)
        }));
    }
    let mut reached = BTreeSet::new();
    for task in tasks {
        let own = soon(task).await???;
        assert!(own.is_sorted(), "{own:?}");
        reached.extend(own);
    }
    assert_eq!(reached, (1..).take(CLIENTS * ROUNDS).collect());
    let sum = |count: fn(&AtomicStats) -> u32| -> u32 {
        let costs = |costs: &Costs| costs.lock().expect("nobody panics").iter().map(count).sum();
        all_costs.iter().map(costs).map(|sum: u32| sum).sum()
    };
    assert!(sum(|cost| cost.optimistic_tries) > 0 && sum(|cost| cost.promoted_lock_tries) > 0);
    Ok(())
}

const BLOCK: i64 = 100;

/// `TestCachedAtomicCounter`: `testBasic`, and `testWithError`, whose second block fails.
pub(crate) async fn cached_counter(scene: Arc<Scene>) -> Outcome {
    let (client, path) = (scene.client().await?, scene.path("counter"));
    let cached = CachedAtomicLong::new(&DistributedAtomicLong::new(&client, &path)?, BLOCK);
    for number in 1..=BLOCK {
        assert_eq!(cached.next().await?, number);
    }
    let (data, _) = client.get(&path).await?;
    client.set(&path, "foo").await?;
    assert!(matches!(cached.next().await, Err(ValueError::Corrupt { .. })));
    client.set(&path, data).await?;
    for number in BLOCK + 1..=2 * BLOCK {
        assert_eq!(cached.next().await?, number);
    }
    Ok(())
}
