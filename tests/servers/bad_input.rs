//! Tests of the server with bad input: it answers or closes the connection, does not panic, and
//! disturbs no other session. After each case another client checks that the server serves it.

#![allow(clippy::disallowed_methods, reason = "a test measures what it waited for")]

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use zoolet::protocol::{
    AddWatch, ConnectRequest, ConnectResponse, CreateFlags, Encode, ErrorCode, OpCode, Password,
    Request, RequestHeader, Response, Watch, WatchMode, Write, Xid, Zxid,
};
use zoolet::server::Config;
use zoolet_test_support::{Local, Tcp, create, encoded, exists, listening_server, ping, set_data};

/// A client that connects before the bad input and sends a request after it.
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

/// A request with an arbitrary body.
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
async fn requests_before_an_oversized_frame_are_answered() {
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
async fn a_connection_that_sends_half_a_handshake_is_closed() {
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
    // The attempt closed the owner's connection, and the owner can reconnect.
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
async fn a_client_that_has_seen_a_newer_zxid_is_rejected() {
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
async fn a_malformed_body_is_answered_and_the_connection_stays_open() {
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
    let server = zoolet::server::Server::builder().start().await.unwrap();
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
    assert!(zoolet_test_support::is_there(&mut client, "/").await);
}

#[tokio::test]
async fn a_client_that_never_reads_is_disconnected_and_others_are_served() {
    let server = zoolet::server::Server::builder().start().await.unwrap();
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
    // The server closed only the connection: the session is still alive.
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
    // The server counts a connection until it notices that it is closed.
    let connected = async {
        loop {
            let mut client = Tcp::open(address).await;
            client.send(&encoded(&ConnectRequest::new(30_000))).await;
            if client.receive().await.is_some() {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), connected)
        .await
        .expect("the server accepts one connection more");
    witness.sees_that_all_is_well().await;
}

/// Sends a four-letter word and returns the answer.
async fn ask(address: SocketAddr, word: &[u8]) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("the server listens");
    stream.write_all(word).await.expect("it reads");
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text).await;
    text
}

async fn create_large(client: &mut Tcp, bytes: usize) {
    let large = zoolet::protocol::SetData {
        path: "/".into(),
        data: Some(Bytes::from(vec![7; bytes])),
        version: (-1).into(),
    };
    let set = Request::Write(Write::Op(zoolet::protocol::MultiOp::SetData(large)));
    assert_eq!(client.call(&set).await.0.err, ErrorCode::OK);
}

fn get_root() -> Request {
    Request::Read(zoolet::protocol::Read::Lookup(zoolet::protocol::Lookup::GetData("/".into())))
}

#[tokio::test]
async fn a_client_that_sends_faster_than_it_reads_receives_every_reply() {
    let (_server, address) = listening_server(Config::default()).await;
    let (mut client, _) = Tcp::connect(address, ConnectRequest::new(30_000)).await;
    create_large(&mut client, 900_000).await;
    let mut requests = BytesMut::new();
    for xid in 0..100 {
        let frame = zoolet::protocol::encode_request(Xid(1_000 + xid), &get_root());
        zoolet::protocol::FrameCodec::put(&frame, &mut requests);
    }
    client.send_bytes(&requests).await;
    for _ in 0..100 {
        assert!(client.reply(&get_root()).await.is_some());
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_is_disconnected_when_its_session_ends() {
    let config = Config {
        tick_time_ms: 100,
        four_letter_words: zoolet::server::FourLetterWhitelist::all(),
        ..Config::default()
    };
    let (_server, address) = listening_server(config).await;
    let (mut deaf, _) = Tcp::connect(address, ConnectRequest::new(500)).await;
    create_large(&mut deaf, 900_000).await;
    // More bytes than the buffers of the sockets hold.
    for xid in 0..30 {
        deaf.send(&zoolet::protocol::encode_request(Xid(1_000 + xid), &get_root())).await;
    }
    // The server writes the waiting messages for at most five seconds.
    let closed = async {
        while !ask(address, b"srvr").await.contains("Connections: 1\n") {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), closed).await.expect("the connection is closed");
}

#[tokio::test]
async fn a_small_request_for_gigabytes_is_refused() {
    let (_server, address) = listening_server(Config::default()).await;
    let (mut client, _) = Tcp::connect(address, ConnectRequest::new(30_000)).await;
    create_large(&mut client, 1_000_000).await;
    let get = zoolet::protocol::MultiReadOp::GetData("/".into());
    let many = Request::Read(zoolet::protocol::Read::MultiRead(vec![get; 5_000]));
    assert_eq!(client.call(&many).await.0.err, ErrorCode::MARSHALLING_ERROR);
    assert_eq!(client.call(&exists("/")).await.0.err, ErrorCode::OK);
}

#[tokio::test]
async fn a_closed_telnet_session_is_answered_with_any_whitelist() {
    let four_letter_words = zoolet::server::FourLetterWhitelist::all();
    let (_server, address) =
        listening_server(Config { four_letter_words, ..Config::default() }).await;
    let text = ask(address, &[0xff, 0xf4, 0xff, 0xfd]).await;
    assert!(text.contains("not executed"), "{text}");
    assert_eq!(ask(address, b"ruok").await, "imok");
}

#[tokio::test]
async fn access_control_lists_and_identities_have_limits() {
    let server = zoolet::server::Server::builder().start().await.unwrap();
    let (mut client, _) = Local::connect(&server, 30_000).await;
    let entry = |n: usize| zoolet::protocol::Acl {
        permissions: zoolet::protocol::Permissions::READ,
        id: zoolet::protocol::Id::new("ip", format!("10.0.{}.{}", n / 256, n % 256)),
    };
    let set_acl = |entries: usize| {
        let acl = Some((0..entries).map(entry).collect());
        let set = zoolet::protocol::SetAcl { path: "/zookeeper".into(), acl, version: (-1).into() };
        Request::Write(Write::SetAcl(set))
    };
    let max = zoolet_core::limits::ACL_ENTRIES_MAX;
    assert_eq!(client.call(&set_acl(max + 1)).await.0.err, ErrorCode::INVALID_ACL);
    // The address is one of the identities.
    for n in 1..zoolet_core::limits::IDENTITIES_MAX {
        assert_eq!(client.call(&auth(&format!("u{n}:x"))).await.0.err, ErrorCode::OK);
    }
    assert_eq!(client.call(&auth("u0:x")).await.0.err, ErrorCode::AUTH_FAILED);
}

/// Credentials of the digest scheme.
fn auth(credentials: &str) -> Request {
    Request::Session(zoolet::protocol::SessionRequest::Auth(zoolet::protocol::Auth {
        auth_type: 0,
        scheme: Some("digest".into()),
        auth: Some(Bytes::from(credentials.to_owned())),
    }))
}

#[tokio::test]
async fn one_identity_and_all_of_a_connection_have_length_limits() {
    use zoolet_core::limits::{IDENTITIES_BYTES_MAX, IDENTITY_BYTES_MAX};

    let server = zoolet::server::Server::builder().start().await.unwrap();
    let (mut client, _) = Local::connect(&server, 30_000).await;
    let long = |n: usize| format!("{n}{}:secret", "u".repeat(IDENTITY_BYTES_MAX - 100));
    for n in 0..IDENTITIES_BYTES_MAX / IDENTITY_BYTES_MAX {
        assert_eq!(client.call(&auth(&long(n))).await.0.err, ErrorCode::OK);
    }
    let who = Request::Session(zoolet::protocol::SessionRequest::WhoAmI);
    let (_, Response::WhoAmI(infos)) = client.call(&who).await else { panic!("no answer") };
    let bytes: usize = infos.iter().map(|info| info.user.as_deref().unwrap_or("").len()).sum();
    assert!(bytes <= IDENTITIES_BYTES_MAX, "{bytes}");
    assert_eq!(client.call(&auth(&long(9))).await.0.err, ErrorCode::AUTH_FAILED);

    let (mut other, _) = Local::connect(&server, 30_000).await;
    let too_long = format!("{}:secret", "u".repeat(IDENTITY_BYTES_MAX));
    assert_eq!(other.call(&auth(&too_long)).await.0.err, ErrorCode::AUTH_FAILED);

    let (mut third, _) = Local::connect(&server, 30_000).await;
    let id = zoolet::protocol::Id::new("digest", format!("{}:x", "u".repeat(IDENTITY_BYTES_MAX)));
    let entry = zoolet::protocol::Acl { permissions: zoolet::protocol::Permissions::READ, id };
    let acl = Some(vec![entry]);
    let set = zoolet::protocol::SetAcl { path: "/zookeeper".into(), acl, version: (-1).into() };
    let set = Request::Write(Write::SetAcl(set));
    assert_eq!(third.call(&set).await.0.err, ErrorCode::INVALID_ACL);
}

#[tokio::test]
async fn a_request_puts_a_small_multiple_of_its_size_into_the_log() {
    use zoolet_core::limits::{TXN_BYTES_ALWAYS, TXN_BYTES_PER_BYTE};

    let disk = zoolet::server::storage::MemDisk::default();
    let storage = zoolet::server::storage::StorageConfig {
        disk: std::sync::Arc::new(disk.clone()),
        ..zoolet::server::storage::StorageConfig::at("/data")
    };
    let logged = || log_bytes(&disk);
    let config = Config { storage: Some(storage), ..Config::default() };
    let server = zoolet::server::Server::builder().config(config).start().await.unwrap();
    let (mut client, _) = Local::connect(&server, 30_000).await;
    for n in 0..90 {
        assert_eq!(client.call(&auth(&format!("u{n}:x"))).await.0.err, ErrorCode::OK);
    }
    let all = zoolet::protocol::Acl {
        permissions: zoolet::protocol::Permissions::ALL,
        id: zoolet::protocol::Id::new("auth", ""),
    };
    let creates = |count: usize| {
        let create = |n: usize| {
            zoolet::protocol::MultiOp::Create(zoolet::protocol::Create {
                kind: zoolet::protocol::CreateKind::Create,
                path: format!("/{n}").as_str().into(),
                data: None,
                acl: Some(vec![all.clone()]),
                flags: CreateFlags::PERSISTENT,
            })
        };
        Request::Write(Write::Multi((0..count).map(create).collect()))
    };
    let is_refused = |response: &Response| match response {
        Response::Multi(results) => results.iter().any(
            |result| matches!(result, zoolet::protocol::MultiResult::Error(code) if !code.is_ok()),
        ),
        other => panic!("{other:?}"),
    };
    for (count, refused) in [(1, false), (10_000, true)] {
        let before = logged();
        let request = creates(count);
        let (header, response) = client.call(&request).await;
        assert_eq!(is_refused(&response), refused, "{header:?}");
        let asked = request.encoded_len();
        let most = TXN_BYTES_ALWAYS + TXN_BYTES_PER_BYTE * asked;
        let logged = logged() - before;
        assert!(logged <= most as u64, "{logged} bytes in the log for {asked} bytes of request");
    }
}

/// The bytes of all logs on a disk.
fn log_bytes(disk: &zoolet::server::storage::MemDisk) -> u64 {
    use zoolet::server::storage::Disk;

    let directory = std::path::Path::new("/data/version-2");
    let names = disk.list(directory).expect("the directory is there");
    let logs = names.iter().filter(|name| name.starts_with("log."));
    logs.map(|name| disk.length(&directory.join(name)).expect("the log is there")).sum()
}
