//! Every kind of request over a follower.

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use zoolet::client::Client;
use zoolet::protocol::{
    Acl, Create, CreateFlags, CreateKind, CreateMode, Encode, ErrorCode, MultiOp, MultiReadOp,
    OpCode, RawPath, Reconfig, Request, RequestHeader, WatchMode, Write, Xid, Zxid,
};
use zoolet::testing::TestEnsemble;
use zoolet_test_support::{create, exists, ping};

use super::TRANSPORTS;
use super::raw::Raw;

#[tokio::test]
async fn a_follower_carries_out_every_operation() {
    for kind in TRANSPORTS {
        let ensemble = kind.start().await;
        let client = kind.connect(&ensemble, 1).await;
        client.create("/a").data("one").await.unwrap();
        client.create("/a/b-").mode(CreateMode::EphemeralSequential).await.unwrap();
        let stat = client.set("/a", "two").await.unwrap();
        client.set("/a", "three").version(stat.version).await.unwrap();
        assert_eq!(&client.get("/a").await.unwrap().0[..], b"three");
        assert_eq!(client.children("/a").await.unwrap().len(), 1);
        assert_eq!(client.children_and_stat("/a").await.unwrap().1.num_children, 1);
        assert_eq!(client.all_children_number("/a").await.unwrap(), 1);
        assert_eq!(client.ephemerals("/a").await.unwrap().len(), 1);
        assert_eq!(client.acl("/a").await.unwrap().0, [Acl::open()]);
        let reads = [MultiReadOp::GetData("/a".into()), MultiReadOp::GetChildren("/a".into())];
        assert_eq!(client.multi_read(reads.to_vec()).await.unwrap().len(), 2);
        client.sync("/a").await.unwrap();
        let me = client.who_am_i().await.unwrap();
        assert_eq!((me.len(), me[0].scheme.as_deref()), (1, Some("ip")), "{kind:?}");
        let mut watcher = client.watch("/a", WatchMode::PERSISTENT_RECURSIVE).await.unwrap();
        client.create("/a/c").await.unwrap();
        assert_eq!(watcher.next().await.unwrap().path, "/a/c");
        drop(watcher);
        client.delete("/a/c").await.unwrap();
        client.create("/a/container").mode(CreateMode::Container).await.unwrap();
        client
            .create("/a/ttl")
            .mode(CreateMode::PersistentWithTtl(Duration::from_secs(1)))
            .await
            .unwrap();
        let transaction = client.transaction().create("/a/d", "x", CreateMode::Persistent);
        transaction.delete("/a/d", zoolet::protocol::Expect::Any).commit().await.unwrap();
        assert!(client.get("/zookeeper/config").await.is_ok());
        client.close().await.unwrap();
        assert!(ensemble.server(1).watch_graph().paths.is_empty());
        ensemble.check().unwrap();
    }
}

#[tokio::test]
async fn identities_count_at_the_leader() {
    for kind in TRANSPORTS {
        let ensemble = kind.start().await;
        let builder = || Client::builder().auth("digest", "alice:secret");
        let alice = kind.connect_as(&ensemble, Some(1), builder()).await;
        alice.create("/mine").acl(vec![Acl::creator_all()]).await.unwrap();
        let other = kind.connect(&ensemble, 2).await;
        other.sync("/mine").await.unwrap();
        let error = other.get("/mine").await.unwrap_err();
        assert!(error.is(ErrorCode::NO_AUTH), "{kind:?}: {error}");
        let error = other.set("/mine", "x").await.unwrap_err();
        assert!(error.is(ErrorCode::NO_AUTH), "{kind:?}: {error}");
        alice.set("/mine", "y").await.unwrap();
    }
}

