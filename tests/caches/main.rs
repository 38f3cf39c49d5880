//! Tests of the caches on a server in process and on an ensemble: a cache is the tree when all is
//! quiet, its events are a history of it, and nothing that disturbs connections, sessions and servers
//! leaves anything old.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod ensemble;
mod follow;
mod history;
mod old_shapes;
mod one_shot;

use std::collections::BTreeMap;
use std::time::Duration;

use zoolet::client::Client;
use zoolet::protocol::Zxid;
use zoolet::recipes::{CacheEvent, CacheEvents, CuratorCache, CuratorCacheBuilder};
use zoolet_test_support::counting::Counting;

const SECOND: Duration = Duration::from_secs(1);

async fn started(builder: CuratorCacheBuilder) -> CuratorCache {
    let cache = builder.start().unwrap();
    cache.initialized().await.unwrap();
    cache
}

/// Znodes with their data and the zxids by which a change is recognised.
type Tree = BTreeMap<String, (Vec<u8>, Zxid, Zxid)>;

/// The znodes below a path that the client may read.
async fn tree(client: &Client, root: &str) -> Tree {
    let mut tree = Tree::new();
    let mut paths = vec![root.to_owned()];
    while let Some(path) = paths.pop() {
        let Ok((data, stat)) = client.get(&path).await else { continue };
        let names = client.children(&path).await.unwrap();
        paths.extend(names.iter().map(|name| format!("{path}/{name}")));
        tree.insert(path, (data.to_vec(), stat.czxid, stat.mzxid));
    }
    tree
}

fn cached(cache: &CuratorCache) -> Tree {
    let mut tree = Tree::new();
    cache.for_each(|it| {
        tree.insert(it.path, (it.data.to_vec(), it.stat.czxid, it.stat.mzxid));
    });
    tree
}

/// Cuts the connection of a client for a time.
async fn outage(client: &Client, counting: &Counting, work: impl Future<Output = ()>) {
    counting.refuse(true);
    counting.cut();
    // Without this request the client would notice the cut at its next ping.
    drop(client.sync("/").send());
    tokio::time::sleep(SECOND).await;
    work.await;
    counting.refuse(false);
}

/// The kinds and paths of events up to the next one that is not about a znode.
async fn changes(events: &mut CacheEvents) -> Vec<String> {
    let mut texts = Vec::new();
    loop {
        match events.next().await.unwrap() {
            CacheEvent::Created { znode, .. } => texts.push(format!("+ {}", znode.path)),
            CacheEvent::Changed { znode, .. } => texts.push(format!("= {}", znode.path)),
            CacheEvent::Deleted { znode, .. } => texts.push(format!("- {}", znode.path)),
            CacheEvent::Suspended | CacheEvent::Lost => {}
            _ => return texts,
        }
    }
}
