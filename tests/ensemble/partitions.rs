//! Servers that are cut off, in process and over TCP.

use std::time::Duration;

use zoolet::client::Client;
use zoolet::protocol::CreateMode;
use zoolet::testing::ServerRole;

use super::{PATIENCE, TRANSPORTS};

/// Longer than any election.
const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_cut_off_follower_answers_reads_and_pings_until_it_gives_up() {
    for kind in TRANSPORTS {
        let ensemble = kind.start().await;
        let (near, far) = (kind.connect(&ensemble, 0).await, kind.connect(&ensemble, 1).await);
        near.create("/a").data("one").await.unwrap();
        far.sync("/a").await.unwrap();
        ensemble.server(1).cut_off();
        near.set("/a", "two").await.unwrap();
        assert_eq!(&far.get("/a").await.unwrap().0[..], b"one", "{kind:?}");
        let follower = ensemble.server(1);
        let looks = ensemble.wait_until(|_| follower.role() == ServerRole::Looking);
        tokio::time::timeout(SOON, looks).await.unwrap();
        assert!(follower.connections().unwrap().is_empty(), "its clients are disconnected");
        assert!(ensemble.is_serving(), "the others go on");
        follower.rejoin();
        assert_eq!(&far.get("/a").await.unwrap().0[..], b"two", "{kind:?}");
        ensemble.check().unwrap();
    }
}

#[tokio::test]
async fn writes_at_a_leader_without_followers_wait_and_are_lost() {
    for kind in TRANSPORTS {
        let ensemble = kind.start().await;
        let client = kind.connect(&ensemble, 0).await;
        ensemble.cut_off_leader().unwrap();
        let error = tokio::time::timeout(SOON, client.create("/lost").send()).await.unwrap();
        assert!(error.is_err(), "{kind:?}: the connection is lost with the leadership");
        let elected =
            ensemble.wait_until(|ensemble| ensemble.leader().is_some_and(|leader| leader != 0));
        tokio::time::timeout(SOON, elected).await.unwrap();
        ensemble.server(0).rejoin();
        assert_eq!(client.exists("/lost").await.unwrap(), None, "{kind:?}");
    }
}

#[tokio::test]
async fn a_short_cut_is_not_noticed() {
    for kind in TRANSPORTS {
        // The time is that of the machine, which may be busy.
        let builder = zoolet::testing::TestEnsemble::builder().sync_limit(1_000);
        let ensemble = kind.start_with(builder).await;
        let client = kind.connect(&ensemble, 1).await;
        ensemble.server(1).cut_off();
        let create = client.create("/a").send();
        tokio::time::sleep(PATIENCE).await;
        assert_eq!(ensemble.server(0).data("/a"), None, "{kind:?}");
        ensemble.server(1).rejoin();
        create.await.unwrap();
        assert_eq!(ensemble.epoch(), 1);
    }
}

#[tokio::test]
async fn a_follower_that_hears_nothing_still_commits_for_its_clients() {
    for kind in TRANSPORTS {
        let ensemble = kind.start().await;
        let client = kind.connect(&ensemble, 1).await;
        ensemble.server(1).hold_link();
        let lost = tokio::time::timeout(SOON, client.create("/a").send()).await.unwrap();
        assert!(lost.is_err(), "{kind:?}: the reply does not come");
        assert!(ensemble.server(2).data("/a").is_some(), "{kind:?}: but it is committed");
        ensemble.server(1).rejoin();
        assert!(client.exists("/a").await.unwrap().is_some());
    }
}

#[tokio::test]
async fn a_session_on_a_cut_off_follower_can_expire_while_its_client_reads() {
    for kind in TRANSPORTS {
        let builder = zoolet::testing::TestEnsemble::builder().sync_limit(1_000);
        let ensemble = kind.start_with(builder).await;
        let timeout = Client::builder().session_timeout(Duration::from_millis(400));
        let client = kind.connect_as(&ensemble, Some(1), timeout).await;
        client.create("/mine").mode(CreateMode::Ephemeral).await.unwrap();
        ensemble.server(1).cut_off();
        let expired = ensemble.wait_until(|ensemble| ensemble.server(0).data("/mine").is_none());
        tokio::time::timeout(SOON, expired).await.unwrap();
        assert!(client.exists("/mine").await.unwrap().is_some(), "{kind:?}: it reads the past");
        ensemble.server(1).rejoin();
        let gone = async {
            while client.exists("/mine").until_answered().await.unwrap().is_some() {
                tokio::time::sleep(PATIENCE).await;
            }
        };
        tokio::time::timeout(SOON, gone).await.unwrap();
    }
}
