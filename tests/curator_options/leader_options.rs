//! Tests of the options of leaders: when a term ends at a disconnect, ids, and a function that has its
//! selector enter the line again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use zoolet::recipes::{ErrorPolicy, LeaderLatch, LeaderSelector, Requeue};
use zoolet_test_support::stage::{assert_nothing_is_left, connect, counted, server};

const PATH: &str = "/jobs/leader";
const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_disconnect_ends_a_term_only_by_the_policy_connection() {
    let server = server().await;
    for (policy, leads) in [(ErrorPolicy::Session, true), (ErrorPolicy::Connection, false)] {
        let (client, counting) = counted(&server).await;
        let latch =
            LeaderLatch::builder(&client, PATH).id("one").error_policy(policy).start().unwrap();
        let term = latch.await_leadership().await.unwrap();
        let mut terms = latch.term();
        counting.refuse(true);
        counting.cut();
        drop(client.sync("/").send());
        tokio::time::sleep(SECOND).await;
        assert_eq!(terms.borrow_and_update().is_some(), leads, "{policy:?}");
        counting.refuse(false);
        tokio::time::sleep(10 * SECOND).await;
        let again = terms.borrow_and_update().clone().expect("the session has survived");
        assert_eq!(again.fencing_token(), term.fencing_token());
        assert_eq!(latch.last_leader_path().as_deref(), Some(term.path()));
        assert_eq!(latch.id(), "one");
        latch.close().await.unwrap();
    }
    assert_nothing_is_left(&server, PATH).await;
}

#[tokio::test(start_paused = true)]
async fn a_disconnect_stops_the_function_of_a_selector_by_the_policy_connection() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let began = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&began);
    let selector = LeaderSelector::builder(&client, PATH)
        .id("one")
        .requeue(Requeue::Always)
        .error_policy(ErrorPolicy::Connection)
        .start(move |_term| {
            count.fetch_add(1, Ordering::SeqCst);
            std::future::pending()
        })
        .unwrap();
    tokio::time::sleep(SECOND).await;
    assert_eq!((began.load(Ordering::SeqCst), selector.id()), (1, "one".to_owned()));
    counting.cut();
    drop(client.sync("/").send());
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(began.load(Ordering::SeqCst), 2, "stopped, and begun again after the reconnect");
    selector.close().await.unwrap();
    assert_nothing_is_left(&server, PATH).await;
}

#[tokio::test(start_paused = true)]
async fn a_function_can_have_its_selector_enter_the_line_again() {
    let server = server().await;
    let ran = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&ran);
    let selector = LeaderSelector::builder(&connect(&server).await, PATH)
        .start(move |term| {
            let count = Arc::clone(&count);
            async move {
                if count.fetch_add(1, Ordering::SeqCst) < 2 {
                    assert!(term.requeue());
                    assert!(!term.requeue(), "it is asked already");
                }
            }
        })
        .unwrap();
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(ran.load(Ordering::SeqCst), 3);
    assert!(selector.requeue(), "it is not in line any more");
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(ran.load(Ordering::SeqCst), 4);
    selector.close().await.unwrap();
    assert_nothing_is_left(&server, PATH).await;
}

#[tokio::test(start_paused = true)]
async fn a_selector_that_enters_the_line_by_itself_needs_no_request() {
    let server = server().await;
    let (asked, answers) = std::sync::mpsc::channel();
    let selector = LeaderSelector::builder(&connect(&server).await, PATH)
        .requeue(Requeue::Always)
        .start(move |term| {
            let asked = asked.clone();
            async move {
                asked.send(term.requeue()).unwrap();
                tokio::time::sleep(SECOND).await;
            }
        })
        .unwrap();
    tokio::time::sleep(3 * SECOND).await;
    assert!(!selector.requeue());
    selector.close().await.unwrap();
    assert!(answers.try_iter().all(|answer| !answer));
}

#[tokio::test(start_paused = true)]
async fn receivers_of_a_latch_that_is_dropped_learn_that_it_leads_no_more() {
    let server = server().await;
    let latch = LeaderLatch::start(&connect(&server).await, PATH, "one").unwrap();
    latch.await_leadership().await.unwrap();
    let mut terms = latch.term();
    assert!(terms.borrow_and_update().is_some());
    drop(latch);
    tokio::time::sleep(SECOND).await;
    assert!(terms.borrow_and_update().is_none(), "the last term is not the present one");
    assert_nothing_is_left(&server, PATH).await;
}
