//! Tests of `LeaderSelector` on a server in process: one function runs at a time, stops when its
//! leadership is no longer certain, and ends the term when it returns.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use zoolet::client::Client;
use zoolet::recipes::{InterProcessMutex, LeaderSelector, LockError, Requeue, Term};
use zoolet_test_support::counting::Counting;
use zoolet_test_support::stage::{assert_nothing_is_left, connect, server};

/// Enough for everything that does not wait: the paused clock advances when no task can run.
const SOON: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);
/// Longer than the session timeout.
const LONG: Duration = Duration::from_secs(120);
const PATH: &str = "/jobs/leader";

/// Increments a counter, and decrements it when it is dropped.
struct Running(Arc<AtomicUsize>);

impl Running {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Starts a selector whose function never returns, and returns when its znode is in line: the
/// selector, and the number of its running functions.
async fn for_ever(
    client: &Client,
    id: &str,
    requeue: Requeue,
) -> (LeaderSelector, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let running = Arc::clone(&count);
    let lead = move |_: Term| {
        let running = Running::new(&running);
        async move {
            std::future::pending::<()>().await;
            drop(running);
        }
    };
    let selector = LeaderSelector::start(client, PATH, id, requeue, lead).expect("a legal path");
    tokio::time::sleep(SOON).await;
    (selector, count)
}

fn runs(count: &AtomicUsize) -> bool {
    count.load(Ordering::SeqCst) == 1
}

#[tokio::test(start_paused = true)]
async fn selectors_call_their_functions_in_turn_and_one_at_a_time() {
    let server = server().await;
    let (turns, mut heard) = mpsc::unbounded_channel();
    let running = Arc::new(AtomicUsize::new(0));
    let mut selectors = Vec::new();
    for id in 0..3 {
        let (turns, running) = (turns.clone(), Arc::clone(&running));
        let lead = move |term: Term| {
            let (turns, running) = (turns.clone(), Running::new(&running));
            async move {
                let beside = running.0.load(Ordering::SeqCst);
                turns.send((id, beside, term.fencing_token())).unwrap();
                tokio::time::sleep(SECOND).await;
                drop(running);
            }
        };
        let client = connect(&server).await;
        let selector = LeaderSelector::start(&client, PATH, "x", Requeue::Always, lead).unwrap();
        tokio::time::sleep(SOON).await;
        selectors.push(selector);
    }
    let mut last_token = None;
    for turn in 0..9 {
        let (id, beside, token) = heard.recv().await.unwrap();
        assert_eq!((id, beside), (turn % 3, 1), "each waits at the end of the line for its turn");
        assert!(Some(token) > last_token);
        last_token = Some(token);
    }
    for selector in selectors {
        selector.close().await.unwrap();
    }
    assert_nothing_is_left(&server, PATH).await;
}

#[tokio::test(start_paused = true)]
async fn a_selector_without_requeue_waits_for_a_request_to_requeue() {
    let server = server().await;
    let (turns, mut heard) = mpsc::unbounded_channel();
    let lead = move |_| {
        let turns = turns.clone();
        async move {
            tokio::time::sleep(SECOND).await;
            turns.send(()).unwrap();
        }
    };
    let client = connect(&server).await;
    let selector = LeaderSelector::start(&client, PATH, "a", Requeue::OnRequest, lead).unwrap();
    assert!(!selector.requeue(), "it is queued");
    heard.recv().await.unwrap();
    tokio::time::sleep(LONG).await;
    assert!(heard.try_recv().is_err());
    assert_eq!(selector.leader().await.unwrap(), None);
    assert!(selector.requeue());
    heard.recv().await.unwrap();
    selector.close().await.unwrap();
    assert_nothing_is_left(&server, PATH).await;
}

#[tokio::test(start_paused = true)]
async fn interrupting_the_leader_stops_its_function_and_requeues_it() {
    let server = server().await;
    let (a, a_runs) = for_ever(&connect(&server).await, "a", Requeue::Always).await;
    let (b, b_runs) = for_ever(&connect(&server).await, "b", Requeue::Always).await;
    assert!(runs(&a_runs) && !runs(&b_runs) && a.has_leadership() && !b.has_leadership());
    b.interrupt_leadership();
    tokio::time::sleep(SOON).await;
    assert!(runs(&a_runs), "interrupting a selector that does not lead has no effect");
    a.interrupt_leadership();
    tokio::time::sleep(SOON).await;
    assert!(!runs(&a_runs) && runs(&b_runs) && !a.has_leadership() && b.has_leadership());
    let participants = a.participants().await.unwrap();
    let told: Vec<_> = participants.iter().map(|one| (one.id.as_str(), one.leads)).collect();
    assert_eq!(told, [("b", true), ("a", false)]);
    drop(b);
    tokio::time::sleep(SOON).await;
    assert!(runs(&a_runs) && !runs(&b_runs));
    a.close().await.unwrap();
    assert!(!runs(&a_runs));
    assert_nothing_is_left(&server, PATH).await;
}

#[tokio::test(start_paused = true)]
async fn deleting_the_leaders_znode_stops_its_function() {
    let server = server().await;
    let (a, a_runs) = for_ever(&connect(&server).await, "a", Requeue::OnRequest).await;
    let (b, b_runs) = for_ever(&connect(&server).await, "b", Requeue::OnRequest).await;
    let path = a.leader().await.unwrap().unwrap().path;
    connect(&server).await.delete(&path).await.unwrap();
    tokio::time::sleep(SOON).await;
    assert!(!runs(&a_runs) && runs(&b_runs));
    assert!(a.requeue());
    tokio::time::sleep(SOON).await;
    b.close().await.unwrap();
    tokio::time::sleep(SOON).await;
    assert!(runs(&a_runs));
    a.close().await.unwrap();
    assert_nothing_is_left(&server, PATH).await;
}

#[tokio::test(start_paused = true)]
async fn a_short_disconnect_stops_no_function_and_a_long_one_stops_it_before_another_leads() {
    let server = server().await;
    let counting = Counting::new(server.dialer());
    let client = Client::connect(counting.clone()).await.unwrap();
    let (a, a_runs) = for_ever(&client, "a", Requeue::Always).await;
    let (_b, b_runs) = for_ever(&connect(&server).await, "b", Requeue::Always).await;
    let token = a.term().borrow().as_ref().map(Term::fencing_token);
    let cut = |outage| {
        counting.refuse(true);
        counting.cut();
        // Without this request the client would notice the cut at its next ping.
        drop(client.sync("/").send());
        tokio::time::sleep(outage)
    };
    cut(5 * SECOND).await;
    assert!(runs(&a_runs) && a.has_leadership());
    counting.refuse(false);
    tokio::time::sleep(5 * SECOND).await;
    assert!(runs(&a_runs) && a.has_leadership());
    assert_eq!(a.term().borrow().as_ref().map(Term::fencing_token), token, "the same term");
    let outage = cut(LONG);
    tokio::pin!(outage);
    while runs(&a_runs) {
        assert!(!runs(&b_runs));
        tokio::select! {
            () = &mut outage => panic!("the function went on"),
            () = tokio::time::sleep(SOON) => {}
        }
    }
    assert!(!runs(&b_runs), "the server has not ended the session yet");
    outage.await;
    assert!(runs(&b_runs));
    counting.refuse(false);
    tokio::time::sleep(LONG).await;
    assert!(!runs(&a_runs) && runs(&b_runs));
    assert_eq!(a.participants().await.unwrap().len(), 2, "its new znode is in line");
}

#[tokio::test(start_paused = true)]
async fn a_selector_uses_curators_mutex_with_the_id_as_data() {
    let server = server().await;
    let client = connect(&server).await;
    let mutex = InterProcessMutex::new(&client, PATH).unwrap();
    let guard = mutex.acquire().await.unwrap();
    let (selector, count) = for_ever(&connect(&server).await, "host-1", Requeue::Always).await;
    assert!(!runs(&count));
    guard.release().await.unwrap();
    tokio::time::sleep(SOON).await;
    assert!(runs(&count));
    let leader = selector.leader().await.unwrap().unwrap();
    let name = leader.path.strip_prefix("/jobs/leader/_c_").unwrap();
    assert_eq!(&name[36..], "-lock-0000000001");
    assert_eq!(client.get(&leader.path).await.unwrap().0, "host-1");
    assert!(mutex.try_acquire().await.unwrap().is_none());
    selector.close().await.unwrap();
    let guard = mutex.acquire_within(SECOND).await.unwrap();
    let address = client.get(guard.path()).await.unwrap().0;
    guard.release().await.unwrap();
    let (nameless, _) = for_ever(&client, "", Requeue::Always).await;
    assert_eq!(nameless.leader().await.unwrap().unwrap().id.as_bytes(), &address[..]);
    nameless.close().await.unwrap();
    assert_nothing_is_left(&server, PATH).await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_function_ends_the_term_and_close_returns_it() {
    let server = server().await;
    let client = connect(&server).await;
    let lead = |_| async { panic!("as it must in this test") };
    let selector = LeaderSelector::start(&client, PATH, "a", Requeue::Always, lead).unwrap();
    let (next, count) = for_ever(&connect(&server).await, "b", Requeue::Always).await;
    assert!(runs(&count) && selector.term().borrow().is_none());
    let closed = tokio::spawn(selector.close()).await;
    assert!(closed.unwrap_err().is_panic());
    next.close().await.unwrap();
    assert_nothing_is_left(&server, PATH).await;
}

#[tokio::test(start_paused = true)]
async fn who_is_closed_at_once_leaves_nothing() {
    let server = server().await;
    let client = connect(&server).await;
    for polls in 0..20 {
        let lead = |_| std::future::pending();
        let selector = LeaderSelector::start(&client, PATH, "a", Requeue::Always, lead).unwrap();
        for _ in 0..polls {
            tokio::task::yield_now().await;
        }
        selector.close().await.unwrap();
        let left = client.children(PATH).await.map_or(0, |names| names.len());
        assert_eq!(left, 0, "after {polls} polls");
    }
    assert_eq!(server.totals().watches, 0);
}

#[tokio::test(start_paused = true)]
async fn closing_the_client_stops_the_function() {
    let server = server().await;
    let client = connect(&server).await;
    let (selector, count) = for_ever(&client, "a", Requeue::Always).await;
    client.close().await.unwrap();
    tokio::time::sleep(SOON).await;
    assert!(!runs(&count));
    let closed = selector.close().await;
    assert!(matches!(closed, Ok(()) | Err(LockError::Lost(_))), "{closed:?}");
    assert_nothing_is_left(&server, PATH).await;
}

#[tokio::test(start_paused = true)]
async fn a_selector_calls_its_function_again_after_a_panic() {
    let server = server().await;
    let (client, other) = (connect(&server).await, connect(&server).await);
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    // The function panics once while it makes its future, and once while that future runs.
    let lead = move |_| {
        let call = count.fetch_add(1, Ordering::SeqCst);
        assert!(call != 0, "as it must in this test");
        async move {
            tokio::time::sleep(SOON).await;
            assert!(call != 1, "as it must in this test");
            std::future::pending::<()>().await;
        }
    };
    let selector = LeaderSelector::start(&client, PATH, "one", Requeue::Always, lead).unwrap();
    tokio::time::sleep(SOON).await;
    assert!(!selector.has_leadership(), "it has given the leadership up");
    let mutex = InterProcessMutex::new(&other, PATH).unwrap();
    drop(
        mutex
            .acquire_within(SOON)
            .await
            .expect("another client may hold the mutex during the pause"),
    );
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(calls.load(Ordering::SeqCst), 3);
    assert!(selector.has_leadership());
    let closed = tokio::spawn(selector.close()).await;
    assert!(closed.unwrap_err().is_panic(), "close returns the panic");
    assert_nothing_is_left(&server, PATH).await;
}

#[tokio::test(start_paused = true)]
async fn a_selector_without_requeue_calls_its_function_again_on_request_after_a_panic() {
    let server = server().await;
    let client = connect(&server).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let lead = move |_| {
        let call = count.fetch_add(1, Ordering::SeqCst);
        async move { assert!(call != 0, "as it must in this test") }
    };
    let selector = LeaderSelector::start(&client, PATH, "one", Requeue::OnRequest, lead).unwrap();
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert!(selector.requeue(), "it was not queued");
    tokio::time::sleep(SOON).await;
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    assert!(tokio::spawn(selector.close()).await.unwrap_err().is_panic());
}
