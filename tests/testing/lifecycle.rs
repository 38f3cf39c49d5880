//! How a `TestServer` starts, stops, restarts, crashes and loses power.

use std::time::Duration;

use zoolet::client::{Client, ConnectionState, Error, RetryPolicy};
use zoolet::protocol::{CreateMode, SessionId};
use zoolet::server::storage::{Durability, SimDisk, StorageConfig};
use zoolet::testing::{FaultError, Scope, TestServer, TestServerError};

use super::{TRANSPORTS, TransportKind, wait_for};

#[tokio::test]
async fn a_restart_keeps_data_sessions_and_address() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let address = server.connect_string();
        let client = transport.connect(&server).await;
        client.create("/kept").mode(CreateMode::Ephemeral).await.unwrap();
        let session = client.session_id();
        server.restart().await.unwrap();
        assert!(client.exists("/kept").await.unwrap().is_some());
        assert_eq!((client.session_id(), server.connect_string()), (session, address));
    }
}

#[tokio::test]
async fn a_stopped_server_refuses_connections_until_it_restarts() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let client = transport.connect_once(&server).await;
        server.stop().await;
        wait_for(&client, ConnectionState::Suspended).await;
        let refused = Client::builder().connection_timeout(Duration::from_millis(30));
        assert!(refused.connect(server.dialer()).await.is_err());
        assert_eq!(server.at(Scope::Server).cut(), Err(FaultError::Stopped));
        assert_eq!(server.advance(Duration::ZERO), Err(FaultError::Stopped));
        server.restart().await.unwrap();
        wait_for(&client, ConnectionState::Reconnected).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_forgetful_server_restarts_empty() {
    let server = TestServer::builder().forgetful().start().await.unwrap();
    let client = server.connect().await.unwrap();
    client.create("/gone").await.unwrap();
    server.restart().await.unwrap();
    wait_for(&client, ConnectionState::Lost).await;
    let other = server.connect().await.unwrap();
    assert_eq!(other.exists("/gone").await.unwrap(), None);
}

#[tokio::test]
async fn a_crash_keeps_acknowledged_writes() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let client = transport.connect(&server).await;
        client.create("/kept").await.unwrap();
        server.crash().await.unwrap();
        assert!(client.exists("/kept").await.unwrap().is_some());
    }
}

#[tokio::test]
async fn a_reset_leaves_a_new_server_with_its_zxids_and_its_address() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let address = server.connect_string();
        let client = transport.connect(&server).await;
        let session = client.session_id();
        let old = client.create("/gone").await.unwrap().stat.czxid;
        client.create("/gone/mine").mode(CreateMode::Ephemeral).await.unwrap();
        let unread = client.exists("/gone").and_watch().await.unwrap();
        let fault = server.everyone().refuse().unwrap();
        server.freeze().unwrap();
        server.reset().unwrap();
        wait_for(&client, ConnectionState::Lost).await;
        drop((unread, fault));

        let other = transport.connect(&server).await;
        assert_eq!(other.children("/").await.unwrap().to_vec(), ["zookeeper"]);
        assert_eq!(server.watch_graph().paths, []);
        assert!(other.session_id() > session, "{} {session}", other.session_id());
        let new = other.create("/gone").await.unwrap().stat.czxid;
        assert!(new > old, "{new} {old}");
        assert_eq!(server.connect_string(), address);

        server.restart().await.unwrap();
        assert_eq!(other.children("/").await.unwrap().to_vec(), ["gone", "zookeeper"]);
        server.stop().await;
        assert_eq!(server.reset(), Err(FaultError::Stopped));
    }
}

#[tokio::test]
async fn a_reset_is_durable() {
    for seed in 0..20 {
        let builder = TestServer::builder().sim_disk(SimDisk::default());
        let server = builder.start().await.unwrap();
        let client = server.connect().await.unwrap();
        client.create("/gone").await.unwrap();
        server.reset().unwrap();
        server.lose_power(seed).await.unwrap();
        let client = server.connect().await.unwrap();
        assert_eq!(client.children("/").await.unwrap().to_vec(), ["zookeeper"], "seed {seed}");
        client.create("/kept").await.unwrap();
        server.lose_power(seed).await.unwrap();
        assert!(client.exists("/kept").await.unwrap().is_some(), "seed {seed}");
    }
}

#[tokio::test]
async fn a_temporary_data_directory_is_deleted_with_the_server() {
    let server = TestServer::builder().temp_dir().start().await.unwrap();
    let directory = server.config().storage.as_ref().unwrap().data_dir.clone();
    let client = server.connect().await.unwrap();
    client.create("/kept").await.unwrap();
    server.restart().await.unwrap();
    assert!(client.exists("/kept").await.unwrap().is_some());
    assert!(directory.join("version-2").is_dir());
    drop(server);
    assert!(!directory.exists());
}

