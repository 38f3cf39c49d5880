//! Tests of `NonBlockingLease` on a server of the test kit: one client has the lease at a time of one
//! clock, tokens grow with each lease, a late writer is refused, and the znodes are kazoo's.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use zoolet::client::Client;
use zoolet::recipes::{LeaseError, MultiNonBlockingLease, NonBlockingLease};
use zoolet::testing::{Fault, RequestFilter};

use super::stage::{LONG, stage};

const PATH: &str = "/leases/cleanup";
const HOLDER: &str = "/leases/cleanup/lease_holder";
const MINUTE: Duration = Duration::from_secs(60);

/// A time of day that only the test moves.
#[derive(Clone, Default)]
struct Clock(Arc<AtomicU64>);

impl Clock {
    fn advance(&self, time: Duration) {
        self.0.fetch_add(
            time.as_millis().try_into().expect("a test lasts for days at most"),
            Ordering::SeqCst,
        );
    }

    fn now(&self) -> SystemTime {
        // 2020-09-13T12:26:40, and a part of a second.
        let start = Duration::from_millis(1_600_000_000_250);
        UNIX_EPOCH + start + Duration::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn lease(&self, client: &Client, identifier: &str) -> NonBlockingLease {
        let clock = self.clone();
        let lease = NonBlockingLease::new(client, PATH, identifier).expect("a path");
        lease.with_clock(move || clock.now())
    }
}

#[tokio::test(start_paused = true)]
async fn one_client_has_the_lease_until_its_end() {
    let (server, client) = stage().await;
    let (clock, other) = (Clock::default(), server.connect().await.unwrap());
    let (one, two) = (clock.lease(&client, "one"), clock.lease(&other, "two"));
    assert_eq!(one.holder().await.unwrap(), None);
    let first = one.obtain(MINUTE).await.unwrap().unwrap();
    assert_eq!(two.obtain(MINUTE).await.unwrap(), None);
    clock.advance(MINUTE / 2);
    let renewed = one.obtain(MINUTE).await.unwrap().unwrap();
    assert!(renewed.fencing_token() > first.fencing_token());
    clock.advance(MINUTE * 59 / 60);
    assert_eq!(two.obtain(MINUTE).await.unwrap(), None, "a second is left");
    clock.advance(MINUTE / 60);
    let second = two.obtain(MINUTE).await.unwrap().unwrap();
    assert!(second.fencing_token() > renewed.fencing_token());
    assert!(renewed.is_over_at(clock.now()) && !second.is_over_at(clock.now()));
    assert_eq!(one.obtain(MINUTE).await.unwrap(), None);
    let holder = one.holder().await.unwrap().unwrap();
    assert_eq!((holder.identifier.as_str(), holder.token), ("two", second.fencing_token()));
    assert_eq!(server.totals().watches, 0);
}

#[tokio::test(start_paused = true)]
async fn the_znodes_are_kazoos() {
    let (_server, client) = stage().await;
    let lease = Clock::default().lease(&client, "host \"1\"").obtain(MINUTE).await.unwrap();
    let (data, stat) = client.get(HOLDER).await.unwrap();
    let text = "{\"version\": 1, \"holder\": \"host \\\"1\\\"\", \"end\": \"2020-09-13T12:27:40\"}";
    assert_eq!(data, text);
    assert!(stat.ephemeral_owner.is_none());
    assert_eq!(stat.czxid, lease.unwrap().fencing_token());
    let names = client.children(PATH).await.unwrap().to_vec();
    assert_eq!(names, ["lease_holder"], "the place in the line of the lock is deleted");
}

#[tokio::test(start_paused = true)]
async fn kazoos_lock_and_kazoos_lease_are_respected() {
    let (server, client) = stage().await;
    let (clock, kazoo) = (Clock::default(), server.connect().await.unwrap());
    let text = "{\"version\": 1, \"holder\": \"kazoo\", \"end\": \"2020-09-13T12:27:40\"}";
    clock.lease(&client, "one").obtain(MINUTE).await.unwrap().unwrap();
    kazoo.delete(HOLDER).await.unwrap();
    kazoo.create(HOLDER).data(text).await.unwrap();
    assert_eq!(clock.lease(&client, "one").obtain(MINUTE).await.unwrap(), None);
    clock.advance(MINUTE);
    let lock = format!("{PATH}/0123456789abcdef0123456789abcdef__lock__");
    let mode = zoolet::protocol::CreateMode::EphemeralSequential;
    let place = kazoo.create(&lock).mode(mode).await.unwrap().path;
    let one = clock.lease(&client, "one");
    let obtaining = tokio::spawn(async move { one.obtain(MINUTE).await });
    tokio::time::sleep(LONG).await;
    assert!(!obtaining.is_finished(), "it waits for kazoo's lock");
    kazoo.delete(&place).await.unwrap();
    assert!(obtaining.await.unwrap().unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_lease_outlives_the_session_and_can_be_given_up() {
    let (server, client) = stage().await;
    let (clock, other) = (Clock::default(), server.connect().await.unwrap());
    let (one, two) = (clock.lease(&client, "one"), clock.lease(&other, "two"));
    let lease = one.obtain(MINUTE).await.unwrap().unwrap();
    server.session(client.session_id()).expire().unwrap();
    tokio::time::sleep(LONG).await;
    assert_eq!(two.obtain(MINUTE).await.unwrap(), None);
    assert!(one.give_up(&lease).await.unwrap());
    assert!(!one.give_up(&lease).await.unwrap(), "it is given up already");
    assert_eq!(one.holder().await.unwrap(), None);
    let second = two.obtain(MINUTE).await.unwrap().unwrap();
    assert!(!one.give_up(&lease).await.unwrap(), "it is another's");
    assert_eq!(one.holder().await.unwrap().unwrap().token, second.fencing_token());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_given_up_in_a_session_that_ended_was_this_clients() {
    let (server, client) = stage().await;
    let one = Clock::default().lease(&client, "one");
    let lease = one.obtain(MINUTE).await.unwrap().unwrap();
    let session = client.session_id();
    let filter = RequestFilter::next(1).of(&[zoolet::protocol::OpCode::MULTI]).at(HOLDER);
    let losing = server.session(session).drop_replies(filter).unwrap();
    let giving_up = tokio::spawn(async move { one.give_up(&lease).await });
    losing.has_hit(1).await;
    server.session(session).expire().unwrap();
    let given_up = tokio::time::timeout(LONG, giving_up).await.unwrap().unwrap();
    assert!(given_up.unwrap(), "nobody else has ended it");
    assert!(server.connect().await.unwrap().exists(HOLDER).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_at_any_request_gives_one_lease() {
    for lost in 0..8 {
        let (server, client) = stage().await;
        let clock = Clock::default();
        let filter = RequestFilter::next(1).after(lost).below("/leases");
        server.everyone().cut_before_reply(filter).unwrap();
        let one = clock.lease(&client, "one");
        let lease = tokio::time::timeout(LONG, one.obtain(MINUTE)).await.unwrap().unwrap().unwrap();
        let holder = one.holder().await.unwrap().unwrap();
        assert_eq!(
            (holder.token, holder.ends_at),
            (lease.fencing_token(), lease.ends_at()),
            "{lost}"
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(client.children(PATH).await.unwrap().to_vec(), ["lease_holder"], "{lost}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_lost_the_lock_writes_nothing_late() {
    let (server, client) = stage().await;
    let (clock, other) = (Clock::default(), server.connect().await.unwrap());
    let (one, two) = (clock.lease(&client, "one"), clock.lease(&other, "two"));
    two.obtain(MINUTE).await.unwrap().unwrap();
    clock.advance(MINUTE);
    // The client is paused after it has read the holder, before its multi arrives.
    let session = client.session_id();
    let filter = RequestFilter::next(1).of(&[zoolet::protocol::OpCode::MULTI]).at(HOLDER);
    let dropping = server.session(session).drop_requests(filter).unwrap();
    let obtaining = tokio::spawn(async move { one.obtain(MINUTE).await });
    dropping.has_hit(1).await;
    server.session(session).expire().unwrap();
    let lease = two.obtain(2 * MINUTE).await.unwrap().unwrap();
    let late = tokio::time::timeout(LONG, obtaining).await.unwrap().unwrap();
    assert_eq!(late.unwrap(), None, "the other has it");
    assert_eq!(two.holder().await.unwrap().unwrap().token, lease.fencing_token());
}

#[tokio::test(start_paused = true)]
async fn a_write_that_arrives_after_the_lock_was_lost_is_refused() {
    let (server, client) = stage().await;
    let (server, session) = (Arc::new(server), client.session_id());
    let (clock, other) = (Clock::default(), server.connect().await.unwrap());
    let two = clock.lease(&other, "two");
    two.obtain(MINUTE).await.unwrap().unwrap();
    clock.advance(MINUTE);
    // The client asks for the time after it has read the holder: what it sends then is held back.
    let held: Arc<Mutex<Option<Fault>>> = Arc::default();
    let (holding, at, now) = (Arc::clone(&held), Arc::clone(&server), clock.clone());
    let one = NonBlockingLease::new(&client, PATH, "one").unwrap().with_clock(move || {
        let mut held = holding.lock().unwrap();
        held.get_or_insert_with(|| at.session(session).freeze().unwrap());
        now.now()
    });
    let obtaining = tokio::spawn(async move { one.obtain(MINUTE).await });
    while held.lock().unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let names = other.children(PATH).await.unwrap().to_vec();
    let place = names.iter().find(|name| name.contains("__lock__")).expect("it has the lock");
    other.delete(&format!("{PATH}/{place}")).await.unwrap();
    // The znode of the new lease has the version of the old one.
    let lease = two.obtain(MINUTE).await.unwrap().unwrap();
    held.lock().unwrap().as_ref().unwrap().lift();
    let late = tokio::time::timeout(LONG, obtaining).await.unwrap().unwrap();
    assert_eq!(late.unwrap(), None, "the other has it");
    assert_eq!(two.holder().await.unwrap().unwrap().token, lease.fencing_token());
}

#[tokio::test(start_paused = true)]
async fn what_is_not_a_lease_is_an_error_and_stays() {
    let (_server, client) = stage().await;
    let lease = Clock::default().lease(&client, "one");
    lease.obtain(MINUTE).await.unwrap();
    client.set(HOLDER, "mine").await.unwrap();
    let error = lease.obtain(MINUTE).await.unwrap_err();
    assert!(matches!(error, LeaseError::Unreadable { .. }), "{error}");
    client.set(HOLDER, "{\"version\": 2}").await.unwrap();
    let version = LeaseError::Version { path: HOLDER.to_owned(), version: 2 };
    assert_eq!(lease.obtain(MINUTE).await.unwrap_err(), version);
    assert_eq!(client.get(HOLDER).await.unwrap().0, "{\"version\": 2}");
    let too_long = Duration::from_secs(400_000_000_000);
    client.delete(HOLDER).await.unwrap();
    assert_eq!(lease.obtain(too_long).await.unwrap_err(), LeaseError::TooLong(too_long));
    let long = "x".repeat(1025);
    let error = NonBlockingLease::new(&client, PATH, &long).unwrap_err();
    assert_eq!(error, LeaseError::IdentifierTooLong { length: 1025, max: 1024 });
}

#[tokio::test(start_paused = true)]
async fn as_many_clients_have_a_lease_as_there_are() {
    let (server, client) = stage().await;
    let clock = Clock::default();
    let of = |client: &Client, identifier: &str| {
        let (clock, leases) =
            (clock.clone(), MultiNonBlockingLease::new(client, PATH, 2, identifier).unwrap());
        leases.with_clock(move || clock.now())
    };
    let other = server.connect().await.unwrap();
    let (one, two, three) = (of(&client, "one"), of(&other, "two"), of(&other, "three"));
    assert_eq!(one.obtain(MINUTE).await.unwrap().unwrap().0, 0);
    assert_eq!(two.obtain(3 * MINUTE).await.unwrap().unwrap().0, 1);
    assert_eq!(three.obtain(MINUTE).await.unwrap(), None);
    clock.advance(MINUTE);
    assert_eq!(two.obtain(3 * MINUTE).await.unwrap().unwrap().0, 1, "it keeps its own");
    assert_eq!(three.obtain(MINUTE).await.unwrap().unwrap().0, 0);
    let holders = one.holders().await.unwrap();
    let names: Vec<_> = holders.into_iter().map(|holder| holder.unwrap().identifier).collect();
    assert_eq!(names, ["three", "two"]);
}
