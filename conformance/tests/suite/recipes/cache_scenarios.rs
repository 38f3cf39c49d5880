//! The scenarios of Curator's own tests of its caches, by their names there. What is internal to
//! Curator, as its executors, has no counterpart.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use libtest_mimic::Failed;
use zoolet_client::{Client, CreateMode, Parents};
use zoolet_recipes::{
    CacheEvent, CacheEvents, CuratorCache, CuratorCacheBuilder, Listening, NodeCache,
    PathChildrenCache, Select, TreeCache, TreeCacheEvent,
};

use super::caches::{cached, tree};
use super::scene::{A_WHILE, Scene, soon};
use super::{Outcome, Server};

/// What a listener was called with.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    fn say(&self, text: String) {
        self.0.lock().expect("no listener panics").push(text);
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().expect("no listener panics").clone()
    }

    /// A listener of events about znodes below a root.
    fn listener(&self, root: &str) -> impl FnMut(TreeCacheEvent) + Send + 'static {
        let (heard, root) = (self.clone(), root.to_owned());
        move |event| heard.say(text(&event, &root))
    }

    /// Waits until a text was heard.
    async fn until(&self, scene: &Scene, text: &str) -> Outcome {
        let is_so = async || Ok(self.all().iter().any(|heard| heard == text));
        let until = scene.until(text, is_so).await;
        until.map_err(|error| format!("{error:?}, but {:?}", self.all()).into())
    }

    /// Waits for the start of a cache: these in any order, and then that it is initialized.
    async fn starts(&self, scene: &Scene, expected: &[&str]) -> Outcome {
        self.until(scene, "Initialized").await?;
        let mut heard = self.take();
        assert_eq!(heard.pop().as_deref(), Some("Initialized"));
        heard.sort_unstable();
        assert_eq!(heard, expected);
        Ok(())
    }

    /// Waits for these in this order, and for the last of them first.
    async fn expect(&self, scene: &Scene, expected: &[&str]) -> Outcome {
        self.until(scene, expected.last().expect("something is expected")).await?;
        assert_eq!(self.take(), expected);
        Ok(())
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("no listener panics"))
    }
}

fn text(event: &TreeCacheEvent, root: &str) -> String {
    let kind = match event {
        TreeCacheEvent::NodeAdded(_) => "added",
        TreeCacheEvent::NodeUpdated { .. } => "updated",
        TreeCacheEvent::NodeRemoved(_) => "removed",
        event => return format!("{event:?}"),
    };
    let znode = event.znode().expect("these events have a znode");
    let name = znode.path.strip_prefix(root).expect("it is below the root");
    format!("{kind} {name}={}", String::from_utf8_lossy(&znode.data))
}

/// Creates a root and znodes below it.
async fn create(client: &Client, root: &str, znodes: &[(&str, &str)]) -> Outcome {
    client.create(root).parents(Parents::Persistent).await?;
    for (name, data) in znodes {
        client.create(&format!("{root}/{name}")).data((*data).to_owned()).await?;
    }
    Ok(())
}

/// A cache of a tree, what its listener hears, and the listener.
fn listened(builder: CuratorCacheBuilder) -> Result<(TreeCache, Heard, Listening), Failed> {
    let cache = TreeCache::of(builder.start()?);
    let heard = Heard::default();
    let listening = cache.listen(heard.listener(cache.cache().root()));
    Ok((cache, heard, listening))
}

fn children(cache: &TreeCache, path: &str) -> Option<Vec<String>> {
    let children = cache.current_children(path)?;
    Some(children.iter().map(|child| child.name().to_owned()).collect())
}

const STARTUP: [(&str, &str); 4] = [("1", "one"), ("2", "two"), ("3", "three"), ("2/sub", "sub")];

/// `TestTreeCache`: `testStartup`, `testAsyncInitialPopulation` and `testChildrenInitialized`.
pub(crate) async fn tree_cache_startup(scene: Arc<Scene>) -> Outcome {
    let (client, root) = (scene.client().await?, scene.path("test"));
    create(&client, &root, &STARTUP).await?;
    let (cache, heard, _listening) = listened(CuratorCache::builder(&client, &root))?;
    let all = ["added /1=one", "added /2/sub=sub", "added /2=two", "added /3=three", "added ="];
    heard.starts(&scene, &all).await?;
    assert_eq!(children(&cache, &root), Some(["1", "2", "3"].map(str::to_owned).into()));
    assert_eq!(children(&cache, &format!("{root}/1")), Some(Vec::new()));
    assert_eq!(children(&cache, &format!("{root}/2")), Some(vec!["sub".to_owned()]));
    assert_eq!(children(&cache, &format!("{root}/none")), None);
    Ok(())
}

