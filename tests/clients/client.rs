//! Tests of the client on a server in process and over TCP: operations, watches, reconnection.

#![allow(clippy::disallowed_methods, reason = "a test measures what it waited for")]

use std::time::Duration;

use zoolet::client::{Client, ConnectError, ConnectionState, Error, Parents, RetryPolicy};
use zoolet::protocol::{
    CreateMode, Dial, Dialing, ErrorCode, EventType, MultiOp, MultiResult, SetData, WatchMode,
};
use zoolet::server::{Config, Server};
use zoolet_test_support::stage::{connect, server};
use zoolet_test_support::writes::CountedWrites;

#[tokio::test]
async fn reads_return_what_was_written_in_process_and_over_tcp() {
    let (server, address) = zoolet_test_support::listening_server(Config::default()).await;
    let local = connect(&server).await;
    let remote = Client::connect(address.to_string().as_str()).await.unwrap();
    for (client, path) in [(&local, "/local"), (&remote, "/remote")] {
        let created = client.create(path).data("one").await.unwrap();
        assert_eq!(created.path, path);
        let (data, stat) = client.get(path).await.unwrap();
        assert_eq!((&data[..], stat), (&b"one"[..], created.stat));
        let stat = client.set(path, "two").version(0).await.unwrap();
        assert_eq!(stat.version, 1);
        let error = client.set(path, "three").version(0).await.unwrap_err();
        assert!(error.is(ErrorCode::BAD_VERSION), "{error}");
        assert_eq!(client.exists("/nothing").await.unwrap(), None);
        client.delete(path).version(1).await.unwrap();
        assert!(client.get(path).await.unwrap_err().is(ErrorCode::NO_NODE));
        assert_eq!(client.children("/").await.unwrap().to_vec(), ["zookeeper"]);
    }
}

#[tokio::test]
async fn pings_keep_a_session_alive_whose_timeout_was_shortened() {
    let config = Config { tick_time_ms: 50, ..Config::default() };
    let (_server, address) = zoolet_test_support::listening_server(config).await;
    let client = Client::connect(address.to_string().as_str()).await.unwrap();
    assert_eq!(client.session_timeout(), Duration::from_secs(1));
    let session = client.session_id();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(client.session_id(), session);
    assert!(client.exists("/").await.unwrap().is_some());
    assert_eq!(*client.state().borrow(), Some(ConnectionState::Connected));
}

#[tokio::test]
async fn every_create_mode_creates_its_kind_of_znode() {
    let server = server().await;
    let client = connect(&server).await;
    let sequential = client
        .create("/queue/item-")
        .mode(CreateMode::PersistentSequential)
        .parents(Parents::Containers);
    assert_eq!(sequential.clone().await.unwrap().path, "/queue/item-0000000000");
    assert_eq!(sequential.await.unwrap().path, "/queue/item-0000000001");
    let ephemeral = client.create("/mine").mode(CreateMode::Ephemeral).await.unwrap();
    assert_eq!(ephemeral.stat.ephemeral_owner, client.session_id());
    client.create("/a/b/c").mode(CreateMode::Container).parents(Parents::Persistent).await.unwrap();
    client
        .create("/ttl")
        .mode(CreateMode::PersistentWithTtl(Duration::from_secs(60)))
        .await
        .unwrap();
    let protected =
        client.create("/a/lock-").mode(CreateMode::EphemeralSequential).protected().await.unwrap();
    assert!(protected.path.starts_with("/a/_c_"), "{}", protected.path);
    assert!(protected.path.ends_with("-lock-0000000001"), "{}", protected.path);
    client.create("/a").data("x").or_set().await.unwrap();
    assert_eq!(&client.get("/a").await.unwrap().0[..], b"x");
    assert_eq!(client.ephemerals("/").await.unwrap().len(), 2);
    let error = client.create("/no/parent").await.unwrap_err();
    assert_eq!(error.to_string(), "create2 /no/parent: NoNode: the parent /no does not exist");
    assert!(matches!(client.create("bad").await, Err(Error::Path(_))));
    let minute = Duration::from_secs(60);
    let with_both = CreateMode::PersistentSequentialWithTtl(minute);
    let created = client.create("/ttl-").mode(with_both).await.unwrap();
    assert!(created.path.starts_with("/ttl-00"), "{}", created.path);
}

