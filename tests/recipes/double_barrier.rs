//! Tests of `DistributedDoubleBarrier` on a server in process: all members enter and leave together
//! over disconnects and session expiry, and leave no znode.

#![allow(clippy::disallowed_methods, reason = "a test measures what it waited for")]

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::task::JoinHandle;
use zoolet::client::{Client, Parents};
use zoolet::protocol::{CreateMode, ErrorCode, OpCode, SessionId};
use zoolet::recipes::{DistributedDoubleBarrier, LockError, Membership};
use zoolet::server::Server;
use zoolet_test_support::stage::{connect, counted, server};

/// Enough for everything that does not wait: the paused clock advances when no task can run.
const SOON: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);
/// Longer than the session timeout.
const LONG: Duration = Duration::from_secs(120);
const PATH: &str = "/jobs/barrier";
const READY: &str = "/jobs/barrier/ready";

fn barrier(client: &Client, members: usize) -> DistributedDoubleBarrier {
    DistributedDoubleBarrier::new(client, PATH, members).expect("a legal path")
}

/// Creates a barrier with a client of its own.
async fn new_barrier(server: &Server, members: usize) -> DistributedDoubleBarrier {
    barrier(&connect(server).await, members)
}

type Entering = JoinHandle<Result<Membership, LockError>>;
type Leaving = JoinHandle<Result<(), LockError>>;

/// Begins to enter, and returns when the task waits.
async fn enter(barrier: &DistributedDoubleBarrier) -> Entering {
    let barrier = barrier.clone();
    let task = tokio::spawn(async move { barrier.enter().await });
    tokio::time::sleep(SOON).await;
    task
}

/// Begins to leave, and returns when the task waits.
async fn leave(membership: Membership) -> Leaving {
    let task = tokio::spawn(membership.leave());
    tokio::time::sleep(SOON).await;
    task
}

async fn inside(entering: Entering) -> Membership {
    let entered = tokio::time::timeout(SECOND, entering).await.expect("the member enters");
    entered.expect("the task does not panic").expect("the member enters")
}

async fn children(client: &Client) -> Vec<String> {
    match client.children(PATH).await {
        Ok(names) => names.iter().map(str::to_owned).collect(),
        // The server deletes a container some time after its last child.
        Err(error) if error.is(ErrorCode::NO_NODE) => Vec::new(),
        Err(error) => panic!("{error}"),
    }
}

async fn assert_nothing_is_left(server: &Server) {
    tokio::time::sleep(SECOND).await;
    assert!(children(&connect(server).await).await.is_empty());
    assert_eq!(server.totals().watches, 0);
}