/// `TestTreeCache`: `testDepth0` and `testDepth1`.
pub(crate) async fn tree_cache_depth(scene: Arc<Scene>) -> Outcome {
    let (client, root) = (scene.client().await?, scene.path("test"));
    create(&client, &root, &STARTUP).await?;
    let builder = CuratorCache::builder(&client, &root).depth_max(0);
    let (none, heard, _listening) = listened(builder)?;
    heard.starts(&scene, &["added ="]).await?;
    assert_eq!(children(&none, &root), Some(Vec::new()));
    assert!(none.current_data(&format!("{root}/1")).is_none());
    let builder = CuratorCache::builder(&client, &root).depth_max(1);
    let (one, heard, _listening) = listened(builder)?;
    let all = ["added /1=one", "added /2=two", "added /3=three", "added ="];
    heard.starts(&scene, &all).await?;
    assert_eq!(children(&one, &format!("{root}/2")), Some(Vec::new()));
    assert!(one.current_data(&format!("{root}/2/sub")).is_none());
    assert_eq!(children(&one, &format!("{root}/2/sub")), None);
    Ok(())
}

/// `TestTreeCache.testSelector`.
pub(crate) async fn tree_cache_selector(scene: Arc<Scene>) -> Outcome {
    let (client, root) = (scene.client().await?, scene.path("root"));
    let znodes = ["n1-a", "n1-b", "n1-b/n2-a", "n1-b/n2-b", "n1-b/n2-b/n3-a", "n1-c", "n1-d"];
    create(&client, &root, &znodes.map(|name| (name, ""))).await?;
    let select = |path: &str| match path.rsplit_once('/') {
        Some((_, "n2-b")) => Select::WithoutDescendants,
        Some((_, "n1-c")) => Select::Nothing,
        _ => Select::All,
    };
    let builder = CuratorCache::builder(&client, &root).select(select);
    let (_cache, heard, _listening) = listened(builder)?;
    let all = ["n1-a", "n1-b", "n1-b/n2-a", "n1-b/n2-b", "n1-d"];
    let mut all: Vec<_> = all.iter().map(|name| format!("added /{name}=")).collect();
    all.push("added =".to_owned());
    all.sort_unstable();
    heard.starts(&scene, &all.iter().map(String::as_str).collect::<Vec<_>>()).await
}

/// `TestTreeCache`: `testStartEmpty`, `testStartEmptyDeeper`, `testSyncInitialPopulation` and
/// `testDeleteThenCreateRoot`; `TestTreeCacheIteratorAndSize.testEmptyTree`.
pub(crate) async fn tree_cache_start_empty(scene: Arc<Scene>) -> Outcome {
    let (client, root) = (scene.client().await?, scene.path("test/foo/bar"));
    let (cache, heard, _listening) = listened(CuratorCache::builder(&client, &root))?;
    heard.starts(&scene, &[]).await?;
    assert!(cache.cache().is_empty());
    client.create(&scene.path("test/foo")).parents(Parents::Persistent).await?;
    client.create(&root).await?;
    client.create(&format!("{root}/one")).data("hey there").await?;
    heard.expect(&scene, &["added =", "added /one=hey there"]).await?;
    client.delete(&format!("{root}/one")).await?;
    client.delete(&root).await?;
    client.create(&root).data("two").await?;
    let all = ["removed /one=hey there", "removed =", "added =two"];
    heard.expect(&scene, &all).await
}

