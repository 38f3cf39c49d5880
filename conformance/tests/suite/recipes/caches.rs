//! Caches.

use std::collections::BTreeMap;
use std::sync::Arc;

use zoolet_client::protocol::Zxid;
use zoolet_client::{Client, Parents};
use zoolet_recipes::{CacheState, CuratorCache};

use super::Outcome;
use super::scene::{Scene, soon};

pub(crate) type Tree = BTreeMap<String, (Vec<u8>, Zxid, Zxid)>;

pub(crate) async fn tree(client: &Client, root: &str) -> Result<Tree, zoolet_client::Error> {
    let mut tree = Tree::new();
    let mut paths = vec![root.to_owned()];
    while let Some(path) = paths.pop() {
        let (data, stat) = client.get(&path).await?;
        let names = client.children(&path).await?;
        paths.extend(names.iter().map(|name| format!("{path}/{name}")));
        tree.insert(path, (data.to_vec(), stat.czxid, stat.mzxid));
    }
    Ok(tree)
}

pub(crate) fn cached(cache: &CuratorCache) -> Tree {
    let mut tree = Tree::new();
    cache.for_each(|it| {
        tree.insert(it.path, (it.data.to_vec(), it.stat.czxid, it.stat.mzxid));
    });
    tree
}

/// Creates, changes and deletes a few znodes, also one of the name of a deleted one.
async fn change(client: &Client, root: &str, round: u32) -> Outcome {
    let stays = format!("{root}/stays-{round}");
    client.create(&stays).data(round.to_string()).await?;
    client.set(root, round.to_string()).await?;
    let again = format!("{root}/again");
    if client.exists(&again).await?.is_some() {
        for name in client.children(&again).await?.iter() {
            client.delete(&format!("{again}/{name}")).await?;
        }
        client.delete(&again).await?;
    }
    client.create(&again).await?;
    client.create(&format!("{again}/{round}")).await?;
    Ok(())
}

pub(crate) async fn a_cache_is_the_tree_after_cuts_and_expiry(scene: Arc<Scene>) -> Outcome {
    let root = scene.path("cache");
    let other = scene.client().await?;
    let (client, way) = scene.client_behind_proxy().await?;
    other.create(&root).parents(Parents::Persistent).await?;
    let cache = CuratorCache::builder(&client, &root).start()?;
    soon(cache.initialized()).await??;
    for round in 0..6 {
        match round % 3 {
            0 => change(&other, &root, round).await?,
            1 => {
                way.refuse(true);
                way.cut();
                change(&other, &root, round).await?;
                way.refuse(false);
            }
            _ => {
                scene.expire(&client).await?;
                change(&other, &root, round).await?;
            }
        }
        other.sync("/").await?;
        soon(cache.catch_up()).await??;
        assert_eq!(cached(&cache), tree(&other, &root).await?, "in round {round}");
    }
    drop(cache);
    scene.assert_clean().await
}

/// Servers before 3.9 have one mode of watch for a path and a connection.
pub(crate) async fn a_cache_of_one_znode_takes_no_events_from_one_of_its_tree(
    scene: Arc<Scene>,
) -> Outcome {
    let root = scene.path("cache");
    let client = scene.client().await?;
    client.create(&root).parents(Parents::Persistent).await?;
    let whole = CuratorCache::builder(&client, &root).start()?;
    soon(whole.initialized()).await??;
    let single = CuratorCache::builder(&client, &root).single_node().start()?;
    soon(single.initialized()).await??;
    client.create(&format!("{root}/child")).await?;
    client.set(&root, "set").await?;
    for cache in [&whole, &single] {
        soon(cache.catch_up()).await??;
    }
    assert_eq!(cached(&whole), tree(&client, &root).await?);
    assert_eq!(single.get(&root).map(|it| it.data), Some("set".into()));
    assert_eq!(single.len(), 1);
    drop((whole, single));
    scene.assert_clean().await
}

pub(crate) async fn a_cache_is_suspended_without_a_connection(scene: Arc<Scene>) -> Outcome {
    let root = scene.path("cache");
    let (client, way) = scene.client_behind_proxy().await?;
    client.create(&root).parents(Parents::Persistent).await?;
    let cache = CuratorCache::builder(&client, &root).start()?;
    soon(cache.initialized()).await??;
    way.refuse(true);
    way.cut();
    let mut progress = cache.progress();
    soon(progress.wait_for(|it| it.state == CacheState::Suspended)).await??;
    way.refuse(false);
    soon(progress.wait_for(|it| it.state == CacheState::Current)).await??;
    drop((progress, cache));
    scene.assert_clean().await
}