#[tokio::test(start_paused = true)]
async fn all_members_enter_and_leave_together_in_each_round() {
    let server = server().await;
    let (here, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = Vec::new();
    for number in 0..5 {
        let barrier = new_barrier(&server, 5).await;
        let (arrived, done) = (Arc::clone(&here), Arc::clone(&most));
        tasks.push(tokio::spawn(async move {
            for round in 0..10 {
                tokio::time::sleep(SOON * ((number + round) % 5)).await;
                arrived.fetch_add(1, Ordering::SeqCst);
                let membership = barrier.enter().await.unwrap();
                assert!(arrived.load(Ordering::SeqCst) >= 5 * (round as usize + 1));
                tokio::time::sleep(SOON * ((number * 2 + round) % 5)).await;
                done.fetch_add(1, Ordering::SeqCst);
                membership.leave().await.unwrap();
                assert!(done.load(Ordering::SeqCst) >= 5 * (round as usize + 1));
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_nothing_is_left(&server).await;
}

#[tokio::test(start_paused = true)]
async fn enter_waits_for_all_members_and_so_does_leave() {
    let server = server().await;
    let (a, b) = (new_barrier(&server, 2).await, new_barrier(&server, 2).await);
    let a = enter(&a).await;
    tokio::time::sleep(LONG).await;
    assert!(!a.is_finished());
    let b = enter(&b).await;
    let (a, b) = (inside(a).await, inside(b).await);
    let a = leave(a).await;
    tokio::time::sleep(LONG).await;
    assert!(!a.is_finished());
    b.leave().await.unwrap();
    a.await.unwrap().unwrap();
    assert_nothing_is_left(&server).await;
}

#[tokio::test(start_paused = true)]
async fn znodes_are_those_of_curator() {
    let server = server().await;
    let client = connect(&server).await;
    let membership = barrier(&client, 1).enter().await.unwrap();
    let name = membership.path().strip_prefix("/jobs/barrier/").unwrap();
    assert_eq!(name.len(), "01234567-89ab-cdef-0123-456789abcdef".len());
    assert!(name.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-'));
    let owner = |stat: Option<zoolet::protocol::Stat>| stat.unwrap().ephemeral_owner;
    let member = client.exists(membership.path()).await.unwrap();
    assert_eq!(owner(member), client.session_id());
    assert_eq!(owner(client.exists(READY).await.unwrap()), SessionId::NONE);
    membership.leave().await.unwrap();
    assert_nothing_is_left(&server).await;
}

#[tokio::test(start_paused = true)]
async fn a_late_member_enters_and_the_others_wait_for_it_to_leave() {
    let server = server().await;
    let mut members = Vec::new();
    let entering =
        [enter(&new_barrier(&server, 2).await).await, enter(&new_barrier(&server, 2).await).await];
    for entering in entering {
        members.push(inside(entering).await);
    }
    let late = new_barrier(&server, 2).await.enter_within(SECOND).await.unwrap();
    let mut leaving = Vec::new();
    for member in members {
        leaving.push(leave(member).await);
    }
    assert!(leaving.iter().all(|task| !task.is_finished()));
    late.leave().await.unwrap();
    for task in leaving {
        task.await.unwrap().unwrap();
    }
    assert_nothing_is_left(&server).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_timed_out_entering_is_not_counted() {
    let server = server().await;
    let (a, b) = (new_barrier(&server, 2).await, new_barrier(&server, 2).await);
    assert!(matches!(a.enter_within(SECOND).await.unwrap_err(), LockError::TimedOut(_)));
    let b = enter(&b).await;
    tokio::time::sleep(SECOND).await;
    assert!(!b.is_finished());
    let a = a.enter().await.unwrap();
    let b = leave(inside(b).await).await;
    a.leave().await.unwrap();
    b.await.unwrap().unwrap();
    assert_nothing_is_left(&server).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_timed_out_leaving_has_left() {
    let server = server().await;
    let (a, b) = (new_barrier(&server, 2).await, new_barrier(&server, 2).await);
    let (a, b) = (enter(&a).await, enter(&b).await);
    let (a, b) = (inside(a).await, inside(b).await);
    assert!(matches!(a.leave_within(SECOND).await.unwrap_err(), LockError::TimedOut(_)));
    b.leave_within(SECOND).await.unwrap();
    assert_nothing_is_left(&server).await;
}

#[tokio::test(start_paused = true)]
async fn enter_and_leave_time_out_without_a_connection() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let membership = barrier(&client, 1).enter().await.unwrap();
    counting.refuse(true);
    counting.cut();
    let start = tokio::time::Instant::now();
    let entered = barrier(&client, 1).enter_within(SECOND).await;
    assert!(matches!(entered.unwrap_err(), LockError::TimedOut(_)));
    assert!(matches!(membership.leave_within(SECOND).await.unwrap_err(), LockError::TimedOut(_)));
    assert!(start.elapsed() < 2 * SECOND + SOON);
    counting.refuse(false);
    tokio::time::sleep(5 * SECOND).await;
    assert_nothing_is_left(&server).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiting_member_enters_after_a_disconnect_or_an_expired_session() {
    for outage in [5 * SECOND, LONG] {
        let server = server().await;
        let (client, counting) = counted(&server).await;
        let a = enter(&barrier(&client, 2)).await;
        counting.refuse(true);
        counting.cut();
        drop(client.sync("/").send());
        tokio::time::sleep(outage).await;
        counting.refuse(false);
        tokio::time::sleep(20 * SECOND).await;
        assert!(!a.is_finished());
        let b = new_barrier(&server, 2).await.enter_within(SECOND).await.unwrap();
        let a = leave(inside(a).await).await;
        b.leave().await.unwrap();
        a.await.unwrap().unwrap();
        assert_nothing_is_left(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_disconnected_when_the_others_enter_enters_after_it() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let a = enter(&barrier(&client, 2)).await;
    counting.refuse(true);
    counting.cut();
    drop(client.sync("/").send());
    let b = new_barrier(&server, 2).await.enter_within(SECOND).await.unwrap();
    let b = leave(b).await;
    tokio::time::sleep(5 * SECOND).await;
    assert!(!a.is_finished() && !b.is_finished(), "a member that is away is a member");
    counting.refuse(false);
    tokio::time::sleep(5 * SECOND).await;
    inside(a).await.leave().await.unwrap();
    b.await.unwrap().unwrap();
    assert_nothing_is_left(&server).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_with_an_expired_session_delays_nobody_and_gets_lost() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let (a, b) = (enter(&barrier(&client, 2)).await, enter(&new_barrier(&server, 2).await).await);
    let (a, b) = (inside(a).await, inside(b).await);
    counting.refuse(true);
    counting.cut();
    drop(client.sync("/").send());
    b.leave_within(LONG).await.unwrap();
    counting.refuse(false);
    tokio::time::sleep(LONG).await;
    assert!(matches!(a.leave().await.unwrap_err(), LockError::Lost(_)));
    assert_nothing_is_left(&server).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_deleted_while_entering_enters_again_and_one_inside_gets_lost() {
    let server = server().await;
    let admin = connect(&server).await;
    let a = enter(&new_barrier(&server, 2).await).await;
    let first = children(&admin).await;
    admin.delete(&format!("{PATH}/{}", first[0])).await.unwrap();
    tokio::time::sleep(SOON).await;
    let second = children(&admin).await;
    assert!(second.len() == 1 && second != first && !a.is_finished());
    let b = new_barrier(&server, 2).await.enter_within(SECOND).await.unwrap();
    let a = inside(a).await;
    admin.delete(a.path()).await.unwrap();
    assert!(matches!(a.leave().await.unwrap_err(), LockError::Lost(_)));
    b.leave_within(SECOND).await.unwrap();
    assert_nothing_is_left(&server).await;
}

#[tokio::test(start_paused = true)]
async fn data_changes_let_no_member_enter_or_leave() {
    let server = server().await;
    let admin = connect(&server).await;
    let a = enter(&new_barrier(&server, 2).await).await;
    let member = format!("{PATH}/{}", children(&admin).await[0]);
    admin.set(&member, "touched").await.unwrap();
    tokio::time::sleep(SOON).await;
    assert!(!a.is_finished(), "GH-1290");
    let b = new_barrier(&server, 2).await.enter_within(SECOND).await.unwrap();
    let a = leave(inside(a).await).await;
    for name in children(&admin).await {
        admin.set(&format!("{PATH}/{name}"), "touched").await.unwrap();
    }
    tokio::time::sleep(SOON).await;
    assert!(!a.is_finished());
    b.leave().await.unwrap();
    a.await.unwrap().unwrap();
    assert_nothing_is_left(&server).await;
}

#[tokio::test(start_paused = true)]
async fn a_ready_znode_of_expired_members_lets_nobody_enter() {
    let server = server().await;
    let crashed = connect(&server).await;
    let lost = barrier(&crashed, 1).enter().await.unwrap();
    crashed.close().await.unwrap();
    drop(lost);
    let admin = connect(&server).await;
    assert_eq!(children(&admin).await, ["ready"]);
    let a = enter(&new_barrier(&server, 2).await).await;
    tokio::time::sleep(SECOND).await;
    assert!(!a.is_finished());
    assert_eq!(admin.exists(READY).await.unwrap(), None);
    let b = new_barrier(&server, 2).await.enter_within(SECOND).await.unwrap();
    let a = leave(inside(a).await).await;
    b.leave().await.unwrap();
    a.await.unwrap().unwrap();
    assert_nothing_is_left(&server).await;
}

#[tokio::test(start_paused = true)]
async fn dropping_enter_at_any_poll_leaves_nothing() {
    let server = server().await;
    let client = connect(&server).await;
    for members in [1, 2] {
        for polls in 0..30 {
            let barrier = barrier(&client, members);
            {
                let mut entering = pin!(barrier.enter());
                for _ in 0..polls {
                    let mut context = Context::from_waker(Waker::noop());
                    if entering.as_mut().poll(&mut context).is_ready() {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
            }
            tokio::time::sleep(SOON).await;
            assert!(children(&client).await.is_empty(), "{members} members, {polls} polls");
            assert_eq!(server.totals().watches, 0, "{members} members, {polls} polls");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lost_replies_leave_nothing() {
    for answers in 0..16 {
        let server = server().await;
        let (client, counting) = counted(&server).await;
        counting.cut_after(answers);
        let (a, b) = (enter(&barrier(&client, 2)).await, new_barrier(&server, 2).await);
        let b = b.enter_within(LONG).await.unwrap();
        let a = tokio::time::timeout(LONG, a).await.expect("the member enters").unwrap().unwrap();
        let b = leave(b).await;
        tokio::time::timeout(LONG, a.leave()).await.expect("the member leaves").unwrap();
        tokio::time::timeout(LONG, b).await.expect("the member leaves").unwrap().unwrap();
        counting.cut_after(-1);
        client.sync("/").await.unwrap();
        assert_nothing_is_left(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_leave_at_any_poll_leaves_nothing() {
    for is_alone in [true, false] {
        for polls in 0..20 {
            let server = server().await;
            let members = if is_alone { 1 } else { 2 };
            let a = enter(&new_barrier(&server, members).await).await;
            let other = match is_alone {
                true => None,
                false => Some(new_barrier(&server, members).await.enter().await.unwrap()),
            };
            let a = inside(a).await;
            {
                let mut leaving = pin!(a.leave());
                for _ in 0..polls {
                    let mut context = Context::from_waker(Waker::noop());
                    if leaving.as_mut().poll(&mut context).is_ready() {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
            }
            if let Some(other) = other {
                other.leave_within(SECOND).await.unwrap();
            }
            assert_nothing_is_left(&server).await;
        }
    }
}

/// Deletes the znodes of all members at once, from within a request of another client.
fn lose_members(admin: &Client) {
    let mut context = Context::from_waker(Waker::noop());
    let list = pin!(admin.children(PATH).send()).poll(&mut context);
    let Poll::Ready(Ok(names)) = list else { panic!("in process the answer is there at once") };
    for name in names.iter().filter(|name| *name != "ready") {
        drop(admin.delete(&format!("{PATH}/{name}")).send());
    }
}

#[tokio::test(start_paused = true)]
async fn a_ready_znode_without_members_does_not_let_a_late_member_enter() {
    // Either the members are lost after the late one saw them inside, or they come and are lost
    // after it saw none.
    for were_seen in [true, false] {
        let server = server().await;
        let (client, counting) = counted(&server).await;
        let admin = connect(&server).await;
        let before = match were_seen {
            true => Some(inside(enter(&new_barrier(&server, 1).await).await).await),
            false => {
                admin
                    .create(PATH)
                    .parents(Parents::Containers)
                    .mode(CreateMode::Container)
                    .await
                    .unwrap();
                None
            }
        };
        let interferer = connect(&server).await;
        let op = if were_seen { OpCode::MULTI } else { OpCode::CREATE2 };
        counting.before_next(op, move || {
            if !were_seen {
                drop(interferer.create(READY).send());
            }
            lose_members(&interferer);
        });
        let late = enter(&barrier(&client, 2)).await;
        tokio::time::sleep(10 * SECOND).await;
        assert!(!late.is_finished(), "it went in alone, {were_seen}");
        let other = inside(enter(&new_barrier(&server, 2).await).await).await;
        let late = inside(late).await;
        let (late, other) = (leave(late).await, leave(other).await);
        late.await.unwrap().unwrap();
        other.await.unwrap().unwrap();
        drop(before);
        assert_nothing_is_left(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_member_enters_beside_another_late_member() {
    let server = server().await;
    let admin = connect(&server).await;
    let first = inside(enter(&new_barrier(&server, 1).await).await).await;
    let second = inside(enter(&new_barrier(&server, 3).await).await).await;
    admin.delete(first.path()).await.unwrap();
    drop(first);
    let third = inside(enter(&new_barrier(&server, 3).await).await).await;
    // A member of Curator entered because `ready` existed. The other members accept that after a
    // while.
    let curators = format!("{PATH}/00000000-0000-0000-0000-000000000000");
    let session = connect(&server).await;
    session.create(&curators).mode(CreateMode::Ephemeral).await.unwrap();
    for path in [second.path(), third.path()] {
        admin.delete(path).await.unwrap();
    }
    let fourth = enter(&new_barrier(&server, 3).await).await;
    tokio::time::sleep(2 * SECOND).await;
    let fourth = inside(fourth).await;
    session.delete(&curators).await.unwrap();
    drop((second, third, fourth));
    assert_nothing_is_left(&server).await;
}

#[tokio::test(start_paused = true)]
async fn cleaning_up_keeps_ready_when_another_member_has_come() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let admin = connect(&server).await;
    let last = inside(enter(&barrier(&client, 1)).await).await;
    admin.delete(last.path()).await.unwrap();
    let interferer = connect(&server).await;
    let again = counting.clone();
    // It lists the children, finds none, and another member enters before it deletes `ready`.
    counting.before_next(OpCode::DELETE, move || {
        again.before_next(OpCode::MULTI, move || {
            drop(interferer.create(&format!("{PATH}/other")).mode(CreateMode::Ephemeral).send());
            std::mem::forget(interferer);
        });
    });
    drop(last);
    tokio::time::sleep(SECOND).await;
    assert_eq!(children(&admin).await, ["other", "ready"], "it belongs to another");
}
