//! Tests of `LeaderLatch` on a server in process: one latch leads at a time and knows it, the next
//! one leads when the first is gone for any reason, and a closed latch leaves no znode.

#![allow(clippy::disallowed_methods, reason = "a test measures what it waited for")]

use std::time::Duration;

use zoolet::client::{Client, ConnectionState};
use zoolet::protocol::{EventType, MultiOp};
use zoolet::recipes::{LeaderLatch, LockError, Term};
use zoolet::server::Server;
use zoolet_test_support::counting::Counting;
use zoolet_test_support::follower::{Follower, Quorum};
use zoolet_test_support::stage::{assert_nothing_is_left, connect, counted, server};

/// Enough for everything that does not wait: the paused clock advances when no task can run.
const SOON: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);
/// Longer than the session timeout.
const LONG: Duration = Duration::from_secs(120);
const PATH: &str = "/jobs/leader";

/// Starts a latch with a client of its own, and returns when its znode is in line.
async fn latch(server: &Server, id: &str) -> LeaderLatch {
    latch_of(&connect(server).await, id).await
}

async fn latch_of(client: &Client, id: &str) -> LeaderLatch {
    let latch = LeaderLatch::start(client, PATH, id).expect("a legal path");
    tokio::time::sleep(SOON).await;
    latch
}

/// Cuts the connection, and makes the client notice it.
fn cut(client: &Client, counting: &Counting) {
    counting.refuse(true);
    counting.cut();
    drop(client.sync("/").send());
}

async fn leads_soon(latch: &LeaderLatch) -> Term {
    latch.await_leadership_within(SECOND).await.expect("the latch leads")
}

#[tokio::test(start_paused = true)]
async fn the_next_latch_leads_when_the_first_is_closed() {
    let server = server().await;
    let (a, b) = (latch(&server, "a").await, latch(&server, "b").await);
    let first = leads_soon(&a).await;
    assert!(a.is_leader() && !b.is_leader());
    assert!(matches!(b.await_leadership_within(SECOND).await.unwrap_err(), LockError::TimedOut(_)));
    a.close().await.unwrap();
    let second = leads_soon(&b).await;
    assert!(second.fencing_token() > first.fencing_token());
    assert!(matches!(first.transaction(vec![]).await.unwrap_err(), LockError::Lost(_)));
    second.transaction(vec![]).await.unwrap();
    b.close().await.unwrap();
    assert_nothing_is_left(&server, PATH).await;
}

#[tokio::test(start_paused = true)]
async fn znodes_are_those_of_curator() {
    let server = server().await;
    let client = connect(&server).await;
    let latch = latch_of(&client, "host-1").await;
    let term = leads_soon(&latch).await;
    let name = term.path().strip_prefix("/jobs/leader/_c_").unwrap();
    assert_eq!(&name[36..], "-latch-0000000000");
    let (data, stat) = client.get(term.path()).await.unwrap();
    assert_eq!((&data[..], stat.ephemeral_owner), (&b"host-1"[..], client.session_id()));
}

#[tokio::test(start_paused = true)]
async fn closing_a_leading_latch_deletes_its_znode_without_setting_data() {
    let server = server().await;
    let (a, b) = (latch(&server, "a").await, latch(&server, "b").await);
    a.close().await.unwrap();
    // A mutex holder that has waited sets its data before it deletes its znode. A latch does not.
    let path = leads_soon(&b).await.path().to_owned();
    let watcher = connect(&server).await.get(&path).and_watch().await.unwrap().watcher;
    b.close().await.unwrap();
    let event = watcher.await.unwrap();
    assert_eq!(
        event.event_type,
        EventType::NODE_DELETED,
        "Curator's latch waits for this event only"
    );
}

#[tokio::test(start_paused = true)]
async fn the_next_latch_leads_when_the_leaders_session_expires() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let (a, b) = (latch_of(&client, "a").await, latch(&server, "b").await);
    let first = leads_soon(&a).await;
    let mut terms = a.term();
    cut(&client, &counting);
    terms.wait_for(Option::is_none).await.unwrap();
    assert!(!b.is_leader(), "the first knows before the next one leads");
    assert!(!a.is_leader());
    let second = b.await_leadership_within(LONG).await.unwrap();
    assert!(second.fencing_token() > first.fencing_token());
    counting.refuse(false);
    tokio::time::sleep(LONG).await;
    assert!(b.is_leader() && !a.is_leader());
    assert_eq!(b.participants().await.unwrap().len(), 2, "the first is in line again");
    b.close().await.unwrap();
    assert!(leads_soon(&a).await.fencing_token() > second.fencing_token());
}

