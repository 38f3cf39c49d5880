//! The power fails while a snapshot is restored, after every few steps of the disk: the next start finds
//! the old state or the new one, and the new one if the restore was reported as done.

use std::io::{Cursor, Read};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use zoolet_protocol::{
    Acl, ConnectRequest, Create, CreateFlags, CreateKind, Dial, Encode, MultiOp, Request, Write,
    Xid, encode_request,
};
use zoolet_server::storage::{SimDisk, StorageConfig};
use zoolet_server::{Config, Server};

/// A server on the disk; `None` if the power fails first.
async fn start(disk: &SimDisk) -> Option<Server> {
    let storage = StorageConfig {
        disk: Arc::new(disk.clone()),
        // Each byte is a step.
        allocate_bytes: 0,
        ..StorageConfig::at("/data")
    };
    let config = Config { storage: Some(storage), ..Config::default() };
    Server::builder().config(config).start().await.ok()
}

/// Creates a znode over a connection of its own.
async fn create(server: &Server, path: &str) {
    let Ok(connection) = server.dialer().dial().await else { return };
    let mut handshake = BytesMut::new();
    ConnectRequest::new(30_000).encode(&mut handshake);
    let create = Create {
        kind: CreateKind::Create,
        path: path.into(),
        data: Some(Bytes::from_static(b"data")),
        acl: Some(vec![Acl::open()]),
        flags: CreateFlags::PERSISTENT,
    };
    let create = encode_request(Xid(1), &Request::Write(Write::Op(MultiOp::Create(create))));
    let _ = connection.send(handshake.freeze()).and_then(|()| connection.send(create));
}

/// How many znodes there are beside the built-in ones.
fn created(server: &Server) -> usize {
    server.totals().znodes - 5
}

#[tokio::test(start_paused = true)]
async fn the_next_start_finds_one_state_or_the_other() {
    let source = Server::builder().start().await.expect("memory takes it");
    for path in ["/a", "/b", "/c"] {
        create(&source, path).await;
    }
    let mut snapshot = Vec::new();
    source.take_snapshot().await.expect("it can").read_to_end(&mut snapshot).expect("memory");

    let mut states = [0; 2];
    for steps in (0..).step_by(5) {
        let disk = SimDisk::default();
        let server = start(&disk).await.expect("the power is on");
        create(&server, "/old").await;
        assert_eq!(created(&server), 1);
        disk.lose_power_after(disk.steps() + steps);
        let restored = server.restore(Cursor::new(snapshot.clone())).await;
        let is_over = !disk.has_lost_power();
        if restored.is_ok() {
            create(&server, "/new").await;
        }
        drop(server);
        for seed in 0..4 {
            disk.restore_power(steps * 4 + seed);
            let server = start(&disk).await.expect("it starts");
            let created = created(&server);
            match restored {
                Ok(_) => assert!((3..=4).contains(&created), "{steps}: {created}"),
                Err(_) => assert!(created == 1 || created == 3, "{steps}: {created}"),
            }
            states[usize::from(created != 1)] += 1;
            server.check().expect("the state is consistent");
            drop(server);
        }
        if is_over {
            break;
        }
    }
    assert!(states.iter().all(|&count| count > 0), "both were found: {states:?}");
}
