//! Migrations: the scenarios of Curator's `TestMigrationManager` by name, and what is lost on the way.

use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use zoolet::client::{Client, Error, Parents, RetryPolicy};
use zoolet::protocol::{Acl, Create, CreateMode, ErrorCode, Expect, MultiOp};
use zoolet::recipes::migration::{Migration, MigrationError, MigrationManager, MigrationSet};
use zoolet::recipes::{InterProcessSemaphoreMutex, LockError};
use zoolet::testing::TestServer;
use zoolet_test_support::stage::{assert_clean, connect, counted, server};

const LOCKS: &str = "/migrations/locks";
const META_DATA: &str = "/migrations/metadata";

fn manager(client: &Client) -> MigrationManager {
    MigrationManager::new(client, LOCKS, META_DATA)
}

fn create(path: &str, data: &'static str) -> MultiOp {
    MultiOp::create(path, data, CreateMode::Persistent)
}

fn set_data(path: &str, data: &'static str) -> MultiOp {
    MultiOp::set_data(path, data, Expect::Any)
}

/// A set of migrations of these operations.
fn set(id: &str, migrations: &[&[MultiOp]]) -> MigrationSet {
    MigrationSet::new(id, migrations.iter().map(|ops| Migration::new(ops.to_vec())).collect())
}

async fn data(client: &Client, path: &str) -> String {
    let (data, _) = client.get(path).await.expect("it is there");
    String::from_utf8(data.to_vec()).expect("the tests write text")
}

async fn names(client: &Client, path: &str) -> Vec<String> {
    let names = client.children(path).await.expect("it is there");
    let mut names: Vec<String> = names.iter().map(str::to_owned).collect();
    names.sort();
    names
}

