//! Clients that stall, send too much or read nothing, and the end of the server.

use std::time::Duration;

use axum::Extension;
use axum::routing::{get, post};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;

use super::*;

const IDLE: Duration = Duration::from_secs(30);

struct Served {
    address: SocketAddr,
    end: CancellationToken,
    serving: JoinHandle<()>,
}

async fn serve() -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let slow = async || {
        tokio::time::sleep(3 * IDLE).await;
        "at last"
    };
    let router = Router::new()
        .route("/", get(async || "it works"))
        .route("/body", post(async |body: String| body.len().to_string()))
        .layer(middleware::from_fn(gather_body))
        .route("/slow", get(slow))
        .route("/long", get(async || vec![b'x'; 64 << 20]));
    let end = CancellationToken::new();
    let site = Site::new("the test", router, IDLE);
    let serving = tokio::spawn(site.serve(listener, end.clone()));
    Served { address, end, serving }
}

impl Served {
    /// What comes back for these bytes until the connection is closed.
    async fn answer(&self, sent: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // The server may answer and close before all is sent.
        let _ = stream.write_all(sent).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn half_a_request_is_given_up() {
    let served = serve().await;
    for half in ["", "G", "GET / HTTP/1.1\r\nHost: loc"] {
        let answer = tokio::time::timeout(2 * IDLE, served.answer(half.as_bytes())).await;
        assert!(!answer.expect("it is given up").contains("it works"));
    }
    let half = "POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{";
    let answer = tokio::time::timeout(2 * IDLE, served.answer(half.as_bytes())).await;
    let answer = answer.expect("half a body is given up");
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn what_is_too_long_is_refused() {
    let served = serve().await;
    let head = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(HTTP_HEAD_BYTES_MAX));
    let answer = served.answer(head.as_bytes()).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(HTTP_HEADERS_MAX + 1));
    let answer = served.answer(many.as_bytes()).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");

    let length = HTTP_BODY_BYTES_MAX + 1;
    let head = "POST /body HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
    let body = " ".repeat(length);
    let told = format!("{head}Content-Length: {length}\r\n\r\n{body}");
    let chunked =
        format!("{head}Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n");
    for request in [told, chunked] {
        let answer = served.answer(request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_handler_is_not_taken_for_an_idle_client() {
    let served = serve().await;
    let request = "GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let answer = served.answer(request.as_bytes()).await;
    assert!(answer.ends_with("at last"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_is_cut_off() {
    let served = serve().await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(b"GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    // More than twice the idle time, after which it is cut off.
    tokio::time::sleep(3 * IDLE).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(answer.len() < 64 << 20, "{} bytes", answer.len());
}

#[tokio::test(start_paused = true)]
async fn another_name_is_refused_and_none_is_not() {
    let served = serve().await;
    for host in ["Host: example.org", "Host: local\u{f6}st", "Host: localhost\r\nHost: a.org"] {
        let request = format!("GET / HTTP/1.1\r\n{host}\r\nConnection: close\r\n\r\n");
        let answer = served.answer(request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{host}: {answer}");
    }
    let answer = served.answer(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("it works"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn no_more_connections_than_the_limit_are_served() {
    let served = serve().await;
    let mut idle = Vec::new();
    for _ in 0..HTTP_CONNECTIONS_MAX {
        idle.push(TcpStream::connect(served.address).await.unwrap());
    }
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(served.answer(request).await, "", "closed at once");
    drop(idle);
    // The server notices the ends first.
    while !served.answer(request).await.ends_with("it works") {}
}

/// A site with strangers, whose page `/in` lets a client in.
async fn serve_strangers() -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let let_in = async |Extension(guest): Extension<Guest>| {
        guest.let_in();
        "come in"
    };
    let router = Router::new().route("/", get(async || "it works")).route("/in", get(let_in));
    let end = CancellationToken::new();
    let strangers = Some(IDLE / 6);
    let site = Site { strangers, ..Site::new("the test", router, IDLE) };
    let serving = tokio::spawn(site.serve(listener, end.clone()));
    Served { address, end, serving }
}

/// Asks for a page on a connection that stays open, and reads the answer.
async fn ask(stream: &mut TcpStream, path: &str, end: &str) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(end.as_bytes()) {
        assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0, "closed");
    }
}

#[tokio::test(start_paused = true)]
async fn idle_strangers_keep_nobody_out_and_take_no_place_of_one_who_was_let_in() {
    let served = serve_strangers().await;
    let mut known = TcpStream::connect(served.address).await.unwrap();
    ask(&mut known, "/in", "come in").await;
    let mut idle = Vec::new();
    for _ in 0..2 * HTTP_CONNECTIONS_MAX {
        idle.push(TcpStream::connect(served.address).await.unwrap());
    }
    let mut newest = TcpStream::connect(served.address).await.unwrap();
    ask(&mut newest, "/", "it works").await;
    ask(&mut known, "/", "it works").await;
    let oldest = tokio::time::timeout(Duration::from_millis(1), idle[0].read(&mut [0])).await;
    assert!(matches!(oldest, Ok(Ok(0) | Err(_))), "its place was taken: {oldest:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stranger_has_less_time() {
    let served = serve_strangers().await;
    let mut stranger = TcpStream::connect(served.address).await.unwrap();
    ask(&mut stranger, "/", "it works").await;
    let mut known = TcpStream::connect(served.address).await.unwrap();
    ask(&mut known, "/in", "come in").await;
    let ended = tokio::time::timeout(IDLE / 2, stranger.read(&mut [0])).await;
    assert_eq!(ended.expect("it is cut off").unwrap(), 0);
    ask(&mut known, "/", "it works").await;
}

#[tokio::test]
async fn the_system_notices_that_a_client_is_gone() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (accepted, _) = listener.accept().await.unwrap();
    notice_its_end(&accepted).unwrap();
    let socket = SockRef::from(&accepted);
    assert!(socket.keepalive().unwrap());
    #[cfg(target_os = "linux")]
    {
        let probes = socket.tcp_keepalive_interval().unwrap() * 3;
        assert!(socket.tcp_keepalive_time().unwrap() + probes <= HTTP_GONE_TIMEOUT);
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(HTTP_GONE_TIMEOUT));
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_waits_for_answers_and_not_for_idle_clients() {
    let served = serve().await;
    let mut idle = TcpStream::connect(served.address).await.unwrap();
    idle.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = [0; 15];
    idle.read_exact(&mut answer).await.unwrap();
    served.end.cancel();
    let ended = tokio::time::timeout(SHUTDOWN_TIMEOUT / 2, served.serving).await;
    ended.expect("an idle connection does not hold it up").unwrap();
    assert!(TcpStream::connect(served.address).await.is_err(), "nobody listens");
}
