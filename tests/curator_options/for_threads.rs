//! Tests of the same for threads.

use std::sync::mpsc;
use std::time::Duration;

use zoolet::client::blocking::Client;
use zoolet::protocol::CreateMode;
use zoolet::recipes::blocking::{
    CachedAtomicLong, DistributedAtomicInteger, DistributedAtomicLong, DistributedAtomicValue,
    InterProcessMutex, InterProcessSemaphoreV2, LeaderLatch, LeaderSelector, MigrationManager,
    SharedCount,
};
use zoolet::recipes::migration::{Migration, MigrationSet};
use zoolet::recipes::{Change, ErrorPolicy};
use zoolet::server::blocking::Server;

/// Long enough for everything that does not wait.
const LONG: Duration = Duration::from_secs(20);

fn stage() -> (Server, Client) {
    let server = Server::start(zoolet::server::Server::builder()).expect("it starts");
    let client = Client::connect(server.dialer()).expect("the server is there");
    (server, client)
}

#[test]
fn values_change_and_are_reserved() {
    let (_server, client) = stage();
    let value = DistributedAtomicValue::new(&client, "/value").unwrap();
    assert!(value.initialize("one").unwrap());
    assert!(value.compare_and_set("one", "two").unwrap());
    assert_eq!(value.try_set("three").unwrap().before.unwrap(), "two");
    value.force_set("four").unwrap();
    assert_eq!(value.read().unwrap().unwrap(), "four");
    let number = DistributedAtomicInteger::new(&client, "/n").unwrap();
    assert_eq!(number.increment().unwrap(), Change { before: 0, after: 1 });
    assert_eq!(number.try_set(7).unwrap(), Change { before: 1, after: 7 });
    assert_eq!(number.decrement().unwrap().after, 6);
    let count = SharedCount::start(&client, "/n", 0).unwrap();
    let seen = count.versioned_count().unwrap();
    assert!(count.try_set_versioned(&seen, 8).unwrap());
    assert!(!count.try_set_versioned(&seen, 9).unwrap());
    let ids = DistributedAtomicLong::new(&client, "/ids").unwrap();
    let reserved = CachedAtomicLong::new(&ids, 10);
    assert_eq!((reserved.next().unwrap(), reserved.next().unwrap()), (1, 2));
    assert_eq!(ids.read().unwrap(), 10);
}

#[test]
fn leaders_are_started_with_options() {
    let (_server, client) = stage();
    let builder = zoolet::recipes::LeaderLatch::builder(client.ask(), "/latch").id("one");
    let latch =
        LeaderLatch::start_with(&client, builder.error_policy(ErrorPolicy::Connection)).unwrap();
    let term = latch.await_leadership_within(LONG).unwrap();
    assert_eq!((latch.id(), latch.last_leader_path().as_deref()), ("one", Some(term.path())));
    latch.close().unwrap();
    let (led, terms) = mpsc::channel();
    let builder = zoolet::recipes::LeaderSelector::builder(client.ask(), "/selector").id("two");
    let lead = move |leadership: zoolet::recipes::blocking::Leadership| {
        let has_requeued = leadership.term().requeue();
        led.send((leadership.term().fencing_token(), has_requeued)).unwrap();
    };
    let selector = LeaderSelector::start_with(&client, builder, lead).unwrap();
    let (first, second) = (terms.recv_timeout(LONG).unwrap(), terms.recv_timeout(LONG).unwrap());
    assert!(first.0 < second.0 && first.1 && second.1, "{first:?} {second:?}");
    assert_eq!(selector.id(), "two");
    selector.close().unwrap();
}

#[test]
fn participants_have_data_and_a_session_is_handed_over() {
    let (server, client) = stage();
    let guard = InterProcessMutex::new(&client, "/lock").unwrap().with_data("one").acquire();
    let guard = guard.unwrap();
    let mutex = InterProcessMutex::new(&client, "/lock").unwrap();
    assert_eq!(mutex.participants_with_data().unwrap(), [(guard.path().to_owned(), "one".into())]);
    guard.release().unwrap();
    let seats = InterProcessSemaphoreV2::new(&client, "/seats", 2).unwrap().with_data("two");
    let _permits = seats.acquire(2).unwrap();
    assert!(seats.participants_with_data().unwrap().iter().all(|(_, data)| data == "two"));
    client.create_as("/one", "", CreateMode::Ephemeral).unwrap();
    let saved = client.hand_over().unwrap();
    let builder = zoolet::client::Client::builder().session(saved.clone());
    let next = Client::connect_with(builder, server.dialer()).unwrap();
    assert_eq!(next.exists("/one").unwrap().unwrap().ephemeral_owner, saved.id());
}

#[test]
fn migrations_are_carried_out_once() {
    let (_server, client) = stage();
    let first = client.transaction().create("/app", "1", CreateMode::Persistent);
    let set = MigrationSet::new("app", vec![Migration::new(first.into_ops())]);
    let manager = MigrationManager::new(&client, "/migrations/locks", "/migrations/metadata");
    assert_eq!(manager.migrate(&set).unwrap(), 1);
    assert_eq!(manager.migrate(&set).unwrap(), 0);
    assert_eq!(client.get("/app").unwrap().0, "1");
}

#[test]
fn data_is_compressed() {
    let (_server, client) = stage();
    client.create("/page", "").unwrap();
    let stat = client.set_compressed("/page", [b'x'; 10_000]).unwrap();
    assert!(stat.data_length < 100, "{stat:?}");
    assert_eq!(client.get_decompressed("/page").unwrap().0, vec![b'x'; 10_000]);
}

#[test]
fn a_tree_is_deleted() {
    let (_server, client) = stage();
    for path in ["/a", "/a/b", "/a/b/c", "/ab"] {
        client.create(path, "").unwrap();
    }
    client.delete_with_descendants("/a").unwrap();
    assert_eq!(client.exists("/a").unwrap(), None);
    assert!(client.exists("/ab").unwrap().is_some());
}