/// Returns how many of ten acknowledged writes exist after a power loss.
async fn kept_after_power_loss(durability: Durability, seed: u64) -> usize {
    let builder = TestServer::builder().sim_disk(SimDisk::default()).configure(|config| {
        let storage = config.storage.take().unwrap_or_else(|| StorageConfig::at("/data"));
        config.storage = Some(StorageConfig { durability, ..storage });
    });
    let server = builder.start().await.expect("the server starts");
    let client = server.connect().await.expect("the server is there");
    for number in 0..10 {
        client.create(&format!("/{number}")).await.expect("it is created");
    }
    match server.lose_power(seed).await {
        Ok(()) => {
            let children = client.children("/").await.expect("the server is there again");
            children.to_vec().len() - 1
        }
        // The power loss damaged the files.
        Err(_) => 0,
    }
}

#[tokio::test(start_paused = true)]
async fn a_power_loss_loses_only_unsynced_writes() {
    let mut unsynced = 0;
    for seed in 0..20 {
        assert_eq!(kept_after_power_loss(Durability::Synced, seed).await, 10);
        unsynced += kept_after_power_loss(Durability::Buffered, seed).await;
    }
    assert!(unsynced < 200, "{unsynced}");
}

#[tokio::test(start_paused = true)]
async fn lose_power_without_a_sim_disk_is_an_error_and_the_server_runs_on() {
    let server = TestServer::start().await.unwrap();
    let error = server.lose_power(1).await.unwrap_err();
    assert!(matches!(error, TestServerError::NoSimDisk), "{error}");
    assert!(error.to_string().contains("TestServerBuilder::sim_disk"), "{error}");
    assert_eq!(server.connections(), Ok(Vec::new()), "it runs on");
}

#[tokio::test(start_paused = true)]
async fn a_fault_for_an_unknown_session_or_connection_lists_the_known_ones() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let error = server.session(SessionId(7)).expire().unwrap_err();
    assert!(error.to_string().contains(&client.session_id().to_string()), "{error}");
    assert!(error.to_string().contains("ask a connected client"), "{error}");
    let error = server.connection(zoolet::testing::ConnectionId(99)).freeze().unwrap_err();
    assert!(error.to_string().contains("these are: 1 "), "{error}");
    assert!(error.to_string().contains("Faults::connections"), "{error}");
}

#[tokio::test]
async fn dropping_the_last_clone_stops_the_server() {
    for transport in TRANSPORTS {
        let server = transport.server().await;
        let client = transport.connect_once(&server).await;
        let clone = server.clone();
        drop(server);
        client.create("/a").await.unwrap();
        drop(clone);
        wait_for(&client, ConnectionState::Suspended).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_discards_the_requests_of_a_frozen_server() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap().with_retry_policy(RetryPolicy::never());
    server.freeze().unwrap();
    let sent = client.create("/late").send();
    server.restart().await.unwrap();
    let error = sent.await.unwrap_err();
    assert!(matches!(error, Error::ConnectionLoss { .. }), "{error}");
    assert_eq!(
        client.exists("/late").await.unwrap(),
        None,
        "the process that was to read it is gone"
    );
}

#[tokio::test]
async fn three_hundred_servers_run_in_one_process() {
    let mut clients = Vec::new();
    for number in 0..300 {
        let transport = if number % 3 == 0 { TransportKind::Tcp } else { TransportKind::InProcess };
        let server = transport.server().await;
        let client = transport.connect(&server).await;
        client.create("/own").data(number.to_string()).await.unwrap();
        clients.push((server, client));
    }
    for (number, (server, client)) in clients.iter().enumerate() {
        let (data, _) = client.get("/own").await.unwrap();
        assert_eq!(&data[..], number.to_string().as_bytes());
        assert_eq!(server.connections().unwrap().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn clients_of_a_stopped_server_reconnect_and_clients_of_a_dropped_one_are_closed() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    drop(server.clone());
    server.stop().await;
    assert_eq!(*client.state().borrow(), Some(ConnectionState::Suspended));
    server.restart().await.unwrap();
    assert!(client.exists("/").await.unwrap().is_some());
    let start = tokio::time::Instant::now();
    drop(server);
    assert_eq!(client.exists("/").await, Err(Error::Closed));
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[tokio::test]
async fn config_keeps_what_the_builder_was_given_before() {
    let disk = SimDisk::default();
    let builder = TestServer::builder().tcp().sim_disk(disk);
    let server = builder.config(zoolet::server::Config::default()).start().await.unwrap();
    assert!(server.address().is_some() && server.sim_disk().is_some());
    let directory = tempfile::tempdir().unwrap();
    let listen = ([127, 0, 0, 1], 0).into();
    let builder = zoolet::server::Server::builder().listen(listen).data_dir(directory.path());
    let server = builder.config(zoolet::server::Config::default()).start().await.unwrap();
    assert!(server.local_addr().is_some());
    assert!(directory.path().join("version-2").exists());
}
