//! Somebody deletes the lease of a consumer that lives, and another consumer obtains the item. Each of
//! both ends its own lease and no other, and the first learns of the loss.

use zoolet::client::Client;
use zoolet::protocol::{CreateMode, MultiOp};
use zoolet::recipes::LockState;
use zoolet::recipes::queue::{Delivery, QueueError};
use zoolet::testing::{RequestFilter, TestServer};
use zoolet_test_support::stage::{assert_clean, connect, server};

use crate::{EXPIRY, SECOND, leased, names, text};

/// Takes an item, somebody deletes the lease, and the next client takes it too.
async fn taken_twice(owner: &Client, next: &Client) -> (Delivery, Delivery) {
    leased(owner).put("1").await.expect("it is put");
    let delivery = leased(owner).take().await.expect("it is there");
    let lease = delivery.lease_path().expect("it is leased");
    next.delete(lease).await.expect("it is there");
    let again = leased(next).take().await.expect("it is there");
    assert_eq!(text(&again), "1");
    assert!(again.fencing_token() > delivery.fencing_token());
    (delivery, again)
}

#[tokio::test(start_paused = true)]
async fn done_of_a_lost_lease_ends_nothing() {
    let server = server().await;
    let (owner, next) = (connect(&server).await, connect(&server).await);
    let (delivery, again) = taken_twice(&owner, &next).await;
    let effects = vec![MultiOp::create("/effect", "", CreateMode::Persistent)];
    let error = delivery.done_with(effects).await.unwrap_err();
    assert!(matches!(error, QueueError::Lost(_)), "{error}");
    assert!(owner.exists("/effect").await.unwrap().is_none());
    assert_eq!(names(&owner, "/jobs").await.len(), 1);
    tokio::time::sleep(EXPIRY).await;
    assert_eq!(again.state(), LockState::Held);
    again.done().await.unwrap();
    assert!(names(&owner, "/jobs").await.is_empty());
    assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn who_has_lost_the_lease_learns_of_it_within_a_third_of_the_session_timeout() {
    let server = server().await;
    let (owner, next) = (connect(&server).await, connect(&server).await);
    let (delivery, again) = taken_twice(&owner, &next).await;
    tokio::time::timeout(owner.session_timeout() / 3 + SECOND, delivery.lost()).await.unwrap();
    assert_eq!(delivery.state(), LockState::Lost);
    assert_eq!(again.state(), LockState::Held);
    // What is left of the first ends without the second.
    drop(delivery);
    tokio::time::sleep(EXPIRY).await;
    assert_eq!(again.state(), LockState::Held);
    again.done().await.unwrap();
    assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn neither_a_release_nor_a_drop_of_a_lost_lease_ends_the_next() {
    for is_released in [false, true] {
        let server = server().await;
        let (owner, next) = (connect(&server).await, connect(&server).await);
        let (delivery, again) = taken_twice(&owner, &next).await;
        if is_released {
            assert!(matches!(delivery.release().await, Err(QueueError::Lost(_))));
        } else {
            drop(delivery);
        }
        tokio::time::sleep(EXPIRY).await;
        assert_eq!(again.state(), LockState::Held, "released: {is_released}");
        again.done().await.unwrap();
        assert_clean(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_another_library_is_not_ended() {
    let server = server().await;
    let (owner, other) = (connect(&server).await, connect(&server).await);
    leased(&owner).put("1").await.unwrap();
    let delivery = leased(&owner).take().await.unwrap();
    let lease = delivery.lease_path().unwrap().to_owned();
    other.delete(&lease).await.unwrap();
    let theirs = other.create(&lease).mode(CreateMode::Ephemeral).await.unwrap().stat;
    delivery.lost().await;
    assert!(matches!(delivery.done().await, Err(QueueError::Lost(_))));
    assert_eq!(other.exists(&lease).await.unwrap().unwrap().czxid, theirs.czxid);
    assert_eq!(names(&owner, "/jobs").await.len(), 1);
    other.delete(&lease).await.unwrap();
    leased(&owner).take().await.unwrap().done().await.unwrap();
    assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn of_many_consumers_that_lose_an_item_one_after_the_other_the_last_has_it() {
    // As many as there are versions of a lease.
    const CONSUMERS: usize = 32;
    let server = server().await;
    let client = connect(&server).await;
    leased(&client).put("1").await.unwrap();
    let mut deliveries = Vec::new();
    for _ in 0..CONSUMERS {
        let delivery = leased(&connect(&server).await).take().await.unwrap();
        client.delete(delivery.lease_path().unwrap()).await.unwrap();
        deliveries.push(delivery);
    }
    let queue = leased(&client);
    let error = queue.take().await.unwrap_err();
    assert!(matches!(error, QueueError::Contested(_)), "{error}");
    // One of them ends its part, and leaves its version to the next.
    assert!(matches!(deliveries.remove(20).done().await, Err(QueueError::Lost(_))));
    let last = leased(&client).take().await.unwrap();
    tokio::time::sleep(EXPIRY).await;
    for delivery in deliveries {
        assert_eq!(delivery.state(), LockState::Lost);
        assert!(matches!(delivery.done().await, Err(QueueError::Lost(_))));
    }
    tokio::time::sleep(EXPIRY).await;
    assert_eq!(last.state(), LockState::Held);
    last.done().await.unwrap();
    assert!(names(&client, "/jobs").await.is_empty());
    assert_clean(&server).await;
}

/// The first still has the version of its lease when the second has ended.
#[tokio::test(start_paused = true)]
async fn a_lost_lease_does_not_end_the_one_after_the_next() {
    let server = server().await;
    let (owner, next) = (connect(&server).await, connect(&server).await);
    let (delivery, again) = taken_twice(&owner, &next).await;
    again.release().await.unwrap();
    let third = leased(&connect(&server).await).take().await.unwrap();
    assert!(matches!(delivery.done().await, Err(QueueError::Lost(_))));
    tokio::time::sleep(EXPIRY).await;
    assert_eq!(third.state(), LockState::Held);
    third.done().await.unwrap();
    assert_clean(&server).await;
}

/// `done` is sent again when its answer is lost. That the lease is gone then may have two reasons.
#[tokio::test(start_paused = true)]
async fn a_done_whose_request_is_lost_does_not_take_a_deletion_for_its_own() {
    for is_carried_out in [false, true] {
        let server = TestServer::start().await.unwrap();
        let (owner, other) = (server.connect().await.unwrap(), server.connect().await.unwrap());
        leased(&owner).put("1").await.unwrap();
        let delivery = leased(&owner).take().await.unwrap();
        let lease = delivery.lease_path().unwrap().to_owned();
        let session = server.session(owner.session_id());
        let writes = RequestFilter::next(1).writes();
        let _fault = match is_carried_out {
            true => session.cut_before_reply(writes).unwrap(),
            false => session.drop_requests(writes).unwrap(),
        };
        let done = tokio::spawn(delivery.done());
        tokio::time::sleep(SECOND / 10).await;
        if !is_carried_out {
            other.delete(&lease).await.unwrap();
            server.session(owner.session_id()).cut().unwrap();
        }
        let done = done.await.unwrap();
        assert_eq!(done.is_ok(), is_carried_out, "{done:?}");
        assert_eq!(names(&other, "/jobs").await.is_empty(), is_carried_out);
        tokio::time::sleep(SECOND).await;
        assert!(names(&other, "/job-locks").await.is_empty());
    }
}

/// Also if the request was lost, and the lease was deleted with its witness before it is sent again.
#[tokio::test(start_paused = true)]
async fn done_that_was_lost_with_all_of_its_lease_is_not_done() {
    let server = TestServer::start().await.unwrap();
    let (owner, other) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    leased(&owner).put("1").await.unwrap();
    let delivery = leased(&owner).take().await.unwrap();
    let session = server.session(owner.session_id());
    let lost = session.drop_requests(RequestFilter::next(1).writes()).unwrap();
    let effects = vec![MultiOp::create("/effect", "", CreateMode::Persistent)];
    let done = tokio::spawn(delivery.done_with(effects));
    tokio::time::sleep(SECOND).await;
    lost.lift();
    for name in names(&other, "/job-locks").await {
        other.delete(&format!("/job-locks/{name}")).await.unwrap();
    }
    session.cut().unwrap();
    let error = done.await.unwrap().unwrap_err();
    assert!(matches!(error, QueueError::Lost(_)), "{error}");
    assert!(other.exists("/effect").await.unwrap().is_none());
    assert_eq!(names(&other, "/jobs").await.len(), 1);
}
