//! Clients that stall, break the protocol or come all at once, and those that speak to the wrong port.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use zoolet::client::tls::ClientTls;
use zoolet::client::tls::rustls::crypto::cipher::{
    AeadKey, Iv, MessageEncrypter, OutboundPlainMessage,
};
use zoolet::client::tls::rustls::crypto::tls13::OkmBlock;
use zoolet::client::tls::rustls::{
    ClientConnection, ContentType, KeyLog, ProtocolVersion, SupportedCipherSuite, Tls13CipherSuite,
};
use zoolet::protocol::{ConnectRequest, Encode, FrameCodec};
use zoolet::server::limits::HANDSHAKE_TIMEOUT;
use zoolet::server::tls::ClientAuth;
use zoolet::server::{Config, Server};
use zoolet_test_support::Tcp;

use crate::certificates::{Authority, builder, config, connect, metric, open, server, server_with};

/// The first message of a handshake.
fn hello(tls: &ClientTls) -> Vec<u8> {
    let name = tls.server_name("localhost").unwrap();
    let mut session = ClientConnection::new(tls.config(), name).unwrap();
    let mut bytes = Vec::new();
    session.write_tls(&mut bytes).unwrap();
    bytes
}

/// Reads until the server closes the connection, and returns what it sent.
async fn to_the_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A reset is an end too.
    let _ = stream.read_to_end(&mut bytes).await;
    bytes
}

/// A stream that writes one byte at a time.
struct ByteByByte(TcpStream);

