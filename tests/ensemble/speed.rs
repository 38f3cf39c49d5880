//! What an ensemble costs.

use std::time::{Duration, Instant};

use zoolet::testing::{ServerRole, TestEnsemble};

/// By how much more time a build without optimisation may take on a busy machine.
const GENEROSITY: u32 = if cfg!(debug_assertions) { 10 } else { 1 };

#[tokio::test]
async fn three_servers_start_in_less_than_two_milliseconds() {
    let mut fastest = Duration::MAX;
    for _ in 0..20 {
        let began = Instant::now();
        let ensemble = TestEnsemble::start().await.unwrap();
        assert!(ensemble.is_serving());
        fastest = fastest.min(began.elapsed());
    }
    println!("three servers start in {fastest:?}");
    assert!(fastest < GENEROSITY * Duration::from_millis(2), "{fastest:?}");
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
    let mut fastest = Duration::MAX;
    for _ in 0..20 {
        let began = Instant::now();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(partition_and_failover());
        fastest = fastest.min(began.elapsed());
    }
    println!("a test with partition and failover takes {fastest:?}");
    assert!(fastest < GENEROSITY * Duration::from_millis(10), "{fastest:?}");
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
