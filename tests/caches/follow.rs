//! A cache on one server: it is the tree when all is quiet, its events are in the order of zxids, and
//! a cut connection, an expired session and a znode that was created again leave nothing old.

use std::sync::{Arc, Mutex};

use zoolet::client::Client;
use zoolet::protocol::{
    Acl, CreateMode, Dial, Dialing, Expect, MultiOp, OpCode, Permissions, Zxid,
};
use zoolet::recipes::{CacheError, CacheEvent, CacheState, CuratorCache, Select};
use zoolet::server::Dialer;
use zoolet_test_support::stage::{connect, counted, server};

use super::{SECOND, cached, changes, outage, started, tree};

#[tokio::test(start_paused = true)]
async fn a_cache_follows_a_tree_and_tells_each_change_in_order() {
    let server = server().await;
    let raw = connect(&server).await;
    raw.create("/c").data("root").await.unwrap();
    let cache = started(CuratorCache::builder(&connect(&server).await, "/c")).await;
    assert_eq!(cached(&cache), tree(&raw, "/c").await);
    let mut events = cache.events();
    let one = raw.create("/c/one").data("1").await.unwrap().stat;
    raw.create("/c/one/below").await.unwrap();
    let set = raw.set("/c/one", "2").await.unwrap();
    // A znode that is deleted before the cache has read it has no event.
    cache.synced(set.mzxid).await.unwrap();
    raw.delete("/c/one/below").await.unwrap();
    raw.delete("/c/one").await.unwrap();
    let last = raw.create("/c/two").await.unwrap().stat;
    cache.synced(last.czxid).await.unwrap();
    let mut zxids = Vec::new();
    let mut last_of_one = None;
    while let Some(Ok(event)) = events.try_next() {
        zxids.extend(event.zxid());
        if let CacheEvent::Deleted { znode, .. } = &event
            && znode.path == "/c/one"
        {
            last_of_one = Some((znode.data.clone(), znode.stat.mzxid));
        }
    }
    assert!(zxids.is_sorted(), "{zxids:?}");
    assert_eq!((zxids.first(), zxids.last()), (Some(&one.czxid), Some(&last.czxid)));
    assert_eq!(last_of_one, Some(("2".into(), set.mzxid)), "with its last data");
    assert_eq!(cached(&cache), tree(&raw, "/c").await);
}

/// Curator 5.9 compares versions: for ever it neither lists `/c/y` nor reports that `/c` changed.
#[tokio::test(start_paused = true)]
async fn a_znode_that_is_recreated_without_a_connection_is_not_taken_for_the_old_one() {
    let server = server().await;
    let (raw, (client, counting)) = (connect(&server).await, counted(&server).await);
    raw.create("/c").data("old").await.unwrap();
    raw.create("/c/x").await.unwrap();
    let cache = started(CuratorCache::builder(&client, "/c")).await;
    let mut events = cache.events();
    outage(&client, &counting, async {
        raw.delete("/c/x").await.unwrap();
        raw.delete("/c").await.unwrap();
        raw.create("/c").data("new").await.unwrap();
        raw.create("/c/y").await.unwrap();
    })
    .await;
    assert_eq!(changes(&mut events).await, ["- /c/x", "- /c", "+ /c", "+ /c/y"]);
    assert_eq!(cached(&cache), tree(&raw, "/c").await);
}

#[tokio::test(start_paused = true)]
async fn a_resync_after_no_change_reads_each_znode_once_and_lists_nothing() {
    const ZNODES: usize = 2000;
    let server = server().await;
    let (raw, (client, counting)) = (connect(&server).await, counted(&server).await);
    raw.create("/c").await.unwrap();
    for n in 0..ZNODES {
        raw.create(&format!("/c/{n}")).await.unwrap();
    }
    let cache = started(CuratorCache::builder(&client, "/c")).await;
    let mut events = cache.events();
    counting.take_requests();
    outage(&client, &counting, async {}).await;
    assert!(changes(&mut events).await.is_empty());
    let requests = counting.take_requests();
    let reads = requests.iter().filter(|(op, _)| *op == OpCode::MULTI_READ).map(|(_, n)| n);
    assert_eq!(reads.sum::<usize>(), (ZNODES + 1).div_ceil(512), "{requests:?}");
    assert!(requests.iter().all(|(op, _)| *op != OpCode::GET_CHILDREN), "{requests:?}");
    assert_eq!(cache.len(), ZNODES + 1);
}

