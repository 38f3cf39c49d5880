//! A cache is the tree after each calm, and its events are a history, whatever goes wrong.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use zoolet::client::{Client, Error};
use zoolet::protocol::{Create, CreateMode, ErrorCode, Expect, MultiOp, Zxid};
use zoolet::recipes::{CacheEvent, CacheEvents, CachedZnode, CuratorCache};
use zoolet::sim::{MachineResult, Sim, ViolationKind, World};

const PATHS: [&str; 7] = ["/c", "/c/a", "/c/b", "/c/a/a", "/c/a/b", "/c/a/a/a", "/c/a-"];

/// How long a cache may be behind when there are no faults.
const CALM: Duration = Duration::from_secs(30);

/// Creates, sets and deletes znodes of few names, so that they are created again and again.
async fn write(world: World) -> MachineResult {
    let client = world.connect().await?;
    while world.goes_on() {
        let path = PATHS[usize::try_from(world.random(0..PATHS.len() as u64))?];
        let data = world.random(0..u64::MAX).to_string();
        let written = match world.random(0..7) {
            0..3 => client.create(path).data(data).await.map(drop),
            3..4 => client.set(path, data).await.map(drop),
            4..6 => client.delete(path).await.map(drop),
            _ => {
                let create = |name| Create::new(format!("{path}/{name}"), CreateMode::Persistent);
                let set = MultiOp::set_data(path, data, Expect::Any);
                client.multi(vec![set, create("one").into(), create("two").into()]).await.map(drop)
            }
        };
        match written {
            Err(Error::Refused { code, .. })
                if [ErrorCode::NO_NODE, ErrorCode::NODE_EXISTS, ErrorCode::NOT_EMPTY]
                    .contains(&code) => {}
            written => written?,
        }
        world.sleep_up_to(Duration::from_millis(60)).await;
    }
    Ok(())
}

/// Znodes, with the zxids by which a change is recognised.
type Tree = BTreeMap<String, (Zxid, Zxid)>;

async fn tree(client: &Client) -> Result<Tree, Error> {
    let mut tree = Tree::new();
    let mut paths = vec!["/c".to_owned()];
    while let Some(path) = paths.pop() {
        let Some(stat) = client.exists(&path).await? else { continue };
        match client.children(&path).await {
            Ok(names) => paths.extend(names.iter().map(|name| format!("{path}/{name}"))),
            Err(error) if error.is(ErrorCode::NO_NODE) => {}
            Err(error) => return Err(error),
        }
        tree.insert(path, (stat.czxid, stat.mzxid));
    }
    Ok(tree)
}

fn key(znode: &CachedZnode) -> (Zxid, Zxid) {
    (znode.stat.czxid, znode.stat.mzxid)
}

/// What the events of a cache have told.
struct Told {
    tree: Tree,
    last: Zxid,
    order: Order,
}

/// The order of the events of different znodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Zxids,
    /// Some ensembles send events without zxids.
    Arrival,
}

impl Told {
    /// Takes the events that have come, and says which is impossible.
    fn take(&mut self, events: &mut CacheEvents) -> Result<(), String> {
        while let Some(Ok(event)) = events.try_next() {
            let zxid = event.zxid().unwrap_or(self.last);
            let is_possible = (zxid >= self.last || self.order == Order::Arrival)
                && match &event {
                    CacheEvent::Created { znode, .. } => self.create(znode),
                    CacheEvent::Changed { before, znode, .. } => {
                        let known = self.tree.insert(znode.path.clone(), key(znode));
                        known == Some(key(before)) && before.stat.mzxid < znode.stat.mzxid
                    }
                    CacheEvent::Deleted { znode, .. } => {
                        self.tree.remove(&znode.path) == Some(key(znode))
                    }
                    _ => true,
                };
            if !is_possible {
                return Err(format!("{event:?} after {:?} and {}", self.tree, self.last));
            }
            self.last = zxid;
        }
        Ok(())
    }