/// `TestTreeCache`: `testWithNamespace` and `testWithNamespaceAtRoot`.
pub(crate) async fn tree_cache_in_namespace(scene: Arc<Scene>) -> Outcome {
    let (client, outer) = (scene.client().await?, scene.path("outer"));
    create(&client, &outer, &[("foo", ""), ("test", ""), ("test/one", "hey there")]).await?;
    let inside = client.namespace(&outer)?;
    let (cache, heard, _listening) = listened(CuratorCache::builder(&inside, "/test"))?;
    heard.starts(&scene, &["added /one=hey there", "added ="]).await?;
    assert_eq!(children(&cache, "/test"), Some(vec!["one".to_owned()]));
    let whole = CuratorCache::builder(&inside, "/").start()?;
    soon(whole.initialized()).await??;
    let paths: BTreeSet<_> = cached(&whole).into_keys().collect();
    assert_eq!(paths, ["/", "/foo", "/test", "/test/one"].map(str::to_owned).into());
    Ok(())
}

/// `testUpdateWhenNotCachingData` of `TestTreeCache`, `TestPathChildrenCache` and `TestCuratorCache`.
pub(crate) async fn update_when_not_caching_data(scene: Arc<Scene>) -> Outcome {
    let (client, root) = (scene.client().await?, scene.path("test"));
    create(&client, &root, &[]).await?;
    let builder = CuratorCache::builder(&client, &root).without_data();
    let (cache, heard, _listening) = listened(builder)?;
    heard.starts(&scene, &["added ="]).await?;
    let path = format!("{root}/foo");
    client.create(&path).data("first").await?;
    heard.expect(&scene, &["added /foo="]).await?;
    client.set(&path, "something new").await?;
    heard.expect(&scene, &["updated /foo="]).await?;
    assert_eq!(cache.current_data(&path).map(|znode| znode.data), Some("".into()));
    Ok(())
}

/// `TestTreeCache`: `testBasics`, `testDeleteThenCreate`, `testBasicsOnTwoCaches` and
/// `testDeleteNodeAfterCloseDoesntCallExecutor`.
pub(crate) async fn basics_on_two_caches(scene: Arc<Scene>) -> Outcome {
    let (client, root) = (scene.client().await?, scene.path("test"));
    create(&client, &root, &[]).await?;
    let (first, heard, _first) = listened(CuratorCache::builder(&client, &root))?;
    let (second, also_heard, _second) = listened(CuratorCache::builder(&client, &root))?;
    heard.starts(&scene, &["added ="]).await?;
    also_heard.starts(&scene, &["added ="]).await?;
    assert_eq!(children(&first, &scene.path("t")), None, "it only begins like the root");
    let path = format!("{root}/one");
    // A cache may tell of two changes as one, if it reads after both.
    client.create(&path).data("hey there").await?;
    for heard in [&heard, &also_heard] {
        heard.expect(&scene, &["added /one=hey there"]).await?;
    }
    client.set(&path, "sup!").await?;
    for heard in [&heard, &also_heard] {
        heard.expect(&scene, &["updated /one=sup!"]).await?;
    }
    client.delete(&path).await?;
    client.create(&path).data("two").await?;
    for heard in [&heard, &also_heard] {
        heard.expect(&scene, &["removed /one=sup!", "added /one=two"]).await?;
    }
    for cache in [&first, &second] {
        assert_eq!(cache.current_data(&path).map(|znode| znode.data), Some("two".into()));
    }
    first.cache().close();
    client.delete(&path).await?;
    also_heard.expect(&scene, &["removed /one=two"]).await?;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(heard.take(), [] as [&str; 0], "it is closed");
    Ok(())
}

/// `testKilledSession` of `TestTreeCache`, `TestPathChildrenCache` and `TestNodeCache`.
pub(crate) async fn killed_session(scene: Arc<Scene>) -> Outcome {
    let (client, root) = (scene.client().await?, scene.path("test"));
    create(&client, &root, &[("node", "start")]).await?;
    let (_cache, heard, _listening) = listened(CuratorCache::builder(&client, &root))?;
    let node = NodeCache::start(&client, &format!("{root}/node"))?;
    soon(node.initialized()).await??;
    client.create(&format!("{root}/me")).mode(CreateMode::Ephemeral).data("data").await?;
    heard.until(&scene, "added /me=data").await?;
    scene.expire(&client).await?;
    heard.until(&scene, "removed /me=data").await?;
    heard.until(&scene, "ConnectionLost").await?;
    heard.until(&scene, "ConnectionReconnected").await?;
    assert_eq!(node.current_data().map(|znode| znode.data), Some("start".into()));
    heard.take();
    client.set(&format!("{root}/node"), "new data").await?;
    heard.until(&scene, "updated /node=new data").await?;
    let has_it = async || Ok(node.current_data().is_some_and(|znode| znode.data == "new data"));
    scene.until("the cache of one znode has it", has_it).await
}

