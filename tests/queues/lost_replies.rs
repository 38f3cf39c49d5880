//! Whichever reply is lost: a put puts once, no item is lost, and none is taken twice.

use std::task::Poll;

use zoolet::protocol::{CreateMode, OpCode, SessionId};
use zoolet::recipes::queue::{Delivery, DistributedQueue, QueueError, SimpleDistributedQueue};
use zoolet::testing::{Fate, RequestFilter, RequestInfo, TestServer};

use crate::{EXPIRY, SECOND, leased, names, plain, text};

/// More than there are requests in any scenario: so the last runs lose no reply.
const REQUESTS: u64 = 14;

fn cut_before(server: &TestServer, session: SessionId, request: u64) {
    let reply = RequestFilter::next(1).after(request);
    server.session(session).cut_before_reply(reply).expect("a session");
}

#[tokio::test(start_paused = true)]
async fn a_put_puts_once_whichever_reply_is_lost() {
    for request in 0..REQUESTS {
        let server = TestServer::start().await.unwrap();
        let client = server.connect().await.unwrap();
        cut_before(&server, client.session_id(), request);
        for item in ["1", "2"] {
            plain(&client).put(item).await.unwrap();
        }
        assert_eq!(names(&client, "/jobs").await.len(), 2, "without the reply {request}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_take_takes_once_whichever_reply_is_lost() {
    for request in 0..REQUESTS {
        let server = TestServer::start().await.unwrap();
        let (client, other) = (server.connect().await.unwrap(), server.connect().await.unwrap());
        for item in ["1", "2", "3"] {
            plain(&other).put(item).await.unwrap();
        }
        cut_before(&server, client.session_id(), request);
        let queue = plain(&client);
        for item in ["1", "2", "3"] {
            let taken = text(&queue.take().await.unwrap());
            assert_eq!(taken, item, "without the reply {request}");
        }
        assert!(queue.try_take().await.unwrap().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_leased_item_is_done_once_whichever_reply_is_lost() {
    for request in 0..REQUESTS {
        let server = TestServer::start().await.unwrap();
        let (client, other) = (server.connect().await.unwrap(), server.connect().await.unwrap());
        leased(&other).put("1").await.unwrap();
        leased(&other).put("2").await.unwrap();
        cut_before(&server, client.session_id(), request);
        let queue = leased(&client);
        for item in ["1", "2"] {
            let delivery = queue.take().await.unwrap();
            assert_eq!(text(&delivery), item, "without the reply {request}");
            delivery.done().await.unwrap();
        }
        assert!(names(&client, "/jobs").await.is_empty());
        tokio::time::sleep(SECOND).await;
        assert!(names(&client, "/job-locks").await.is_empty(), "without the reply {request}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_put_puts_once_although_its_session_expires_before_the_answer() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let queue = plain(&client);
    queue.put("1").await.unwrap();
    for item in ["2", "3"] {
        let session = client.session_id();
        let multi = RequestFilter::next(1).of(&[OpCode::MULTI]);
        server.session(session).cut_before_reply(multi).unwrap();
        let refusal = server.everyone().refuse().unwrap();
        let put = tokio::spawn({
            let queue = queue.clone();
            async move { queue.put(item).await }
        });
        tokio::time::sleep(EXPIRY).await;
        assert!(!put.is_finished());
        refusal.lift();
        put.await.unwrap().unwrap();
        assert_ne!(client.session_id(), session, "there is a new session");
    }
    assert_eq!(names(&client, "/jobs").await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_item_that_is_too_long_is_not_put_and_the_error_names_the_limit() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let queue = plain(&client);
    queue.put("first").await.unwrap();
    let multis = RequestFilter::all().of(&[OpCode::MULTI]);
    let fault = server.everyone().cut_before_reply(multis).unwrap();
    // The server carries the first attempt out, and the others find that.
    queue.put("carried out").await.unwrap_or_else(|error| panic!("{error}"));
    fault.lift();
    let lost = RequestFilter::all().of(&[OpCode::MULTI]);
    let fault = server.everyone().drop_requests(lost).unwrap();
    let put = tokio::spawn({
        let queue = queue.clone();
        async move { queue.put("never").await }
    });
    while !put.is_finished() {
        tokio::time::sleep(SECOND).await;
        server.everyone().cut().unwrap();
    }
    let error = put.await.unwrap().unwrap_err();
    assert!(matches!(error, QueueError::NotCarriedOut { .. }), "{error}");
    assert!(error.to_string().contains("jute.maxbuffer"));
    fault.lift();
    assert_eq!(names(&client, "/jobs").await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_receipt_that_someone_deletes_costs_nothing_unless_an_answer_is_lost() {
    let server = TestServer::start().await.unwrap();
    let (client, admin) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    let queue = plain(&client);
    queue.put("1").await.unwrap();
    for name in names(&admin, "/jobs-side/receipts").await {
        admin.delete(&format!("/jobs-side/receipts/{name}")).await.unwrap();
    }
    queue.put("2").await.unwrap();
    assert_eq!(names(&admin, "/jobs").await.len(), 2);
    let multi = RequestFilter::next(1).of(&[OpCode::MULTI]);
    server.session(client.session_id()).cut_before_reply(multi).unwrap();
    let refusal = server.session(client.session_id()).refuse().unwrap();
    let put = tokio::spawn(async move { queue.put("3").await });
    tokio::time::sleep(SECOND).await;
    for name in names(&admin, "/jobs-side/receipts").await {
        admin.delete(&format!("/jobs-side/receipts/{name}")).await.unwrap();
    }
    refusal.lift();
    assert_eq!(put.await.unwrap(), Err(QueueError::Unknown("/jobs".into())));
}

#[tokio::test(start_paused = true)]
async fn receipts_are_deleted_with_the_queue_and_those_of_crashed_clients_a_day_later() {
    let server = TestServer::start().await.unwrap();
    let (client, admin) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    let queue = plain(&client);
    queue.put("1").await.unwrap();
    assert_eq!(names(&admin, "/jobs-side/receipts").await.len(), 1);
    drop(queue);
    tokio::time::sleep(SECOND).await;
    assert!(names(&admin, "/jobs-side/receipts").await.is_empty());
    admin.create("/jobs-side/receipts/left").mode(CreateMode::Persistent).await.unwrap();
    plain(&client).put("2").await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert_eq!(names(&admin, "/jobs-side/receipts").await, ["left"], "it is not old yet");
    server.skew_wall_time(25 * 60 * 60 * 1_000).unwrap();
    plain(&client).put("3").await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert!(names(&admin, "/jobs-side/receipts").await.is_empty());
}

/// A program that starts often and never drops its queue leaves a receipt each time.
#[tokio::test(start_paused = true)]
async fn old_receipts_are_found_among_many_young_ones() {
    const OLD: usize = 20;
    const YOUNG: usize = 400;
    let server = TestServer::start().await.unwrap();
    let (client, admin) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    plain(&client).put("1").await.unwrap();
    let directory = "/jobs-side/receipts";
    // The server lists names in one order; whichever it is, the old ones are behind young ones.
    for n in 0..OLD {
        admin.create(&format!("{directory}/{:03}", YOUNG / 2 + n)).await.unwrap();
    }
    server.skew_wall_time(25 * 60 * 60 * 1_000).unwrap();
    for n in (0..YOUNG).filter(|n| !(YOUNG / 2..YOUNG / 2 + OLD).contains(n)) {
        admin.create(&format!("{directory}/{n:03}")).await.unwrap();
    }
    for _ in 0..100 {
        plain(&client).put("x").await.unwrap();
        tokio::time::sleep(SECOND).await;
    }
    let left = names(&admin, directory).await.len();
    assert_eq!(left, YOUNG - OLD, "the young ones alone");
}

/// Takes an item with a future that is dropped after some polls.
async fn take_within_polls(queue: &DistributedQueue, polls: usize) -> Option<Delivery> {
    let mut take = Box::pin(queue.take());
    for _ in 0..polls {
        let polled = std::future::poll_fn(|context| Poll::Ready(take.as_mut().poll(context)));
        if let Poll::Ready(delivery) = polled.await {
            return Some(delivery.expect("a take"));
        }
        tokio::task::yield_now().await;
    }
    None
}

#[tokio::test(start_paused = true)]
async fn a_take_that_is_dropped_at_any_poll_loses_nothing() {
    for is_leased in [false, true] {
        for polls in 0..12 {
            let server = TestServer::start().await.unwrap();
            let client = server.connect().await.unwrap();
            let queue = if is_leased { leased(&client) } else { plain(&client) };
            queue.put("1").await.unwrap();
            queue.put("2").await.unwrap();
            let mut items = Vec::new();
            if let Some(delivery) = take_within_polls(&queue, polls).await {
                items.push(text(&delivery));
                delivery.done().await.unwrap();
            }
            tokio::time::sleep(SECOND).await;
            while let Some(delivery) = queue.try_take().await.unwrap() {
                items.push(text(&delivery));
                delivery.done().await.unwrap();
            }
            items.sort_unstable();
            assert_eq!(items, ["1", "2"], "dropped after {polls} polls");
            tokio::time::sleep(SECOND).await;
            assert_eq!(server.totals().watches, 0);
        }
    }
}

/// A consumer that stops has a take in flight as a rule.
#[tokio::test(start_paused = true)]
async fn a_client_that_is_closed_when_its_queue_is_settled_loses_no_item_of_a_dropped_take() {
    let server = TestServer::start().await.unwrap();
    let (client, other) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    let queue = plain(&client);
    queue.put("1").await.unwrap();
    let slow = |request: &RequestInfo<'_>| {
        let mut is_multi = false;
        request.each_path(|op, _| is_multi |= op == OpCode::DELETE);
        if is_multi { Fate::Delay(5 * SECOND) } else { Fate::Pass }
    };
    let _slow = server.session(client.session_id()).decide(slow).unwrap();
    assert!(queue.take_within(SECOND).await.unwrap().is_none(), "the answer comes later");
    queue.settled().await;
    drop(queue);
    client.close().await.unwrap();
    assert_eq!(text(&plain(&other).take().await.unwrap()), "1");
}

#[tokio::test(start_paused = true)]
async fn zookeepers_own_layout_has_the_same_promises() {
    for request in 0..REQUESTS {
        let server = TestServer::start().await.unwrap();
        let client = server.connect().await.unwrap();
        let queue = SimpleDistributedQueue::new(&client, "/queue").unwrap();
        cut_before(&server, client.session_id(), request);
        queue.offer("1").await.unwrap();
        queue.offer("2").await.unwrap();
        assert_eq!(queue.peek().await.unwrap().unwrap(), "1");
        assert_eq!(queue.take().await.unwrap(), "1", "without the reply {request}");
        assert_eq!(queue.poll().await.unwrap().unwrap(), "2", "without the reply {request}");
        assert_eq!(queue.poll().await.unwrap(), None);
    }
}