impl AsyncRead for ByteByByte {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for ByteByByte {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, &bytes[..bytes.len().min(1)])
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[tokio::test]
async fn a_client_that_sends_byte_by_byte_is_served() {
    let ca = Authority::new();
    let mut tls = ca.server_tls(ClientAuth::Need);
    tls.port_unification = true;
    let server = server(tls).await;
    let ann = ca.client("ann");
    for address in [server.secure_addr().unwrap(), server.local_addr().unwrap()] {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let name = ann.server_name("localhost").unwrap();
        let connector = TlsConnector::from(ann.config());
        let stream = connector.connect(name, ByteByByte(stream)).await.unwrap();
        let opened = Tcp::over(stream).open_session(&ConnectRequest::new(30_000)).await;
        assert!(!opened.session.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_stalls_is_ended_in_time() {
    let ca = Authority::new();
    let server = server(ca.server_tls(ClientAuth::Need)).await;
    let hello = hello(&ca.client("ann"));
    for sent in [&[][..], &hello[..1], &hello[..hello.len() / 2], &hello] {
        let mut stream = TcpStream::connect(server.secure_addr().unwrap()).await.unwrap();
        #[expect(clippy::disallowed_methods, reason = "the test measures tokio's paused clock")]
        let begin = tokio::time::Instant::now();
        stream.write_all(sent).await.unwrap();
        to_the_end(&mut stream).await;
        let took = begin.elapsed();
        assert!((HANDSHAKE_TIMEOUT..2 * HANDSHAKE_TIMEOUT).contains(&took), "{took:?}");
    }
    assert_eq!(metric(&server, "unsuccessful_handshake").await, 4.0);
    assert_eq!(metric(&server, "outstanding_tls_handshake").await, 0.0);
}

/// The first bytes, by which a unified port knows TLS, are part of the handshake.
#[tokio::test(start_paused = true)]
async fn a_handshake_with_a_unified_port_has_no_more_time() {
    let ca = Authority::new();
    let server = server(ca.server_tls(ClientAuth::Need).port_unification()).await;
    let address = server.local_addr().unwrap();
    let hello = hello(&ca.client("ann"));
    #[expect(clippy::disallowed_methods, reason = "the test measures tokio's paused clock")]
    let begin = tokio::time::Instant::now();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&hello[..4]).await.unwrap();
    while metric(&server, "outstanding_tls_handshake").await < 1.0 {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(HANDSHAKE_TIMEOUT - Duration::from_secs(1)).await;
    stream.write_all(&hello[4..9]).await.unwrap();
    to_the_end(&mut stream).await;
    let took = begin.elapsed();
    assert!((HANDSHAKE_TIMEOUT..HANDSHAKE_TIMEOUT + Duration::from_secs(1)).contains(&took));
    assert_eq!(metric(&server, "unsuccessful_handshake").await, 1.0);
    assert_eq!(metric(&server, "outstanding_tls_handshake").await, 0.0);
}

#[tokio::test]
async fn handshakes_beyond_the_limit_are_closed_and_counted() {
    let ca = Authority::new();
    let mut tls = ca.server_tls(ClientAuth::Need);
    tls.outstanding_handshakes_max = Some(2);
    let server = server(tls).await;
    let (address, ann) = (server.secure_addr().unwrap(), ca.client("ann"));
    let mut stalled = Vec::new();
    for _ in 0..2 {
        stalled.push(TcpStream::connect(address).await.unwrap());
    }
    while metric(&server, "outstanding_tls_handshake").await < 2.0 {
        tokio::task::yield_now().await;
    }
    let mut third = TcpStream::connect(address).await.unwrap();
    assert!(to_the_end(&mut third).await.is_empty());
    assert_eq!(metric(&server, "tls_handshake_exceeded").await, 1.0);
    drop(stalled);
    while metric(&server, "outstanding_tls_handshake").await > 0.0 {
        tokio::task::yield_now().await;
    }
    connect(address, &ann).await;
}

#[tokio::test]
async fn what_is_no_handshake_ends_the_connection_and_is_counted() {
    let ca = Authority::new();
    let server = server(ca.server_tls(ClientAuth::None)).await;
    let address = server.secure_addr().unwrap();
    let mut long_handshake = vec![0x16, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff];
    long_handshake.resize(5 + 0x4000, 0);
    let cases: [&[u8]; 8] = [
        // A handshake of ZooKeeper, in plaintext, and a four-letter word.
        &[0, 0, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x75, 0x30],
        b"ruok\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        // A record that is too long, one of an unknown type, an alert, and a handshake of 16 MB.
        &[0x16, 3, 1, 0xff, 0xff, 0, 0],
        &[0x63, 3, 3, 0, 1, 0],
        &[0x15, 3, 3, 0, 2, 2, 40],
        &long_handshake,
        // The handshake of SSL 2.
        &[0x80, 0x2e, 1, 0, 2, 0, 0x15, 0, 0, 0, 0x10, 1, 0, 0x80],
    ];
    for (count, bytes) in (1..).zip(cases) {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let ended = tokio::time::timeout(HANDSHAKE_TIMEOUT / 2, to_the_end(&mut stream)).await;
        assert!(ended.is_ok(), "{bytes:?}");
        assert_eq!(metric(&server, "unsuccessful_handshake").await, f64::from(count), "{bytes:?}");
    }
    connect(address, &ca.anonymous()).await;
}

#[tokio::test]
async fn tls_to_the_plaintext_port_is_closed_and_counted() {
    let ca = Authority::new();
    let server = server(ca.server_tls(ClientAuth::None)).await;
    let mut stream = TcpStream::connect(server.local_addr().unwrap()).await.unwrap();
    stream.write_all(&hello(&ca.anonymous())).await.unwrap();
    assert!(to_the_end(&mut stream).await.is_empty());
    assert_eq!(metric(&server, "unsuccessful_handshake").await, 1.0);
}

#[tokio::test]
async fn garbage_after_the_handshake_ends_the_connection() {
    let ca = Authority::new();
    let server = server(ca.server_tls(ClientAuth::Need)).await;
    let (address, ann) = (server.secure_addr().unwrap(), ca.client("ann"));
    let mut record = vec![0x17, 3, 3, 0, 100];
    record.resize(105, 7);
    for garbage in [record.as_slice(), b"ruok", &[0xff; 20_000]] {
        let mut connection = Tcp::over(open(address, &ann).await);
        connection.open_session(&ConnectRequest::new(30_000)).await;
        let (mut stream, _session) = connection.into_inner().into_inner();
        stream.write_all(garbage).await.unwrap();
        let ended = tokio::time::timeout(HANDSHAKE_TIMEOUT / 2, to_the_end(&mut stream)).await;
        assert!(ended.is_ok());
    }
    connect(address, &ann).await;
}

#[tokio::test]
async fn a_connection_cut_off_without_a_word_leaves_the_session() {
    let ca = Authority::new();
    let server = server(ca.server_tls(ClientAuth::Need)).await;
    let (address, ann) = (server.secure_addr().unwrap(), ca.client("ann"));
    let mut connection = Tcp::over(open(address, &ann).await);
    let opened = connection.open_session(&ConnectRequest::new(30_000)).await;
    let (stream, _session) = connection.into_inner().into_inner();
    // No `close_notify`.
    drop(stream);
    while metric(&server, "num_alive_connections").await > 1.0 {
        tokio::task::yield_now().await;
    }
    let again = ConnectRequest {
        session: opened.session,
        password: opened.password,
        ..ConnectRequest::new(30_000)
    };
    let mut connection = Tcp::over(open(address, &ann).await);
    assert_eq!(connection.open_session(&again).await.session, opened.session);
}

/// Runs a future on a runtime and threads of its own.
fn apart<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> std::thread::JoinHandle<T> {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(future)
    })
}

/// Keeps the first secret of what a client sends.
#[derive(Debug, Default)]
struct Secrets(Mutex<Vec<u8>>);

impl KeyLog for Secrets {
    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        if label == "CLIENT_TRAFFIC_SECRET_0" {
            *self.0.lock().unwrap() = secret.to_vec();
        }
    }
}

/// Encrypts records for a server over a TLS 1.3 connection whose handshake is done.
struct Records {
    suite: &'static Tls13CipherSuite,
    secret: OkmBlock,
    encrypter: Box<dyn MessageEncrypter>,
    number: u64,
}

impl Records {
    /// Shakes hands over `socket`.
    fn begin(tls: &ClientTls, socket: &mut std::net::TcpStream) -> Self {
        let secrets = Arc::<Secrets>::default();
        let mut config = Arc::unwrap_or_clone(tls.config());
        config.key_log = Arc::<Secrets>::clone(&secrets);
        let name = tls.server_name("localhost").unwrap();
        let mut session = ClientConnection::new(Arc::new(config), name).unwrap();
        while session.is_handshaking() || session.wants_write() {
            session.complete_io(socket).unwrap();
        }
        let Some(SupportedCipherSuite::Tls13(suite)) = session.negotiated_cipher_suite() else {
            panic!("the server does not speak TLS 1.3")
        };
        let secret = OkmBlock::new(&secrets.0.lock().unwrap());
        Self { suite, encrypter: encrypter(suite, &secret), secret, number: 0 }
    }

