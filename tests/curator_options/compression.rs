//! Tests of compressed data: Curator's `TestCompression` by name, and the cache's.

use zoolet::client::compression::{DECOMPRESSED_BYTES_MAX, DecompressError, compress, decompress};
use zoolet::client::{Error, Parents, Watched};
use zoolet::protocol::{CreateMode, EventType, Expect};
use zoolet::recipes::CuratorCache;
use zoolet_test_support::stage::{connect, server};

const TEXT: &str = "here's a string";

#[tokio::test(start_paused = true)]
async fn test_create_compress_and_test_set_data() {
    let server = server().await;
    let client = connect(&server).await;
    let create = client.create("/a/b/c").compressed_data(TEXT).parents(Parents::Persistent);
    create.await.unwrap();
    assert_eq!(client.get_decompressed("/a/b/c").await.unwrap().0, TEXT);
    let (data, _) = client.get("/a/b/c").await.unwrap();
    assert_eq!(decompress(&data, 100).unwrap(), TEXT);
    let stat = client.set_compressed("/a/b/c", "other").version(0).await.unwrap();
    let (data, read) = client.get_decompressed("/a/b/c").await.unwrap();
    assert_eq!((&data[..], read), (&b"other"[..], stat));
    // What exists is set, compressed too.
    client.create("/a/b/c").compressed_data("third").or_set().await.unwrap();
    assert_eq!(client.get_decompressed("/a/b/c").await.unwrap().0, "third");
}

#[tokio::test(start_paused = true)]
async fn test_compression_in_a_transaction() {
    let server = server().await;
    let client = connect(&server).await;
    let transaction = client.transaction().create("/a", "", CreateMode::Persistent);
    let transaction = transaction.create("/a/b", compress(TEXT.as_bytes()), CreateMode::Persistent);
    transaction.set("/a", compress(b"top"), Expect::Any).commit().await.unwrap();
    assert_eq!(client.get_decompressed("/a").await.unwrap().0, "top");
    assert_eq!(client.get_decompressed("/a/b").await.unwrap().0, TEXT);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_decompressed_is_an_error_that_names_the_znode() {
    let server = server().await;
    let client = connect(&server).await.namespace("/app").unwrap();
    client.create("/plain").data("plain").parents(Parents::Persistent).await.unwrap();
    client.create("/none").await.unwrap();
    // A few kilobytes that expand to more than is allowed.
    client.create("/bomb").compressed_data(vec![0_u8; DECOMPRESSED_BYTES_MAX + 1]).await.unwrap();
    let not_compressed = DecompressError::NotCompressed;
    let too_long = DecompressError::TooLong { bytes_max: DECOMPRESSED_BYTES_MAX };
    for (path, fault) in
        [("/plain", not_compressed), ("/none", not_compressed), ("/bomb", too_long)]
    {
        let error = client.get_decompressed(path).await.unwrap_err();
        assert_eq!(error, Error::Decompress { path: path.to_owned(), fault });
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_leaves_a_watch_as_any_other() {
    let server = server().await;
    let client = connect(&server).await;
    client.create("/a").compressed_data(TEXT).await.unwrap();
    let Watched { found, watcher } = client.get_decompressed("/a").and_watch().await.unwrap();
    assert_eq!(found.0, TEXT);
    client.set_compressed("/a", "other").await.unwrap();
    assert_eq!(watcher.await.unwrap().event_type, EventType::NODE_DATA_CHANGED);
}

#[tokio::test(start_paused = true)]
async fn a_cache_has_compressed_and_other_data() {
    let server = server().await;
    let client = connect(&server).await;
    client.create("/app/page").compressed_data(TEXT).parents(Parents::Persistent).await.unwrap();
    client.create("/app/plain").data("plain").await.unwrap();
    let cache = CuratorCache::builder(&client, "/app").start().unwrap();
    cache.initialized().await.unwrap();
    assert_eq!(cache.get("/app/page").unwrap().decompressed().unwrap(), TEXT);
    let plain = cache.get("/app/plain").unwrap();
    assert_eq!(
        (plain.decompressed(), &plain.data[..]),
        (Err(DecompressError::NotCompressed), &b"plain"[..])
    );
}