/// `TestNodeCache`: `testBasics` and `testDeleteThenCreate`.
pub(crate) async fn node_cache_basics(scene: Arc<Scene>) -> Outcome {
    let (client, path) = (scene.client().await?, scene.path("test/node"));
    create(&client, &scene.path("test"), &[]).await?;
    let cache = NodeCache::start(&client, &path)?;
    soon(cache.initialized()).await??;
    assert!(cache.current_data().is_none());
    let heard = Heard::default();
    let listener = heard.clone();
    let _listening = cache.listen(move |znode| {
        let data = znode.map(|znode| String::from_utf8_lossy(&znode.data).into_owned());
        listener.say(data.unwrap_or_else(|| "none".to_owned()));
    });
    client.create(&path).data("a").await?;
    heard.expect(&scene, &["a"]).await?;
    client.set(&path, "b").await?;
    heard.expect(&scene, &["b"]).await?;
    client.delete(&path).await?;
    heard.expect(&scene, &["none"]).await?;
    assert!(cache.current_data().is_none());
    client.create(&path).data("two").await?;
    heard.expect(&scene, &["two"]).await
}

/// `TestPathChildrenCache`: `testParentContainerMissing`, `testPostInitializedForEmpty`,
/// `testChildrenInitialized` and `testIssue27`. Our cache does not create the parent.
pub(crate) async fn path_children_cache_without_parent(scene: Arc<Scene>) -> Outcome {
    let (client, root) = (scene.client().await?, scene.path("a/b/test"));
    let cache = PathChildrenCache::start(&client, &root)?;
    let heard = Heard::default();
    let _listening = cache.listen(heard.listener(&root));
    heard.starts(&scene, &[]).await?;
    for name in ["one", "two"] {
        client.create(&format!("{root}/{name}")).parents(Parents::Persistent).await?;
    }
    heard.expect(&scene, &["added /one=", "added /two="]).await?;
    for name in ["/one", "/two", ""] {
        client.delete(&format!("{root}{name}")).await?;
    }
    heard.expect(&scene, &["removed /one=", "removed /two="]).await?;
    client.create(&format!("{root}/new")).data("1").parents(Parents::Persistent).await?;
    heard.expect(&scene, &["added /new=1"]).await?;
    let found: Vec<_> = cache.current_data().into_iter().map(|znode| znode.data).collect();
    assert_eq!(found, ["1"]);
    Ok(())
}

/// The znodes that the events of a cache have told of. Each is created before it is deleted.
struct Told(BTreeSet<String>);

impl Told {
    /// What a cache has, and the events after that. It may have the root as soon as it has started.
    fn of(cache: CuratorCache) -> (CuratorCache, CacheEvents, Self) {
        let (znodes, events) = cache.znodes_and_events();
        (cache, events, Self(znodes.into_iter().map(|znode| znode.path).collect()))
    }

    fn take(&mut self, events: &mut CacheEvents) {
        while let Some(event) = events.try_next() {
            match event.expect("the cache goes on") {
                CacheEvent::Created { znode, .. } => {
                    assert!(self.0.insert(znode.path.clone()), "{} twice", znode.path);
                }
                CacheEvent::Deleted { znode, .. } => {
                    assert!(self.0.remove(&znode.path), "{} was not there", znode.path);
                }
                _ => {}
            }
        }
    }
}

/// Creates, sets or deletes a znode of some names. It may be refused, or be lost with a connection.
async fn change_any(client: &Client, root: &str) {
    let mut path = root.to_owned();
    for _ in 0..fastrand::usize(1..4) {
        path += &format!("/{}", fastrand::u8(..4));
    }
    let data = fastrand::u32(..).to_string();
    let _refused = match fastrand::u8(..3) {
        0 => client.create(&path).data(data).parents(Parents::Persistent).await.map(drop),
        1 => client.set(&path, data).await.map(drop),
        _ => client.delete(&path).await.map(drop),
    };
}

