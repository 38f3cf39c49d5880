//! Sessions that expire, connections that are cut or turned away.

use std::time::Duration;

use zoolet::client::{Client, ConnectionState, Error};
use zoolet::protocol::{CreateMode, ErrorCode, EventType};
use zoolet::testing::RequestFilter;

use super::{WAYS, wait_for};

#[tokio::test]
async fn a_session_that_is_expired_is_gone_with_its_ephemerals_when_that_returns() {
    for way in WAYS {
        let server = way.server().await;
        let (owner, other) = (way.connect(&server).await, way.connect(&server).await);
        owner.create("/mine").mode(CreateMode::Ephemeral).await.unwrap();
        let watch = other.exists("/mine").and_watch().await.unwrap();
        let session = owner.session_id();
        assert_eq!(server.session(session).expire(), Ok(1));
        assert_eq!(other.exists("/mine").await.unwrap(), None);
        assert_eq!(watch.watcher.await.unwrap().event_type, EventType::NODE_DELETED);
        wait_for(&owner, ConnectionState::Reconnected).await;
        assert_ne!(owner.session_id(), session);
        assert!(server.session(session).expire().is_err(), "it does not come back");
    }
}

#[tokio::test]
async fn one_session_or_the_one_of_a_connection_or_all() {
    for way in WAYS {
        let server = way.server().await;
        let clients = [way.connect(&server).await, way.connect(&server).await];
        let connections = server.connections().unwrap();
        assert_eq!(
            connections.iter().map(|one| one.session).collect::<Vec<_>>(),
            [clients[0].session_id(), clients[1].session_id()]
        );
        server.connection(connections[1].id).expire().unwrap();
        assert!(clients[0].exists("/").await.is_ok());
        assert_eq!(clients[0].session_id(), connections[0].session);
        wait_for(&clients[1], ConnectionState::Reconnected).await;
        assert_eq!(server.everyone().expire(), Ok(2));
    }
}

#[tokio::test]
async fn a_connection_that_is_cut_leaves_the_session_alive() {
    for way in WAYS {
        let server = way.server().await;
        let client = way.connect(&server).await;
        let (session, mut state) = (client.session_id(), client.state());
        client.create("/mine").mode(CreateMode::Ephemeral).await.unwrap();
        assert_eq!(server.session(session).cut(), Ok(1));
        state.wait_for(|state| *state == Some(ConnectionState::Reconnected)).await.unwrap();
        assert_eq!(client.session_id(), session);
        assert!(client.exists("/mine").await.unwrap().is_some());
    }
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_with_the_connection_was_carried_out() {
    for way in WAYS {
        let server = way.server().await;
        let client = way.connect_once(&server).await;
        let fault = server.everyone().cut_before_reply(RequestFilter::next(1).creates()).unwrap();
        let before = client.exists("/").send();
        let error = client.create("/done").await.unwrap_err();
        assert!(matches!(error, Error::ConnectionLoss { .. }), "{error}");
        assert!(before.await.is_ok(), "earlier answers leave");
        assert_eq!(fault.hits(), 1);
        assert!(client.exists("/done").await.unwrap().is_some());
        client.create("/next").await.unwrap();
    }
}

#[tokio::test]
async fn a_protected_create_finds_what_it_has_created() {
    for way in WAYS {
        let server = way.server().await;
        let client = way.connect(&server).await;
        client.create("/locks").await.unwrap();
        let fault = server.everyone().cut_before_reply(RequestFilter::next(1).creates()).unwrap();
        let created =
            client.create("/locks/lock-").mode(CreateMode::EphemeralSequential).protected().await;
        let created = created.unwrap();
        fault.has_hit(1).await;
        let children = client.children("/locks").await.unwrap().to_vec();
        assert_eq!(children.len(), 1, "{children:?}");
        assert!(created.path.ends_with(&children[0]));
    }
}

#[tokio::test]
async fn new_connections_are_turned_away_and_those_that_there_are_stay() {
    for way in WAYS {
        let server = way.server().await;
        let client = way.connect(&server).await;
        let fault = server.everyone().refuse().unwrap();
        client.create("/a").await.unwrap();
        let refused = Client::builder().connection_timeout(Duration::from_millis(500));
        let error = refused.connect(server.dialer()).await.unwrap_err();
        assert!(matches!(error, Error::Unreachable(_)), "{error}");
        assert!(fault.hits() > 0);
        server.everyone().cut().unwrap();
        wait_for(&client, ConnectionState::Suspended).await;
        fault.lift();
        client.create("/b").await.unwrap();
    }
}

#[tokio::test]
async fn a_session_that_is_turned_away_cannot_be_taken_up_and_others_can() {
    for way in WAYS {
        let server = way.server().await;
        let (one, other) = (way.connect(&server).await, way.connect(&server).await);
        let fault = server.session(one.session_id()).refuse().unwrap();
        server.everyone().cut().unwrap();
        assert!(other.exists("/").await.unwrap().is_some());
        fault.has_hit(2).await;
        assert!(!one.state().borrow().unwrap().is_connected());
        server.heal();
        assert!(one.exists("/").await.unwrap().is_some());
    }
}

#[tokio::test]
async fn a_cut_connection_does_nothing_more() {
    for way in WAYS {
        let server = way.server().await;
        let (client, other) = (way.connect_once(&server).await, way.connect(&server).await);
        let fault = server.session(client.session_id()).hold().unwrap();
        let sent = client.create("/held").send();
        fault.has_hit(1).await;
        server.session(client.session_id()).cut().unwrap();
        fault.lift();
        let error = sent.await.unwrap_err();
        assert!(matches!(error, Error::ConnectionLoss { .. }), "{error}");
        assert!(other.exists("/held").await.unwrap().is_some());
    }
}

#[tokio::test]
async fn codes_of_all_kinds_are_told_as_the_server_tells_them() {
    for way in WAYS {
        let server = way.server().await;
        let client = way.connect_once(&server).await;
        for code in [ErrorCode::NO_AUTH, ErrorCode::QUOTA_EXCEEDED, ErrorCode::THROTTLED_OP] {
            server.everyone().fail(RequestFilter::next(1), code).unwrap();
            assert!(client.create("/a").await.unwrap_err().is(code));
        }
        client.create("/a").await.unwrap();
    }
}