#[tokio::test(start_paused = true)]
async fn test_basic() {
    let server = server().await;
    let client = connect(&server).await;
    let first = [create("/test", ""), create("/test/it", "1")];
    let set = set("1", &[&first, &[set_data("/test/it", "2")], &[set_data("/test/it", "3")]]);
    assert_eq!(manager(&client).migrate(&set).await.unwrap(), 3);
    assert_eq!(data(&client, "/test/it").await, "3");
    // The second call does nothing.
    assert_eq!(manager(&client).migrate(&set).await.unwrap(), 0);
    let meta_data = names(&client, "/migrations/metadata/1").await;
    assert_eq!(meta_data, ["meta-0000000000", "meta-0000000001", "meta-0000000002"]);
    let (_, stat) = client.get("/test/it").await.unwrap();
    assert_eq!(stat.version, 2);
    drop(client);
    assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn test_staged() {
    let server = server().await;
    let client = connect(&server).await;
    let first = [create("/test", ""), create("/test/it", "1")];
    let later = [[set_data("/test/it", "2")], [set_data("/test/it", "3")]];
    let sets = [
        set("1", &[&first]),
        set("1", &[&first, &later[0]]),
        set("1", &[&first, &later[0], &later[1]]),
    ];
    for (set, text) in sets.iter().zip(["1", "2", "3"]) {
        assert_eq!(manager(&client).migrate(set).await.unwrap(), 1);
        assert_eq!(data(&client, "/test/it").await, text);
    }
    // An older program finds more than it knows.
    let error = manager(&client).migrate(&sets[1]).await.unwrap_err();
    let expected = MigrationError::MoreMetadata { set: "1".to_owned(), carried_out: 3, count: 2 };
    assert_eq!(error, expected);
}

#[tokio::test(start_paused = true)]
async fn test_doc_example() {
    let server = server().await;
    let client = connect(&server).await;
    let first = [
        create("/parent", ""),
        create("/parent/one", ""),
        create("/parent/two", ""),
        create("/parent/three", ""),
        create("/main", "hey"),
    ];
    manager(&client).migrate(&set("main", &[&first])).await.unwrap();
    assert!(client.exists("/parent/three").await.unwrap().is_some());
    assert_eq!(data(&client, "/main").await, "hey");
    let second = [create("/new", ""), MultiOp::delete("/main", Expect::Any)];
    manager(&client).migrate(&set("main", &[&first, &second])).await.unwrap();
    assert_eq!(client.exists("/main").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn test_checksum_data_error_and_test_checksum_path_error() {
    let server = server().await;
    let client = connect(&server).await;
    let parent = create("/test", "");
    let set_of = |op: MultiOp| set("1", &[&[parent.clone(), op]]);
    manager(&client).migrate(&set_of(create("/test/bar", "first"))).await.unwrap();
    let acl = Create::new("/test/bar", CreateMode::Persistent).data("first");
    let others = [
        create("/test/bar", "second"),
        create("/test/baz", "first"),
        MultiOp::create("/test/bar", "first", CreateMode::Ephemeral),
        MultiOp::create("/test/bar", "first", CreateMode::Container),
        acl.acl(vec![Acl::read_only()]).into(),
        set_data("/test/bar", "first"),
    ];
    for other in others {
        let error = manager(&client).migrate(&set_of(other.clone())).await.unwrap_err();
        let expected = MigrationError::Mismatch { set: "1".to_owned(), migration: 0 };
        assert_eq!(error, expected, "{other:?}");
    }
    // Another set may have them.
    let error = manager(&client).migrate(&set("2", &[slice::from_ref(&parent)])).await.unwrap_err();
    assert!(matches!(&error, MigrationError::Refused { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn test_partial_apply_for_bad_ops_and_test_transaction_for_bad_ops() {
    let server = server().await;
    let client = connect(&server).await;
    let (good, bad) = (create("/test", "something"), create("/a/b/c", ""));
    let cases = [
        (set("1", &[slice::from_ref(&good), slice::from_ref(&bad)]), (1, 0)),
        (set("2", &[&[good.clone(), bad.clone()]]), (0, 1)),
    ];
    for (set, place) in cases {
        let error = manager(&client).migrate(&set).await.unwrap_err();
        let MigrationError::Refused { migration, operation, error, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!((*migration, *operation), place);
        assert!(error.is(ErrorCode::NO_NODE), "{error}");
        assert_eq!(client.exists("/test").await.unwrap(), None, "all or nothing");
        assert_eq!(client.exists(META_DATA).await.unwrap(), None, "all or nothing");
    }
    drop(client);
    assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn test_concurrency_1_and_test_concurrency_2() {
    let server = server().await;
    let (client, other) = (connect(&server).await, connect(&server).await);
    let set = set("1", &[&[create("/test", ""), create("/test/bar", "first")]]);
    let lock = InterProcessSemaphoreMutex::new(&client, "/migrations/locks/1").unwrap();
    let held = lock.acquire().await.unwrap();
    let impatient = manager(&other).with_lock_timeout(Duration::from_secs(1));
    let error = impatient.migrate(&set).await.unwrap_err();
    assert!(matches!(&error, MigrationError::Lock(LockError::TimedOut(_))), "{error}");
    let (first, second) = (manager(&client), manager(&other));
    let release = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        held.release().await
    };
    let (first, second, released) =
        tokio::join!(first.migrate(&set), second.migrate(&set), release);
    released.unwrap();
    assert_eq!(first.unwrap() + second.unwrap(), 1, "one of them carried it out");
    assert_eq!(data(&client, "/test/bar").await, "first");
}

/// Three migrations that can be carried out any number of times; each leaves a child of `/runs`.
fn repeatable() -> MigrationSet {
    let run = MultiOp::create("/runs/run-", "", CreateMode::PersistentSequential);
    let run = slice::from_ref(&run);
    set("app", &[run, run, run])
}

#[tokio::test(start_paused = true)]
async fn no_migration_runs_twice_whichever_reply_is_lost() {
    for replies in 0..24 {
        let server = server().await;
        let (client, counting) = counted(&server).await;
        let other = connect(&server).await;
        client.create("/runs").await.unwrap();
        let policy = RetryPolicy::forever(Duration::from_millis(10));
        let (one, two) = (manager(&client.with_retry_policy(policy)), manager(&other));
        counting.cut_after(replies);
        let set = repeatable();
        let (first, second) = tokio::join!(one.migrate(&set), two.migrate(&set));
        first.unwrap();
        second.unwrap();
        counting.cut_after(-1);
        assert_eq!(names(&other, "/runs").await.len(), 3, "cut after {replies} replies");
        assert_eq!(names(&other, "/migrations/metadata/app").await.len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn the_transaction_of_a_session_that_has_ended_is_refused() {
    let server = Arc::new(TestServer::start().await.unwrap());
    let (client, other) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    other.create("/runs").await.unwrap();
    let is_first = AtomicBool::new(true);
    let (expiring, first_client, next) = (Arc::clone(&server), client.clone(), manager(&other));
    // Between the look at the meta data and the transaction the session ends, and another client
    // carries the migrations out.
    let one = manager(&client).with_filter(move |set, hashes| {
        if is_first.swap(false, Ordering::SeqCst) {
            expiring.session(first_client.session_id()).expire().unwrap();
            let next = next.clone();
            tokio::spawn(async move { next.migrate(&repeatable()).await.unwrap() });
        }
        Ok(set.migrations().get(hashes.len()..).unwrap_or_default().to_vec())
    });
    assert_eq!(one.migrate(&repeatable()).await.unwrap(), 3);
    assert_eq!(names(&other, "/runs").await.len(), 3);
    let refusing = manager(&client).with_filter(|_, hashes| Err(format!("{} of 3", hashes.len())));
    let error = refusing.migrate(&repeatable()).await.unwrap_err();
    assert_eq!(error.to_string(), "app: 3 of 3");
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_is_too_long_ends_with_an_error() {
    let server = server().await;
    let client = connect(&server).await;
    let ops: Vec<_> = (0..3)
        .map(|n| MultiOp::create(format!("/{n}"), vec![0_u8; 500_000], CreateMode::Persistent))
        .collect();
    let error = manager(&client).migrate(&set("long", &[&ops])).await.unwrap_err();
    assert!(matches!(error, MigrationError::Client(Error::TooLong { .. })), "{error}");
    // The server loses each reply to a client that sends it all the same.
    let builder = Client::builder().jute_max_buffer(usize::MAX);
    let sending = builder.connect(server.dialer()).await.unwrap();
    let error = manager(&sending).migrate(&set("long", &[&ops])).await.unwrap_err();
    assert!(matches!(&error, MigrationError::Client(error) if error.is_retryable()), "{error}");
    assert_eq!(client.exists("/0").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn hashes_have_the_namespace_and_not_the_chroot() {
    let server = server().await;
    let client = connect(&server).await;
    let ops = [create("/a", "x")];
    for top in ["/one", "/two", "/one/app"] {
        client.create(top).parents(Parents::Persistent).await.unwrap();
        manager(&client.namespace(top).unwrap()).migrate(&set("s", &[&ops])).await.unwrap();
    }
    let hash = async |top: &str| {
        let path = format!("{top}{META_DATA}/s/meta-0000000000");
        client.get(&path).await.unwrap().0
    };
    assert_ne!(hash("/one").await, hash("/two").await);
    assert_eq!(hash("/one").await.len(), 32);
    assert_eq!(client.namespace("/one").unwrap().namespaced_path("/a"), "/one/a");
    assert_eq!(client.namespaced_path("/"), "/");
}
