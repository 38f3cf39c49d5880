//! What an ensemble costs.

use std::time::{Duration, Instant};

use zoolet::testing::{ServerRole, TestEnsemble};

/// By how much more time a build without optimisation may take on a busy machine.
const GENEROSITY: u32 = if cfg!(debug_assertions) { 10 } else { 1 };

/// How often each is measured.
const ROUNDS: usize = 50;

/// Prints the median and checks the least, which other programs on the machine disturb least.
fn compare(what: &str, mut times: Vec<Duration>, limit: Duration) {
    times.sort_unstable();
    let (least, median) = (times[0], times[times.len() / 2]);
    println!("{what}: median {median:?}, least {least:?}");
    assert!(least < GENEROSITY * limit, "{what}: {least:?}");
}

#[tokio::test]
async fn three_servers_start_in_less_than_two_milliseconds() {
    for is_tcp in [false, true] {
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let builder = TestEnsemble::builder();
            let builder = if is_tcp { builder.tcp() } else { builder };
            let began = Instant::now();
            let ensemble = builder.start().await.unwrap();
            assert!(ensemble.is_serving());
            times.push(began.elapsed());
        }
        let what = if is_tcp { "start with ports" } else { "start in process" };
        compare(what, times, Duration::from_millis(2));
    }
}

/// A follower is cut off and comes back, and then the leader is lost and another elected.
async fn partition_and_failover() {
    let ensemble = TestEnsemble::start().await.unwrap();
    let client = ensemble.connect().await.unwrap();
    client.create("/a").await.unwrap();
    ensemble.server(1).cut_off();
    ensemble.wait_until(|ensemble| ensemble.server(1).role() == ServerRole::Looking).await;
    client.set("/a", "one").await.unwrap();
    ensemble.server(1).rejoin();
    ensemble.lose_leader().unwrap();
    client.set("/a", "two").await.unwrap();
    assert_eq!(ensemble.epoch(), 2);
    ensemble.check().unwrap();
}

#[test]
fn a_test_with_partition_and_failover_takes_less_than_ten_milliseconds() {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(partition_and_failover());
        times.push(began.elapsed());
    }
    compare("partition and failover", times, Duration::from_millis(10));
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_run() {
    let mut runs = Vec::new();
    for seed in [1, 1, 2] {
        let ensemble = TestEnsemble::builder().servers(5).seed(seed).start().await.unwrap();
        let began = tokio::time::Instant::now();
        let client = ensemble.connect().await.unwrap();
        for _ in 0..4 {
            let lost = ensemble.lose_leader().unwrap();
            ensemble.serving().await;
            ensemble.server(lost).start();
        }
        runs.push((client.session_id(), ensemble.events(), began.elapsed()));
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}
