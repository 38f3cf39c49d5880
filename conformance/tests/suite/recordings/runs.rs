//! The recorded runs: our client and its locks on a test server.

use std::time::Duration;

use bytes::Bytes;
use zoolet::client::{Client, RetryPolicy};
use zoolet::protocol::{
    Acl, Auth, Check, CreateMode, Delete, Dial, Encode, ErrorCode, Expect, Id, MultiOp,
    MultiReadOp, OpCode, Permissions, RawPath, Read, Request, SessionRequest, SetData, Transport,
    WatchMode, Write, Xid, encode_request,
};
use zoolet::recipes::{
    InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphoreV2, LeaderLatch,
};
use zoolet::testing::{RequestFilter, TestServer};

use super::Recorded;

const SECOND: Duration = Duration::from_secs(1);

pub(super) async fn a_mutex_with_three_waiters() -> Recorded {
    let server = TestServer::start().await?;
    let recorder = server.record();
    let first = server.connect().await?;
    let guard = InterProcessMutex::new(&first, "/locks/stock")?.acquire().await?;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let client = server.connect().await?;
        let session = client.session_id();
        let mutex = InterProcessMutex::new(&client, "/locks/stock")?;
        waiting.push(tokio::spawn(async move {
            let guard = mutex.acquire().await?;
            guard.release().await?;
            client.close().await?;
            Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
        }));
        server.wait_until(|stats| stats.session(session).watches > 0).await;
    }
    guard.release().await?;
    for waiting in waiting {
        waiting.await?.map_err(|error| error.to_string())?;
    }
    Ok(recorder.script())
}

pub(super) async fn a_lock_with_readers_and_writers() -> Recorded {
    let server = TestServer::start().await?;
    let recorder = server.record();
    let (one, other) = (server.connect().await?, server.connect().await?);
    let lock = InterProcessReadWriteLock::new(&one, "/lock")?;
    let reader = lock.read_lock().acquire().await?;
    let writer = InterProcessReadWriteLock::new(&other, "/lock")?.write_lock();
    let session = other.session_id();
    let waiting = tokio::spawn(async move { writer.acquire().await });
    server.wait_until(|stats| stats.session(session).watches > 0).await;
    reader.release().await?;
    waiting.await??.release().await?;
    Ok(recorder.script())
}

pub(super) async fn a_semaphore_and_a_leader() -> Recorded {
    let server = TestServer::start().await?;
    let recorder = server.record();
    let (one, other) = (server.connect().await?, server.connect().await?);
    let permits = InterProcessSemaphoreV2::new(&one, "/permits", 2)?.acquire(1).await?;
    let more = InterProcessSemaphoreV2::new(&other, "/permits", 2)?.acquire(1).await?;
    drop((permits, more));
    tokio::time::sleep(SECOND).await;
    let latch = LeaderLatch::start(&one, "/leader", "one")?;
    latch.await_leadership().await?;
    latch.close().await?;
    Ok(recorder.script())
}

pub(super) async fn every_operation() -> Recorded {
    let server = TestServer::start().await?;
    let recorder = server.record();
    let client = server.connect().await?;
    client.authenticate("digest", "ann:secret").await?;
    client.who_am_i().await?;
    client.create("/a").data("x").await?;
    client.create("/a/ephemeral").mode(CreateMode::Ephemeral).await?;
    client.create("/a/numbered-").mode(CreateMode::PersistentSequential).await?;
    client.create("/a/container").mode(CreateMode::Container).await?;
    client.create("/a/ttl").mode(CreateMode::PersistentWithTtl(60 * SECOND)).await?;
    let own = vec![
        Acl { permissions: Permissions::ALL, id: Id::new("auth", "") },
        Acl { permissions: Permissions::READ, id: Id::new("ip", "127.0.0.1/8") },
    ];
    client.create("/a/own").acl(own.clone()).await?;
    client.set_acl("/a/own", own).version(0).await?;
    client.acl("/a/own").await?;
    client.set("/a", "y").version(0).await?;
    client.exists("/gone").and_watch().await?;
    client.get("/a").and_watch().await?;
    let children = client.children("/a").and_watch().await?;
    client.children_and_stat("/a").await?;
    client.all_children_number("/a").await?;
    client.ephemerals("/a").await?;
    client.sync("/a").await?;
    let persistent = client.watch("/a", WatchMode::PERSISTENT).await?;
    let recursive = client.watch("/", WatchMode::PERSISTENT_RECURSIVE).await?;
    let delete = |path: &str| MultiOp::Delete(Delete { path: path.into(), version: Expect::Any });
    let set = SetData { path: "/a".into(), data: None, version: Expect::Exactly(1) };
    let check = Check { path: "/a".into(), version: Expect::Exactly(1) };
    let ops = vec![MultiOp::Check(check), MultiOp::SetData(set), delete("/a/ttl")];
    client.multi(ops).await?;
    client.multi(vec![delete("/a/container"), delete("/gone")]).await.expect_err("no such znode");
    let reads = vec![MultiReadOp::GetData("/a".into()), MultiReadOp::GetChildren("/gone".into())];
    client.multi_read(reads).await?;
    client.delete("/a/own").version(7).await.expect_err("the version differs");
    client.delete("/a/own").await?;
    drop((children, persistent, recursive));
    client.sync("/").await?;
    client.close().await?;
    Ok(recorder.script())
}

