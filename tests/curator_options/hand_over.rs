//! Tests of the hand-over of a session from one client to another: its ephemerals stay, and a session
//! that is over is told.

use std::time::Duration;

use zoolet::client::{Client, Error, SavedSession};
use zoolet::protocol::CreateMode;
use zoolet::recipes::InterProcessMutex;
use zoolet_test_support::stage::{connect, server};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn ephemerals_and_locks_stay_with_the_session() {
    let server = server().await;
    let old = connect(&server).await;
    old.create("/one").mode(CreateMode::Ephemeral).await.unwrap();
    let guard = InterProcessMutex::new(&old, "/lock").unwrap().acquire().await.unwrap();
    let (clone, path, id) = (old.clone(), guard.path().to_owned(), old.session_id());
    let saved = old.hand_over().unwrap();
    assert_eq!(saved.id(), id);
    assert_eq!(clone.get("/one").await.unwrap_err(), Error::Closed);
    drop((guard, clone));
    tokio::time::sleep(SECOND).await;
    let new = Client::builder().session(saved).connect(server.dialer()).await.unwrap();
    assert_eq!(new.session_id(), id);
    for ephemeral in ["/one", &path] {
        let stat = new.exists(ephemeral).await.unwrap().unwrap();
        assert_eq!(stat.ephemeral_owner, id, "{ephemeral}");
    }
    tokio::time::sleep(120 * SECOND).await;
    assert!(new.exists("/one").await.unwrap().is_some(), "the new client keeps the session");
    new.close().await.unwrap();
    assert_eq!(connect(&server).await.exists("/one").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_over_is_replaced() {
    let server = server().await;
    let old = connect(&server).await;
    old.create("/one").mode(CreateMode::Ephemeral).await.unwrap();
    let saved = old.hand_over().unwrap();
    tokio::time::sleep(saved.timeout() * 2).await;
    let new = Client::builder().session(saved.clone()).connect(server.dialer()).await.unwrap();
    assert_ne!(new.session_id(), saved.id());
    assert_eq!(new.exists("/one").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_password_gives_a_new_session() {
    let server = server().await;
    let old = connect(&server).await;
    let own = old.create("/one").mode(CreateMode::Ephemeral).await.unwrap().stat.ephemeral_owner;
    let password = zoolet::protocol::Password::from_bytes(vec![7; 16]);
    let zxid = zoolet::protocol::Zxid::ZERO;
    let forged = SavedSession::new(own, password, 30 * SECOND, zxid);
    let new = Client::builder().session(forged).connect(server.dialer()).await.unwrap();
    assert_ne!(new.session_id(), own);
    assert!(old.exists("/one").await.unwrap().is_some(), "the session of the other goes on");
}