    fn create(&mut self, znode: &CachedZnode) -> bool {
        let parent = znode.path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let has_parent = parent.is_empty() || self.tree.contains_key(parent);
        has_parent && self.tree.insert(znode.path.clone(), key(znode)).is_none()
    }
}

async fn follow(world: World, order: Order) -> MachineResult {
    let client = world.connect().await?;
    let cache = CuratorCache::builder(&client, "/c").events_max(1 << 20).start()?;
    let mut events = cache.events();
    let mut told = Told { tree: Tree::new(), last: Zxid::ZERO, order };
    while world.goes_on() {
        world.sleep_up_to(Duration::from_millis(100)).await;
        if let Err(impossible) = told.take(&mut events) {
            world.fail(impossible);
        }
    }
    compare(&world, &client, &cache).await?;
    if let Err(impossible) = told.take(&mut events) {
        world.fail(impossible);
    }
    Ok(())
}

/// Compares the cache with the tree until they are equal: others may still write.
async fn compare(world: &World, client: &Client, cache: &CuratorCache) -> MachineResult {
    let since = world.elapsed();
    loop {
        let tree = tree(client).await?;
        cache.catch_up().await?;
        let mut cached = Tree::new();
        cache.for_each(|znode| {
            cached.insert(znode.path.clone(), key(&znode));
        });
        if cached == tree {
            return Ok(());
        }
        if world.elapsed() > since + CALM {
            world.fail(format!("the cache has {cached:?}, the tree is {tree:?}"));
        }
        world.sleep(Duration::from_millis(200)).await;
    }
}

fn caches(order: Order) -> Sim {
    let sim = Sim::new().machine("writer", 2, write);
    sim.machine("cache", 2, move |world| follow(world, order)).faults_for(Duration::from_secs(6))
}

#[test]
fn a_cache_is_the_tree_after_calm() {
    caches(Order::Zxids).sweep(0..12);
}

#[test]
fn a_cache_is_the_tree_after_calm_on_an_ensemble() {
    caches(Order::Arrival).ensemble().sweep(0..12);
}

/// Reads each znode of which an event tells, and what is there at the start. It does not read again
/// what may have changed while there was no connection.
async fn follow_events_alone(world: World) -> MachineResult {
    let client = world.connect().await?;
    let mut watch = zoolet::recipes::PersistentWatcher::recursive(&client, "/c")?;
    let known: Arc<std::sync::Mutex<Tree>> = Arc::default();
    let (reader, copy) = (client.clone(), Arc::clone(&known));
    world.spawn(async move {
        let mut is_filled = false;
        while let Ok(observed) = watch.next().await {
            let zoolet::recipes::Observed::Event(event) = observed else {
                if !std::mem::replace(&mut is_filled, true) {
                    let now = tree(&reader).await.unwrap_or_default();
                    *copy.lock().expect("nobody panics") = now;
                }
                continue;
            };
            if let Ok(stat) = reader.exists(&event.path).await {
                let mut known = copy.lock().expect("nobody panics");
                match stat {
                    Some(stat) => drop(known.insert(event.path, (stat.czxid, stat.mzxid))),
                    None => drop(known.remove(&event.path)),
                }
            }
        }
    });
    while world.goes_on() {
        world.sleep_up_to(Duration::from_millis(100)).await;
    }
    world.sleep(CALM).await;
    let tree = tree(&client).await?;
    let copy = known.lock().expect("nobody panics").clone();
    if copy != tree {
        world.fail(format!("the copy is {copy:?}, the tree is {tree:?}"));
    }
    Ok(())
}

#[test]
fn a_copy_that_does_not_read_again_after_a_reconnect_is_found_to_be_stale() {
    let sim = Sim::new().machine("writer", 1, write).machine("copy", 1, follow_events_alone);
    let failure = sim.search(0..100).expect_err("a change is missed");
    assert_eq!(failure.violation().kind, ViolationKind::Failed("copy".to_owned()));
}
