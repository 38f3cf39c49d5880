//! The client holds back no release of a lock, and nothing that is sent before it ends. Over TCP, since in process
//! every request is answered at once.

use std::sync::mpsc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use zoolet::client::Client;
use zoolet::recipes::{Guard, InterProcessMutex};
use zoolet::server::Server;

const LOCKS: usize = 8;
/// Long enough on a busy machine.
const LONG: Duration = Duration::from_secs(5);

fn over_tcp() -> (Runtime, Server, String) {
    let runtime = Runtime::new().expect("a runtime starts");
    let server = Server::builder().listen(([127, 0, 0, 1], 0).into());
    let server = runtime.block_on(server.start()).expect("it starts");
    let address = server.local_addr().expect("it listens").to_string();
    (runtime, server, address)
}

async fn guards(client: &Client) -> Vec<Guard> {
    let mut guards = Vec::new();
    for number in 0..LOCKS {
        let mutex = InterProcessMutex::new(client, &format!("/locks/{number}")).expect("valid");
        guards.push(mutex.acquire().await.expect("it is free"));
    }
    guards
}

/// Another client acquires the last lock and tells so.
fn wait_for_last(address: String) -> mpsc::Receiver<()> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let client = Client::connect(address).await.expect("it is there");
            for number in 0..LOCKS {
                let mutex =
                    InterProcessMutex::new(&client, &format!("/locks/{number}")).expect("valid");
                drop(mutex.acquire().await);
            }
            let _ = tell.send(());
        });
    });
    told
}

#[test]
fn locks_that_are_dropped_together_are_handed_over_while_the_thread_blocks() {
    let (_serving, _server, address) = over_tcp();
    let running = Builder::new_current_thread().enable_all().build().expect("a runtime");
    running.block_on(async {
        let client = Client::connect(address.as_str()).await.expect("it is there");
        let guards = guards(&client).await;
        let told = wait_for_last(address.clone());
        drop(guards);
        told.recv_timeout(LONG).expect("all locks are handed over");
    });
}

#[test]
fn locks_that_are_dropped_together_are_handed_over_while_a_task_computes_and_workers_idle() {
    let (_serving, _server, address) = over_tcp();
    let running = Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let task = running.spawn(async move {
        let client = Client::connect(address.as_str()).await.expect("it is there");
        let guards = guards(&client).await;
        let told = wait_for_last(address.clone());
        drop(guards);
        let told = told.recv_timeout(LONG);
        drop(client);
        told
    });
    running.block_on(task).unwrap().expect("all locks are handed over");
}

#[test]
fn what_was_sent_before_the_session_is_handed_over_is_carried_out() {
    let (serving, _server, address) = over_tcp();
    serving.block_on(async {
        let client = Client::connect(address.as_str()).await.expect("it is there");
        let guards = guards(&client).await;
        drop(guards);
        let saved = client.hand_over().expect("it has a session");
        let other = Client::connect(address.as_str()).await.expect("it is there");
        for number in (0..LOCKS).rev() {
            let mutex = InterProcessMutex::new(&other, &format!("/locks/{number}")).expect("valid");
            let acquired = mutex.acquire_within(LONG).await;
            assert!(acquired.is_ok(), "lock {number} is held by nobody: {acquired:?}");
        }
        drop(saved);
    });
}
