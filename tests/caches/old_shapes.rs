//! Tests of the views that have the shapes of Curator's older caches, and of kazoo's watches.

use std::sync::{Arc, Mutex, mpsc};

use zoolet::recipes::{
    ChildrenWatch, DataWatch, NodeCache, Observed, PathChildrenCache, PersistentWatcher, TreeCache,
    TreeCacheEvent, Watching,
};
use zoolet_test_support::stage::{connect, counted, server};

use super::SECOND;

/// What a listener was called with.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    fn say(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }

    /// What was heard since the last call, when all is quiet.
    async fn take(&self) -> Vec<String> {
        tokio::time::sleep(SECOND).await;
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

fn text(event: &TreeCacheEvent) -> String {
    match event {
        TreeCacheEvent::NodeAdded(znode) => format!("added {}", znode.path),
        TreeCacheEvent::NodeUpdated { znode, .. } => format!("updated {}", znode.path),
        TreeCacheEvent::NodeRemoved(znode) => format!("removed {}", znode.path),
        event => format!("{event:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_tree_cache_adds_what_is_there_and_is_then_initialized() {
    let server = server().await;
    let client = connect(&server).await;
    for path in ["/t", "/t/a", "/t/a/b"] {
        client.create(path).await.unwrap();
    }
    let tree = TreeCache::start(&client, "/t").unwrap();
    let (early, late) = (Heard::default(), Heard::default());
    let first = early.clone();
    let _early = tree.listen(move |event| first.say(text(&event)));
    let whole = ["added /t", "added /t/a", "added /t/a/b", "Initialized"];
    assert_eq!(early.take().await, whole);
    let second = late.clone();
    let listening = tree.listen(move |event| second.say(text(&event)));
    assert_eq!(late.take().await, whole, "a listener that comes late hears the same");
    client.set("/t/a", "new").await.unwrap();
    client.delete("/t/a/b").await.unwrap();
    assert_eq!(late.take().await, ["updated /t/a", "removed /t/a/b"]);
    assert_eq!(tree.current_children("/t").unwrap()[0].data, "new");
    assert!(tree.current_children("/none").is_none());
    drop(listening);
    client.delete("/t/a").await.unwrap();
    assert!(late.take().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_path_children_cache_has_the_children_alone() {
    let server = server().await;
    let (raw, (client, counting)) = (connect(&server).await, counted(&server).await);
    raw.create("/p").await.unwrap();
    raw.create("/p/one").data("1").await.unwrap();
    let children = PathChildrenCache::start(&client, "/p").unwrap();
    children.initialized().await.unwrap();
    let heard = Heard::default();
    let listener = heard.clone();
    let _listening = children.listen(move |event| listener.say(text(&event)));
    raw.set("/p", "ignored").await.unwrap();
    raw.create("/p/two").await.unwrap();
    raw.create("/p/two/below").await.unwrap();
    assert_eq!(heard.take().await, ["added /p/one", "Initialized", "added /p/two"]);
    counting.cut();
    drop(client.sync("/").send());
    assert_eq!(heard.take().await, ["ConnectionSuspended", "ConnectionReconnected"]);
    let names: Vec<_> = children.current_data().iter().map(|it| it.name().to_owned()).collect();
    assert_eq!(names, ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_cache_follows_one_znode_over_its_deletion() {
    let server = server().await;
    let client = connect(&server).await;
    let node = NodeCache::start(&client, "/n").unwrap();
    node.initialized().await.unwrap();
    assert!(node.current_data().is_none());
    let heard = Heard::default();
    let listener = heard.clone();
    let _listening = node.listen(move |znode| {
        listener.say(znode.map_or_else(|| "none".into(), |it| String::from_utf8_lossy(&it.data)));
    });
    client.create("/n").data("1").await.unwrap();
    assert_eq!(heard.take().await, ["1"]);
    client.create("/n/child").await.unwrap();
    client.delete("/n/child").await.unwrap();
    client.set("/n", "2").await.unwrap();
    assert_eq!(heard.take().await, ["2"]);
    client.delete("/n").await.unwrap();
    assert_eq!(heard.take().await, ["none"]);
}

/// On several threads, because the listener blocks one.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_slow_listener_of_a_node_cache_is_called_for_the_last_change() {
    const CHANGES: u8 = 40;
    let server = server().await;
    let client = connect(&server).await;
    client.create("/n").data(vec![0]).await.unwrap();
    let node = NodeCache::start(&client, "/n").unwrap();
    node.initialized().await.unwrap();
    let (go_on, blocked) = mpsc::channel::<()>();
    let (sender, heard) = mpsc::channel();
    let _listening = node.listen(move |znode| {
        // An error as soon as the other end is gone.
        let _ = blocked.recv();
        let _ = sender.send(znode.map(|it| it.data[0]));
    });
    for change in 1..=CHANGES {
        // Their events take more memory than is kept for streams.
        client.set("/n", vec![change; 1_000_000]).await.unwrap();
        node.cache().catch_up().await.unwrap();
    }
    drop(go_on);
    let mut told = Vec::new();
    while told.last() != Some(&Some(CHANGES)) {
        told.push(heard.recv_timeout(10 * SECOND).unwrap());
    }
    assert!(told.len() < usize::from(CHANGES), "events were dropped: {told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_data_watch_is_called_at_once_and_until_it_says_stop() {
    let server = server().await;
    let client = connect(&server).await;
    let heard = Heard::default();
    let listener = heard.clone();
    let watch = DataWatch::start(&client, "/d", move |znode| {
        let data = znode.map(|(data, _)| String::from_utf8_lossy(&data).into_owned());
        listener.say(data.as_deref().unwrap_or("none"));
        if data.as_deref() == Some("stop") { Watching::Stop } else { Watching::Continue }
    })
    .unwrap();
    assert_eq!(heard.take().await, ["none"]);
    client.create("/d").data("1").await.unwrap();
    assert_eq!(heard.take().await, ["1"]);
    client.delete("/d").await.unwrap();
    assert_eq!(heard.take().await, ["none"]);
    client.create("/d").data("stop").await.unwrap();
    assert_eq!(heard.take().await, ["stop"]);
    assert!(watch.has_ended());
    client.set("/d", "unheard").await.unwrap();
    assert!(heard.take().await.is_empty());
    assert_eq!(server.totals().watches, 0);
}

#[tokio::test(start_paused = true)]
async fn a_children_watch_hears_a_list_only_if_it_is_another_one() {
    let server = server().await;
    let (raw, (client, counting)) = (connect(&server).await, counted(&server).await);
    raw.create("/w").await.unwrap();
    let heard = Heard::default();
    let listener = heard.clone();
    let watch = ChildrenWatch::start(&client, "/w", move |names| {
        listener.say(names.join(" "));
        Watching::Continue
    })
    .unwrap();
    assert_eq!(heard.take().await, [""]);
    raw.create("/w/b").await.unwrap();
    raw.create("/w/a").await.unwrap();
    assert_eq!(heard.take().await.last().unwrap(), "a b");
    counting.cut();
    drop(client.sync("/").send());
    assert!(heard.take().await.is_empty(), "a reconnect changes nothing");
    for path in ["/w/a", "/w/b", "/w"] {
        raw.delete(path).await.unwrap();
    }
    heard.take().await;
    assert!(watch.has_ended());
}

#[tokio::test(start_paused = true)]
async fn a_persistent_watcher_says_when_events_may_have_been_missed() {
    let server = server().await;
    let (raw, (client, counting)) = (connect(&server).await, counted(&server).await);
    let mut watcher = PersistentWatcher::recursive(&client, "/p").unwrap();
    assert_eq!(watcher.next().await, Ok(Observed::Reset));
    raw.create("/p").await.unwrap();
    assert!(matches!(watcher.next().await, Ok(Observed::Event(event)) if event.path == "/p"));
    for outage in [SECOND, 120 * SECOND] {
        counting.refuse(true);
        counting.cut();
        drop(client.sync("/").send());
        tokio::time::sleep(outage).await;
        counting.refuse(false);
        assert_eq!(watcher.next().await, Ok(Observed::Reset), "after {outage:?}");
        raw.set("/p", "x").await.unwrap();
        assert!(matches!(watcher.next().await, Ok(Observed::Event(event)) if event.path == "/p"));
    }
    drop(watcher);
    tokio::time::sleep(SECOND).await;
    assert_eq!(server.totals().watches, 0);
}
