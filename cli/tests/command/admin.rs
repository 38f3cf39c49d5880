//! The admin server of `zoolet serve --config FILE`: where it answers whom, and hostile requests.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;
use zoolet_client::Client;
use zoolet_client::tls::{ClientTls, ClientTlsOptions, Store};
use zoolet_server::limits::{HTTP_BODY_TIMEOUT, HTTP_CONNECTIONS_MAX, HTTP_HEAD_BYTES_MAX};

use crate::process::{Running, directory, file, run, within_limit};

/// A server whose file has these lines, and its admin server.
struct Administered {
    server: Running,
    address: SocketAddr,
    /// `None` for plaintext.
    tls: Option<Arc<ClientTls>>,
}

type Stream = Either<TcpStream, TlsStream<TcpStream>>;

impl Administered {
    async fn start(name: &str, lines: &str) -> Self {
        let text = format!(
            "clientPort=0\n4lw.commands.whitelist=*\nadmin.enableServer=true\n\
             admin.serverPort=0\n{lines}"
        );
        let path = file(name, text);
        let mut server = Running::start(&["serve", "--config", as_str(&path)]).await;
        let line = server.logged("admin server on ").await;
        let address = line.split("address=").nth(1).expect("the line says where").trim();
        let address = address.parse().expect("it is an address");
        Self { server, address, tls: None }
    }

    async fn connect(&self) -> std::io::Result<Stream> {
        connect(self.address, self.tls.clone()).await
    }

    /// What is answered to these bytes, until the server closes the connection.
    async fn send(&self, bytes: &[u8]) -> String {
        answer(self.connect().await, bytes).await
    }

    async fn get(&self, path: &str) -> String {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        self.send(request.as_bytes()).await
    }