#[tokio::test]
async fn a_namespace_is_put_before_request_paths_and_taken_off_reply_paths() {
    let server = server().await;
    let client = connect(&server).await;
    let inner = client.namespace("/app").unwrap();
    let created = inner.create("/x").parents(Parents::Persistent).await.unwrap();
    assert_eq!(created.path, "/x");
    assert_eq!(client.children("/app").await.unwrap().to_vec(), ["x"]);
    assert_eq!(inner.children("/").await.unwrap().to_vec(), ["x"]);
    let watch = inner.exists("/x").and_watch().await.unwrap();
    client.delete("/app/x").await.unwrap();
    assert_eq!(watch.watcher.await.unwrap().path, "/x");
}

#[tokio::test]
async fn replies_in_a_namespace_contain_only_paths_below_it() {
    let server = server().await;
    let client = connect(&server).await;
    let ephemeral = |client: &Client, path: &str| {
        client.create(path).mode(CreateMode::Ephemeral).parents(Parents::Persistent)
    };
    let inner = client.namespace("/app").unwrap();
    ephemeral(&inner, "/app/x").await.unwrap();
    ephemeral(&client, "/apple").await.unwrap();
    ephemeral(&client, "/elsewhere").await.unwrap();
    assert_eq!(inner.ephemerals("/").await.unwrap().to_vec(), ["/app/x"]);
    assert_eq!(inner.ephemerals("/app").await.unwrap().to_vec(), ["/app/x"]);
    assert_eq!(client.ephemerals("/app").await.unwrap().to_vec(), ["/app/app/x", "/apple"]);

    // A reply path that begins with the name of the namespace keeps it.
    let sent = inner.create("/app/y").send().await.unwrap();
    assert_eq!(sent.path, "/app/y");
    assert_eq!(inner.create("/app/y").or_set().await.unwrap().path, "/app/y");
    let create = zoolet::protocol::Create {
        kind: CreateMode::Persistent.kind(),
        path: "/app/z".into(),
        data: None,
        acl: Some(vec![zoolet::protocol::Acl::open()]),
        flags: CreateMode::Persistent.flags(),
    };
    let results = inner.multi(vec![MultiOp::Create(create)]).await.unwrap();
    assert_eq!(results, [MultiResult::Create("/app/z".into())]);
}

#[tokio::test]
async fn the_namespace_of_the_root_changes_nothing() {
    let server = server().await;
    let client = connect(&server).await;
    let inner = client.namespace("/app").unwrap().namespace("/").unwrap();
    let created = inner.create("/x").parents(Parents::Persistent).await.unwrap();
    assert_eq!(created.path, "/x");
    let outer = client.namespace("/").unwrap();
    assert_eq!(outer.children("/app").await.unwrap().to_vec(), ["x"]);
    assert_eq!(outer.create("/y").mode(CreateMode::Ephemeral).await.unwrap().path, "/y");
    assert_eq!(outer.ephemerals("/").await.unwrap().to_vec(), ["/y"]);
    assert!(outer.exists("/app/x").and_watch().await.unwrap().found.is_some());
}

#[tokio::test]
async fn a_multi_is_all_or_nothing() {
    let server = server().await;
    let client = connect(&server).await;
    client.create("/a").await.unwrap();
    let set = |path: &str, version: i32| {
        MultiOp::SetData(SetData { path: path.into(), data: None, version: version.into() })
    };
    let results = client.multi(vec![set("/a", 0), set("/a", 1)]).await.unwrap();
    assert!(matches!(results[..], [MultiResult::SetData(_), MultiResult::SetData(_)]));
    let error = client.multi(vec![set("/a", 2), set("/a", 7)]).await.unwrap_err();
    assert!(error.is(ErrorCode::BAD_VERSION));
    assert_eq!(client.get("/a").await.unwrap().1.version, 2);
    // The result names the refused operation, not the first one.
    let error = client.multi(vec![set("/a", 2), set("/b", 7)]).await.unwrap_err();
    assert_eq!(error.to_string(), "setData /b: NoNode");
    let inner = client.namespace("/app").unwrap();
    let error = inner.multi(vec![set("/b", 7)]).send().await.unwrap_err();
    assert_eq!(error.to_string(), "setData /b: NoNode");
}

