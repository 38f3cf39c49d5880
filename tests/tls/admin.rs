//! HTTPS for the admin server: what it answers whom, and clients that stall or break the protocol.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use zoolet::client::tls::ClientTls;
use zoolet::client::tls::rustls::ClientConnection;
use zoolet::protocol::{Acl, Id, Permissions};
use zoolet::server::admin::{AdminConfig, HttpsConfig};
use zoolet::server::limits::HANDSHAKE_TIMEOUT;
use zoolet::server::tls::{ClientAuth, ServerTls};
use zoolet::server::{Config, Server, Settings};

use crate::certificates::{ANY, Authority, builder, config, connect, metric, open, server_with};

/// A server whose admin server speaks HTTPS with certificates of an authority.
struct Administered {
    server: Server,
    admin: SocketAddr,
    stores: Arc<ServerTls>,
}

impl Administered {
    async fn start(
        ca: &Authority,
        client_auth: ClientAuth,
        choose: fn(HttpsConfig) -> HttpsConfig,
    ) -> Self {
        let server = Server::builder().config(config()).listen(ANY.into()).start().await.unwrap();
        Self::beside(server, ca, client_auth, choose).await
    }

    async fn beside(
        server: Server,
        ca: &Authority,
        client_auth: ClientAuth,
        choose: fn(HttpsConfig) -> HttpsConfig,
    ) -> Self {
        let stores = ServerTls::load(ca.server_options().client_auth(client_auth)).unwrap();
        let https = choose(HttpsConfig::new(stores));
        let stores = Arc::clone(&https.stores);
        let config =
            AdminConfig { listen: ANY.into(), https: Some(https), ..AdminConfig::default() };
        let admin = server.start_admin(config).await.unwrap();
        Self { server, admin, stores }
    }

    /// What is answered by HTTPS.
    async fn ask(&self, tls: &ClientTls, command: &str, header: &str) -> String {
        ask(open(self.admin, tls).await, command, header).await
    }

    /// What is answered by HTTP.
    async fn ask_in_plaintext(&self, command: &str, header: &str) -> String {
        ask(TcpStream::connect(self.admin).await.unwrap(), command, header).await
    }
}

