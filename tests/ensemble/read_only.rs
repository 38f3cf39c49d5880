//! Servers that serve reads without a leader.

use std::time::Duration;

use zoolet::client::{Client, ConnectionState};
use zoolet::protocol::{ConnectRequest, ErrorCode, Zxid};
use zoolet::testing::{ServerRole, TestEnsemble};

use super::TransportKind;
use super::raw::{Raw, resume};

/// Two seconds, as in ZooKeeper, and what goes before.
const A_WHILE: Duration = Duration::from_secs(10);

async fn without_leader() -> TestEnsemble {
    let builder = TestEnsemble::builder().read_only_mode().elect_by_hand();
    let ensemble = builder.start().await.unwrap();
    let client = ensemble.connect_to(0).await.unwrap();
    client.create("/a").data("one").await.unwrap();
    client.close().await.unwrap();
    ensemble.lose_leader().unwrap();
    assert_eq!(ensemble.server(1).role(), ServerRole::Looking);
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(ensemble.server(1).role(), ServerRole::ReadOnly);
    ensemble
}

#[tokio::test(start_paused = true)]
async fn a_client_that_allows_it_reads_without_a_leader() {
    let ensemble = without_leader().await;
    let builder = Client::builder().allow_read_only();
    let client = builder.connect(ensemble.dialer()).await.unwrap();
    assert_eq!(*client.state().borrow(), Some(ConnectionState::ReadOnly));
    assert_eq!(&client.get("/a").await.unwrap().0[..], b"one");
    let error = client.set("/a", "two").await.unwrap_err();
    assert!(error.is(ErrorCode::NOT_READ_ONLY), "{error}");
    let error = client.sync("/a").await.unwrap_err();
    assert!(error.is(ErrorCode::NOT_READ_ONLY), "{error}");
    ensemble.elect(2).unwrap();
    let mut state = client.state();
    state.wait_for(|state| *state == Some(ConnectionState::Reconnected)).await.unwrap();
    client.set("/a", "two").await.unwrap();
    ensemble.check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn other_clients_and_sessions_of_the_ensemble_are_refused() {
    let ensemble = TestEnsemble::builder().read_only_mode().elect_by_hand().start().await.unwrap();
    let (_raw, session) = Raw::begin(TransportKind::InProcess, &ensemble, 1).await;
    ensemble.lose_leader().unwrap();
    assert!(ensemble.connect_to(1).await.is_err(), "it serves nobody at first");
    tokio::time::sleep(A_WHILE).await;
    let connect =
        async |request| Raw::connect(TransportKind::InProcess, &ensemble, 1, request).await.1;
    assert_eq!(connect(ConnectRequest::new(10_000)).await, None);
    let allows = |request| ConnectRequest { read_only: Some(true), ..request };
    assert_eq!(connect(allows(resume(session, Zxid(0)))).await, None, "as since 3.7");
    let accepted = connect(allows(ConnectRequest::new(10_000))).await.unwrap();
    assert_eq!(accepted.read_only, Some(true));
    let again = connect(allows(resume(accepted.session, Zxid(0)))).await.unwrap();
    assert_eq!(again.session, accepted.session, "the server knows its own sessions");
    ensemble.elect(1).unwrap();
    let refused = connect(allows(resume(accepted.session, Zxid(0)))).await.unwrap();
    assert!(refused.session.is_none(), "and forgets them when it has a leader");
    let resumed = connect(resume(session, Zxid(0))).await.unwrap();
    assert_eq!((resumed.session, resumed.read_only), (session, Some(false)));
}
