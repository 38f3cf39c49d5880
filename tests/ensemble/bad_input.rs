//! What no client should send: the server answers it or ends its connection, and serves the others.

use bytes::{Bytes, BytesMut};
use zoolet::protocol::{ConnectRequest, CreateFlags, FrameCodec};
use zoolet::testing::TestEnsemble;
use zoolet_test_support::{Tcp, create, encoded, exists, ping};

use super::raw::Raw;
use super::{TRANSPORTS, TransportKind};

async fn all_is_well(ensemble: &TestEnsemble) {
    let client = TransportKind::Tcp.connect(ensemble, 1).await;
    client.create("/well").await.expect("a znode can be created");
    client.delete("/well").await.expect("a znode can be deleted");
    client.close().await.expect("a session can be closed");
    ensemble.check().expect("the servers are consistent");
}

#[tokio::test]
async fn lengths_outside_the_limit_close_the_connection() {
    let ensemble = TransportKind::Tcp.start().await;
    for length in [-1, i32::MIN, 0x10_0000, i32::MAX] {
        let mut tcp = Tcp::open(ensemble.server(1).address().unwrap()).await;
        tcp.send_bytes(&length.to_be_bytes()).await;
        assert_eq!(tcp.receive().await, None, "{length}");
        let (mut raw, _) = Raw::begin(TransportKind::Tcp, &ensemble, 1).await;
        raw.send(Bytes::from(vec![0; 0x10_0000])).await;
        assert_eq!(raw.receive().await, None);
    }
    all_is_well(&ensemble).await;
}

#[tokio::test]
async fn a_frame_that_is_too_long_in_process_closes_the_connection() {
    let ensemble = TransportKind::Tcp.start().await;
    let (mut raw, _) = Raw::begin(TransportKind::InProcess, &ensemble, 1).await;
    raw.request(&exists("/")).await;
    raw.send(Bytes::from(vec![0; 0x10_0000])).await;
    assert!(raw.reply(&exists("/")).await.is_some(), "earlier requests are answered");
    assert_eq!(raw.receive().await, None);
    all_is_well(&ensemble).await;
}

#[tokio::test]
async fn garbage_in_place_of_a_handshake_closes_the_connection() {
    let ensemble = TransportKind::Tcp.start().await;
    let garbage: [&[u8]; 4] =
        [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00", b"\0\0\0\x03abc", b"\0\0\0\0"];
    for bytes in garbage {
        let mut tcp = Tcp::open(ensemble.server(2).address().unwrap()).await;
        tcp.send_bytes(bytes).await;
        assert_eq!(tcp.receive().await, None, "{bytes:?}");
    }
    for kind in TRANSPORTS {
        let mut raw = Raw::open(kind, &ensemble, 1).await;
        raw.send(Bytes::from_static(b"abc")).await;
        assert_eq!(raw.receive().await, None, "{kind:?}");
        let (mut raw, _) = Raw::begin(kind, &ensemble, 1).await;
        raw.send(Bytes::from_static(b"abc")).await;
        assert_eq!(raw.receive().await, None, "{kind:?}: too short for a request");
    }
    all_is_well(&ensemble).await;
}

#[tokio::test]
async fn connections_that_end_halfway_disturb_nobody() {
    let ensemble = TransportKind::Tcp.start().await;
    let mut frame = BytesMut::new();
    FrameCodec::put(&encoded(&ConnectRequest::new(10_000)), &mut frame);
    for length in 0..frame.len() {
        let mut tcp = Tcp::open(ensemble.server(1).address().unwrap()).await;
        tcp.send_bytes(&frame[..length]).await;
    }
    for kind in TRANSPORTS {
        // The write is on its way when its client goes.
        let (mut raw, _) = Raw::begin(kind, &ensemble, 1).await;
        ensemble.server(1).hold();
        raw.request(&create("/half", CreateFlags::PERSISTENT)).await;
        drop(raw);
        ensemble.server(1).release();
    }
    all_is_well(&ensemble).await;
    ensemble.wait_until(|ensemble| ensemble.server(1).connections().unwrap().is_empty()).await;
}

#[tokio::test]
async fn requests_before_the_handshake_is_answered_wait_for_it() {
    for kind in TRANSPORTS {
        let ensemble = kind.start().await;
        ensemble.server(1).hold();
        let mut raw = Raw::open(kind, &ensemble, 1).await;
        raw.send(encoded(&ConnectRequest::new(10_000))).await;
        raw.request(&ping()).await;
        raw.request(&exists("/")).await;
        tokio::task::yield_now().await;
        ensemble.server(1).release();
        assert!(raw.receive().await.is_some(), "the answer to the handshake");
        assert!(raw.reply(&ping()).await.is_some());
        assert!(raw.reply(&exists("/")).await.is_some(), "{kind:?}");
    }
}

#[tokio::test]
async fn more_requests_than_a_server_may_owe_close_the_connection() {
    let ensemble = TransportKind::Tcp.start().await;
    let (mut raw, _) = Raw::begin(TransportKind::InProcess, &ensemble, 1).await;
    ensemble.server(1).hold();
    // It is committed, and not answered while the server does not apply it. All others wait behind it.
    raw.request(&create("/waits", CreateFlags::PERSISTENT)).await;
    for _ in 0..11_000 {
        raw.request(&exists("/")).await;
    }
    assert_eq!(raw.receive().await, None, "the connection ends, and nothing was answered");
    ensemble.server(1).release();
    all_is_well(&ensemble).await;
}
