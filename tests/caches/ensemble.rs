//! A cache on an ensemble whose servers lag, are cut off, stop and lose their leader, while clients
//! change the tree and sessions expire.

use std::time::Duration;

use zoolet::client::{Client, RetryPolicy};
use zoolet::protocol::{Create, CreateMode, Expect, MultiOp};
use zoolet::recipes::CuratorCache;
use zoolet::testing::{TestEnsemble, TestEnsembleBuilder};

use super::history::History;
use super::{cached, started, tree};

const ROOT: &str = "/c";

/// The znodes that the storm creates, sets and deletes.
const PATHS: [&str; 9] =
    [ROOT, "/c/a", "/c/b", "/c/a/a", "/c/a/b", "/c/b/a", "/c/a-", "/c/a/a/a", "/c/a/a/b"];

/// A client of all servers, which repeats what was lost with a connection.
async fn client(ensemble: &TestEnsemble) -> Client {
    let retry = RetryPolicy::n_times(1_000, Duration::from_millis(100));
    let builder = Client::builder().retry_policy(retry).session_timeout(Duration::from_secs(4));
    builder.connect(ensemble.dialer()).await.unwrap()
}

/// A change of one or several znodes. The server refuses some.
async fn change(client: &Client, rng: &mut fastrand::Rng) {
    let path = PATHS[rng.usize(..PATHS.len())];
    let data = rng.u32(..).to_string();
    let _refused = match rng.u8(..8) {
        0..3 => client.create(path).data(data).await.map(drop),
        3..5 => client.set(path, data).await.map(drop),
        5..7 => client.delete(path).await.map(drop),
        // The znode and its children at once.
        _ => {
            let child = |name| format!("{path}/{name}");
            let ops = vec![
                MultiOp::set_data(path, data, Expect::Any),
                Create::new(child("one"), CreateMode::Persistent).into(),
                Create::new(child("two"), CreateMode::Persistent).into(),
                MultiOp::delete(child("one"), Expect::Any),
            ];
            client.multi(ops).await.map(drop)
        }
    };
}

/// Something that goes wrong, until the ensemble is healed.
fn disturb(ensemble: &TestEnsemble, cache_client: &Client, rng: &mut fastrand::Rng) {
    let server = ensemble.server(rng.usize(..ensemble.len()));
    match rng.u8(..9) {
        0 => server.lag_by(Duration::from_millis(rng.u64(1..900))),
        1 => server.lag_by_count(rng.usize(1..6)),
        2 => server.hold(),
        3 => server.cut_off(),
        4 => server.stop(),
        5 => drop(ensemble.lose_leader()),
        6 => drop(ensemble.session(cache_client.session_id()).expire()),
        7 => drop(server.everyone().cut()),
        _ => server.hold_link(),
    }
}

async fn storm(builder: TestEnsembleBuilder, has_zxids: bool, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let ensemble = builder.start().await.unwrap();
    let (writer, followed) = (client(&ensemble).await, client(&ensemble).await);
    let cache = CuratorCache::builder(&followed, ROOT).events_max(1 << 20).start().unwrap();
    let (mut events, mut history) = (cache.events(), History::new(ROOT, has_zxids));
    cache.initialized().await.unwrap();
    for round in 0..12 {
        for _ in 0..rng.u8(1..12) {
            if rng.u8(..3) == 0 {
                disturb(&ensemble, &followed, &mut rng);
            }
            // What waits for a leader is given up.
            let time = Duration::from_millis(rng.u64(1..500));
            let _late = tokio::time::timeout(time, change(&writer, &mut rng)).await;
            if rng.u8(..4) == 0 {
                tokio::time::sleep(Duration::from_millis(rng.u64(1..400))).await;
            }
        }
        ensemble.heal();
        ensemble.serving().await;
        writer.sync("/").await.unwrap();
        cache.catch_up().await.unwrap();
        let tree = tree(&writer, ROOT).await;
        assert_eq!(cached(&cache), tree, "seed {seed}, round {round}");
        while let Some(event) = events.try_next() {
            history.take(&event.unwrap());
        }
        assert_eq!(history.tree(), tree, "seed {seed}, round {round}: the events");
    }
    ensemble.check().unwrap();
}

/// `ZOOLET_CACHE_STORMS` sets how many.
fn seeds() -> std::ops::Range<u64> {
    let count = std::env::var("ZOOLET_CACHE_STORMS").map_or(10, |text| text.parse().unwrap());
    0..count
}

#[tokio::test(start_paused = true)]
async fn after_calm_a_cache_is_the_tree_whatever_went_wrong() {
    for seed in seeds() {
        storm(TestEnsemble::builder(), true, seed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_cache_is_the_tree_where_events_have_no_zxids() {
    for seed in seeds() {
        storm(TestEnsemble::builder().without_event_zxids(), false, seed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_moves_to_a_lagging_follower_does_not_go_back() {
    let ensemble = TestEnsemble::start().await.unwrap();
    let (writer, followed) = (client(&ensemble).await, client(&ensemble).await);
    writer.create(ROOT).await.unwrap();
    let cache = started(CuratorCache::builder(&followed, ROOT)).await;
    let served = ensemble.server_of(followed.session_id()).unwrap().index();
    for follower in ensemble.followers() {
        if follower != served {
            ensemble.server(follower).hold();
        }
    }
    let set = writer.set(ROOT, "new").await.unwrap();
    cache.synced(set.mzxid).await.unwrap();
    ensemble.server(served).everyone().cut().unwrap();
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(cache.get(ROOT).unwrap().data, "new");
    }
}