/// A connection that can send what no client sends.
async fn connect_by_hand(server: &TestServer) -> Result<Box<dyn Transport>, std::io::Error> {
    let connection = server.dialer().dial().await?;
    let mut hello = bytes::BytesMut::new();
    zoolet::protocol::ConnectRequest::new(1_000_000).encode(&mut hello);
    connection.send(hello.freeze()).map_err(std::io::Error::other)?;
    Ok(connection)
}

pub(super) async fn odd_values() -> Recorded {
    let server = TestServer::start().await?;
    let recorder = server.record();
    let client = server.connect().await?;
    client.create("/ä 'quoted'").data(&b"null"[..]).await?;
    client.create("/,").data(&b"\\\0\xff\n"[..]).await?;
    client.create("/-e").data(vec![b'x'; 1_000]).await?;
    let connection = connect_by_hand(&server).await?;
    let mut xid = 0;
    let mut send = |request: &Request, more: &[u8]| {
        xid += 1;
        let frame = [&encode_request(Xid(xid), request)[..], more].concat();
        connection.send(Bytes::from(frame)).map_err(|error| error.to_string())
    };
    let sync = |path: RawPath| Request::Read(Read::Sync(path));
    send(&sync("bytes:3".into()), b"")?;
    send(&sync(RawPath::NULL), b"")?;
    send(&sync("/".into()), b"behind it")?;
    send(&Request::Write(Write::Multi(Vec::new())), b"")?;
    let scheme = Some("digest".into());
    let auth = Auth { auth_type: 7, scheme, auth: Some(Bytes::from_static(b"ann:secret")) };
    send(&Request::Session(SessionRequest::Auth(auth)), b"")?;
    send(&Request::Unknown { op: OpCode::EXISTS, body: Bytes::from_static(b"short") }, b"")?;
    send(&Request::Unknown { op: OpCode(99), body: Bytes::new() }, b"")?;
    Ok(recorder.script())
}

pub(super) async fn a_client_that_reconnects_with_its_watches() -> Recorded {
    let server = TestServer::start().await?;
    let recorder = server.record();
    let (one, other) = (server.connect().await?, server.connect().await?);
    one.create("/a").await?;
    let data = one.get("/a").and_watch().await?;
    let children = one.children("/a").and_watch().await?;
    let session = one.session_id();
    server.session(session).cut()?;
    other.set("/a", "x").await?;
    server.wait_until(|stats| stats.session(session).connections == 2).await;
    one.sync("/").await?;
    other.create("/a/b").await?;
    drop((data, children));
    one.close().await?;
    Ok(recorder.script())
}

/// A client that does not come back for a while.
async fn patient(server: &TestServer) -> Result<Client, zoolet::client::Error> {
    let builder = Client::builder().session_timeout(4 * SECOND);
    builder.retry_policy(RetryPolicy::never()).connect(server.dialer()).await
}

pub(super) async fn a_session_that_expires_and_its_watchers() -> Recorded {
    let server = TestServer::start().await?;
    let recorder = server.record();
    let (one, other) = (connect_by_hand(&server).await?, server.connect().await?);
    let create = zoolet::protocol::Create {
        kind: zoolet::protocol::CreateKind::Create,
        path: "/e".into(),
        data: Some(Bytes::new()),
        acl: Some(vec![Acl::open()]),
        flags: zoolet::protocol::CreateFlags::EPHEMERAL,
    };
    let create = Request::Write(Write::Op(MultiOp::Create(create)));
    one.send(encode_request(Xid(1), &create))?;
    let watched = other.exists("/e").and_watch().await?;
    drop(one);
    watched.watcher.await?;
    let error = other.get("/e").await.expect_err("the server has deleted it with its session");
    assert!(error.is(ErrorCode::NO_NODE));
    Ok(recorder.script())
}