#[tokio::test]
async fn dropped_watchers_leave_no_watch() {
    let server = server().await;
    let (client, other) = (connect(&server).await, connect(&server).await);
    let data = client.exists("/a").and_watch().await.unwrap();
    assert_eq!(data.found, None);
    other.create("/a").await.unwrap();
    assert_eq!(data.watcher.await.unwrap().event_type, EventType::NODE_CREATED);

    let mut all = client.watch("/", WatchMode::PERSISTENT_RECURSIVE).await.unwrap();
    other.set("/a", "x").await.unwrap();
    other.delete("/a").await.unwrap();
    assert_eq!(all.next().await.unwrap().event_type, EventType::NODE_DATA_CHANGED);
    assert_eq!(all.next().await.unwrap().event_type, EventType::NODE_DELETED);

    // A dropped watcher removes its watch from the client and from the server.
    let child = client.children("/").and_watch().await.unwrap();
    assert_eq!(client.watcher_count(), 2);
    drop((all, child));
    assert_eq!(client.watcher_count(), 0);
    client.sync("/").await.unwrap();
    assert_eq!(server.totals().watches, 0);
}

#[tokio::test]
async fn dropping_a_persistent_watcher_keeps_the_one_shot_watches() {
    let server = server().await;
    let (client, other) = (connect(&server).await, connect(&server).await);
    for mode in [WatchMode::PERSISTENT, WatchMode::PERSISTENT_RECURSIVE] {
        client.create("/a").await.unwrap();
        let lasting = client.watch("/a", mode).await.unwrap();
        let data = client.get("/a").and_watch().await.unwrap();
        let child = client.children("/a").and_watch().await.unwrap();
        drop(lasting);
        other.set("/a", "x").await.unwrap();
        let soon = |watcher| tokio::time::timeout(Duration::from_secs(10), watcher);
        let heard = soon(data.watcher).await.expect("the watch fires").unwrap();
        assert_eq!(heard.event_type, EventType::NODE_DATA_CHANGED);
        other.delete("/a").await.unwrap();
        let heard = soon(child.watcher).await.expect("the watch fires").unwrap();
        assert_eq!(heard.event_type, EventType::NODE_DELETED);
        client.sync("/").await.unwrap();
        assert_eq!(server.totals().watches, 0);
    }
}

#[tokio::test]
async fn requests_are_carried_out_in_the_order_of_sending() {
    let server = server().await;
    let client = connect(&server).await;
    client.create("/a").await.unwrap();
    let sent: Vec<_> = (0..100).map(|n| client.set("/a", vec![n]).send()).collect();
    let get = client.get("/a").send();
    assert_eq!(get.await.unwrap().0[..], [99]);
    for (version, sent) in (1..).zip(sent) {
        assert_eq!(sent.await.unwrap().version, version);
    }
}

#[tokio::test(start_paused = true)]
async fn pings_keep_an_idle_session_alive() {
    let server = server().await;
    let client = connect(&server).await;
    client.create("/mine").mode(CreateMode::Ephemeral).await.unwrap();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(client.exists("/mine").await.unwrap().is_some());
    assert_eq!(*client.state().borrow(), Some(ConnectionState::Connected));
}

#[tokio::test(start_paused = true)]
async fn connecting_without_a_server_times_out() {
    let builder = Client::builder().connection_timeout(Duration::from_secs(3));
    let start = tokio::time::Instant::now();
    let error = builder.connect("127.0.0.1:1").await.unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)), "{error}");
    assert!(start.elapsed() < Duration::from_millis(3_050), "{:?}", start.elapsed());
}