/// What is answered, until the server closes the connection.
async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str, header: &str) -> String {
    let request = format!(
        "GET /commands/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{header}\r\n"
    );
    // The server may refuse before it has read this.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

fn is_ok(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 200 ")
}

fn https_only(https: HttpsConfig) -> HttpsConfig {
    https
}

#[tokio::test]
async fn plaintext_is_answered_only_if_ports_are_unified() {
    let ca = Authority::new();
    let client = ca.anonymous();
    let only = Administered::start(&ca, ClientAuth::None, https_only).await;
    assert!(is_ok(&only.ask(&client, "ruok", "").await));
    assert!(!only.ask_in_plaintext("ruok", "").await.contains("HTTP"));
    assert_eq!(metric(&only.server, "unsuccessful_handshake").await, 1.0);
    assert_eq!(metric(&only.server, "insecure_admin_count").await, 0.0);

    let both = Administered::start(&ca, ClientAuth::None, HttpsConfig::port_unification).await;
    assert!(is_ok(&both.ask(&client, "ruok", "").await));
    assert!(is_ok(&both.ask_in_plaintext("ruok", "").await));
    assert_eq!(metric(&both.server, "unsuccessful_handshake").await, 0.0);
    assert_eq!(metric(&both.server, "insecure_admin_count").await, 1.0);
    assert_eq!(metric(&both.server, "outstanding_tls_handshake").await, 0.0);
}

#[tokio::test]
async fn requests_follow_one_another_on_a_connection_and_answers_may_be_long() {
    let ca = Authority::new();
    let served = Administered::start(&ca, ClientAuth::None, https_only).await;
    let client = builder().connect(served.server.dialer()).await.unwrap();
    let mut watchers = Vec::new();
    for number in 0..300 {
        let path = format!("/{}{number}", "x".repeat(1_000));
        watchers.push(client.exists(&path).and_watch().await.unwrap());
    }
    let mut stream = open(served.admin, &ca.anonymous()).await;
    let ruok = "GET /commands/ruok HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(ruok.repeat(3).as_bytes()).await.unwrap();
    let answers = ask(stream, "watches_by_path", "").await;
    assert_eq!(answers.matches("HTTP/1.1 200 ").count(), 4, "{answers}");
    assert_eq!(answers.matches("xxx0\"").count(), 1);
    assert!(answers.len() > 300_000 && answers.ends_with("0\r\n\r\n"), "{}", answers.len());
}

#[tokio::test]
async fn who_has_no_trusted_certificate_is_not_answered_if_one_is_needed() {
    let ca = Authority::new();
    let served = Administered::start(&ca, ClientAuth::Need, https_only).await;
    assert!(is_ok(&served.ask(&ca.client("ann"), "ruok", "").await));
    assert_eq!(served.ask(&ca.anonymous(), "ruok", "").await, "");
    let other = Authority::new();
    let stranger = ca.client_of(&other, "ann");
    assert_eq!(served.ask(&stranger, "ruok", "").await, "");
    assert_eq!(metric(&served.server, "unsuccessful_handshake").await, 2.0);
}

/// A server with an admin server, both with TLS, and a root znode that is `ann`'s.
async fn owned_by_ann(clients: &Authority, administrators: &Authority) -> Administered {
    let settings = Settings { x509_scheme: true, ..Settings::default() };
    let config = Config { settings, ..config() };
    let server = server_with(config, clients.server_tls(ClientAuth::Need)).await;
    let ann = connect(server.secure_addr().unwrap(), &clients.client("ann")).await;
    let acl = Acl { permissions: Permissions::ALL, id: Id::new("x509", "CN=ann") };
    ann.set_acl("/", vec![acl]).await.unwrap();
    Administered::beside(server, administrators, ClientAuth::Need, HttpsConfig::port_unification)
        .await
}

#[tokio::test]
async fn a_certificate_is_an_identity_for_commands_that_need_one() {
    let ca = Authority::new();
    let served = owned_by_ann(&ca, &ca).await;
    let x509 = "Authorization: x509\r\n";
    let snapshot = "snapshot?streaming=false";
    let answer = served.ask(&ca.client("ann"), snapshot, x509).await;
    assert!(is_ok(&answer) && answer.contains("snapshot_size"), "{answer}");
    let refused = served.ask(&ca.client("bob"), snapshot, x509).await;
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
    let refused = served.ask(&ca.client("ann"), snapshot, "Authorization: ip\r\n").await;
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
    let refused = served.ask_in_plaintext(snapshot, x509).await;
    assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
}

#[tokio::test]
async fn an_authority_that_the_port_for_clients_does_not_trust_names_nobody() {
    let (clients, administrators) = (Authority::new(), Authority::new());
    let served = owned_by_ann(&clients, &administrators).await;
    let ann = administrators.client("ann");
    assert!(is_ok(&served.ask(&ann, "ruok", "").await));
    let refused = served.ask(&ann, "snapshot", "Authorization: x509\r\n").await;
    assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
}

/// The first message of a handshake.
fn hello(tls: &ClientTls) -> Vec<u8> {
    let name = tls.server_name("localhost").unwrap();
    let mut session = ClientConnection::new(tls.config(), name).unwrap();
    let mut bytes = Vec::new();
    session.write_tls(&mut bytes).unwrap();
    bytes
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_stalls_is_ended_in_time() {
    let ca = Authority::new();
    let hello = hello(&ca.anonymous());
    for choose in [https_only, HttpsConfig::port_unification] {
        let served = Administered::start(&ca, ClientAuth::None, choose).await;
        for sent in [&[][..], &hello[..1], &hello[..hello.len() / 2], &hello] {
            let mut stream = TcpStream::connect(served.admin).await.unwrap();
            #[expect(clippy::disallowed_methods, reason = "the test measures tokio's paused clock")]
            let begin = tokio::time::Instant::now();
            stream.write_all(sent).await.unwrap();
            let _ = stream.read_to_end(&mut Vec::new()).await;
            let took = begin.elapsed();
            assert!((HANDSHAKE_TIMEOUT..2 * HANDSHAKE_TIMEOUT).contains(&took), "{took:?}");
        }
        assert_eq!(metric(&served.server, "outstanding_tls_handshake").await, 0.0);
    }
}

#[tokio::test]
async fn what_is_no_handshake_ends_the_connection() {
    let ca = Authority::new();
    let served = Administered::start(&ca, ClientAuth::None, https_only).await;
    let mut long_handshake = vec![0x16, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff];
    long_handshake.resize(5 + 0x4000, 0);
    let cases: [&[u8]; 5] = [
        b"GET /commands/ruok HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"ruok\n",
        &[0x16, 3, 1, 0xff, 0xff, 0, 0],
        &[0xff; 1_000],
        &long_handshake,
    ];
    for bytes in cases {
        let mut stream = TcpStream::connect(served.admin).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let end = tokio::time::timeout(HANDSHAKE_TIMEOUT / 2, async {
            let _ = stream.read_to_end(&mut Vec::new()).await;
        });
        assert!(end.await.is_ok(), "{bytes:?}");
    }
    let mut stream = open(served.admin, &ca.anonymous()).await;
    stream.get_mut().0.write_all(&[0x17, 3, 3, 0, 4, 1, 2, 3, 4]).await.unwrap();
    let end = tokio::time::timeout(HANDSHAKE_TIMEOUT / 2, async {
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    assert!(end.await.is_ok(), "garbage after the handshake");
    assert!(is_ok(&served.ask(&ca.anonymous(), "ruok", "").await));
}

#[tokio::test]
async fn handshakes_of_administrators_do_not_count_for_the_limit_of_clients() {
    let ca = Authority::new();
    let mut tls = ca.server_tls(ClientAuth::Need);
    tls.outstanding_handshakes_max = Some(1);
    let server = server_with(config(), tls).await;
    let served = Administered::beside(server, &ca, ClientAuth::None, https_only).await;
    let mut stalled = Vec::new();
    for _ in 0..3 {
        stalled.push(TcpStream::connect(served.admin).await.unwrap());
    }
    while metric(&served.server, "outstanding_tls_handshake").await < 3.0 {
        tokio::task::yield_now().await;
    }
    connect(served.server.secure_addr().unwrap(), &ca.client("ann")).await;
    assert!(is_ok(&served.ask(&ca.anonymous(), "ruok", "").await));
    assert_eq!(metric(&served.server, "tls_handshake_exceeded").await, 0.0);
}

#[tokio::test(start_paused = true)]
async fn the_files_are_looked_at_every_few_seconds_if_that_is_asked_for() {
    let ca = Authority::new();
    for (choose, is_asked_for) in
        [(https_only as fn(_) -> _, false), (HttpsConfig::certificate_reload, true)]
    {
        let served = Administered::start(&ca, ClientAuth::None, choose).await;
        let before = served.stores.config();
        ca.issue("server");
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert_eq!(!Arc::ptr_eq(&before, &served.stores.config()), is_asked_for);
        served.server.shutdown().await;
    }
}