    async fn end(self) {
        let (status, stderr) = self.server.end("TERM").await;
        assert_eq!(status.code(), Some(0), "{stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
}

async fn connect(address: SocketAddr, tls: Option<Arc<ClientTls>>) -> std::io::Result<Stream> {
    let stream = TcpStream::connect(address).await?;
    let Some(tls) = tls else { return Ok(Either::Left(stream)) };
    let name = tls.server_name("localhost").expect("it is a name");
    Ok(Either::Right(TlsConnector::from(tls.config()).connect(name, stream).await?))
}

/// What is answered, until the server closes the connection; nothing if there is none.
async fn answer(stream: std::io::Result<Stream>, bytes: &[u8]) -> String {
    let Ok(mut stream) = stream else { return String::new() };
    let mut answer = Vec::new();
    within_limit(async {
        // The server may answer and close before it has read all.
        let _ = stream.write_all(bytes).await;
        let _ = stream.flush().await;
        let _ = stream.read_to_end(&mut answer).await;
    })
    .await;
    String::from_utf8_lossy(&answer).into_owned()
}

fn as_str(path: &Path) -> &str {
    path.to_str().expect("the path is UTF-8")
}

#[tokio::test]
async fn a_file_says_where_the_admin_server_is_and_what_its_paths_are() {
    let lines = "admin.serverAddress=localhost\nadmin.commandURL=/zk\nssl.keyStore.password=pw\n";
    let admin = Administered::start("admin-paths.cfg", lines).await;
    assert!(admin.address.ip().is_loopback(), "{}", admin.address);
    let ruok = admin.get("/zk/ruok").await;
    assert!(ruok.starts_with("HTTP/1.1 200 ") && ruok.contains("\"ruok\""), "{ruok}");
    let elsewhere = admin.get("/commands/ruok").await;
    assert!(elsewhere.starts_with("HTTP/1.1 404 ") && elsewhere.contains("/zk"), "{elsewhere}");
    let shown = admin.get("/zk/initial_configuration").await;
    assert!(shown.contains("admin.commandURL=/zk\\nssl.keyStore.password=***\\n"), "{shown}");
    let properties = admin.get("/zk/system_properties").await;
    assert!(properties.contains("\"zookeeper.admin.commandURL\" : \"/zk\""), "{properties}");
    let port = admin.server.address.port();
    let configuration = admin.get("/zk/configuration").await;
    assert!(configuration.contains(&format!("\"client_port\" : {port}")), "{configuration}");
    admin.end().await;
}

#[tokio::test]
async fn without_enable_server_there_is_none() {
    for line in ["", "admin.enableServer=false", "admin.serverPort=0"] {
        let path = file("admin-off.cfg", format!("clientPort=0\n{line}\n"));
        let server = Running::start(&["serve", "--config", as_str(&path)]).await;
        let (_, stderr) = server.end("TERM").await;
        assert!(!stderr.contains("admin server on"), "{stderr}");
    }
}

#[tokio::test]
async fn an_admin_server_that_cannot_start_ends_the_command() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port();
    for (line, code, cure) in [
        (format!("admin.serverPort={port}"), 4, "Choose another address with --admin"),
        ("admin.serverPort=0\nadmin.commandURL=zk".to_owned(), 4, "must begin with /"),
        ("admin.serverPort=http".to_owned(), 2, "from 0 to 65535"),
        ("admin.forceHttps=true".to_owned(), 2, "ssl.quorum.keyStore.location"),
        ("admin.portUnification=true".to_owned(), 2, "ssl.quorum.keyStore.location"),
        ("admin.needClientAuth=true".to_owned(), 2, "admin.forceHttps=true"),
    ] {
        let text = format!("clientPort=0\nadmin.enableServer=true\n{line}\n");
        let path = file("admin-refused.cfg", text);
        let refused = run(&["serve", "--config", as_str(&path)]).await;
        assert_eq!(refused.code, Some(code), "{line}: {}", refused.stderr);
        assert!(refused.stderr.contains(cure), "{line}: {}", refused.stderr);
    }
}

/// Certificates, and the lines by which the admin server has them.
async fn certificates(name: &str) -> (PathBuf, String) {
    let folder = directory(name).join("certs");
    let made = run(&["certs", as_str(&folder)]).await;
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let lines = format!(
        "admin.forceHttps=true\nssl.quorum.keyStore.location={0}/server.p12\n\
         ssl.quorum.keyStore.passwordPath={0}/password\n\
         ssl.quorum.trustStore.location={0}/truststore.p12\n\
         ssl.quorum.trustStore.passwordPath={0}/password\n",
        folder.display()
    );
    (folder, lines)
}

fn client(folder: &Path, certificate: Option<&str>) -> Option<Arc<ClientTls>> {
    let mut options = ClientTlsOptions::new().trust_store(Store::new(folder.join("ca.pem")));
    if let Some(certificate) = certificate {
        options = options.key_store(Store::new(folder.join(certificate)));
    }
    Some(Arc::new(ClientTls::load(options).expect("the files are there")))
}

#[tokio::test]
async fn a_file_makes_the_admin_server_speak_https() {
    let (folder, lines) = certificates("admin-https").await;
    let lines = format!("{lines}admin.needClientAuth=true\n");
    let mut admin = Administered::start("admin-https.cfg", &lines).await;
    assert!(!admin.get("/commands/ruok").await.contains("HTTP/1.1"), "plaintext");
    admin.tls = client(&folder, None);
    assert_eq!(admin.get("/commands/ruok").await, "", "no certificate");
    admin.tls = client(&folder, Some("client.pem"));
    let ruok = admin.get("/commands/ruok").await;
    assert!(ruok.starts_with("HTTP/1.1 200 ") && ruok.contains("\"ruok\""), "{ruok}");
    let shown = admin.get("/commands/initial_configuration").await;
    assert!(shown.contains("ssl.quorum.keyStore.location="), "{shown}");
    admin.end().await;
}

/// A request, and whether its answer is right.
type Case = (&'static str, Vec<u8>, fn(&str) -> bool);

fn is_empty(answer: &str) -> bool {
    answer.is_empty()
}

fn is_forbidden(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 403 ")
}

fn is_bad_request(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 400 ")
}

fn is_too_large(answer: &str) -> bool {
    answer.is_empty() || answer.starts_with("HTTP/1.1 431 ")
}

/// What a program or a page in a browser should not send.
fn hostile() -> Vec<Case> {
    let get = |headers: &str| format!("GET /commands/ruok HTTP/1.1\r\n{headers}\r\n");
    let local = "Host: localhost\r\n";
    let post = |path: &str, headers: &str, body: &str| {
        let authorized = "Authorization: digest a:b\r\nConnection: close\r\n";
        format!("POST /commands/{path} HTTP/1.1\r\n{local}{authorized}{headers}\r\n{body}")
    };
    let text = |name, text: String, is_right: fn(&str) -> bool| (name, text.into_bytes(), is_right);
    let long = "x".repeat(HTTP_HEAD_BYTES_MAX);
    let megabytes = " ".repeat(8 << 20);
    vec![
        text("nothing", String::new(), is_empty),
        text("a stalled request line", "GET /comm".to_owned(), is_empty),
        text("a stalled header", "GET / HTTP/1.1\r\nHost: loc".to_owned(), is_empty),
        text("a stalled body", post("restore", "Content-Length: 100\r\n", "Z"), |answer| {
            answer.starts_with("HTTP/1.1 500 ") && answer.contains("nothing came for")
        }),
        text("another stalled body", post("shed", "Content-Length: 100\r\n", "{"), |answer| {
            is_bad_request(answer) && answer.contains("did not come within")
        }),
        text("a long header", get(&format!("X: {long}\r\n")), is_too_large),
        text("a long path", format!("GET /{long} HTTP/1.1\r\n\r\n"), |answer| {
            answer.is_empty() || answer.starts_with("HTTP/1.1 4")
        }),
        text("many headers", get(&"X: y\r\n".repeat(200)), is_too_large),
        text(
            "a long body",
            post("shed", "Content-Length: 8388608\r\n", &megabytes),
            is_bad_request,
        ),
        text(
            "a body of unknown length",
            post("shed", "Transfer-Encoding: chunked\r\n", "z\r\n"),
            is_bad_request,
        ),
        text(
            "a chunk of any size",
            post("shed", "Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\n"),
            is_bad_request,
        ),
        text(
            "two lengths",
            post("shed", "Content-Length: 1\r\nContent-Length: 2\r\n", "{}"),
            is_bad_request,
        ),
        text(
            "an unknown method",
            format!("BREW /commands/ruok HTTP/1.1\r\n{local}Connection: close\r\n\r\n"),
            |answer| answer.starts_with("HTTP/1.1 405 ") && answer.contains("BREW is not answered"),
        ),
        text(
            "TRACE",
            format!("TRACE /commands/ruok HTTP/1.1\r\n{local}Connection: close\r\n\r\n"),
            is_forbidden,
        ),
        text(
            "a page of another origin",
            get(&format!("{local}Origin: https://example.org\r\nConnection: close\r\n")),
            is_forbidden,
        ),
        text(
            "a page without an origin",
            get(&format!("{local}Origin: null\r\nConnection: close\r\n")),
            is_forbidden,
        ),
        text(
            "an image in a page",
            get(&format!(
                "{local}Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\nConnection: close\r\n"
            )),
            is_forbidden,
        ),
        text("another name", get("Host: example.org\r\nConnection: close\r\n"), is_forbidden),
        text("pipelined garbage", format!("{}\0\u{ff}{{}}\r\n\r\n", get(local)), |answer| {
            answer.starts_with("HTTP/1.1 200 ")
                && answer.matches("HTTP/1.1 ").count() == 2
                && answer.contains("HTTP/1.1 400 ")
        }),
        text("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), |answer| {
            answer.is_empty()
                || answer.starts_with("HTTP/1.1 400 ")
                || answer.starts_with("HTTP/1.1 505 ")
        }),
        text("a four-letter word", "ruok\n".to_owned(), |answer| !answer.contains(" 200 ")),
        ("bytes", vec![0xff; 4_096], |answer| !answer.contains(" 200 ")),
    ]
}

/// The resident memory of a process in KiB.
#[cfg(target_os = "linux")]
fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).expect("it has a number")
}

