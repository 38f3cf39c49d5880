//! Tests of what a client connects to, of transactions, and of requests that belong to one session.

use zoolet::client::recipe::{WaiterId, WatchFor};
use zoolet::client::{Client, ConnectionState, Error, Hosts};
use zoolet::protocol::{
    Acl, Create, CreateMode, ErrorCode, EventType, Expect, MultiOp, MultiResult, OpCode,
    Permissions,
};
use zoolet::testing::TestServer;
use zoolet_test_support::stage::{connect, server};

#[tokio::test]
async fn a_client_connects_to_a_string_to_hosts_and_to_a_dialer() {
    let (server, address) = zoolet_test_support::listening_server(Default::default()).await;
    let text = format!("{address}/app");
    let hosts: Hosts = text.parse().unwrap();
    let plain = Client::connect(server.dialer()).await.unwrap();
    plain.create("/app").await.unwrap();
    let clients = [
        Client::connect(text.as_str()).await.unwrap(),
        Client::connect(&text).await.unwrap(),
        Client::connect(text).await.unwrap(),
        Client::connect(hosts).await.unwrap(),
    ];
    for (n, client) in clients.iter().enumerate() {
        client.create(&format!("/{n}")).await.unwrap();
        assert!(plain.exists(&format!("/app/{n}")).await.unwrap().is_some(), "{n}");
    }
}

#[tokio::test]
async fn a_refused_transaction_names_the_operation_and_changes_nothing() {
    let server = server().await;
    let client = connect(&server).await.namespace("/app").unwrap();
    client.create("/").await.unwrap();
    let results = client
        .transaction()
        .create("/one", "1", CreateMode::Persistent)
        .and(Create::new("/two-", CreateMode::PersistentSequential).acl(vec![Acl::read_only()]))
        .set("/one", "2", 0)
        .check("/one", 1)
        .delete("/one", Expect::Any)
        .commit()
        .await
        .unwrap();
    let (path, stat) = match &results[1] {
        MultiResult::Create2(path, stat) => (path.to_string(), stat),
        other => panic!("{other:?}"),
    };
    assert_eq!((path.as_str(), stat.version), ("/two-0000000001", 0));
    assert_eq!(results.len(), 5);
    let (acl, _) = client.acl(&path).await.unwrap();
    assert_eq!(acl, [Acl::read_only()]);

    let refused = client
        .transaction()
        .create("/three", "", CreateMode::Persistent)
        .delete("/one", Expect::Any)
        .commit()
        .await
        .unwrap_err();
    let (op, path, code) = (OpCode::DELETE, "/one".to_owned(), ErrorCode::NO_NODE);
    assert_eq!(refused, Error::Refused { op, path, code, index: Some(1) });
    assert_eq!((refused.operation_index(), refused.has_no_effect()), (Some(1), true));
    assert_eq!(client.exists("/three").await.unwrap(), None);
}

#[tokio::test]
async fn the_builders_credentials_are_sent_before_the_first_request() {
    let server = server().await;
    let builder = Client::builder().auth("digest", "ann:secret");
    let owner = builder.clone().connect(server.dialer()).await.unwrap();
    let acl = vec![Acl::creator_all(), Acl::ip("10.0.0.0/8").with_permissions(Permissions::READ)];
    owner.create("/a").acl(acl).await.unwrap();
    let (acl, _) = owner.acl("/a").await.unwrap();
    assert_eq!(acl[0], Acl::digest("ann", "secret"));
    assert_eq!(builder.connect(server.dialer()).await.unwrap().get("/a").await.unwrap().0, "");
    let stranger = connect(&server).await;
    assert!(stranger.get("/a").await.unwrap_err().is(ErrorCode::NO_AUTH));

    let unknown = Client::builder().auth("kerberos", "x").connect(server.dialer()).await;
    assert_eq!(unknown.map(drop), Err(Error::AuthFailed));
}

#[tokio::test]
async fn close_without_a_connection_returns_not_sent() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let _refusing = server.everyone().refuse().unwrap();
    server.everyone().cut().unwrap();
    let is_suspended = |state: &Option<_>| *state == Some(ConnectionState::Suspended);
    client.state().wait_for(is_suspended).await.unwrap();
    let error = client.close().await.unwrap_err();
    assert!(matches!(error, Error::NotSent { .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "closeSession: not sent, because there was no connection in time"
    );
}

/// A server ends the connection at the `closeSession`. Were a request to follow, the reply to the close
/// would be lost now and then: so there are several rounds.
#[tokio::test]
async fn requests_that_follow_a_close_are_not_sent_and_those_before_are_answered() {
    let (_server, address) = zoolet_test_support::listening_server(Default::default()).await;
    for round in 0..50 {
        let client = Client::connect(address.to_string()).await.unwrap();
        let (other, last) = (client.clone(), client.clone());
        let before = other.get("/").send();
        let follow = async {
            let requests: Vec<_> = (0..20).map(|_| other.get("/").send()).collect();
            for request in requests {
                assert_eq!(request.await.map(drop), Err(Error::Closed));
            }
            last.close().await
        };
        let (closed, closed_again) = tokio::join!(client.close(), follow);
        assert_eq!((closed, closed_again), (Ok(()), Ok(())), "in round {round}");
        before.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn requests_of_an_expired_session_are_not_sent_in_the_next_one() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let session = client.connected_session().await.unwrap();
    assert!(session.is_current() && session.is_proven());
    session.create("/one").mode(CreateMode::Ephemeral).await.unwrap();
    let claim = session.claim("/one");
    server.session(session.id()).expire().unwrap();
    session.until_unproven().await;
    let next = loop {
        let next = client.connected_session().await.unwrap();
        if next.id() != session.id() {
            break next;
        }
        tokio::task::yield_now().await;
    };
    assert!(!session.is_current() && !session.is_proven() && next.is_proven());
    assert!(client.in_session(session.id()).claim("/one").is_gone());
    drop(claim);
    let create = session.create("/two").mode(CreateMode::Ephemeral);
    assert_eq!(create.await.map(drop), Err(Error::SessionExpired));
    assert_eq!(session.get("/").until_answered().await.map(drop), Err(Error::SessionExpired));
    let ops = vec![MultiOp::create("/two", "", CreateMode::Ephemeral)];
    assert_eq!(session.multi(ops).await.map(drop), Err(Error::SessionExpired));
    assert_eq!(session.find_protected("/x").await, Ok(None), "it ended with the session");
    assert_eq!(client.exists("/two").await.unwrap(), None);
}

#[tokio::test]
async fn a_protected_znode_is_found_by_its_name_and_deleted_in_the_background() {
    let server = server().await;
    let client = connect(&server).await;
    let session = client.connected_session().await.unwrap();
    let path = client.protected_path("/member-");
    let create = session.create(&path).mode(CreateMode::EphemeralSequential);
    let created = create.clone().send().await.unwrap();
    assert_eq!(session.find_protected(&path).await.unwrap(), Some(created.clone()));
    let ([watch], sent) =
        session.watch_znodes([(created.path.as_str(), WatchFor::Deletion)], created.stat.czxid);
    sent.await.unwrap();
    assert!(watch.take_event().is_none());
    session.delete_in_background(&created.path, None).await.unwrap();
    let event = std::future::poll_fn(|context| watch.poll_event(WaiterId::ONLY, context)).await;
    assert_eq!(event.unwrap().1, EventType::NODE_DELETED);
    assert_eq!(session.find_protected(&path).await.unwrap(), None);
}
