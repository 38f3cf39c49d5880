//! The code of `docs/caches.md`.

use zoolet::recipes::CuratorCache;

use crate::{Outcome, check, stage};

#[tokio::test(start_paused = true)]
async fn a_write_is_in_the_cache() -> Outcome {
    let (_server, client) = stage().await;
    // On the page:
    client.create("/services").await?;
    let cache = CuratorCache::builder(&client, "/services").start()?;
    cache.initialized().await?;
    let created = client.create("/services/one").data("10.0.0.7").await?;
    cache.synced(created.stat.czxid).await?; // the cache has this write, and all before it
    // Until here.
    assert_eq!(cache.get("/services/one").map(|znode| znode.data), Some("10.0.0.7".into()));
    Ok(())
}

#[test]
fn the_page_shows_what_runs() {
    check("caches.md", include_str!("caches.rs"));
}
