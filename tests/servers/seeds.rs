//! A seed decides everything that is otherwise up to chance: a run with the same seed repeats.

#![allow(clippy::disallowed_methods, reason = "it measures what passes on the paused clock")]
#![allow(clippy::unwrap_used, reason = "it is a test")]

use std::time::Duration;

use tokio::time::Instant;
use zoolet::client::{Client, ConnectionState, RetryPolicy};
use zoolet::protocol::CreateMode;
use zoolet::recipes::InterProcessMutex;
use zoolet::testing::{RequestFilter, TestServer};

/// A run on a thread of its own, whose generator of random numbers nobody has seeded: the ids and
/// pauses in it.
fn run(seed: u64) -> Vec<String> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    std::thread::spawn(move || runtime.block_on(contend(seed))).join().unwrap()
}

async fn contend(seed: u64) -> Vec<String> {
    let mut story = Vec::new();
    let server = TestServer::builder().seed(seed).start().await.unwrap();
    let recorder = server.record();
    let (owner, waiter) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    story.push(format!("sessions {} and {}", owner.session_id(), waiter.session_id()));

    let guard = InterProcessMutex::new(&owner, "/lock").unwrap().acquire().await.unwrap();
    let lost = RequestFilter::next(3).creates();
    server.session(waiter.session_id()).cut_before_reply(lost).unwrap();
    let mutex = InterProcessMutex::new(&waiter, "/lock").unwrap();
    let waiting = tokio::spawn(async move { mutex.acquire().await });
    server.wait_until(|stats| stats.session(waiter.session_id()).watches > 0).await;
    story.push(format!("{:?}", owner.children("/lock").await.unwrap()));
    server.stop().await;
    let mut states = owner.state();
    states.wait_for(|state| *state == Some(ConnectionState::Suspended)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let start = Instant::now();
    server.restart().await.unwrap();
    states.wait_for(|state| *state == Some(ConnectionState::Reconnected)).await.unwrap();
    story.push(format!("reconnected after {:?}", start.elapsed()));
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();

    let start = Instant::now();
    let retrying = RetryPolicy::exponential_backoff(Duration::from_millis(7), 5);
    let client = owner.with_retry_policy(retrying);
    server.everyone().cut_before_reply(RequestFilter::next(4).reads()).unwrap();
    client.exists("/lock").await.unwrap();
    let node = client.create("/member-").protected().mode(CreateMode::EphemeralSequential);
    story.push(format!("{} after {:?}", node.await.unwrap().path, start.elapsed()));
    story.push(recorder.script());
    story
}

#[test]
fn a_run_repeats_with_its_seed() {
    let stories: Vec<_> = (0..3).map(run).collect();
    for (seed, story) in (0..).zip(&stories) {
        for _ in 0..3 {
            assert_eq!(&run(seed), story, "seed {seed}");
        }
    }
    for (part, first) in stories[0].iter().enumerate().take(4) {
        assert_ne!(first, &stories[1][part], "a seed decides part {part}");
    }
}

#[tokio::test]
async fn a_seed_chooses_the_first_server() {
    let mut chosen = Vec::new();
    for seed in 0..20 {
        let (dialled, addresses) = std::sync::mpsc::channel();
        let open = move |address: String| {
            let _ = dialled.send(address);
            std::future::ready(Err::<tokio::io::DuplexStream, _>(std::io::ErrorKind::Other.into()))
        };
        let dialer = zoolet::client::StreamDialer::new("one:1,two:2,three:3", open).unwrap();
        let builder = Client::builder().seed(seed).connection_timeout(Duration::from_millis(1));
        assert!(builder.connect(dialer).await.is_err());
        chosen.push(addresses.recv().unwrap());
    }
    assert_eq!(chosen.iter().collect::<std::collections::BTreeSet<_>>().len(), 3, "{chosen:?}");
}
