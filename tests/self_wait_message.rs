//! Tests the message to a task that waits for itself in a program without a `tracing` subscriber.

use std::process::Command;
use std::time::Duration;

use zoolet::recipes::InterProcessMutex;
use zoolet_test_support::stage::{connect, server};

/// Set in the process that waits for itself.
const CHILD: &str = "ZOOLET_TEST_WAITS_FOR_ITSELF";

/// A test that hangs under a paused clock shows nothing that it logged, and nothing that it printed
/// with `println!` or `eprintln!`. So the message must come past both.
#[test]
fn a_task_that_waits_for_itself_is_told_on_the_standard_error() {
    if std::env::var_os(CHILD).is_some() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        return runtime.block_on(wait_for_itself());
    }
    let output = Command::new(std::env::current_exe().unwrap()).env(CHILD, "1").output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    assert_eq!(stderr.matches("/locks/a: this task has waited 1 s").count(), 1, "{stderr}");
}

async fn wait_for_itself() {
    let server = server().await;
    let client = connect(&server).await;
    let mutex = InterProcessMutex::new(&client, "/locks/a").expect("a path");
    let _held = mutex.acquire().await.expect("the lock is free");
    assert!(mutex.acquire_within(Duration::from_secs(60)).await.is_err());
}
