//! `zoolet console` on bad networks: servers that hang, and viewers that do not read.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::net::TcpListener;
use zoolet::client::Client;
use zoolet::protocol::OpCode;
use zoolet_testkit::TestServer;

use crate::console::{Console, View};
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