    fn put(&mut self, typ: ContentType, data: &[u8], records: &mut Vec<u8>) {
        let (version, payload) = (ProtocolVersion::TLSv1_2, data.into());
        let message = OutboundPlainMessage { typ, version, payload };
        records.extend(self.encrypter.encrypt(message, self.number).unwrap().encode());
        self.number += 1;
    }

    /// Puts a key update, and goes on with the next key.
    fn update_key(&mut self, records: &mut Vec<u8>) {
        self.put(ContentType::Handshake, &[24, 0, 0, 1, 0], records);
        let mut next = vec![0; self.secret.as_ref().len()];
        expand(self.suite, &self.secret, "traffic upd", &mut next);
        self.secret = OkmBlock::new(&next);
        (self.encrypter, self.number) = (encrypter(self.suite, &self.secret), 0);
    }
}

fn encrypter(suite: &Tls13CipherSuite, secret: &OkmBlock) -> Box<dyn MessageEncrypter> {
    let (mut key, mut iv) = ([0; 32], [0; 12]);
    assert_eq!(suite.aead_alg.key_len(), key.len(), "the suites that are preferred have such keys");
    expand(suite, secret, "key", &mut key);
    expand(suite, secret, "iv", &mut iv);
    suite.aead_alg.encrypter(AeadKey::from(key), Iv::from(iv))
}

/// HKDF-Expand-Label of TLS 1.3.
fn expand(suite: &Tls13CipherSuite, secret: &OkmBlock, label: &str, output: &mut [u8]) {
    let label = format!("tls13 {label}");
    let length = u16::try_from(output.len()).unwrap().to_be_bytes();
    let label_length = [u8::try_from(label.len()).unwrap()];
    let expander = suite.hkdf_provider.expander_for_okm(secret);
    let info = [&length[..], &label_length, label.as_bytes(), &[0]];
    expander.expand_slice(&info, output).unwrap();
}

/// How long the records without data take that a client sends.
const FLOOD: Duration = Duration::from_secs(3);

#[test]
#[expect(clippy::disallowed_methods, reason = "the test measures how long a client waits")]
fn records_without_data_hold_nobody_up_and_extend_no_session() {
    let ca = Authority::new();
    let tls = ca.server_tls(ClientAuth::Need);
    let ann = ca.client("ann");
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let config = Config { tick_time_ms: 100, ..config() };
    let server: Server = runtime.block_on(server_with(config, tls));
    let (plain, secure) = (server.local_addr().unwrap(), server.secure_addr().unwrap());

    let mut socket = std::net::TcpStream::connect(secure).unwrap();
    let mut records = Records::begin(&ann, &mut socket);
    let mut sent = Vec::new();
    let mut welcome = BytesMut::new();
    ConnectRequest::new(200).encode(&mut welcome);
    let mut frame = BytesMut::new();
    FrameCodec::put(&welcome.freeze(), &mut frame);
    records.put(ContentType::ApplicationData, &frame, &mut sent);
    // The server takes about as long to decrypt them.
    let begin = Instant::now();
    while begin.elapsed() < FLOOD {
        // As many in a row as rustls takes.
        (0..32).for_each(|_| records.put(ContentType::ApplicationData, &[], &mut sent));
        records.update_key(&mut sent);
    }
    let flood = std::thread::spawn(move || socket.write_all(&sent));
    let waited = apart(async move {
        let client = builder().session_timeout(Duration::from_secs(20));
        let client = client.connect(plain.to_string()).await.unwrap();
        let (mut longest, begin) = (Duration::ZERO, Instant::now());
        while begin.elapsed() < FLOOD {
            let asked = Instant::now();
            client.exists("/").await.unwrap();
            longest = longest.max(asked.elapsed());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        longest
    });
    let waited = waited.join().unwrap();
    assert!(waited < FLOOD / 2, "another client waits {waited:?}");
    let _ended = flood.join().unwrap();
    runtime.block_on(async {
        while metric(&server, "stale_sessions_expired").await < 1.0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        server.shutdown().await;
    });
}

const STORM: usize = 1_000;

#[test]
fn a_thousand_handshakes_at_once_expire_no_session() {
    let ca = Authority::new();
    let tls = ca.server_tls(ClientAuth::Need);
    let ann = ca.client("ann");
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    let config = Config { tick_time_ms: 200, ..config() };
    let server: Server = runtime.block_on(server_with(config, tls));
    let (plain, secure) = (server.local_addr().unwrap(), server.secure_addr().unwrap());
    let (done, over) = tokio::sync::oneshot::channel::<()>();
    let victim = apart(async move {
        let client = builder().session_timeout(Duration::from_secs(4));
        let client = client.connect(plain.to_string()).await.unwrap();
        let session = client.session_id();
        client.create("/here").await.unwrap();
        let _ = over.await;
        client.get("/here").await.unwrap();
        (session, client.session_id())
    });
    let shaken = apart(storm(secure, ann)).join().unwrap();
    done.send(()).unwrap();
    let (before, after) = victim.join().unwrap();
    assert_eq!(before, after, "its session has expired");
    assert!(shaken > 0);
    runtime.block_on(async {
        while metric(&server, "outstanding_tls_handshake").await > 0.0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let failed = metric(&server, "unsuccessful_handshake").await as usize;
        assert!(shaken + failed >= STORM, "{shaken} and {failed}");
        server.shutdown().await;
    });
}

/// Shakes hands many times at once, and returns how often that succeeded.
async fn storm(address: SocketAddr, tls: Arc<ClientTls>) -> usize {
    let mut shaking = JoinSet::new();
    for _ in 0..STORM {
        let tls = Arc::clone(&tls);
        shaking.spawn(async move {
            let stream = TcpStream::connect(address).await?;
            let name = tls.server_name("localhost").unwrap();
            TlsConnector::from(tls.config()).connect(name, stream).await.map(drop)
        });
    }
    shaking.join_all().await.iter().filter(|shaken| shaken.is_ok()).count()
}