#[tokio::test(start_paused = true)]
async fn the_next_latch_leads_when_the_leaders_znode_is_deleted() {
    let server = server().await;
    let admin = connect(&server).await;
    let (a, b) = (latch(&server, "a").await, latch(&server, "b").await);
    let first = leads_soon(&a).await;
    admin.delete(first.path()).await.unwrap();
    leads_soon(&b).await;
    tokio::time::sleep(SOON).await;
    assert!(b.is_leader() && !a.is_leader());
    let ids: Vec<_> = b.participants().await.unwrap().into_iter().map(|one| one.id).collect();
    assert_eq!(ids, ["b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_latch_whose_znode_is_deleted_enters_the_line_again() {
    let server = server().await;
    let admin = connect(&server).await;
    let (a, b) = (latch(&server, "a").await, latch(&server, "b").await);
    let place = a.participants().await.unwrap().remove(1).path;
    admin.delete(&place).await.unwrap();
    tokio::time::sleep(SOON).await;
    assert!(a.is_leader() && !b.is_leader());
    let again = a.participants().await.unwrap().remove(1);
    assert!(again.id == "b" && again.path != place);
}

#[tokio::test(start_paused = true)]
async fn a_short_disconnect_ends_no_term() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let latch = latch_of(&client, "a").await;
    let before = leads_soon(&latch).await;
    cut(&client, &counting);
    tokio::time::sleep(5 * SECOND).await;
    assert!(latch.is_leader() && latch.term().borrow().is_some());
    counting.refuse(false);
    tokio::time::sleep(5 * SECOND).await;
    let after = latch.await_leadership_within(SECOND).await.unwrap();
    assert_eq!(after.fencing_token(), before.fencing_token());
}

#[tokio::test(start_paused = true)]
async fn a_term_pauses_without_a_quorum_and_resumes_with_the_same_token() {
    let server = server().await;
    let follower = Follower::new(server.dialer());
    let client = Client::connect(follower.clone()).await.unwrap();
    let latch = latch_of(&client, "a").await;
    let before = leads_soon(&latch).await;
    let mut terms = latch.term();
    follower.set_quorum(Quorum::CutOff);
    terms.wait_for(Option::is_none).await.unwrap();
    assert!(!latch.is_leader());
    follower.set_quorum(Quorum::Present);
    let after = latch.await_leadership_within(LONG).await.unwrap();
    assert_eq!(after.fencing_token(), before.fencing_token());
    assert!(latch.is_leader());
}

#[tokio::test(start_paused = true)]
async fn await_leadership_within_times_out_without_a_server() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    cut(&client, &counting);
    let latch = latch_of(&client, "a").await;
    let start = tokio::time::Instant::now();
    assert!(matches!(
        latch.await_leadership_within(SECOND).await.unwrap_err(),
        LockError::TimedOut(_)
    ));
    assert!(start.elapsed() < SECOND + SOON);
    counting.refuse(false);
    latch.await_leadership_within(LONG).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn participants_lists_ids_in_the_order_of_the_line() {
    let server = server().await;
    let (a, b) = (latch(&server, "a").await, latch(&server, "b").await);
    let participants = b.participants().await.unwrap();
    let told: Vec<_> = participants.iter().map(|one| (one.id.as_str(), one.leads)).collect();
    assert_eq!(told, [("a", true), ("b", false)]);
    assert_eq!(b.leader().await.unwrap().unwrap(), participants[0]);
    assert_eq!(participants[0].path, leads_soon(&a).await.path());
    let elsewhere = LeaderLatch::start(&connect(&server).await, "/jobs/other", "c").unwrap();
    a.close().await.unwrap();
    b.close().await.unwrap();
    elsewhere.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn closing_or_dropping_a_waiting_latch_leaves_nothing() {
    let server = server().await;
    let (a, b, c) =
        (latch(&server, "a").await, latch(&server, "b").await, latch(&server, "c").await);
    b.close().await.unwrap();
    assert_eq!(a.participants().await.unwrap().len(), 2, "gone when close returns");
    drop(c);
    tokio::time::sleep(SOON).await;
    assert_eq!(a.participants().await.unwrap().len(), 1);
    drop(a);
    assert_nothing_is_left(&server, PATH).await;
}

#[tokio::test(start_paused = true)]
async fn who_is_closed_at_once_leaves_nothing() {
    let server = server().await;
    let client = connect(&server).await;
    for polls in 0..20 {
        let latch = LeaderLatch::start(&client, PATH, "a").unwrap();
        for _ in 0..polls {
            tokio::task::yield_now().await;
        }
        latch.close().await.unwrap();
        let left = client.children(PATH).await.map_or(0, |names| names.len());
        assert_eq!(left, 0, "after {polls} polls");
    }
    assert_eq!(server.totals().watches, 0);
}

#[tokio::test(start_paused = true)]
async fn closing_with_lost_replies_leaves_nothing() {
    for answers in 0..8 {
        let server = server().await;
        let (client, counting) = counted(&server).await;
        client.create("/jobs").await.unwrap();
        client.create(PATH).await.unwrap();
        counting.cut_after(answers);
        let latch = LeaderLatch::start(&client, PATH, "a").unwrap();
        tokio::task::yield_now().await;
        let closed = latch.close().await;
        assert!(matches!(closed, Ok(()) | Err(LockError::Lost(_))), "{closed:?}");
        counting.cut_after(-1);
        client.sync("/").await.unwrap();
        assert_nothing_is_left(&server, PATH).await;
    }
}

#[tokio::test(start_paused = true)]
async fn closing_without_a_server_returns_when_the_session_is_over() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let (leader, waits) = (latch_of(&client, "a").await, latch_of(&client, "b").await);
    cut(&client, &counting);
    let never_in_line = LeaderLatch::start(&client, PATH, "c").unwrap();
    for latch in [never_in_line, waits, leader] {
        let closed = tokio::time::timeout(LONG, latch.close()).await.expect("the session is over");
        assert!(matches!(closed, Ok(()) | Err(LockError::Lost(_))), "{closed:?}");
    }
    counting.refuse(false);
    tokio::time::sleep(LONG).await;
    assert_nothing_is_left(&server, PATH).await;
}

#[tokio::test(start_paused = true)]
async fn closing_the_client_ends_the_wait_for_leadership() {
    let server = server().await;
    let client = connect(&server).await;
    let (_leader, latch) = (latch(&server, "a").await, latch_of(&client, "b").await);
    let (waited, closed) = tokio::join!(latch.await_leadership(), client.close());
    closed.unwrap();
    assert_eq!(waited.unwrap_err(), LockError::Client(zoolet::client::Error::Closed));
    latch.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_latch_leads_at_a_time_while_connections_fail() {
    let server = server().await;
    let mut latches = Vec::new();
    for id in 0..5 {
        let (client, counting) = counted(&server).await;
        let latch = latch_of(&client, &id.to_string()).await;
        latches.push((client, counting, latch));
    }
    let mut last_token = None;
    for round in 0..20 {
        let (client, counting, _) = &latches[round % 5];
        cut(client, counting);
        tokio::time::sleep(if round % 3 == 0 { LONG } else { SECOND }).await;
        counting.refuse(false);
        let mut state = client.state();
        state.wait_for(|state| state.is_some_and(ConnectionState::is_connected)).await.unwrap();
        tokio::time::sleep(5 * SECOND).await;
        let leaders: Vec<_> = latches.iter().filter(|(.., latch)| latch.is_leader()).collect();
        assert_eq!(leaders.len(), 1, "in round {round}");
        let token = leaders[0].2.term().borrow().as_ref().map(Term::fencing_token);
        assert!(token >= last_token);
        last_token = token;
    }
}

#[tokio::test(start_paused = true)]
async fn a_transaction_of_a_former_leader_is_refused() {
    let server = server().await;
    let admin = connect(&server).await;
    admin.create("/state").data("new").await.unwrap();
    let (a, b) = (latch(&server, "a").await, latch(&server, "b").await);
    let write = |data: &'static [u8]| -> Vec<MultiOp> {
        vec![zoolet_test_support::set_data("/state", data)]
    };
    let first = leads_soon(&a).await;
    first.transaction(write(b"by a")).await.unwrap();
    admin.delete(first.path()).await.unwrap();
    let second = leads_soon(&b).await;
    second.transaction(write(b"by b")).await.unwrap();
    assert!(matches!(first.transaction(write(b"late")).await.unwrap_err(), LockError::Lost(_)));
    assert_eq!(admin.get("/state").await.unwrap().0, "by b");
}
