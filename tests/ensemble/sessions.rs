//! Sessions that move from one server to another.

use std::time::Duration;

use zoolet::protocol::{
    ConnectRequest, CreateFlags, ErrorCode, Password, Read, Request, SessionId, Zxid,
};
use zoolet_test_support::{create, exists, ping};

use super::raw::{Raw, resume};
use super::{TRANSPORTS, TransportKind};

#[tokio::test]
async fn a_write_over_the_old_connection_of_a_session_that_moved_closes_it() {
    for kind in TRANSPORTS {
        let ensemble = kind.start().await;
        let (mut old, session) = Raw::begin(kind, &ensemble, 1).await;
        let seen = ensemble.committed_zxid();
        let (mut new, response) = Raw::connect(kind, &ensemble, 2, resume(session, seen)).await;
        assert_eq!(response.unwrap().session, session, "{kind:?}");
        let its = ensemble.server_of(session).map(|server| server.index());
        assert_eq!(its, Some(2), "a fault of the session meets its last connection");
        // The old server has not learned that the session has moved.
        let (header, _) = old.call(&exists("/")).await.unwrap();
        assert_eq!(header.err, ErrorCode::OK);
        assert!(old.call(&ping()).await.is_some());
        let committed = ensemble.committed_zxid();
        assert!(old.call(&create("/old", CreateFlags::PERSISTENT)).await.is_none(), "{kind:?}");
        assert_eq!(ensemble.committed_zxid().0, committed.0 + 1, "the refusal takes a zxid");
        assert_eq!(ensemble.server(0).data("/old"), None);
        let (header, _) = new.call(&create("/new", CreateFlags::EPHEMERAL)).await.unwrap();
        assert_eq!(header.err, ErrorCode::OK, "{kind:?}");
        ensemble.check().unwrap();
    }
}

#[tokio::test]
async fn a_read_at_the_leader_over_the_old_connection_closes_it_too() {
    for kind in TRANSPORTS {
        let ensemble = kind.start().await;
        let (mut old, session) = Raw::begin(kind, &ensemble, 0).await;
        let (_new, response) = Raw::connect(kind, &ensemble, 1, resume(session, Zxid(0))).await;
        assert_eq!(response.unwrap().session, session);
        assert!(old.call(&exists("/")).await.is_none(), "{kind:?}: the leader checks each request");
    }
}

#[tokio::test]
async fn a_session_that_comes_back_to_its_server_ends_the_old_connection_at_once() {
    for kind in TRANSPORTS {
        let ensemble = kind.start().await;
        let (mut old, session) = Raw::begin(kind, &ensemble, 1).await;
        let (mut new, _) = Raw::connect(kind, &ensemble, 1, resume(session, Zxid(0))).await;
        assert!(old.receive().await.is_none(), "{kind:?}");
        assert!(new.call(&exists("/")).await.is_some());
    }
}

#[tokio::test]
async fn a_sync_that_was_lost_with_its_connection_holds_nothing_up_when_the_leader_is_heard() {
    for kind in TRANSPORTS {
        let ensemble = kind.start().await;
        let (mut old, session) = Raw::begin(kind, &ensemble, 1).await;
        ensemble.server(1).hold_link();
        old.request(&Request::Read(Read::Sync("/".into()))).await;
        drop(old);
        ensemble.server(1).rejoin();
        let (mut new, response) = Raw::connect(kind, &ensemble, 1, resume(session, Zxid(0))).await;
        assert_eq!(response.unwrap().session, session, "{kind:?}");
        let read = tokio::time::timeout(Duration::from_secs(20), new.call(&exists("/"))).await;
        assert_eq!(read.unwrap().unwrap().0.err, ErrorCode::OK, "{kind:?}");
    }
}

#[tokio::test]
async fn what_a_server_does_not_accept_as_a_session() {
    for kind in TRANSPORTS {
        let ensemble = kind.start().await;
        let (_held, session) = Raw::begin(kind, &ensemble, 1).await;
        let refused = |response: Option<zoolet::protocol::ConnectResponse>| {
            response.is_some_and(|response| response.session == SessionId::NONE)
        };
        let wrong = ConnectRequest { password: Password::NULL, ..resume(session, Zxid(0)) };
        let (_raw, response) = Raw::connect(kind, &ensemble, 2, wrong).await;
        assert!(refused(response), "{kind:?}: a wrong password");
        let unknown = resume(SessionId(7), Zxid(0));
        let (_raw, response) = Raw::connect(kind, &ensemble, 2, unknown).await;
        assert!(refused(response), "{kind:?}: an unknown session");
        let ahead = resume(session, Zxid(ensemble.committed_zxid().0 + 1));
        let (_raw, response) = Raw::connect(kind, &ensemble, 2, ahead).await;
        assert_eq!(response, None, "{kind:?}: a client that has seen more is not answered");
        assert!(session_lives(kind, &ensemble, session).await);
    }
}

async fn session_lives(
    kind: TransportKind,
    ensemble: &zoolet::testing::TestEnsemble,
    session: SessionId,
) -> bool {
    let (_raw, response) = Raw::connect(kind, ensemble, 2, resume(session, Zxid(0))).await;
    response.is_some_and(|response| response.session == session)
}

#[tokio::test]
async fn a_session_outlives_its_server_and_its_leader() {
    for kind in TRANSPORTS {
        let ensemble = kind.start().await;
        let client = kind.connect_to_all(&ensemble).await;
        let session = client.session_id();
        let member = client.create("/member").mode(zoolet::protocol::CreateMode::Ephemeral);
        member.await.unwrap();
        let server = ensemble.server_of(session).unwrap();
        server.stop();
        assert!(client.exists("/member").await.unwrap().is_some(), "{kind:?}");
        client.set("/member", "moved").await.unwrap();
        server.start();
        ensemble.lose_leader().unwrap();
        // A read is repeated when it is lost with a connection, a write is not.
        assert!(client.exists("/member").await.unwrap().is_some(), "{kind:?}");
        client.set("/member", "again").await.unwrap();
        assert_eq!(client.session_id(), session, "{kind:?}");
        assert!(ensemble.epoch() >= 2);
        ensemble.check().unwrap();
    }
}
