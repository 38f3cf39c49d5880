//! Leaders that are lost or cut off, and those that follow them.

use std::time::Duration;

use tokio::time::Instant;
use zoolet::client::Client;
use zoolet::protocol::CreateMode;
use zoolet::testing::{EnsembleEvent, ServerRole, TestEnsemble};

use super::start;

/// A tick and a syncLimit that the tests know.
const TICK: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_millis(2_500);

#[tokio::test(start_paused = true)]
async fn a_lost_leader_is_replaced_in_a_new_epoch() {
    let ensemble = start().await;
    let client = ensemble.connect().await.unwrap();
    client.create("/a").await.unwrap();
    assert_eq!(ensemble.committed_zxid().0 >> 32, 1);
    assert_eq!(ensemble.lose_leader().unwrap(), 0);
    assert_eq!((ensemble.leader(), ensemble.is_serving()), (None, false));
    client.create("/b").await.unwrap();
    let leader = ensemble.leader().unwrap();
    assert_ne!(leader, 0);
    assert_eq!((ensemble.epoch(), ensemble.committed_zxid().0 >> 32), (2, 2));
    ensemble.server(0).start();
    assert_eq!(ensemble.server(0).role(), ServerRole::Follower);
    assert!(ensemble.server(0).data("/b").is_some());
    ensemble.check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_answers_reads_until_it_gives_up() {
    let ensemble = start().await;
    let (old, other) =
        (ensemble.connect_to(0).await.unwrap(), ensemble.connect_to(1).await.unwrap());
    old.create("/a").data("one").await.unwrap();
    let begin = Instant::now();
    assert_eq!(ensemble.cut_off_leader().unwrap(), 0);
    ensemble.wait_until(|ensemble| ensemble.leader().is_some_and(|leader| leader != 0)).await;
    assert!(begin.elapsed() >= PATIENCE - TICK / 2, "{:?}", begin.elapsed());
    let write = tokio::spawn(async move { other.set("/a", "two").await });
    assert_eq!(ensemble.server(0).role(), ServerRole::Leader);
    assert_eq!(&old.get("/a").await.unwrap().0[..], b"one", "it does not know better");
    write.await.unwrap().unwrap();
    ensemble.wait_until(|ensemble| ensemble.server(0).role() == ServerRole::Looking).await;
    assert!(begin.elapsed() <= PATIENCE + TICK, "{:?}", begin.elapsed());
    ensemble.server(0).rejoin();
    assert_eq!(&old.get("/a").await.unwrap().0[..], b"two");
    ensemble.check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_test_decides_who_leads_and_when() {
    let ensemble = TestEnsemble::builder().elect_by_hand().start().await.unwrap();
    let client = ensemble.connect_to(1).await.unwrap();
    ensemble.lose_leader().unwrap();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(ensemble.leader(), None);
    ensemble.elect(2).unwrap();
    assert_eq!((ensemble.leader(), ensemble.followers()), (Some(2), vec![1]));
    ensemble.elect(1).unwrap();
    assert_eq!((ensemble.leader(), ensemble.epoch()), (Some(1), 3));
    let error = ensemble.elect(0).unwrap_err().to_string();
    assert!(error.starts_with("server 0 reaches no majority"), "{error}");
    // Its session was there all the time for the ensemble.
    client.create("/a").await.unwrap();
    let events = ensemble.events();
    assert!(events.ends_with(&[EnsembleEvent::Leads(1)]), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_session_on_a_cut_off_follower_expires_at_the_leader() {
    let ensemble = TestEnsemble::builder().sync_limit(10).start().await.unwrap();
    let builder = Client::builder().session_timeout(Duration::from_secs(2));
    let client = builder.connect(ensemble.server(1).dialer()).await.unwrap();
    client.create("/mine").mode(CreateMode::Ephemeral).await.unwrap();
    let begin = Instant::now();
    ensemble.server(1).cut_off();
    ensemble.wait_until(|ensemble| ensemble.server(0).data("/mine").is_none()).await;
    assert!(begin.elapsed() <= Duration::from_secs(2) + 2 * TICK, "{:?}", begin.elapsed());
    assert!(ensemble.server(1).data("/mine").is_some(), "the follower has not heard of it");
    assert_eq!(ensemble.server(1).role(), ServerRole::Follower);
    ensemble.wait_until(|ensemble| ensemble.server(1).role() == ServerRole::Looking).await;
    assert!(begin.elapsed() <= 10 * TICK, "{:?}", begin.elapsed());
    ensemble.server(1).rejoin();
    assert!(ensemble.server(1).data("/mine").is_none());
}

#[tokio::test(start_paused = true)]
async fn five_servers_go_on_with_three() {
    let ensemble = TestEnsemble::builder().servers(5).start().await.unwrap();
    let client = ensemble.connect_to(3).await.unwrap();
    ensemble.partition(&[&[0, 1]]);
    ensemble.wait_until(|ensemble| ensemble.leader().is_some_and(|leader| leader != 0)).await;
    client.create("/a").await.unwrap();
    assert!([2, 3, 4].contains(&ensemble.leader().unwrap()));
    ensemble.wait_until(|ensemble| ensemble.server(1).role() == ServerRole::Looking).await;
    ensemble.heal();
    assert_eq!(ensemble.followers().len(), 4);
    ensemble.check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_followers_end_gives_up_at_its_next_tick() {
    let ensemble = start().await;
    let client = ensemble.connect_to(0).await.unwrap();
    let begin = Instant::now();
    ensemble.server(1).stop();
    assert!(ensemble.is_serving(), "it has a majority with server 2");
    ensemble.server(2).stop();
    assert!(!ensemble.is_serving());
    assert!(client.exists("/").await.unwrap().is_some(), "it has not looked yet");
    ensemble.wait_until(|ensemble| ensemble.server(0).role() == ServerRole::Looking).await;
    assert!(begin.elapsed() <= TICK, "{:?}", begin.elapsed());
    ensemble.server(2).start();
    ensemble.serving().await;
    client.create("/a").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_takes_the_zxid_of_its_epoch() {
    let ensemble = start().await;
    let zxids = || ensemble.servers().iter().map(|server| server.last_zxid().0).collect::<Vec<_>>();
    assert_eq!(zxids(), [1 << 32, 0, 0], "as in Apache ZooKeeper");
    let client = ensemble.connect_to(1).await.unwrap();
    assert_eq!(zxids(), [(1 << 32) + 1; 3]);
    ensemble.elect(2).unwrap();
    assert_eq!(zxids(), [(1 << 32) + 1, (1 << 32) + 1, 2 << 32]);
    client.create("/a").await.unwrap();
    assert_eq!(zxids(), [(2 << 32) + 1; 3]);
}
