//! A client that a write wakes is served before the client that wrote, on the same worker, and each of them gets
//! its reply.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use zoolet::client::Client;
use zoolet::server::Server;

/// Long enough on a busy machine.
const LONG: Duration = Duration::from_secs(20);

/// A server over TCP on a runtime of its own, and its address.
fn server(workers: usize) -> (Runtime, Server, String) {
    let runtime = Builder::new_multi_thread().worker_threads(workers).enable_all().build();
    let runtime = runtime.expect("a runtime starts");
    let server = Server::builder().listen(([127, 0, 0, 1], 0).into());
    let server = runtime.block_on(server.start()).expect("it starts");
    let address = server.local_addr().expect("it listens").to_string();
    (runtime, server, address)
}

/// Each client writes all the time what another one watches, in a ring.
#[test]
fn clients_that_wake_each_other_all_the_time_get_each_reply() {
    const CLIENTS: usize = 6;
    const WRITES: usize = 400;
    let (_serving, _server, address) = server(4);
    let running = Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    running.block_on(async {
        let mut tasks = Vec::new();
        let first = Client::connect(address.as_str()).await.expect("it is there");
        for number in 0..CLIENTS {
            first.create(&format!("/{number}")).await.expect("it is new");
        }
        for number in 0..CLIENTS {
            let (own, other) = (format!("/{number}"), format!("/{}", (number + 1) % CLIENTS));
            let client = Client::connect(address.as_str()).await.expect("it is there");
            tasks.push(tokio::spawn(async move {
                for _ in 0..WRITES {
                    let watched = client.get(&other).and_watch().await.expect("it exists");
                    let set = timeout(LONG, client.set(&own, "")).await;
                    set.expect("each write has a reply").expect("it exists");
                    drop(watched);
                }
            }));
        }
        for task in tasks {
            task.await.expect("the client has all replies");
        }
    });
}

/// How often the workers of a runtime have begun or ended to sleep. It stays the same while all of them sleep.
fn sleeps(runtime: &Runtime) -> u64 {
    let metrics = runtime.metrics();
    (0..metrics.num_workers()).map(|worker| metrics.worker_park_unpark_count(worker)).sum()
}

/// The same once all workers sleep.
async fn settled(runtime: &Runtime) -> u64 {
    let mut before = sleeps(runtime);
    loop {
        tokio::time::sleep(Duration::from_millis(2)).await;
        let now = sleeps(runtime);
        if now == before {
            return now;
        }
        before = now;
    }
}

#[test]
fn the_worker_that_serves_a_write_and_its_event_wakes_no_other_worker() {
    const WRITES: usize = 50;
    let (serving, _server, address) = server(2);
    let running = Runtime::new().expect("a runtime starts");
    running.block_on(async {
        let [writer, watcher] = [(); 2].map(|()| Client::connect(address.as_str()));
        let (writer, watcher) = (writer.await.unwrap(), watcher.await.unwrap());
        writer.create("/a").await.expect("it is new");
        let mut each = Vec::new();
        for _ in 0..WRITES {
            let watched = watcher.get("/a").and_watch().await.expect("it exists");
            let before = settled(&serving).await;
            writer.set("/a", "").await.expect("it exists");
            watched.watcher.await.expect("the event comes");
            each.push(settled(&serving).await - before);
        }
        each.sort_unstable();
        // One worker ends its sleep and begins another one.
        assert_eq!(each[WRITES / 2], 2, "{each:?}");
    });
}