/// Sends everything hostile at once while a client works, and then opens many connections that send
/// nothing.
async fn attack(admin: &Administered) {
    let client = Client::connect(admin.server.reachable().to_string()).await.unwrap();
    let session = client.session_id();
    client.create("/victim").await.unwrap();
    #[cfg(target_os = "linux")]
    let before = resident_kib(admin.server.pid());

    let mut answers = JoinSet::new();
    for (name, bytes, is_right) in hostile() {
        let (address, tls) = (admin.address, admin.tls.clone());
        answers.spawn(async move {
            (name, answer(connect(address, tls).await, &bytes).await, is_right)
        });
    }
    let all = tokio::time::timeout(2 * HTTP_BODY_TIMEOUT, answers.join_all());
    for (name, answer, is_right) in all.await.expect("each connection ends in time") {
        assert!(is_right(&answer), "{name}: {answer:?}");
    }

    let mut idle = Vec::new();
    for _ in 0..200 {
        idle.push(TcpStream::connect(admin.address).await.unwrap());
    }
    client.set("/victim", "data").await.unwrap();
    assert_eq!(admin.server.ask("ruok").await, "imok");
    let ends = idle.into_iter().map(|stream| answer(Ok(Either::Left(stream)), b""));
    let mut ended = JoinSet::from_iter(ends);
    let mut count = 0;
    let all = async {
        while let Some(answer) = ended.join_next().await {
            assert_eq!(answer.unwrap(), "");
            count += 1;
        }
    };
    tokio::time::timeout(2 * HTTP_BODY_TIMEOUT, all).await.expect("all end in time");
    assert_eq!(count, 200);
    assert!(admin.get("/commands/ruok").await.contains("\"ruok\""), "it answers again");
    assert_eq!(&client.get("/victim").await.unwrap().0[..], b"data");
    assert_eq!(client.session_id(), session, "the session has not expired");
    client.close().await.unwrap();
    #[cfg(target_os = "linux")]
    {
        let after = resident_kib(admin.server.pid());
        assert!(after < before + 64 * 1_024, "{before} KiB before, {after} after");
    }
    const { assert!(HTTP_CONNECTIONS_MAX < 200, "some of them were refused") };
}

