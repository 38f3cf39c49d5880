//! All faults at random, on several threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use zoolet::client::{Client, RetryPolicy};
use zoolet::protocol::ErrorCode;
use zoolet::recipes::InterProcessMutex;
use zoolet::testing::{Aim, FaultError, RequestFilter, TestServer};

use super::TRANSPORTS;

/// A pseudo-random sequence, the same for the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn some_fault(aim: &Aim, chance: &mut Chance) -> Result<(), FaultError> {
    let filter = RequestFilter::next(1 + chance.below(3)).after(chance.below(4));
    match chance.below(12) {
        0 => aim.expire().map(drop),
        1 => aim.cut().map(drop),
        2 => aim.freeze().map(drop),
        3 => aim.refuse().map(drop),
        4 => aim.hold().map(drop),
        5 => aim.delay(Duration::from_millis(chance.below(5))).map(drop),
        6 => aim.drop_requests(filter).map(drop),
        7 => aim.cut_before_reply(filter).map(drop),
        8 => aim.drop_replies(filter).map(drop),
        9 => aim.fail(filter, ErrorCode::THROTTLED_OP).map(drop),
        10 => aim.corrupt(1).map(drop),
        _ => {
            aim.heal();
            Ok(())
        }
    }
}

/// Writes until `is_over` is set, and returns the acknowledged paths.
async fn work(client: Client, name: String, is_over: Arc<AtomicBool>) -> Vec<String> {
    let mutex = InterProcessMutex::new(&client, "/locks/faults").expect("a path");
    let mut acknowledged = Vec::new();
    for number in 0.. {
        if is_over.load(Ordering::SeqCst) {
            break;
        }
        let step = async {
            let guard = mutex.acquire_within(Duration::from_millis(50)).await;
            let path = format!("/{name}-{number}");
            if client.create(&path).await.is_ok() {
                acknowledged.push(path);
            }
            drop(guard);
        };
        // The client waits without a limit for a reply that was dropped.
        let _ = tokio::time::timeout(Duration::from_millis(100), step).await;
        // In process none of these calls waits for another task.
        tokio::task::yield_now().await;
    }
    acknowledged
}

async fn run(seed: u64) {
    let server = TestServer::builder().tcp().start().await.expect("the server starts");
    let is_over = Arc::new(AtomicBool::new(false));
    let mut workers = Vec::new();
    for number in 0..6 {
        let client = TRANSPORTS[number % 2].connect(&server).await;
        let client = client.with_retry_policy(RetryPolicy::n_times(2, Duration::from_millis(1)));
        workers.push(tokio::spawn(work(client, format!("w{number}"), Arc::clone(&is_over))));
    }
    let mut chance = Chance(seed);
    for _ in 0..150 {
        let connections = server.connections().expect("it runs");
        let aim = match (chance.below(4), connections.get(chance.below(6) as usize)) {
            (0, _) | (_, None) => server.everyone(),
            (1, Some(connection)) => server.connection(connection.id),
            (_, Some(connection)) => server.session(connection.session),
        };
        match some_fault(&aim, &mut chance) {
            // The session or connection may have ended since it was listed.
            Ok(())
            | Err(FaultError::UnknownSession { .. } | FaultError::UnknownConnection { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        if chance.below(3) == 0 {
            tokio::time::sleep(Duration::from_millis(1 + chance.below(4))).await;
        }
        if chance.below(4) == 0 {
            server.heal();
        }
        if chance.below(60) == 0 {
            server.crash().await.expect("it starts again");
        }
    }
    is_over.store(true, Ordering::SeqCst);
    server.heal();
    let other = server.connect().await.expect("the server is there");
    let mut written = 0;
    for worker in workers {
        let acknowledged = tokio::time::timeout(Duration::from_secs(60), worker).await;
        for path in acknowledged.expect("no worker hangs").expect("no worker panics") {
            written += 1;
            assert!(
                other.exists(&path).await.expect("the server answers").is_some(),
                "{path}, seed {seed}"
            );
        }
    }
    assert!(written > 0, "seed {seed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn under_random_faults_no_client_hangs_and_acknowledged_writes_survive() {
    for seed in 0..6 {
        run(seed).await;
    }
}
