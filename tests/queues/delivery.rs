//! What is promised of a delivery: when it is delivered again, and when its effects are made.

use zoolet::protocol::{CreateMode, ErrorCode, Expect, MultiOp, OpCode};
use zoolet::recipes::LockState;
use zoolet::recipes::queue::{ItemError, QueueError};
use zoolet::testing::{Fate, RequestFilter, RequestInfo, TestServer};
use zoolet_test_support::stage::{assert_clean, connect, server};

use crate::{SECOND, leased, names, plain, text};

#[tokio::test(start_paused = true)]
async fn a_leased_item_is_delivered_again_when_it_is_dropped_or_released() {
    let server = server().await;
    let (client, other) = (connect(&server).await, connect(&server).await);
    leased(&client).put("1").await.unwrap();
    leased(&client).put("2").await.unwrap();
    let first = leased(&client).take().await.unwrap();
    let second = leased(&other).take().await.unwrap();
    assert_eq!((text(&first), text(&second)), ("1".into(), "2".into()));
    assert!(leased(&other).try_take().await.unwrap().is_none(), "both are leased");
    let token = first.fencing_token();
    drop(first);
    let again = leased(&other).take().await.unwrap();
    assert_eq!(text(&again), "1");
    assert!(again.fencing_token() > token);
    again.release().await.unwrap();
    let again = leased(&client).take().await.unwrap();
    assert_eq!(text(&again), "1", "it keeps its place");
    again.done().await.unwrap();
    second.done().await.unwrap();
    assert!(names(&client, "/jobs").await.is_empty());
    assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn an_item_that_is_released_is_taken_before_those_that_were_listed_after_it() {
    let server = server().await;
    let queue = leased(&connect(&server).await);
    for item in ["1", "2", "3"] {
        queue.put(item).await.unwrap();
    }
    queue.take().await.unwrap().release().await.unwrap();
    let again = queue.take().await.unwrap();
    assert_eq!(text(&again), "1");
    drop(again);
    tokio::time::sleep(SECOND).await;
    assert_eq!(text(&queue.take().await.unwrap()), "1");
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_answer_is_lost_does_not_end_the_next_lease() {
    let server = TestServer::start().await.unwrap();
    let (client, next) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    leased(&client).put("1").await.unwrap();
    for is_cancelled in [false, true] {
        let delivery = leased(&client).take().await.unwrap();
        let waiting = tokio::spawn({
            let queue = leased(&next);
            async move { queue.take().await }
        });
        tokio::time::sleep(SECOND).await;
        let writes = RequestFilter::next(1).writes();
        server.session(client.session_id()).cut_before_reply(writes).unwrap();
        let refusal = server.session(client.session_id()).refuse().unwrap();
        let time = if is_cancelled { SECOND } else { 100 * SECOND };
        let release = tokio::spawn(tokio::time::timeout(time, delivery.release()));
        let again = waiting.await.unwrap().unwrap();
        tokio::time::sleep(2 * SECOND).await;
        refusal.lift();
        assert_eq!(release.await.unwrap().is_err(), is_cancelled);
        tokio::time::sleep(15 * SECOND).await;
        assert_eq!(again.state(), LockState::Held, "cancelled: {is_cancelled}");
        again.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_watched_although_its_directory_was_missing() {
    let server = TestServer::start().await.unwrap();
    let (client, other) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    // A consumer that waits in front lists the leases and then the items, each answer 5 s late.
    let slow = |request: &RequestInfo<'_>| {
        let mut is_slow = false;
        request.each_path(|op, path| is_slow |= op != OpCode::CREATE && path == "/job-locks");
        if is_slow { Fate::Delay(5 * SECOND) } else { Fate::Pass }
    };
    let fault = server.session(client.session_id()).decide(slow).unwrap();
    let waiting = tokio::spawn({
        let queue = leased(&client);
        async move { queue.take().await }
    });
    tokio::time::sleep(12 * SECOND).await;
    leased(&other).put("1").await.unwrap();
    let delivery = leased(&other).take().await.unwrap();
    tokio::time::sleep(8 * SECOND).await;
    fault.lift();
    delivery.release().await.unwrap();
    tokio::time::sleep(6 * SECOND).await;
    assert!(waiting.is_finished(), "it hears of the end of the lease");
}

#[tokio::test(start_paused = true)]
async fn an_item_is_put_again_also_if_the_directory_is_deleted() {
    let server = server().await;
    let client = connect(&server).await;
    let queue = plain(&client);
    queue.put("1").await.unwrap();
    let delivery = queue.take().await.unwrap();
    client.delete("/jobs").await.unwrap();
    delivery.requeue().await.unwrap();
    assert_eq!(text(&queue.take().await.unwrap()), "1");
}

#[tokio::test(start_paused = true)]
async fn a_leased_item_is_delivered_again_when_the_session_of_its_consumer_ends() {
    let server = TestServer::start().await.unwrap();
    let (owner, heir) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    leased(&owner).put("1").await.unwrap();
    let delivery = leased(&owner).take().await.unwrap();
    assert_eq!(delivery.state(), LockState::Held);
    let waiting = tokio::spawn({
        let queue = leased(&heir);
        async move { queue.take().await }
    });
    tokio::time::sleep(SECOND).await;
    assert!(!waiting.is_finished());
    server.session(owner.session_id()).freeze().unwrap();
    server.session(owner.session_id()).expire().unwrap();
    let again = waiting.await.unwrap().unwrap();
    assert_eq!(text(&again), "1");
    again.done().await.unwrap();
    server.heal();
    delivery.lost().await;
    assert_ne!(delivery.state(), LockState::Held);
    let stopped = delivery.run(std::future::pending::<()>()).await;
    assert!(matches!(stopped, Err(QueueError::Lost(_))));
    assert!(matches!(delivery.done().await, Err(QueueError::Lost(_))));
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_is_cut_off_learns_it_before_another_one_gets_the_item() {
    let server = TestServer::start().await.unwrap();
    let (owner, heir) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    leased(&owner).put("1").await.unwrap();
    let delivery = leased(&owner).take().await.unwrap();
    let waiting = tokio::spawn({
        let queue = leased(&heir);
        async move { queue.take().await.map(drop) }
    });
    tokio::time::sleep(SECOND).await;
    server.session(owner.session_id()).freeze().unwrap();
    delivery.lost().await;
    assert!(!waiting.is_finished());
    waiting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_effects_of_an_item_are_made_with_its_end_or_not_at_all() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    client.create("/sum").data("0").await.unwrap();
    leased(&client).put("1").await.unwrap();
    let delivery = leased(&client).take().await.unwrap();
    let refused = vec![MultiOp::set_data("/sum", "1", 7)];
    let error = delivery.done_with(refused).await.unwrap_err();
    let QueueError::Client(error) = error else { panic!("{error}") };
    assert!(error.is(ErrorCode::BAD_VERSION));
    assert_eq!(error.operation_index(), Some(0));
    let delivery = leased(&client).take().await.unwrap();
    assert_eq!(text(&delivery), "1", "it is delivered again");
    let lost = RequestFilter::next(1).writes().below("/sum");
    server.session(client.session_id()).cut_before_reply(lost).unwrap();
    delivery.done_with(vec![MultiOp::set_data("/sum", "1", Expect::Any)]).await.unwrap();
    let (data, stat) = client.get("/sum").await.unwrap();
    assert_eq!((&data[..], stat.version), (&b"1"[..], 1));
    assert!(names(&client, "/jobs").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_requeued_item_comes_after_the_others_with_or_without_leases() {
    let server = server().await;
    let client = connect(&server).await;
    for queue in [leased(&client), plain(&client)] {
        queue.put("1").await.unwrap();
        queue.put("2").await.unwrap();
        queue.take().await.unwrap().requeue().await.unwrap();
        for item in ["2", "1"] {
            let delivery = queue.take().await.unwrap();
            assert_eq!(text(&delivery), item);
            delivery.done().await.unwrap();
        }
    }
    assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn data_that_are_no_items_are_an_error_and_block_nobody() {
    let server = server().await;
    let client = connect(&server).await;
    plain(&client).put("0").await.unwrap();
    let create = client.create("/jobs/queue-").data("text").mode(CreateMode::PersistentSequential);
    create.await.unwrap();
    plain(&client).put("2").await.unwrap();
    let queue = leased(&client);
    queue.take().await.unwrap().done().await.unwrap();
    let delivery = queue.take().await.unwrap();
    assert_eq!(delivery.data(), "text");
    assert_eq!(delivery.items(), Err(ItemError::Version(0x7465_7874)));
    delivery.done().await.unwrap();
    assert_eq!(text(&queue.take().await.unwrap()), "2");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_or_item_is_lost() {
    let server = server().await;
    let (client, admin) = (connect(&server).await, connect(&server).await);
    let queue = leased(&client);
    queue.put("1").await.unwrap();
    let delivery = queue.take().await.unwrap();
    admin.delete(delivery.lease_path().unwrap()).await.unwrap();
    delivery.lost().await;
    assert_eq!(delivery.state(), LockState::Lost);
    assert!(matches!(delivery.done().await, Err(QueueError::Lost(_))));
    let delivery = queue.take().await.unwrap();
    admin.delete(&delivery.path()).await.unwrap();
    assert_eq!(delivery.path(), "/jobs/queue-0000000000");
    let lost = QueueError::Lost("/jobs/queue-0000000000".into());
    assert_eq!(delivery.done().await, Err(lost));
    assert_clean(&server).await;
}
