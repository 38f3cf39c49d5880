//! Tests of what survives a restart (acknowledged writes, sessions, ephemerals), and of what a
//! client receives when the disk fails.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use zoolet::client::{Client, Error, RetryPolicy};
use zoolet::protocol::{
    Acl, Create, CreateFlags, CreateKind, CreateMode, ErrorCode, Id, MultiOp, Permissions,
};
use zoolet::server::storage::{
    Compression, Disk, Durability, MemDisk, SimDisk, StorageConfig, StorageError,
};
use zoolet::server::{Config, Server, StartError, WallTime};

fn config(disk: Arc<dyn Disk>) -> Config {
    let storage = StorageConfig { disk, allocate_bytes: 4_096, ..StorageConfig::at("/data") };
    Config { storage: Some(storage), ..Config::default() }
}

async fn start(config: Config) -> Server {
    Server::builder().config(config).start().await.expect("the server starts")
}

async fn connect(server: &Server) -> Client {
    Client::connect(server.dialer()).await.expect("the server is there")
}

/// Connects a client that does not retry.
async fn connect_once(server: &Server) -> Client {
    let client = connect(server).await;
    client.with_retry_policy(RetryPolicy::never())
}

#[tokio::test(start_paused = true)]
async fn acknowledged_writes_survive_a_restart() {
    let disk = Arc::new(MemDisk::default());
    let server = start(config(disk.clone())).await;
    let client = connect(&server).await;
    client.create("/app").data("one").await.unwrap();
    client.create("/app/box").mode(CreateMode::Container).await.unwrap();
    client
        .create("/app/soon")
        .mode(CreateMode::PersistentWithTtl(Duration::from_secs(60)))
        .await
        .unwrap();
    client.create("/app/job-").mode(CreateMode::PersistentSequential).await.unwrap();
    let stat = client.set("/app", "two").await.unwrap();
    server.shutdown().await;

    let server = start(config(disk)).await;
    let client = connect(&server).await;
    let (data, again) = client.get("/app").await.unwrap();
    assert_eq!((&data[..], again), (&b"two"[..], stat));
    assert_eq!(client.children("/app").await.unwrap().to_vec(), ["box", "job-0000000002", "soon"]);
    let next = client.create("/app/job-").mode(CreateMode::PersistentSequential).await.unwrap();
    assert_eq!(next.path, "/app/job-0000000003", "the numbers go on");
    assert!(next.stat.czxid > stat.mzxid);
}

