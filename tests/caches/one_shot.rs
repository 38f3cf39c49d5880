//! Caches behind a server without persistent watches, which every ZooKeeper before 3.6 is: they follow
//! the tree with one-shot watches.

use std::collections::BTreeSet;

use fastrand::Rng;
use zoolet::client::Client;
use zoolet::protocol::{CreateMode, ErrorCode, Expect, MultiOp, OpCode, Zxid};
use zoolet::recipes::{CacheEvent, CuratorCache};
use zoolet::testing::{Fault, RequestFilter, TestServer};

use super::history::History;
use super::{SECOND, cached, changes, started, tree};

/// A server that refuses what servers before 3.6 do not know.
async fn old_server() -> (TestServer, Fault) {
    let server = TestServer::start().await.unwrap();
    let unknown = RequestFilter::all().of(&[OpCode::ADD_WATCH, OpCode::MULTI_READ]);
    let refused = server.everyone().fail(unknown, ErrorCode::UNIMPLEMENTED).unwrap();
    (server, refused)
}

async fn stage() -> (TestServer, Fault, Client, Client) {
    let (server, old) = old_server().await;
    let (client, raw) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    (server, old, client, raw)
}

#[tokio::test(start_paused = true)]
async fn a_cache_follows_each_level_and_what_is_created_again() {
    let (_server, _old, client, raw) = stage().await;
    for path in ["/c", "/c/a", "/c/a/b", "/c/a/b/c", "/c/d"] {
        raw.create(path).data(path).await.unwrap();
    }
    let cache = started(CuratorCache::builder(&client, "/c")).await;
    assert_eq!(cached(&cache), tree(&raw, "/c").await);
    // Below a leaf, several levels at once, and twice the same znode.
    let steps: [&[MultiOp]; 5] = [
        &[MultiOp::create("/c/d/e", "", CreateMode::Persistent)],
        &[
            MultiOp::create("/c/d/e/f", "", CreateMode::Persistent),
            MultiOp::create("/c/d/e/f/g", "", CreateMode::Persistent),
        ],
        &[MultiOp::set_data("/c/d", "1", Expect::Any), MultiOp::set_data("/c/d", "2", Expect::Any)],
        &[
            MultiOp::delete("/c/a/b/c", Expect::Any),
            MultiOp::delete("/c/a/b", Expect::Any),
            MultiOp::delete("/c/a", Expect::Any),
            MultiOp::create("/c/a", "again", CreateMode::Persistent),
            MultiOp::create("/c/a/b", "again", CreateMode::Persistent),
        ],
        &[MultiOp::set_data("/c/a/b", "followed", Expect::Any)],
    ];
    for ops in steps {
        raw.multi(ops.to_vec()).await.unwrap();
        cache.catch_up().await.unwrap();
        assert_eq!(cached(&cache), tree(&raw, "/c").await, "after {ops:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_root_that_comes_and_goes_is_followed() {
    let (_server, _old, client, raw) = stage().await;
    let cache = started(CuratorCache::builder(&client, "/c")).await;
    assert!(cache.is_empty());
    let mut events = cache.events();
    for round in 0..3 {
        raw.create("/c").await.unwrap();
        raw.create("/c/a").await.unwrap();
        cache.catch_up().await.unwrap();
        assert_eq!(cached(&cache), tree(&raw, "/c").await, "in round {round}");
        raw.delete_with_descendants("/c").await.unwrap();
        cache.catch_up().await.unwrap();
        assert!(cache.is_empty(), "in round {round}");
        for expected in ["+ /c", "+ /c/a", "- /c/a", "- /c"] {
            let told = match events.next().await.unwrap() {
                CacheEvent::Created { znode, .. } => format!("+ {}", znode.path),
                CacheEvent::Deleted { znode, .. } => format!("- {}", znode.path),
                event => panic!("{event:?}"),
            };
            assert_eq!(told, expected, "in round {round}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_znode_costs_two_watches_that_nobody_hears_after_the_cache() {
    let (server, _old, client, raw) = stage().await;
    raw.create("/c").await.unwrap();
    for number in 0..100 {
        raw.create(&format!("/c/{number}")).await.unwrap();
    }
    let cache = started(CuratorCache::builder(&client, "/c")).await;
    cache.catch_up().await.unwrap();
    assert_eq!((client.watcher_count(), server.totals().watches), (202, 202));
    drop(cache);
    tokio::time::sleep(SECOND).await;
    // To remove each of them would cost a request.
    assert_eq!((client.watcher_count(), server.totals().watches), (0, 202));
    raw.set("/c/7", "").await.unwrap();
    assert_eq!(server.totals().watches, 201);
    server.session(client.session_id()).cut().unwrap();
    client.sync("/").await.ok();
    assert_eq!(server.totals().watches, 0);
}

#[tokio::test(start_paused = true)]
async fn a_single_node_has_no_watch_for_children() {
    let (_server, _old, client, raw) = stage().await;
    raw.create("/c").await.unwrap();
    let cache = started(CuratorCache::builder(&client, "/c").single_node()).await;
    raw.create("/c/child").await.unwrap();
    raw.set("/c", "new").await.unwrap();
    cache.catch_up().await.unwrap();
    assert_eq!(cache.get("/c").unwrap().data, "new");
    assert_eq!((cache.len(), client.watcher_count()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn disconnects_and_the_end_of_the_session_lose_nothing() {
    let (server, _old, client, raw) = stage().await;
    for path in ["/c", "/c/a", "/c/a/b", "/c/d"] {
        raw.create(path).data(path).await.unwrap();
    }
    let cache = started(CuratorCache::builder(&client, "/c")).await;
    let mut events = cache.events();
    for expires in [false, true] {
        let session = server.session(client.session_id());
        let refused = session.refuse().unwrap();
        session.cut().unwrap();
        tokio::time::sleep(SECOND).await;
        raw.delete_with_descendants("/c/a").await.unwrap();
        raw.create("/c/a").data("again").await.unwrap();
        raw.create("/c/a/b").data("again").await.unwrap();
        raw.create(&format!("/c/d/{expires}")).await.unwrap();
        if expires {
            session.expire().unwrap();
        }
        refused.lift();
        let told: BTreeSet<String> = changes(&mut events).await.into_iter().collect();
        assert!(told.contains("- /c/a/b") && told.contains("+ /c/a/b"), "{told:?}");
        cache.catch_up().await.unwrap();
        assert_eq!(cached(&cache), tree(&raw, "/c").await, "expired: {expires}");
    }
    raw.set("/c/d/true", "followed").await.unwrap();
    cache.catch_up().await.unwrap();
    assert_eq!(cache.get("/c/d/true").unwrap().data, "followed");
}

/// Changes a small tree at random, so that znodes are often deleted and created again.
async fn change(raw: &Client, rng: &mut Rng) {
    let depth = rng.usize(1..4);
    let mut path = "/c".to_owned();
    for _ in 1..depth {
        path.push_str(rng.choice(["/a", "/b"]).unwrap());
    }
    // Some are refused, and that is as well.
    let _ = match rng.u8(0..6) {
        0 | 1 => raw.create(&path).data(rng.u8(..).to_string()).await.map(drop),
        2 => raw.set(&path, rng.u8(..).to_string()).await.map(drop),
        3 => raw.delete(&path).await,
        4 => raw.delete_with_descendants(&path).await,
        _ => {
            let below = format!("{path}/a");
            let ops = vec![
                MultiOp::delete(below.as_str(), Expect::Any),
                MultiOp::create(below.as_str(), "again", CreateMode::Persistent),
                MultiOp::create(format!("{below}/a"), "new", CreateMode::Persistent),
            ];
            raw.multi(ops).await.map(drop)
        }
    };
}

#[tokio::test(start_paused = true)]
async fn after_calm_the_cache_is_the_tree_and_its_events_are_a_history() {
    for seed in 0..40 {
        let (server, _old, client, raw) = stage().await;
        let mut rng = Rng::with_seed(seed);
        let cache = CuratorCache::builder(&client, "/c").start().unwrap();
        let mut events = cache.events();
        for _ in 0..60 {
            match rng.u8(0..20) {
                0 => {
                    let _ = server.session(client.session_id()).cut();
                }
                1 => {
                    let _ = server.session(client.session_id()).expire();
                }
                2 => tokio::time::sleep(SECOND).await,
                3 => tokio::task::yield_now().await,
                _ => change(&raw, &mut rng).await,
            }
        }
        cache.catch_up().await.unwrap();
        let expected = tree(&raw, "/c").await;
        assert_eq!(cached(&cache), expected, "seed {seed}");
        cache.close();
        let mut history = History::new("/c", false);
        while let Ok(event) = events.next().await {
            history.take(&event);
        }
        assert_eq!(history.tree(), expected, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_upgraded_gets_a_persistent_watch_with_the_next_session() {
    let (server, old, client, raw) = stage().await;
    raw.create("/c").await.unwrap();
    raw.create("/c/a").await.unwrap();
    let cache = started(CuratorCache::builder(&client, "/c")).await;
    cache.synced(Zxid::ZERO).await.unwrap();
    assert!(client.watcher_count() > 1);
    old.lift();
    server.session(client.session_id()).expire().unwrap();
    raw.create("/c/b").await.unwrap();
    tokio::time::sleep(SECOND).await;
    cache.catch_up().await.unwrap();
    assert_eq!((client.watcher_count(), cached(&cache)), (1, tree(&raw, "/c").await));
}