#[tokio::test]
async fn the_error_names_why_no_server_could_be_reached() {
    let cause = async |target: &str, timeout: Duration| {
        let builder = Client::builder().connection_timeout(timeout);
        match builder.connect(target).await {
            Err(Error::Unreachable(cause)) => cause,
            other => panic!("{other:?}"),
        }
    };
    let (short, long) = (Duration::from_millis(200), Duration::from_secs(600));
    let refused = cause("127.0.0.1:1", short).await;
    assert!(matches!(refused, ConnectError::Refused(_)), "{refused:?}");
    assert!(refused.to_string().starts_with("127.0.0.1:1: "), "{refused}");

    // One server accepts connections and sends nothing, and one closes them.
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let silent = cause(&address, short).await;
    assert!(matches!(silent, ConnectError::TimedOut(_)), "{silent:?}");
    let closing = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            drop(stream);
        }
    });
    let closed = cause(&address, short).await;
    assert!(matches!(closed, ConnectError::Closed(_)), "{closed:?}");
    closing.abort();

    // The client returns at once when no server of the list has a known host.
    let start = tokio::time::Instant::now();
    let builder = Client::builder().connection_timeout(long);
    let unknown = builder.connect(NoSuchHost).await.unwrap_err();
    assert!(matches!(&unknown, Error::Unreachable(ConnectError::NoSuchHost(_))), "{unknown}");
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

/// A dialer of three servers with unknown hosts.
struct NoSuchHost;

impl Dial for NoSuchHost {
    fn dial(&self) -> Dialing {
        Box::pin(std::future::ready(Err(std::io::ErrorKind::NotFound.into())))
    }

    fn servers(&self) -> usize {
        3
    }
}