const WRITERS: usize = 8;
const CHANGES: usize = 40;

/// `testEventOrdering` of Curator's three caches: each znode is added before it is removed, and what
/// was added and not removed is there. `testIteratorWithRandomGraph`, `testGiantRandomDeepTree` and
/// `testGiantRandomDeepTreeWithDepth`: what is there is the tree.
pub(crate) async fn event_ordering(scene: Arc<Scene>) -> Outcome {
    let (client, root) = (scene.client().await?, scene.path("root"));
    create(&client, &root, &[]).await?;
    let whole = CuratorCache::builder(&client, &root).start()?;
    let part = CuratorCache::builder(&client, &root).depth_max(1).start()?;
    let caches = [whole, part].map(Told::of);
    let mut writing = Vec::new();
    for _ in 0..WRITERS {
        let (client, root) = (scene.client().await?, root.clone());
        writing.push(tokio::spawn(async move {
            for _ in 0..CHANGES {
                change_any(&client, &root).await;
            }
        }));
    }
    for task in writing {
        soon(task).await??;
    }
    for (depth_max, (cache, mut events, mut told)) in [usize::MAX, 1].into_iter().zip(caches) {
        soon(cache.catch_up()).await??;
        client.sync("/").await?;
        let is_of = |path: &str| path[root.len()..].matches('/').count() <= depth_max;
        let mut tree = tree(&client, &root).await?;
        tree.retain(|path, _| is_of(path));
        assert_eq!(cached(&cache), tree);
        told.take(&mut events);
        assert!(told.0.iter().eq(tree.keys()), "{:?}, not {:?}", told.0, tree.keys());
    }
    Ok(())
}

const KILLS: usize = 2;

/// `TestCuratorCacheConsistency`, `TestCuratorCacheEdges.testServerLoss`, and `testServerLoss` and
/// `testMissedDelete` of `TestPathChildrenCacheInCluster`: clients change a tree while the leader is
/// killed and started again. After that each has the tree in its cache.
pub(crate) fn consistency_after_simulation(server: &mut Server) -> Outcome {
    let scene = Arc::new(server.scene("cache-consistency"));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let root = scene.path("test");
        create(&scene.client().await?, &root, &[]).await?;
        let mut members = Vec::new();
        for _ in 0..WRITERS {
            let client = scene.client().await?;
            let cache = CuratorCache::builder(&client, &root).start()?;
            members.push((client, Told::of(cache)));
        }
        for _ in 0..KILLS {
            let writing = write_all(&members, &root);
            let leader = server.kill_leader()?;
            finish(writing).await?;
            compare(&mut members, &root).await?;
            let writing = write_all(&members, &root);
            server.restart(leader)?;
            finish(writing).await?;
            compare(&mut members, &root).await?;
        }
        drop(members);
        scene.assert_clean().await
    })
}

type Member = (Client, (CuratorCache, CacheEvents, Told));

fn write_all(members: &[Member], root: &str) -> Vec<tokio::task::JoinHandle<()>> {
    let write = |(client, ..): &Member| {
        let (client, root) = (client.clone(), root.to_owned());
        tokio::spawn(async move {
            for _ in 0..CHANGES {
                change_any(&client, &root).await;
            }
        })
    };
    members.iter().map(write).collect()
}

async fn finish(writing: Vec<tokio::task::JoinHandle<()>>) -> Outcome {
    for task in writing {
        soon(task).await??;
    }
    Ok(())
}

/// Checks that each cache has the tree, and that its events have told of it.
async fn compare(members: &mut [Member], root: &str) -> Outcome {
    let mut trees = Vec::new();
    for (client, (cache, events, told)) in members {
        soon(cache.catch_up()).await??;
        soon(client.sync("/").into_future()).await??;
        let tree: BTreeMap<_, _> = soon(tree(client, root)).await??;
        assert_eq!(cached(cache), tree);
        told.take(events);
        assert!(told.0.iter().eq(tree.keys()), "{:?}, not {:?}", told.0, tree.keys());
        trees.push(tree);
    }
    trees.dedup();
    assert_eq!(trees.len(), 1, "all see one tree");
    Ok(())
}