const IMPATIENT: &str = "admin.idleTimeout=2000\nadmin.rateLimiterIntervalInMS=0\n";

#[tokio::test]
async fn hostile_requests_end_in_time_and_nobody_else_notices() {
    let admin = Administered::start("admin-hostile.cfg", IMPATIENT).await;
    attack(&admin).await;
    admin.end().await;
}

#[tokio::test]
async fn hostile_requests_by_https_end_in_time_and_nobody_else_notices() {
    let (folder, lines) = certificates("admin-hostile-https").await;
    let lines = format!("{lines}{IMPATIENT}");
    let mut admin = Administered::start("admin-hostile-https.cfg", &lines).await;
    admin.tls = client(&folder, None);
    attack(&admin).await;
    admin.end().await;
}

#[tokio::test]
async fn what_is_asked_while_the_server_ends_is_answered_or_refused() {
    let admin = Administered::start("admin-end.cfg", IMPATIENT).await;
    let address = admin.address;
    let idle = TcpStream::connect(address).await.unwrap();
    let asking = tokio::spawn(async move {
        let request =
            b"GET /commands/monitor HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let mut answers = 0;
        while let Ok(stream) = connect(address, None).await {
            let answer = answer(Ok(stream), request).await;
            assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 200 "), "{answer}");
            answers += usize::from(!answer.is_empty());
        }
        answers
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    admin.end().await;
    assert!(within_limit(asking).await.unwrap() > 0);
    drop(idle);
}