#[tokio::test(start_paused = true)]
async fn a_child_whose_event_was_lost_with_the_connection_is_listed_after_it() {
    let server = server().await;
    let (raw, (client, counting)) = (connect(&server).await, counted(&server).await);
    raw.create("/c").await.unwrap();
    let cache = started(CuratorCache::builder(&client, "/c")).await;
    // A change of the data and a child at once: the state that is read has the pzxid of the child.
    let create = |path| zoolet::protocol::Create::new(path, CreateMode::Persistent);
    for round in 0..20 {
        let ops = vec![
            MultiOp::set_data("/c", "x", Expect::Any),
            create(format!("/c/{round}-a")).into(),
            create(format!("/c/{round}-b")).into(),
        ];
        counting.cut_after(round % 5);
        raw.multi(ops).await.unwrap();
        drop(client.sync("/").send());
        tokio::time::sleep(SECOND).await;
        cache.catch_up().await.unwrap();
        assert_eq!(cached(&cache), tree(&raw, "/c").await, "in round {round}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cache_outlives_its_session_and_says_so() {
    let server = server().await;
    let (raw, (client, counting)) = (connect(&server).await, counted(&server).await);
    raw.create("/c").await.unwrap();
    let cache = started(CuratorCache::builder(&client, "/c")).await;
    let (mut events, mut early) = (cache.events(), cache.events());
    outage(&client, &counting, async {
        tokio::time::sleep(120 * SECOND).await;
        assert_eq!(early.try_next(), Some(Ok(CacheEvent::Suspended)));
        assert_eq!(early.try_next(), Some(Ok(CacheEvent::Lost)), "while there is no connection");
        raw.create("/c/new").await.unwrap();
        assert_eq!(cache.progress().borrow().state, CacheState::Suspended);
        assert!(cache.get("/c/new").is_none());
    })
    .await;
    assert_eq!(events.next().await, Ok(CacheEvent::Suspended));
    assert_eq!(events.next().await, Ok(CacheEvent::Lost));
    assert_eq!(changes(&mut events).await, ["+ /c/new"]);
    raw.set("/c/new", "followed").await.unwrap();
    cache.catch_up().await.unwrap();
    assert_eq!(cache.get("/c/new").unwrap().data, "followed");
}

#[tokio::test(start_paused = true)]
async fn a_write_is_in_the_cache_once_it_is_synced() {
    let server = server().await;
    let client = connect(&server).await;
    let cache = started(CuratorCache::builder(&client, "/c")).await;
    assert!(cache.is_empty());
    client.create("/c").await.unwrap();
    for n in 0..100 {
        let created = client.create(&format!("/c/{n}")).data(n.to_string()).await.unwrap();
        cache.synced(created.stat.czxid).await.unwrap();
        assert_eq!(cache.get(&created.path).unwrap().data, n.to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_stream_is_told_that_it_fell_behind_and_goes_on() {
    let server = server().await;
    let client = connect(&server).await;
    client.create("/c").await.unwrap();
    let cache = started(CuratorCache::builder(&client, "/c").events_max(10)).await;
    let mut slow = cache.events();
    let resumed = slow.position();
    for n in 0..15 {
        client.set("/c", n.to_string()).await.unwrap();
        cache.catch_up().await.unwrap();
    }
    assert_eq!(slow.next().await, Err(CacheError::FellBehind { missed: 15 }));
    assert!(slow.try_next().is_none());
    let again = cache.events_after(resumed).next().await;
    assert_eq!(again, Err(CacheError::FellBehind { missed: 15 }));
    let here = slow.position();
    client.set("/c", "last").await.unwrap();
    for mut stream in [slow, cache.events_after(here)] {
        let CacheEvent::Changed { before, znode, .. } = stream.next().await.unwrap() else {
            panic!("no change")
        };
        assert_eq!((&before.data[..], &znode.data[..]), (&b"14"[..], &b"last"[..]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_needs_more_memory_than_it_may_take_ends() {
    let server = server().await;
    let client = connect(&server).await;
    client.create("/c").await.unwrap();
    let cache = started(CuratorCache::builder(&client, "/c").bytes_max(4096)).await;
    let mut events = cache.events();
    client.create("/c/large").data(vec![0; 8192]).await.unwrap();
    let too_large = CacheError::TooLarge { path: "/c".into(), bytes_max: 4096 };
    let error = loop {
        if let Err(error) = events.next().await {
            break error;
        }
    };
    assert_eq!(error, too_large);
    assert_eq!(cache.synced(Zxid(i64::MAX)).await, Err(too_large));
}

#[tokio::test(start_paused = true)]
async fn a_cache_has_only_what_is_selected() {
    let server = server().await;
    let client = connect(&server).await;
    for path in ["/c", "/c/a", "/c/a/1", "/c/a/1/x", "/c/b", "/c/b/1"] {
        client.create(path).await.unwrap();
    }
    let single = started(CuratorCache::builder(&client, "/c").single_node()).await;
    let shallow = started(CuratorCache::builder(&client, "/c").depth_max(2)).await;
    let select = |path: &str| if path == "/c/b" { Select::WithoutDescendants } else { Select::All };
    let chosen = started(CuratorCache::builder(&client, "/c").select(select)).await;
    client.create("/c/b/2").await.unwrap();
    client.create("/c/a/2").await.unwrap();
    let paths = |cache: &CuratorCache| cached(cache).into_keys().collect::<Vec<_>>();
    for cache in [&single, &shallow, &chosen] {
        cache.catch_up().await.unwrap();
    }
    assert_eq!(paths(&single), ["/c"]);
    let two_levels = ["/c", "/c/a", "/c/a/1", "/c/a/2", "/c/b", "/c/b/1", "/c/b/2"];
    assert_eq!(paths(&shallow), two_levels);
    assert_eq!(paths(&chosen), ["/c", "/c/a", "/c/a/1", "/c/a/1/x", "/c/a/2", "/c/b"]);
}

#[tokio::test(start_paused = true)]
async fn a_selection_that_panics_ends_the_cache() {
    let server = server().await;
    let client = connect(&server).await;
    for path in ["/c", "/c/bad"] {
        client.create(path).await.unwrap();
    }
    let select = |path: &str| {
        assert_ne!(path, "/c/bad", "the selection panics");
        Select::All
    };
    let cache = CuratorCache::builder(&client, "/c").select(select).start().unwrap();
    assert_eq!(cache.initialized().await, Err(CacheError::Closed("/c".into())));
}

#[tokio::test(start_paused = true)]
async fn dropping_a_cache_removes_its_watch_and_ends_its_streams() {
    let server = server().await;
    let client = connect(&server).await;
    let cache = started(CuratorCache::builder(&client, "/c")).await;
    assert_eq!(server.totals().watches, 1);
    let mut events = cache.events();
    drop(cache);
    assert_eq!(events.next().await, Err(CacheError::Closed("/c".into())));
    tokio::time::sleep(SECOND).await;
    assert_eq!(server.totals().watches, 0);
}

#[tokio::test(start_paused = true)]
async fn long_data_is_not_read_again_when_it_has_not_changed() {
    let server = server().await;
    let (raw, (client, counting)) = (connect(&server).await, counted(&server).await);
    raw.create("/c").await.unwrap();
    for name in ["same", "other", "gone"] {
        raw.create(&format!("/c/{name}")).data(vec![1; 100_000]).await.unwrap();
    }
    let cache = started(CuratorCache::builder(&client, "/c")).await;
    let mut events = cache.events();
    outage(&client, &counting, async {
        raw.set("/c/other", vec![2; 100_000]).await.unwrap();
        raw.delete("/c/gone").await.unwrap();
        raw.create("/c/same/child").await.unwrap();
        counting.take_requests();
    })
    .await;
    assert_eq!(changes(&mut events).await, ["= /c/other", "- /c/gone", "+ /c/same/child"]);
    let exists = counting.take_requests().into_iter().filter(|(op, _)| *op == OpCode::EXISTS);
    assert_eq!(exists.map(|(_, count)| count).sum::<usize>(), 3);
    assert_eq!(cached(&cache), tree(&raw, "/c").await);
}

/// The lengths of the data are not known before, and all of it in one reply is more than the server
/// makes.
#[tokio::test(start_paused = true)]
async fn children_whose_data_are_too_long_for_one_reply_are_read_with_several() {
    const ZNODES: usize = 70;
    let server = server().await;
    let (raw, client) = (connect(&server).await, connect(&server).await);
    raw.create("/c").await.unwrap();
    for n in 0..ZNODES {
        raw.create(&format!("/c/{n}")).data(vec![7; 1_000_000]).await.unwrap();
    }
    let cache = CuratorCache::builder(&client, "/c").without_data().start().unwrap();
    tokio::time::timeout(60 * SECOND, cache.initialized()).await.unwrap().unwrap();
    assert_eq!(cache.len(), ZNODES + 1);
}

/// One list is more than the server puts into the reply to a multiRead.
#[tokio::test(start_paused = true)]
async fn children_whose_names_are_too_long_for_one_multi_read_are_listed_alone() {
    const ZNODES: usize = 80;
    let server = server().await;
    let (raw, client) = (connect(&server).await, connect(&server).await);
    raw.create("/c").await.unwrap();
    raw.create("/c/short").await.unwrap();
    for n in 0..ZNODES {
        raw.create(&format!("/c/{n}-{}", "x".repeat(900_000))).await.unwrap();
    }
    let select = |path: &str| if path.len() > 100 { Select::Nothing } else { Select::All };
    let cache = CuratorCache::builder(&client, "/c").select(select).start().unwrap();
    tokio::time::timeout(60 * SECOND, cache.initialized()).await.unwrap().unwrap();
    assert_eq!(cache.children("/c"), ["short"]);
    raw.create("/c/more").await.unwrap();
    cache.catch_up().await.unwrap();
    assert_eq!(cache.children("/c"), ["more", "short"]);
}

/// Readable by nobody, for whoever has no other identity than the world's.
fn unreadable() -> Vec<Acl> {
    let permissions = Permissions::WRITE | Permissions::CREATE | Permissions::ADMIN;
    vec![Acl { permissions, ..Acl::open() }]
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_read_is_missing_and_is_there_when_it_may_be() {
    let server = server().await;
    let (raw, client) = (connect(&server).await, connect(&server).await);
    for path in ["/c", "/c/hidden", "/c/hidden/below", "/c/seen", "/c/seen/below"] {
        raw.create(path).data("1").await.unwrap();
    }
    raw.set_acl("/c/hidden", unreadable()).await.unwrap();
    let cache = started(CuratorCache::builder(&client, "/c")).await;
    let paths = |cache: &CuratorCache| cached(cache).into_keys().collect::<Vec<_>>();
    assert_eq!(paths(&cache), ["/c", "/c/seen", "/c/seen/below"]);
    raw.set_acl("/c/hidden", vec![Acl::open()]).await.unwrap();
    raw.set("/c/hidden", "2").await.unwrap();
    cache.catch_up().await.unwrap();
    assert_eq!(paths(&cache), ["/c", "/c/hidden", "/c/hidden/below", "/c/seen", "/c/seen/below"]);
    raw.set_acl("/c/seen", unreadable()).await.unwrap();
    drop(cache);
    let cache = started(CuratorCache::builder(&client, "/c")).await;
    assert_eq!(paths(&cache), ["/c", "/c/hidden", "/c/hidden/below"]);
}

/// Leads to one server after another.
#[derive(Clone)]
struct Switch(Arc<Mutex<Dialer>>);

impl Dial for Switch {
    fn dial(&self) -> Dialing {
        self.0.lock().unwrap().dial()
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_with_another_history_is_not_compared_with_the_old_one() {
    let (first, second) = (server().await, server().await);
    let (old, new) = (connect(&first).await, connect(&second).await);
    new.create("/c").data("new").await.unwrap();
    new.create("/c/new").await.unwrap();
    for _ in 0..20 {
        old.create("/noise").await.unwrap();
        old.delete("/noise").await.unwrap();
    }
    old.create("/c").data("old").await.unwrap();
    old.create("/c/old").await.unwrap();
    let way = Switch(Arc::new(Mutex::new(first.dialer())));
    let client = Client::connect(way.clone()).await.unwrap();
    let cache = started(CuratorCache::builder(&client, "/c")).await;
    // The other server has come further, so that the client may connect to it.
    for _ in 0..100 {
        new.set("/c/new", "x").await.unwrap();
    }
    *way.0.lock().unwrap() = second.dialer();
    first.shutdown().await;
    cache.progress().wait_for(|it| it.state == CacheState::Suspended).await.unwrap();
    cache.progress().wait_for(|it| it.state == CacheState::Current).await.unwrap();
    assert_eq!(cached(&cache), tree(&new, "/c").await);
}

/// Curator's listeners see the znodes of each level, and the last data of what is deleted, also when
/// a whole subtree goes while there is no connection.
#[tokio::test(start_paused = true)]
async fn a_subtree_that_goes_without_a_connection_is_told_from_below_with_its_last_data() {
    let server = server().await;
    let (raw, (client, counting)) = (connect(&server).await, counted(&server).await);
    for path in ["/c", "/c/a", "/c/a/b", "/c/a/b/c", "/c/d"] {
        raw.create(path).data(path).await.unwrap();
    }
    let cache = started(CuratorCache::builder(&client, "/c")).await;
    let mut events = cache.events();
    outage(&client, &counting, async {
        for path in ["/c/a/b/c", "/c/a/b", "/c/a"] {
            raw.delete(path).await.unwrap();
        }
        raw.create("/c/e").await.unwrap();
    })
    .await;
    let mut told = Vec::new();
    loop {
        match events.next().await.unwrap() {
            CacheEvent::Deleted { znode, .. } => {
                assert_eq!(znode.data, znode.path.as_bytes());
                told.push(znode.path.clone());
            }
            CacheEvent::Created { znode, .. } => told.push(znode.path.clone()),
            CacheEvent::Resynced { .. } => break,
            _ => {}
        }
    }
    assert_eq!(told, ["/c/a/b/c", "/c/a/b", "/c/a", "/c/e"]);
}
