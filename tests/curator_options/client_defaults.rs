//! Tests of what a client gives to znodes that have nothing of their own: its access control lists,
//! which recipes use too, and the data of recipes.

use std::time::Duration;

use zoolet::client::{Client, Parents};
use zoolet::protocol::{Acl, CreateMode};
use zoolet::recipes::{
    DistributedAtomicLong, DistributedBarrier, InterProcessMutex, InterProcessSemaphoreV2,
    LeaderLatch, SharedCount,
};
use zoolet_test_support::stage::{connect, server};

#[tokio::test(start_paused = true)]
async fn all_znodes_without_a_list_of_their_own_have_that_of_the_provider() {
    let server = server().await;
    let client = Client::builder()
        .auth("digest", "user:password")
        .acl_provider(|path| match path.starts_with("/app/public") {
            true => vec![Acl::open()],
            false => vec![Acl::creator_all()],
        })
        .default_data("host-1")
        .connect(server.dialer())
        .await
        .unwrap();
    let client = client.namespace("/app").unwrap();
    client.create("/public").parents(Parents::Persistent).await.unwrap();
    client.create("/own").acl(vec![Acl::read_only()]).await.unwrap();
    let mutex = InterProcessMutex::new(&client, "/lock").unwrap().acquire().await.unwrap();
    let seats = InterProcessSemaphoreV2::new(&client, "/seats", 1).unwrap();
    let permits = seats.acquire(1).await.unwrap();
    let latch = LeaderLatch::start(&client, "/leader", "one").unwrap();
    let term = latch.await_leadership().await.unwrap();
    DistributedBarrier::new(&client, "/barrier").unwrap().set().await.unwrap();
    DistributedAtomicLong::new(&client, "/number").unwrap().increment().await.unwrap();
    let _count = SharedCount::start(&client, "/count", 1).await.unwrap();
    let secret = ["/lock", mutex.path(), &permits.paths()[0], term.path(), "/barrier", "/number"];
    for path in secret.into_iter().chain(["/count"]) {
        let (acl, _) = client.acl(path).await.unwrap();
        assert_eq!(acl[0].id.scheme.as_deref(), Some("digest"), "{path}");
    }
    assert_eq!(client.acl("/public").await.unwrap().0, [Acl::open()]);
    assert_eq!(client.acl("/own").await.unwrap().0, [Acl::read_only()]);
    assert_eq!(client.get(mutex.path()).await.unwrap().0, "host-1");
    assert_eq!(client.get("/barrier").await.unwrap().0, "host-1");
    assert_eq!(client.get("/public").await.unwrap().0, "", "only znodes of recipes have it");
}

#[tokio::test(start_paused = true)]
async fn ancestors_have_the_lists_of_their_own_paths() {
    let server = server().await;
    let client = Client::builder()
        .auth("digest", "user:password")
        .acl_provider(|path| match path.starts_with("/app/public/") {
            true => vec![Acl::open()],
            false => vec![Acl::creator_all()],
        })
        .connect(server.dialer())
        .await
        .unwrap();
    let is_open = async |path: &str| client.acl(path).await.unwrap().0 == [Acl::open()];
    client.create("/app/public/a/b").parents(Parents::Containers).await.unwrap();
    assert!(is_open("/app/public/a").await && is_open("/app/public/a/b").await);
    assert!(!is_open("/app").await && !is_open("/app/public").await);
    let guard = InterProcessMutex::new(&client, "/app/locks/public/one").unwrap().acquire().await;
    let guard = guard.unwrap();
    assert!(!is_open("/app/locks").await && !is_open(guard.path()).await);
    client.delete("/app/public/a/b").await.unwrap();
    client.delete("/app/public/a").await.unwrap();
    client.delete("/app/public").await.unwrap();
    DistributedAtomicLong::new(&client, "/app/public/n").unwrap().increment().await.unwrap();
    assert!(is_open("/app/public/n").await && !is_open("/app/public").await);
    client.transaction().create("/app/x", "", CreateMode::Persistent).commit().await.unwrap();
    assert!(!is_open("/app/x").await, "in transactions too");
    // A list that is given is that of the directories too.
    let own = vec![Acl::read_only(), Acl::creator_all()];
    let lock = InterProcessMutex::new(&client, "/other/lock").unwrap().with_acl(own.clone());
    lock.acquire().await.unwrap().release().await.unwrap();
    assert_eq!(client.acl("/other").await.unwrap().0.len(), own.len());
}

#[tokio::test(start_paused = true)]
async fn without_containers_empty_ancestors_stay() {
    let server = server().await;
    let without = Client::builder().without_containers().connect(server.dialer()).await.unwrap();
    let with = connect(&server).await;
    for (client, top, stay) in [(&with, "/with", false), (&without, "/without", true)] {
        let client = client.namespace(top).unwrap();
        client.create("/parents/a/b").parents(Parents::Containers).await.unwrap();
        client.delete("/parents/a/b").await.unwrap();
        let lock = InterProcessMutex::new(&client, "/lock").unwrap();
        lock.acquire().await.unwrap().release().await.unwrap();
        let seats = InterProcessSemaphoreV2::new(&client, "/seats", 1).unwrap();
        seats.acquire(1).await.unwrap().release().await.unwrap();
        let barrier = DistributedBarrier::new(&client, "/barriers/one").unwrap();
        barrier.set().await.unwrap();
        barrier.remove().await.unwrap();
        // A znode that is a container by its own mode is one in any case.
        client.create("/box").mode(CreateMode::Container).await.unwrap();
        client.create("/box/content").await.unwrap();
        client.delete("/box/content").await.unwrap();
        // The server deletes empty containers, one level with each check.
        tokio::time::sleep(Duration::from_secs(600)).await;
        for path in ["/", "/parents", "/parents/a", "/lock", "/seats/leases", "/barriers"] {
            assert_eq!(client.exists(path).await.unwrap().is_some(), stay, "{top}{path}");
        }
        assert_eq!(client.exists("/box").await.unwrap(), None);
    }
}
