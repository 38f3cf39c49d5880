//! Faults of the test kit that expire sessions, cut connections or refuse them.

use std::time::Duration;

use zoolet::client::{Client, ConnectionState, Error};
use zoolet::protocol::{CreateMode, ErrorCode, EventType};
use zoolet::testing::RequestFilter;

use super::{TRANSPORTS, wait_for};

#[tokio::test]
async fn expire_has_deleted_the_sessions_ephemerals_when_it_returns() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let (owner, other) = (transport.connect(&server).await, transport.connect(&server).await);
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
async fn expire_ends_one_session_the_session_of_a_connection_or_all() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let clients = [transport.connect(&server).await, transport.connect(&server).await];
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
async fn cutting_a_connection_keeps_the_session_alive() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let client = transport.connect(&server).await;
        let (session, mut state) = (client.session_id(), client.state());
        client.create("/mine").mode(CreateMode::Ephemeral).await.unwrap();
        assert_eq!(server.session(session).cut(), Ok(1));
        state.wait_for(|state| *state == Some(ConnectionState::Reconnected)).await.unwrap();
        assert_eq!(client.session_id(), session);
        assert!(client.exists("/mine").await.unwrap().is_some());
    }
}

#[tokio::test]
async fn cut_before_reply_carries_the_write_out() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let client = transport.connect_once(&server).await;
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
async fn a_protected_create_finds_its_znode_after_a_lost_reply() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let client = transport.connect(&server).await;
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
async fn refuse_rejects_new_connections_and_keeps_the_open_ones() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let client = transport.connect(&server).await;
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
async fn refuse_for_one_session_prevents_only_that_session_from_reconnecting() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let (one, other) = (transport.connect(&server).await, transport.connect(&server).await);
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
async fn cutting_a_connection_discards_its_held_replies() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let (client, other) =
            (transport.connect_once(&server).await, transport.connect(&server).await);
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
async fn fail_returns_the_chosen_error_code_to_the_caller() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let client = transport.connect_once(&server).await;
        for code in [ErrorCode::NO_AUTH, ErrorCode::QUOTA_EXCEEDED, ErrorCode::THROTTLED_OP] {
            server.everyone().fail(RequestFilter::next(1), code).unwrap();
            assert!(client.create("/a").await.unwrap_err().is(code));
        }
        client.create("/a").await.unwrap();
    }
}