#[tokio::test]
async fn what_no_server_carries_out() {
    for kind in TRANSPORTS {
        let ensemble = kind.start().await;
        let (mut raw, _) = Raw::begin(kind, &ensemble, 1).await;
        let reconfig = Request::Write(Write::Reconfig(Reconfig {
            joining: Some("server.4=x:1:2".into()),
            leaving: None,
            new_members: None,
            current_config: -1,
        }));
        let (header, _) = raw.call(&reconfig).await.unwrap();
        assert_eq!(header.err, ErrorCode::RECONFIG_DISABLED, "{kind:?}");
        let (header, _) = raw.call(&create("relative", CreateFlags::PERSISTENT)).await.unwrap();
        assert_eq!(header.err, ErrorCode::BAD_ARGUMENTS);
        // A refused write takes a zxid.
        assert_eq!(header.zxid, ensemble.committed_zxid());
        for op in [OpCode(999), OpCode::CHECK, OpCode::CREATE_SESSION] {
            let (mut raw, _) = Raw::begin(kind, &ensemble, 1).await;
            let mut frame = BytesMut::new();
            RequestHeader { xid: Xid(5), op }.encode(&mut frame);
            if op == OpCode::CHECK {
                frame.put_slice(&[0, 0, 0, 1, b'/', 0, 0, 0, 0]);
            }
            raw.send(frame.freeze()).await;
            let (header, _) = raw.reply(&ping()).await.unwrap();
            assert_eq!((header.err, header.xid), (ErrorCode::UNIMPLEMENTED, Xid(5)), "{kind:?}");
            assert_eq!(header.zxid, Zxid::NONE);
            assert!(raw.receive().await.is_none(), "{kind:?}: {op:?} ends the connection");
        }
    }
}

#[tokio::test]
async fn a_body_that_cannot_be_decoded_is_refused() {
    for kind in TRANSPORTS {
        let ensemble = kind.start().await;
        let (mut raw, _) = Raw::begin(kind, &ensemble, 1).await;
        let before = ensemble.committed_zxid();
        for (op, zxids) in [(OpCode::GET_DATA, 0), (OpCode::CREATE, 0), (OpCode::MULTI, 1)] {
            let mut frame = BytesMut::new();
            RequestHeader { xid: Xid(9), op }.encode(&mut frame);
            frame.put_slice(&[0xff; 7]);
            raw.send(frame.freeze()).await;
            let (header, _) = raw.reply(&ping()).await.unwrap();
            assert_eq!(header.err, ErrorCode::MARSHALLING_ERROR, "{kind:?} {op:?}");
            assert_eq!(ensemble.committed_zxid().0 - before.0, zxids, "{op:?}");
        }
        assert!(raw.call(&exists("/")).await.is_some(), "the connection goes on");
    }
}

#[tokio::test]
async fn a_multi_with_a_null_path_takes_no_zxid() {
    for kind in TRANSPORTS {
        let ensemble = kind.start().await;
        let (mut raw, _) = Raw::begin(kind, &ensemble, 1).await;
        let before = ensemble.committed_zxid();
        let create = MultiOp::Create(Create {
            kind: CreateKind::Create,
            path: RawPath::NULL,
            data: None,
            acl: Some(vec![Acl::open()]),
            flags: CreateFlags::PERSISTENT,
        });
        let (header, _) = raw.call(&Request::Write(Write::Multi(vec![create]))).await.unwrap();
        assert_eq!(header.err, ErrorCode::MARSHALLING_ERROR, "{kind:?}");
        assert_eq!(ensemble.committed_zxid(), before, "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_leader_deletes_containers_and_ttl_znodes() {
    let builder = TestEnsemble::builder();
    let builder =
        builder.configure(|config| config.container_check_interval = Duration::from_secs(1));
    let ensemble = builder.start().await.unwrap();
    let client = ensemble.connect_to(1).await.unwrap();
    let ttl = CreateMode::PersistentWithTtl(Duration::from_secs(5));
    client.create("/ttl").mode(ttl).await.unwrap();
    client.create("/container").mode(CreateMode::Container).await.unwrap();
    client.create("/container/child").await.unwrap();
    client.delete("/container/child").await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let has = |path| ensemble.servers().iter().map(|server| server.data(path).is_some()).collect();
    let all = |has: Vec<bool>| has == [true; 3];
    assert!(!all(has("/container")) && all(has("/ttl")));
    tokio::time::sleep(Duration::from_secs(4)).await;
    let left: Vec<bool> = has("/ttl");
    assert_eq!(left, [false; 3]);
    ensemble.check().unwrap();
}
