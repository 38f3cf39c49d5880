//! A server whose disk does not wait, and its clients, start no thread on a runtime with one thread:
//! for simulations, and for tests that repeat.

#![cfg(target_os = "linux")]

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use zoolet::client::{Client, StreamDialer};
use zoolet::recipes::InterProcessMutex;
use zoolet::server::Server;
use zoolet::server::storage::SimDisk;
use zoolet::testing::TestServer;

/// Threads that have ended are not counted; those that wait for more work are.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("Linux lists them").count()
}

// The only test of its program: others would run in threads.
#[tokio::test]
async fn a_server_in_memory_starts_no_thread() {
    let before = threads();
    for builder in [
        TestServer::builder(),
        TestServer::builder().forgetful(),
        TestServer::builder().sim_disk(SimDisk::default()),
    ] {
        let builder = builder.configure(|config| {
            if let Some(storage) = &mut config.storage {
                storage.snap_count = 10;
            }
        });
        let server = builder.tcp().start().await.unwrap();
        let client = Client::connect(server.connect_string().unwrap()).await.unwrap();
        for _ in 0..30 {
            let lock = InterProcessMutex::new(&client, "/lock").unwrap();
            lock.acquire().await.unwrap().release().await.unwrap();
        }
        assert_eq!(threads(), before, "{server:?} serves");
        for word in ["mntr", "dump", "cons", "wchp"] {
            assert!(!ask(&server, word).await.is_empty());
        }
        assert_eq!(threads(), before, "{server:?} reports");
        server.reset().unwrap();
        server.restart().await.unwrap();
        server.stop().await;
        assert_eq!(threads(), before, "{server:?} has stopped");
    }

    let server = Server::builder().start().await.unwrap();
    let (theirs, ours) = tokio::io::duplex(1 << 16);
    tokio::spawn(server.serve_stream(theirs, ([127, 0, 0, 1], 7).into()));
    let ours = std::sync::Mutex::new(Some(ours));
    let open = move |_| {
        let ours = ours.lock().unwrap().take();
        async { ours.ok_or_else(|| std::io::ErrorKind::ConnectionRefused.into()) }
    };
    let client = Client::connect(StreamDialer::new("pipe", open).unwrap()).await.unwrap();
    client.create("/a").await.unwrap();
    let snapshot = server.take_snapshot().await.unwrap();
    server.restore(snapshot).await.unwrap();
    server.shutdown().await;
    assert_eq!(threads(), before, "a snapshot is taken and restored");
}

async fn ask(server: &TestServer, word: &str) -> String {
    let address = server.address().expect("it listens");
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("it accepts");
    stream.write_all(word.as_bytes()).await.expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("it answers");
    answer
}
