//! What a server does with bad input: an answer or a closed connection, no panic, and nothing
//! that other sessions would notice. After each case another client is asked whether all is well.

#![allow(clippy::disallowed_methods, reason = "a test measures what it waited for")]

mod wire;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use wire::{Local, Tcp, create, encoded, exists, listening_server, ping, set_data};
use zoolet::Config;
use zoolet::protocol::{
    AddWatch, ConnectRequest, ConnectResponse, CreateFlags, Encode, ErrorCode, OpCode, Password,
    Request, RequestHeader, Response, Watch, WatchMode, Write, Xid, Zxid,
};

/// A client that is there before, and is asked afterwards.
struct Witness(Tcp);

impl Witness {
    async fn of(address: SocketAddr) -> Self {
        Self(Tcp::connect(address, ConnectRequest::new(30_000)).await.0)
    }

    async fn sees_that_all_is_well(mut self) {
        let (header, _) = self.0.call(&exists("/")).await;
        assert_eq!(header.err, ErrorCode::OK);
    }
}

/// A request with a body of one's own.
fn raw_request(op: OpCode, body: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    RequestHeader { xid: Xid(1), op }.encode(&mut out);
    out.put_slice(body);
    out.freeze()
}

#[tokio::test]
async fn a_length_outside_the_limit_closes_the_connection_without_an_answer() {
    let (_server, address) = listening_server(Config::default()).await;
    let witness = Witness::of(address).await;
    for length in [-1, i32::MIN, 0x10_0000, i32::MAX] {
        let mut before_handshake = Tcp::open(address).await;
        before_handshake.send_bytes(&length.to_be_bytes()).await;
        assert_eq!(before_handshake.receive().await, None, "{length}");

        let (mut established, _) = Tcp::connect(address, ConnectRequest::new(30_000)).await;
        established.send_bytes(&length.to_be_bytes()).await;
        assert_eq!(established.receive().await, None, "{length}");
    }
    witness.sees_that_all_is_well().await;
}

#[tokio::test]
async fn what_was_asked_before_an_oversized_frame_is_answered() {
    let (_server, address) = listening_server(Config::default()).await;
    let (mut client, _) = Tcp::connect(address, ConnectRequest::new(30_000)).await;
    let mut both = BytesMut::new();
    zoolet::protocol::FrameCodec::put(&raw_request(OpCode::PING, &[]), &mut both);
    both.put_i32(i32::MAX);
    client.send_bytes(&both).await;
    assert!(client.reply(&ping()).await.is_some());
    assert_eq!(client.receive().await, None);
}

