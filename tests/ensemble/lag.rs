//! Followers that are behind their leader.

use std::time::Duration;

use tokio::time::Instant;
use zoolet::client::Client;

use super::start;

#[tokio::test(start_paused = true)]
async fn a_follower_shows_the_past_until_it_applies() {
    let ensemble = start().await;
    let (writer, reader) =
        (ensemble.connect_to(0).await.unwrap(), ensemble.connect_to(1).await.unwrap());
    writer.create("/a").data("one").await.unwrap();
    let mut watch = reader.get("/a").and_watch().await.unwrap().watcher;
    ensemble.server(1).hold();
    writer.set("/a", "two").await.unwrap();
    assert_eq!(&reader.get("/a").await.unwrap().0[..], b"one");
    assert_eq!(ensemble.server(1).behind(), 1);
    assert!(ensemble.server(1).last_zxid() < ensemble.server(2).last_zxid());
    let early = tokio::time::timeout(Duration::from_secs(60), &mut watch).await;
    assert!(early.is_err(), "the event arrives when the follower applies");
    ensemble.server(1).release();
    watch.await.unwrap();
    assert_eq!(&reader.get("/a").await.unwrap().0[..], b"two");
    ensemble.check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_write_over_a_lagging_follower_is_answered_when_that_has_applied_it() {
    let ensemble = start().await;
    let (slow, fast) =
        (ensemble.connect_to(1).await.unwrap(), ensemble.connect_to(2).await.unwrap());
    ensemble.server(1).lag_by(Duration::from_secs(2));
    let before = Instant::now();
    let created = slow.create("/a").send();
    fast.sync("/a").await.unwrap();
    assert!(fast.exists("/a").await.unwrap().is_some(), "it is committed at once");
    assert_eq!(before.elapsed(), Duration::ZERO);
    created.await.unwrap();
    assert_eq!(before.elapsed(), Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn sync_waits_until_the_follower_has_caught_up() {
    let ensemble = start().await;
    let (writer, reader) =
        (ensemble.connect_to(0).await.unwrap(), ensemble.connect_to(1).await.unwrap());
    ensemble.server(1).lag_by(Duration::from_secs(3));
    writer.create("/a").await.unwrap();
    assert!(reader.exists("/a").await.unwrap().is_none());
    let before = Instant::now();
    reader.sync("/a").await.unwrap();
    assert_eq!(before.elapsed(), Duration::from_secs(3));
    assert!(reader.exists("/a").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_follower_stays_a_number_of_transactions_behind() {
    let ensemble = start().await;
    let writer = ensemble.connect_to(0).await.unwrap();
    ensemble.server(1).lag_by_count(2);
    for name in ["/a", "/b", "/c"] {
        writer.create(name).await.unwrap();
    }
    let follower = ensemble.server(1);
    assert_eq!(follower.behind(), 2);
    assert!(follower.data("/a").is_some() && follower.data("/b").is_none());
    follower.release();
    assert!(follower.data("/c").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_has_seen_more_is_refused_and_moves_on() {
    let ensemble = start().await;
    let client = Client::connect(ensemble.dialer()).await.unwrap();
    assert_eq!(ensemble.server_of(client.session_id()).unwrap().index(), 0);
    assert_eq!(client.session_id().0 >> 56, 1, "a session id begins with the number of its server");
    ensemble.server(1).hold();
    client.create("/a").await.unwrap();
    ensemble.session(client.session_id()).cut().unwrap();
    assert!(client.exists("/a").await.unwrap().is_some());
    let present = ensemble.server_of(client.session_id()).unwrap().index();
    assert_eq!(present, 2, "server 1 was next in turn and is behind");
}

#[tokio::test(start_paused = true)]
async fn waiting_for_what_is_committed_ends_while_others_go_on_to_write() {
    let ensemble = start().await;
    let client = ensemble.connect_to(0).await.unwrap();
    client.create("/a").await.unwrap();
    ensemble.server(1).lag_by(Duration::from_millis(50));
    let writer = tokio::spawn(async move {
        loop {
            client.set("/a", "again").await.unwrap();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let committed = ensemble.committed_zxid();
    let caught_up = tokio::time::timeout(Duration::from_secs(60), ensemble.caught_up());
    caught_up.await.expect("a server that is always a little behind catches up with one moment");
    assert!(ensemble.server(1).last_zxid() >= committed);
    writer.abort();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_stopped_for_long_applies_all_that_it_missed() {
    let ensemble = start().await;
    let client = ensemble.connect_to(0).await.unwrap();
    client.create("/a").await.unwrap();
    ensemble.server(2).stop();
    for number in 0..500 {
        client.set("/a", number.to_string()).await.unwrap();
    }
    ensemble.server(2).start();
    ensemble.caught_up().await;
    assert_eq!(ensemble.server(2).data("/a").unwrap().unwrap(), "499");
    ensemble.check().unwrap();
}
