//! `zoolet console` on bad networks: servers that hang, and viewers that do not read.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use zoolet::client::Client;
use zoolet::protocol::OpCode;
use zoolet_testkit::TestServer;

use crate::console::{self, Console, Served, View};
use crate::process::{Running, send, within_limit};

/// A server that accepts connections and never answers.
struct Hung {
    address: String,
    accepted: Arc<AtomicUsize>,
}

impl Hung {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok(connection) = listener.accept().await {
                count.fetch_add(1, Relaxed);
                open.push(connection);
            }
        });
        Self { address, accepted }
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Relaxed)
    }
}

/// The state after so many more slow looks.
async fn after_looks(view: &mut View, looks: usize) -> Value {
    let mut seen = Vec::new();
    view.until(|state| {
        if let Some(looked) = state["looked_ms"].as_i64()
            && seen.last() != Some(&looked)
        {
            seen.push(looked);
        }
        seen.len() > looks
    })
    .await
}

#[tokio::test]
async fn a_server_that_hangs_does_not_hold_up_what_the_others_tell() {
    let server = TestServer::builder().tcp().start().await.unwrap();
    let address = server.address().unwrap().to_string();
    let client = Client::connect(address.as_str()).await.unwrap();
    let hung = Hung::new().await;
    let hosts = format!("{},{address}", hung.address);
    let console = Console::start(&[&hosts, "--interval", "100ms"]).await;
    let mut view = View::open(console.address).await;
    let first = after_looks(&mut view, 1).await;
    let before = hung.accepted();
    // Each look would wait ten seconds for it, and pause for thirty.
    let state = after_looks(&mut view, 20).await;
    assert!(state["looked_ms"].as_i64() > first["looked_ms"].as_i64());
    // A word and whether it has TLS, of the probe that may have begun meanwhile.
    assert!(hung.accepted() - before <= 4, "{} connections", hung.accepted() - before);
    let gaps = state["not_seen"].as_array().unwrap();
    let subjects: Vec<_> = gaps.iter().map(|gap| gap["subject"].as_str().unwrap()).collect();
    assert_eq!(subjects, [format!("srvr, cons, dump, wchs of {}", hung.address)]);
    assert!(gaps[0]["cause"].as_str().unwrap().contains("does not answer"), "{gaps:?}");
    let session = &state["sessions"][client.session_id().to_string()];
    assert_eq!(session["server"], address, "{session}");
    assert_eq!(state["metrics"]["servers"], json!([address]), "those of the one that answers");
}