#[tokio::test(start_paused = true)]
async fn clients_in_process_fail_at_once_when_their_server_is_dropped() {
    let server = server().await;
    let (client, dialer) = (connect(&server).await, server.dialer());
    let watcher = client.exists("/a").and_watch().await.unwrap().watcher;
    let mutex = zoolet::recipes::InterProcessMutex::new(&client, "/lock").unwrap();
    let guard = mutex.acquire().await.unwrap();
    let start = tokio::time::Instant::now();
    drop(server);
    assert_eq!(client.exists("/a").await, Err(Error::Closed));
    assert_eq!(*client.state().borrow(), Some(ConnectionState::Lost));
    assert_eq!(watcher.await, Err(Error::Closed));
    guard.lost().await;
    let error = Client::connect(dialer).await.unwrap_err();
    assert!(matches!(&error, Error::Unreachable(ConnectError::Refused(_))), "{error}");
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_frame_above_the_limit_ends_the_connection_in_process_and_over_tcp() {
    let config = Config { frame_bytes_max: 4_000, ..Config::default() };
    let (server, address) = zoolet_test_support::listening_server(config).await;
    let remote = Client::connect(address.to_string().as_str()).await.unwrap();
    for (client, path) in [(connect(&server).await, "/local"), (remote, "/remote")] {
        client.create(path).data(vec![0; 3_000]).await.unwrap();
        let session = client.session_id();
        let error = client.set(path, vec![0; 4_000]).await.unwrap_err();
        assert!(matches!(error, Error::ConnectionLoss { .. }), "{path}: {error}");
        let (data, stat) = client.get(path).await.unwrap();
        assert_eq!((data.len(), stat.version), (3_000, 0), "{path}");
        assert_eq!(client.session_id(), session, "{path}");
    }
}

#[tokio::test]
async fn a_client_reports_that_its_server_stopped_and_came_back() {
    let config = Config { tick_time_ms: 100, ..Config::default() };
    let (server, address) = zoolet_test_support::listening_server(config).await;
    let client = Client::builder()
        .retry_policy(RetryPolicy::forever(Duration::from_millis(10)))
        .session_timeout(Duration::from_millis(500))
        .connect(address.to_string().as_str())
        .await
        .unwrap();
    let mut state = client.state();
    let first_session = client.session_id();
    let watcher = client.exists("/a").and_watch().await.unwrap().watcher;
    state.mark_unchanged();
    server.shutdown().await;
    state.changed().await.unwrap();
    assert_eq!(*state.borrow_and_update(), Some(ConnectionState::Suspended));
    // The new server does not know the session: the client reports its loss, and opens a new one. Without
    // the seed it has the same id if both servers start in one millisecond.
    let server = Server::builder().seed(1).listen(address).start().await.unwrap();
    assert_eq!(watcher.await, Err(Error::SessionExpired));
    state.wait_for(|state| *state == Some(ConnectionState::Reconnected)).await.unwrap();
    assert_ne!(client.session_id(), first_session);
    client.create("/a").await.unwrap();
    client.close().await.unwrap();
    assert_eq!(server.totals().sessions, 0);
}

#[tokio::test]
async fn dropping_the_last_client_ends_the_session() {
    let server = server().await;
    let client = connect(&server).await;
    client.create("/mine").mode(CreateMode::Ephemeral).await.unwrap();
    let clone = client.clone();
    drop(client);
    assert_eq!(server.totals().sessions, 1);
    drop(clone);
    assert_eq!(server.totals().sessions, 0);
    assert_eq!(server.totals().ephemerals, 0);
}

#[tokio::test]
async fn who_am_i_lists_the_added_credentials() {
    let server = server().await;
    let client = connect(&server).await;
    client.authenticate("digest", "ann:secret").await.unwrap();
    let who = client.who_am_i().await.unwrap();
    assert_eq!(who[1].user.as_deref(), Some("ann"));
    assert_eq!(client.authenticate("kerberos", "x").await, Err(Error::AuthFailed));
    assert_eq!(client.exists("/").await, Err(Error::Closed));
}

#[tokio::test]
async fn a_task_that_sends_requests_in_a_loop_yields_to_other_tasks() {
    let server = server().await;
    let client = connect(&server).await;
    let other = tokio::spawn(async {});
    let asking = async {
        while !other.is_finished() {
            client.exists("/").await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(10), asking).await.expect("the other task ran");
}

#[tokio::test]
async fn requests_that_follow_one_read_of_replies_share_a_write() {
    const DEPTH: usize = 16;
    const ROUNDS: usize = 100;
    let (_server, address) = zoolet_test_support::listening_server(Config::default()).await;
    let dialer = CountedWrites::new(address.to_string().parse().unwrap());
    let client = Client::connect(dialer.clone()).await.unwrap();
    dialer.take();
    let asking = (0..DEPTH).map(|_| {
        let client = client.clone();
        tokio::spawn(async move {
            for _ in 0..ROUNDS {
                client.exists("/").await.unwrap();
            }
        })
    });
    for asked in asking.collect::<Vec<_>>() {
        asked.await.unwrap();
    }
    let writes = dialer.take();
    assert!(writes < DEPTH * ROUNDS / 4, "{writes} writes for {} requests", DEPTH * ROUNDS);

    // A single request is not delayed, and two that are sent together need at most two writes.
    for _ in 0..ROUNDS {
        let (one, other) = (client.exists("/").send(), client.exists("/zookeeper").send());
        assert_eq!(dialer.take(), 2, "the callers' thread wrote them");
        one.await.unwrap();
        other.await.unwrap();
    }
}

#[test]
fn a_close_just_before_the_runtime_ends_is_sent() {
    let servers = tokio::runtime::Runtime::new().unwrap();
    let (server, address) =
        servers.block_on(zoolet_test_support::listening_server(Config::default()));
    // The client's task does not run again before everything is dropped.
    let mut clients = tokio::runtime::Builder::new_current_thread();
    let clients = clients.enable_all().event_interval(1).build().unwrap();
    clients.block_on(async {
        let client = Client::connect(address.to_string().as_str()).await.unwrap();
        let sent: Vec<_> = (0..16).map(|_| client.exists("/").send()).collect();
        // One read returns all replies, so that the client delays the next write for a moment.
        std::thread::sleep(Duration::from_millis(50));
        for answer in sent {
            answer.await.unwrap();
        }
        drop(client);
    });
    drop(clients);
    servers.block_on(async {
        let ends = async {
            while server.totals().sessions > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(10), ends).await;
        ended.expect("the session ends long before its timeout");
    });
}