pub(super) async fn a_session_that_expires_while_it_is_connected() -> Recorded {
    let server = TestServer::start().await?;
    let recorder = server.record();
    let (one, other) = (patient(&server).await?, server.connect().await?);
    one.create("/e").mode(CreateMode::Ephemeral).await?;
    one.exists("/e").and_watch().await?;
    server.session(one.session_id()).expire()?;
    other.exists("/e").await?;
    Ok(recorder.script())
}

pub(super) async fn sequential_znodes_below_the_root() -> Recorded {
    let server = TestServer::start().await?;
    let recorder = server.record();
    let client = server.connect().await?;
    client.create("/numbered-").mode(CreateMode::PersistentSequential).await?;
    client.exists("/").await?;
    client.close().await?;
    Ok(recorder.script())
}

pub(super) async fn a_container_that_is_swept() -> Recorded {
    let server = TestServer::start().await?;
    let recorder = server.record();
    let (one, other) = (server.connect().await?, server.connect().await?);
    one.create("/c").mode(CreateMode::Container).await?;
    one.create("/c/d").await?;
    let watched = other.exists("/c").and_watch().await?;
    one.delete("/c/d").await?;
    watched.watcher.await?;
    other.sync("/").await?;
    Ok(recorder.script())
}

pub(super) async fn a_mutex_of_several_threads() -> Recorded {
    let run = || -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(4).enable_all().build()?.block_on(contend())
    };
    let recorded = std::thread::spawn(run).join().expect("nobody panics");
    recorded.map_err(|error| error.to_string().into())
}

async fn contend() -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let server = TestServer::builder().tcp().start().await?;
    let recorder = server.record();
    let mut tasks = Vec::new();
    for index in 0..6 {
        let server = server.clone();
        tasks.push(tokio::spawn(async move {
            let client = match (index % 2, server.connect_string()) {
                (0, Some(address)) => Client::connect(address.as_str()).await?,
                _ => server.connect().await?,
            };
            let mutex = InterProcessMutex::new(&client, "/locks/stock")?;
            for _ in 0..5 {
                let guard = mutex.acquire().await?;
                client.all_children_number("/locks").await?;
                guard.release().await?;
            }
            client.close().await?;
            Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(recorder.script())
}

pub(super) async fn a_cut_connection_that_receives_nothing() -> Recorded {
    let server = TestServer::start().await?;
    let recorder = server.record();
    // Nothing looks whether this connection is there.
    let (one, other) = (connect_by_hand(&server).await?, server.connect().await?);
    let watch = zoolet::protocol::Lookup::Exists("/a".into());
    let watch = Request::Watch(zoolet::protocol::Watch::Lookup(watch));
    one.send(encode_request(Xid(1), &watch))?;
    server.everyone().cut()?;
    other.create("/a").await?;
    other.close().await?;
    Ok(recorder.script())
}

pub(super) async fn from_the_middle() -> Recorded {
    let server = TestServer::start().await?;
    let before = server.connect().await?;
    let recorder = server.record();
    let client = connect_by_hand(&server).await?;
    let watch = zoolet::protocol::Lookup::Exists("/a".into());
    let watch = Request::Watch(zoolet::protocol::Watch::Lookup(watch));
    client.send(encode_request(Xid(1), &watch))?;
    client.send(encode_request(Xid::PING, &Request::Session(SessionRequest::Ping)))?;
    before.create("/a").await?;
    drop(before);
    server.restart().await?;
    Ok(recorder.script())
}

pub(super) async fn with_faults() -> Recorded {
    let server = TestServer::start().await?;
    let recorder = server.record();
    let client = server.connect().await?;
    let session = server.session(client.session_id());
    let other = server.connect().await?;
    let refused = session.fail(RequestFilter::next(1), ErrorCode::NO_AUTH)?;
    client.create("/refused").await.expect_err("a fault refuses it");
    refused.lift();
    let _lost = session.drop_requests(RequestFilter::next(1))?;
    let lost = client.exists("/lost").send();
    let _cut = server.session(other.session_id()).cut_before_reply(RequestFilter::next(1))?;
    other.set("/", "x").await.expect_err("the reply was lost");
    drop(lost);
    Ok(recorder.script())
}