#[tokio::test]
async fn garbage_before_the_handshake_closes_the_connection() {
    let (_server, address) = listening_server(Config::default()).await;
    let witness = Witness::of(address).await;
    let garbage: [&[u8]; 4] =
        [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00", b"\0\0\0\x03abc", b"\0\0\0\0"];
    for bytes in garbage {
        let mut client = Tcp::open(address).await;
        client.send_bytes(bytes).await;
        assert_eq!(client.receive().await, None, "{bytes:?}");
    }
    witness.sees_that_all_is_well().await;
}

#[tokio::test(start_paused = true)]
async fn half_a_frame_and_silence_is_given_up() {
    let (_server, address) = listening_server(Config::default()).await;
    for bytes in [&b""[..], b"\0\0", b"\0\0\0\x2d\0\0"] {
        let mut client = Tcp::open(address).await;
        client.send_bytes(bytes).await;
        let start = tokio::time::Instant::now();
        assert_eq!(client.receive().await, None, "{bytes:?}");
        let waited = start.elapsed();
        assert!(
            waited >= Duration::from_secs(9) && waited <= Duration::from_secs(21),
            "{waited:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_sends_half_a_request_expires_like_one_that_sends_nothing() {
    let (_server, address) = listening_server(Config::default()).await;
    let (mut client, response) = Tcp::connect(address, ConnectRequest::new(6_000)).await;
    client.send_bytes(b"\0\0\0\x08\0\0").await;
    assert_eq!(client.receive().await, None);
    let again = ConnectRequest {
        session: response.session,
        password: response.password,
        ..ConnectRequest::new(6_000)
    };
    let (_, response) = Tcp::connect(address, again).await;
    assert_eq!(response, ConnectResponse::refused(Some(false)));
}

#[tokio::test]
async fn a_wrong_password_is_refused_and_the_session_survives() {
    let (_server, address) = listening_server(Config::default()).await;
    let witness = Witness::of(address).await;
    let (mut owner, response) = Tcp::connect(address, ConnectRequest::new(30_000)).await;
    for password in [Password::NULL, Password::zero(), Password::from_bytes(vec![1; 3])] {
        let thief =
            ConnectRequest { session: response.session, password, ..ConnectRequest::new(30_000) };
        let (mut thief, refusal) = Tcp::connect(address, thief).await;
        assert_eq!(refusal, ConnectResponse::refused(Some(false)));
        assert_eq!(thief.receive().await, None);
    }
    // The owner lost its connection to the attempt, and can come back.
    assert_eq!(owner.receive().await, None);
    let again = ConnectRequest {
        session: response.session,
        password: response.password.clone(),
        ..ConnectRequest::new(30_000)
    };
    let (_, again) = Tcp::connect(address, again).await;
    assert_eq!(again, response);
    witness.sees_that_all_is_well().await;
}

#[tokio::test]
async fn a_client_that_has_seen_more_than_the_server_is_turned_away() {
    let (_server, address) = listening_server(Config::default()).await;
    let mut client = Tcp::open(address).await;
    let ahead = ConnectRequest { last_zxid_seen: Zxid(1_000), ..ConnectRequest::new(30_000) };
    client.send(&encoded(&ahead)).await;
    assert_eq!(client.receive().await, None);
}

#[tokio::test]
async fn an_unknown_operation_is_answered_and_ends_the_connection() {
    let (_server, address) = listening_server(Config::default()).await;
    let witness = Witness::of(address).await;
    for op in [0, -1, 10, 13, 999, -10, i32::MIN] {
        let (mut client, _) = Tcp::connect(address, ConnectRequest::new(30_000)).await;
        client.send(&raw_request(OpCode(op), b"\0\0\0\x02/a\0\0\0\0")).await;
        let unknown = Request::Unknown { op: OpCode(op), body: Bytes::new() };
        let (header, response) = client.reply(&unknown).await.expect("an answer");
        assert_eq!((header.err, header.zxid), (ErrorCode::UNIMPLEMENTED, Zxid::NONE), "{op}");
        assert!(matches!(response, Response::Empty), "{op}");
        assert_eq!(client.receive().await, None, "{op}");
    }
    witness.sees_that_all_is_well().await;
}

#[tokio::test]
async fn a_frame_without_a_header_closes_the_connection() {
    let (_server, address) = listening_server(Config::default()).await;
    let (mut client, _) = Tcp::connect(address, ConnectRequest::new(30_000)).await;
    client.send(&Bytes::from_static(b"\0\0\0\x01\0\0")).await;
    assert_eq!(client.receive().await, None);
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_answered_and_the_connection_stays() {
    let (_server, address) = listening_server(Config::default()).await;
    let (mut client, _) = Tcp::connect(address, ConnectRequest::new(30_000)).await;
    let million = 1_000_000_i32.to_be_bytes();
    let mut vector_in_ten_bytes = vec![0, 0, 0, 2, b'/', b'a', 0, 0, 0, 0];
    vector_in_ten_bytes.extend_from_slice(&million);
    let mut watches = vec![0; 8];
    watches.extend_from_slice(&million);
    let bodies: [(OpCode, &[u8]); 7] = [
        (OpCode::GET_DATA, b""),
        (OpCode::GET_DATA, b"\0\0\0\x05/a"),
        (OpCode::GET_DATA, b"\xff\xff\xff\xf0/a\0"),
        (OpCode::CREATE, &vector_in_ten_bytes),
        (OpCode::SET_WATCHES, &watches),
        (OpCode::MULTI, b"\0\0\0\x63\0\xff\xff\xff\xff"),
        (OpCode::MULTI_READ, b"\0\0"),
    ];
    for (op, body) in bodies {
        client.send(&raw_request(op, body)).await;
        let unknown = Request::Unknown { op, body: Bytes::new() };
        let (header, _) = client.reply(&unknown).await.expect("an answer");
        assert_eq!(header.err, ErrorCode::MARSHALLING_ERROR, "{op} {body:?}");
    }
    assert_eq!(client.call(&exists("/")).await.0.err, ErrorCode::OK);
}

#[tokio::test]
async fn paths_with_every_forbidden_character_are_refused() {
    let server = zoolet::Server::builder().start().await.unwrap();
    let (mut client, _) = Local::connect(&server, 30_000).await;
    let forbidden = ('\0'..='\u{1f}')
        .chain('\u{7f}'..='\u{9f}')
        .chain('\u{e000}'..='\u{f8ff}')
        .chain('\u{fff0}'..='\u{ffff}')
        .chain(['\u{10000}', '😀', '\u{10ffff}']);
    for character in forbidden {
        let (header, _) =
            client.call(&create(&format!("/a{character}"), CreateFlags::PERSISTENT)).await;
        assert_eq!(header.err, ErrorCode::BAD_ARGUMENTS, "{character:?}");
    }
    for path in ["", "a", "//", "/a/", "/a//b", "/.", "/..", "/a/./b", "/a/../b"] {
        let (header, _) = client.call(&create(path, CreateFlags::PERSISTENT)).await;
        assert!(header.err != ErrorCode::OK, "{path:?}");
    }
    assert!(wire::is_there(&mut client, "/").await);
}

#[tokio::test]
async fn a_client_that_never_reads_its_events_is_cut_off_and_others_go_on() {
    let server = zoolet::Server::builder().start().await.unwrap();
    let (mut deaf, response) = Local::connect(&server, 30_000).await;
    let (mut busy, _) = Local::connect(&server, 30_000).await;
    busy.call(&create("/a", CreateFlags::PERSISTENT)).await;
    let watch = AddWatch { path: "/a".into(), mode: WatchMode::PERSISTENT };
    deaf.call(&Request::Watch(Watch::Add(watch))).await;
    let thousand = Request::Write(Write::Multi(vec![set_data("/a", b""); 1_000]));
    let mut multis = 0;
    while deaf.send(&ping()) {
        let (header, _) = busy.call(&thousand).await;
        assert_eq!(header.err, ErrorCode::OK);
        multis += 1;
        assert!(multis < 300, "the events of {multis} multis wait for a client that reads none");
    }
    assert_eq!(deaf.receive().await, None);
    // Only the connection is gone: the session lives on.
    let again = ConnectRequest {
        session: response.session,
        password: response.password,
        ..ConnectRequest::new(30_000)
    };
    let (_, response) = Local::connect_with(&server, again).await;
    assert!(!response.is_refused());
}

#[tokio::test]
async fn connections_beyond_the_limit_are_closed_at_once() {
    let config = Config { max_client_connections: 2, ..Config::default() };
    let (_server, address) = listening_server(config).await;
    let (first, _) = Tcp::connect(address, ConnectRequest::new(30_000)).await;
    let witness = Witness::of(address).await;
    let mut third = Tcp::open(address).await;
    assert_eq!(third.receive().await, None);
    drop(first);
    // The place becomes free once the server has noticed.
    let connected = async {
        loop {
            let mut client = Tcp::open(address).await;
            client.send(&encoded(&ConnectRequest::new(30_000))).await;
            if client.receive().await.is_some() {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), connected).await.expect("a place is free");
    witness.sees_that_all_is_well().await;
}