#[tokio::test]
async fn a_server_that_stands_still_or_is_killed_is_told_within_seconds() {
    let server = Running::start(&["serve", "--listen", "127.0.0.1:0"]).await;
    let address = server.reachable().to_string();
    let console = Console::start(&[&address]).await;
    let mut view = View::open(console.address).await;
    after_looks(&mut view, 1).await;
    send("STOP", server.pid()).await;
    let silent_for = |state: &Value| {
        let answered = state["silent"]["answered_ms"].as_i64()?;
        Some(state["time_ms"].as_i64().unwrap() - answered)
    };
    let told = view.until(|state| silent_for(state).is_some()).await;
    let silent = silent_for(&told).unwrap();
    assert!((3_000..8_000).contains(&silent), "after {silent} ms");
    assert!(told["sessions"].is_object(), "what was seen last stays in sight");
    send("CONT", server.pid()).await;
    view.until(|state| state["silent"].is_null()).await;
    server.end("KILL").await;
    let told = view.until(|state| silent_for(state).is_some()).await;
    let silent = silent_for(&told).unwrap();
    assert!((3_000..8_000).contains(&silent), "after {silent} ms");
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the console is a process of its own, in real time")]
async fn a_server_that_answers_has_one_small_request_more_a_second() {
    let server = TestServer::builder().tcp().start().await.unwrap();
    let address = server.address().unwrap().to_string();
    // So rarely that nothing else is asked.
    let console = Console::start(&[&address, "--interval", "1h"]).await;
    let mut view = View::open(console.address).await;
    after_looks(&mut view, 0).await;
    let asked = || -> u64 {
        let stats = server.observer().stats();
        stats.sessions().map(|(_, session)| session.requests.of(OpCode::EXISTS)).sum()
    };
    let until = async |count: u64| {
        within_limit(async {
            while asked() < count {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Instant::now()
        })
        .await
    };
    let first = until(asked() + 1).await;
    let last = until(asked() + 3).await;
    assert!(last - first > Duration::from_millis(2_500), "in {:?}", last - first);
}

#[tokio::test]
async fn of_a_server_that_never_answers_the_page_tells_and_the_end_comes_at_once() {
    let hung = Hung::new().await;
    let mut console = Console::start(&[&hung.address]).await;
    let mut view = View::open(console.address).await;
    // Before the connection is given up, which takes ten seconds.
    let told = view.until(|state| state["silent"].is_object()).await;
    assert_eq!((&told["silent"]["answered_ms"], &told["trouble"]), (&Value::Null, &Value::Null));
    let head = "GET / HTTP/1.1\r\nHost: localhost";
    assert_eq!(console::send(console.address, head, "").await.status, 200);
    send("TERM", console.child.id().unwrap()).await;
    let ended = tokio::time::timeout(Duration::from_secs(8), console.child.wait()).await;
    assert_eq!(ended.unwrap().unwrap().code(), Some(0));
}

/// Changes the places of many queues, so that each look has much to tell.
struct Churn {
    client: Client,
    queues: Vec<String>,
    round: usize,
}

/// How many queues there are, with how many places.
const QUEUES: usize = 40;
const PLACES: usize = 100;

impl Churn {
    async fn new(client: Client) -> Self {
        let queues: Vec<String> = (0..QUEUES).map(|queue| format!("/queue-{queue}")).collect();
        let mut sent: Vec<_> = queues.iter().map(|queue| client.create(queue).send()).collect();
        let places = queues
            .iter()
            .flat_map(|queue| (0..PLACES).map(move |number| format!("{queue}/lock-{number:010}")));
        sent.extend(places.map(|path| client.create(&path).send()));
        for created in sent {
            created.await.unwrap();
        }
        Self { client, queues, round: 0 }
    }

    /// Changes each queue, and waits until this viewer has seen it: about a mebibyte.
    async fn go_on(&mut self, view: &mut View) {
        self.round += 1;
        let last = format!("lock-{:010}", PLACES - self.round % 2);
        for queue in &self.queues {
            let other = format!("lock-{:010}", PLACES - (self.round + 1) % 2);
            let gone = self.client.delete(&format!("{queue}/{other}")).send();
            let come = self.client.create(&format!("{queue}/{last}")).send();
            // The first round has nothing to delete, or nothing to create.
            let _ = (gone.await, come.await);
        }
        view.until(|state| {
            let locks = state["locks"].as_object().unwrap();
            let is_new = |lock: &Value| {
                lock["places"].as_array().unwrap().iter().any(|place| place["znode"] == last)
            };
            locks.len() == QUEUES && locks.values().all(is_new)
        })
        .await;
    }
}

/// The memory of a process that is in use, in bytes.
fn memory(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

/// Viewers that never read take little memory, and others are told all the same. Returns these viewers.
async fn deaf_viewers_hold_up_nobody(
    address: SocketAddr,
    pid: u32,
    client: Client,
) -> Vec<TcpStream> {
    let mut churn = Churn::new(client).await;
    let mut view = View::open(address).await;
    for _ in 0..15 {
        churn.go_on(&mut view).await;
    }
    let baseline = memory(pid);
    let mut deaf = Vec::new();
    for _ in 0..8 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4 << 10).unwrap();
        let mut stream = socket.connect(address).await.unwrap();
        let request = b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stream.write_all(request).await.unwrap();
        deaf.push(stream);
    }
    for _ in 0..30 {
        churn.go_on(&mut view).await;
    }
    let grown = memory(pid).saturating_sub(baseline);
    // Each has a message under way and at most a mebibyte that waits. What was sent meanwhile is more.
    assert!(grown < 24 << 20, "from {baseline} bytes by {grown}");
    deaf
}

#[tokio::test]
async fn viewers_that_never_read_hold_up_neither_others_nor_the_end() {
    let server = TestServer::builder().tcp().start().await.unwrap();
    let client = server.connect().await.unwrap();
    let address = server.address().unwrap().to_string();
    let mut console = Console::start(&[&address, "--interval", "1s"]).await;
    let pid = console.child.id().unwrap();
    let deaf = deaf_viewers_hold_up_nobody(console.address, pid, client.clone()).await;
    send("TERM", pid).await;
    let ended = tokio::time::timeout(Duration::from_secs(20), console.child.wait()).await;
    assert_eq!(ended.unwrap().unwrap().code(), Some(0));
    // Its session was closed, and does not wait for its timeout.
    assert_eq!(server.connections().unwrap().len(), 1);
    drop(deaf);
}

#[tokio::test]
async fn viewers_of_a_server_that_never_read_hold_up_neither_others_nor_the_end() {
    let served = Served::start(&[]).await;
    let client = served.connect().await;
    let deaf =
        deaf_viewers_hold_up_nobody(served.console, served.server.pid(), client.clone()).await;
    let (status, stderr) = served.server.end("TERM").await;
    assert_eq!(status.code(), Some(0), "{stderr}");
    drop((deaf, client));
}