#[tokio::test]
async fn a_session_and_its_ephemerals_survive_a_restart() {
    let disk = Arc::new(MemDisk::default());
    let listening = |address: SocketAddr| Config { listen: Some(address), ..config(disk.clone()) };
    let server = start(listening(([127, 0, 0, 1], 0).into())).await;
    let address = server.local_addr().expect("it listens");
    let client = Client::connect(address.to_string().as_str()).await.unwrap();
    client.create("/mine").mode(CreateMode::Ephemeral).await.unwrap();
    let session = client.session_id();
    server.shutdown().await;

    let server = start(listening(address)).await;
    assert_eq!(server.totals().ephemerals, 1);
    let stat = client.exists("/mine").await.unwrap().expect("the session has not ended");
    assert_eq!((stat.ephemeral_owner, client.session_id()), (session, session));
    client.close().await.unwrap();
    assert_eq!(server.totals().ephemerals, 0);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_does_not_reconnect_expires_a_full_timeout_after_the_restart() {
    let disk = Arc::new(MemDisk::default());
    let server = start(config(disk.clone())).await;
    let client = connect(&server).await;
    let timeout = client.session_timeout();
    client.create("/mine").mode(CreateMode::Ephemeral).await.unwrap();
    drop((server, client));

    let server = start(config(disk)).await;
    assert_eq!(server.totals().ephemerals, 1);
    tokio::time::sleep(timeout - Duration::from_secs(1)).await;
    assert_eq!(server.totals().ephemerals, 1, "it has its full time again");
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert_eq!((server.totals().ephemerals, server.totals().sessions), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn snapshots_are_taken_and_old_files_deleted() {
    for snapshot_compression in [Compression::None, Compression::Gzip, Compression::Snappy] {
        let disk = Arc::new(MemDisk::default());
        let mut config = config(disk.clone());
        let storage = config.storage.as_mut().expect("it is chosen");
        (storage.snap_count, storage.snapshot_compression) = (10, snapshot_compression);
        let server = start(config.clone()).await;
        let client = connect(&server).await;
        for number in 0..95 {
            client.create(&format!("/{number}")).data("x").await.unwrap();
        }
        drop((server, client));
        let names = disk.list("/data/version-2".as_ref()).unwrap();
        let of_kind = |kind: &str| names.iter().filter(|name| name.starts_with(kind)).count();
        assert_eq!((of_kind("snapshot."), of_kind("log.")), (3, 3), "{names:?}");
        let server = start(config).await;
        assert_eq!(server.totals().znodes, 5 + 95);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_sync_stops_the_server_before_it_acknowledges_the_write() {
    let disk = SimDisk::default();
    let server = start(config(Arc::new(disk.clone()))).await;
    let client = connect_once(&server).await;
    client.create("/kept").await.unwrap();
    disk.fail_to_sync(true);
    let error = client.create("/not-kept").await.unwrap_err();
    assert!(matches!(error, Error::ConnectionLoss { .. }), "{error}");
    let failure = server.failure().await;
    assert_eq!(failure.to_string(), "cannot sync /data/version-2/log.1: the disk does not sync");
    assert!(Client::connect(server.dialer()).await.is_err(), "a failed server serves no client");
    drop((server, client));

    disk.fail_to_sync(false);
    disk.restore_power(1);
    let server = start(config(Arc::new(disk))).await;
    let client = connect(&server).await;
    assert!(client.exists("/kept").await.unwrap().is_some());
    client.create("/later").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn recovery_writes_unsynced_transactions_again_before_a_client_reads_them() {
    let disk = SimDisk::default();
    let server = start(config(Arc::new(disk.clone()))).await;
    let client = connect_once(&server).await;
    client.create("/kept").await.unwrap();
    disk.fail_to_sync(true);
    client.create("/in-doubt").await.unwrap_err();
    server.failure().await;
    drop((server, client));
    // The restarted process reads what the operating system has in memory and the disk has not.
    disk.fail_to_sync(false);
    disk.kill_process();
    let server = start(config(Arc::new(disk.clone()))).await;
    let client = connect(&server).await;
    let is_shown = client.exists("/in-doubt").await.unwrap().is_some();
    client.create("/later").await.unwrap();
    drop((server, client));
    for seed in 0..20 {
        disk.restore_power(seed);
        let server = start(config(Arc::new(disk.clone()))).await;
        let client = connect(&server).await;
        assert!(client.exists("/later").await.unwrap().is_some(), "it was acknowledged");
        assert_eq!(client.exists("/in-doubt").await.unwrap().is_some(), is_shown);
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_stops_the_server_and_it_restarts_when_there_is_space() {
    let disk = SimDisk::default();
    let server = start(config(Arc::new(disk.clone()))).await;
    let client = connect_once(&server).await;
    disk.set_free_bytes(Some(1_000));
    let mut created = 0;
    while client.create(&format!("/{created}")).data(vec![1; 100]).await.is_ok() {
        created += 1;
    }
    assert!((3..10).contains(&created), "{created}");
    assert!(matches!(*server.failure().await, StorageError::Io { what: "write to", .. }));
    drop((server, client));

    let error = Server::builder().config(config(Arc::new(disk.clone()))).start().await;
    drop(error);
    disk.set_free_bytes(None);
    let server = start(config(Arc::new(disk))).await;
    let client = connect(&server).await;
    for number in 0..created {
        assert!(client.exists(&format!("/{number}")).await.unwrap().is_some(), "/{number}");
    }
    client.create("/later").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_failed_snapshot_on_a_full_disk_loses_no_write_and_leaves_no_file() {
    let disk = SimDisk::default();
    let mut config = config(Arc::new(disk.clone()));
    let storage = config.storage.as_mut().expect("it is chosen");
    (storage.snap_count, storage.allocate_bytes) = (20, 0);
    let server = start(config.clone()).await;
    let client = connect(&server).await;
    for number in 0..18 {
        client.create(&format!("/{number}")).data(vec![1; 100]).await.unwrap();
    }
    // Enough for the record, and not for the snapshot.
    disk.set_free_bytes(Some(400));
    client.create("/last").await.unwrap();
    assert!(client.create("/too-much").data(vec![1; 500]).await.is_err());
    drop((server, client));
    let names = disk.list("/data/version-2".as_ref()).unwrap();
    assert!(!names.iter().any(|name| name.starts_with("unfinished")), "{names:?}");

    disk.set_free_bytes(None);
    let server = start(config).await;
    assert!(connect(&server).await.exists("/last").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn buffered_writes_need_no_sync_and_survive_a_killed_process() {
    let disk = SimDisk::default();
    let mut config = config(Arc::new(disk.clone()));
    config.storage.as_mut().expect("it is chosen").durability = Durability::Buffered;
    let server = start(config.clone()).await;
    disk.fail_to_sync(true);
    let client = connect(&server).await;
    client.create("/kept").await.unwrap();
    drop((server, client));
    disk.fail_to_sync(false);
    disk.kill_process();
    let server = start(config).await;
    assert!(connect(&server).await.exists("/kept").await.unwrap().is_some());
}

#[tokio::test]
async fn a_data_directory_in_use_is_refused_and_the_error_names_its_process() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::builder().data_dir(directory.path()).start().await.unwrap();
    let error = Server::builder().data_dir(directory.path()).start().await.unwrap_err();
    let StartError::Storage(StorageError::Locked { .. }) = &error else { panic!("{error}") };
    let expected = format!("the process {} uses it", std::process::id());
    assert!(error.to_string().contains(&expected), "{error}");
    drop(server);
    Server::builder().data_dir(directory.path()).start().await.expect("it is free again");
}

#[tokio::test]
async fn writes_to_real_files_survive_restarts() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..30 {
        let server = Server::builder().data_dir(directory.path()).start().await.unwrap();
        let client = connect(&server).await;
        assert_eq!(client.children("/").await.unwrap().len(), 1 + round);
        client.create(&format!("/{round}")).await.unwrap();
        // The log thread may be about to wake a client that sends more requests, while the server
        // waits for the log thread.
        let asking = client.clone();
        tokio::spawn(async move { while asking.set("/0", "x").await.is_ok() {} });
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_data_directory_that_is_a_file_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = Server::builder().data_dir(file.path()).start().await.unwrap_err();
    assert!(error.to_string().starts_with("cannot create "), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_takes_a_zxid_and_changes_nothing() {
    let disk = Arc::new(MemDisk::default());
    let server = start(config(disk.clone())).await;
    let client = connect(&server).await;
    assert!(client.create("/no/parent").await.unwrap_err().is(ErrorCode::NO_NODE));
    client.create("/a").await.unwrap();
    drop((server, client));
    let server = start(config(disk)).await;
    let stat = connect(&server).await.exists("/a").await.unwrap().expect("the create succeeded");
    assert_eq!(stat.czxid.0, 3, "a session, a refusal, a create");
}

#[tokio::test(start_paused = true)]
async fn containers_and_ttl_znodes_are_deleted_after_a_restart() {
    let disk = Arc::new(MemDisk::default());
    let config = Config {
        wall_time: WallTime::Virtual { start_ms: 1_000_000 },
        container_check_interval: Duration::from_secs(1),
        ..config(disk)
    };
    let server = start(config.clone()).await;
    let client = connect(&server).await;
    client.create("/box").mode(CreateMode::Container).await.unwrap();
    client.create("/box/content").await.unwrap();
    client
        .create("/soon")
        .mode(CreateMode::PersistentWithTtl(Duration::from_secs(10)))
        .await
        .unwrap();
    drop((server, client));

    // ZooKeeper with `extendedTypesEnabled=false` would delete the second znode at once.
    let server = start(config).await;
    let client = connect(&server).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(client.children("/").await.unwrap().to_vec(), ["box", "soon", "zookeeper"]);
    client.delete("/box/content").await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(client.children("/").await.unwrap().to_vec(), ["zookeeper"]);
}

#[tokio::test(start_paused = true)]
async fn a_data_directory_that_cannot_be_written_is_refused() {
    let disk = SimDisk::default();
    disk.lose_power_after(0);
    let refused = Server::builder().config(config(Arc::new(disk))).start().await;
    let error = refused.expect_err("it could keep nothing").to_string();
    assert_eq!(error, "cannot create /data/version-2: the power is lost");
}

#[tokio::test(start_paused = true)]
async fn the_server_restarts_after_closing_a_session_with_70_mb_of_ephemeral_names() {
    let disk = Arc::new(MemDisk::default());
    let server = start(config(disk.clone())).await;
    let client = connect(&server).await;
    let name = "n".repeat(1_000_000);
    for number in 0..70 {
        client.create(&format!("/{name}{number}")).mode(CreateMode::Ephemeral).await.unwrap();
    }
    client.close().await.unwrap();
    assert_eq!(server.totals().ephemerals, 0);
    drop(server);
    let server = start(config(disk)).await;
    assert_eq!((server.totals().ephemerals, server.totals().sessions), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_too_long_for_a_log_record_is_refused() {
    let disk = Arc::new(MemDisk::default());
    let server = start(Config { frame_bytes_max: 80 << 20, ..config(disk.clone()) }).await;
    let builder = Client::builder().jute_max_buffer(80 << 20);
    let client = builder.connect(server.dialer()).await.unwrap();
    let error = client.create("/long").data(vec![1; 70 << 20]).await.unwrap_err();
    assert!(error.is(ErrorCode::BAD_ARGUMENTS), "{error}");
    // Each operation is short, and the server expands its access control list.
    for user in ["a", "b", "c", "d"] {
        client.authenticate("digest", user.repeat(900)).await.unwrap();
    }
    let acl = Some(vec![Acl { permissions: Permissions::ALL, id: Id::new("auth", "") }]);
    let create = |number: u32| {
        let path = format!("/{number}").as_str().into();
        let (kind, flags) = (CreateKind::Create, CreateFlags::PERSISTENT);
        MultiOp::Create(Create { kind, path, data: None, acl: acl.clone(), flags })
    };
    let error = client.multi((0..200).map(create).collect()).await.unwrap_err();
    assert!(error.is(ErrorCode::BAD_ARGUMENTS), "{error}");
    drop((client, server));
    assert_eq!(start(config(disk)).await.totals().znodes, 5);
}
