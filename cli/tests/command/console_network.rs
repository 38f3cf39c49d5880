//! `zoolet console` on bad networks: servers that hang, and viewers that do not read.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use serde_json::{Value, json};
use tokio::net::TcpListener;
use zoolet::client::Client;
use zoolet_testkit::TestServer;

use crate::console::{Console, View};

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
