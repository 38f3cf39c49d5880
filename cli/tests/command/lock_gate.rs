//! `zoolet lock` that is gone or stands still before its command begins, or as soon as it has begun.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::Child;

use crate::process::{command, directory, ended, send, within_limit};
use crate::stage::Stage;

/// How many run at once, so that no `zoolet lock` is sure to be quicker than its command.
const RUNS: u32 = 16;

/// Starts commands that send this signal to `zoolet lock` before anything else.
fn commands_that_send(signal: &str, stage: &Stage) -> Vec<Child> {
    let script = format!("kill -{signal} $PPID; exec sleep 100");
    let start = |run| {
        let path = format!("/locks/{run}");
        let times = ["--session-timeout", "4s", "--kill-after", "300ms"];
        let args = [&["lock", &path], &times[..], &["--", "sh", "-c", &script]].concat();
        command(&args).env("ZOOLET_SERVER", &stage.address).spawn().unwrap()
    };
    (0..RUNS).map(start).collect()
}

/// The first line on stderr.
async fn told(lock: &mut Child) -> String {
    let mut line = String::new();
    let mut stderr = BufReader::new(lock.stderr.as_mut().unwrap());
    within_limit(stderr.read_line(&mut line)).await.unwrap();
    line
}

#[tokio::test]
async fn a_command_that_kills_zoolet_lock_at_once_is_stopped() {
    let stage = Stage::new().await;
    for mut lock in commands_that_send("KILL", &stage) {
        assert!(told(&mut lock).await.starts_with("error: zoolet lock was killed, so the command"));
        // Whoever has stdout is gone.
        let mut stdout = lock.stdout.take().unwrap();
        within_limit(stdout.read_to_end(&mut Vec::new())).await.unwrap();
    }
}

#[tokio::test]
async fn a_command_that_stops_zoolet_lock_at_once_is_stopped() {
    let stage = Stage::new().await;
    for mut lock in commands_that_send("STOP", &stage) {
        assert!(told(&mut lock).await.starts_with("error: zoolet lock stands still, so the comm"));
        send("CONT", lock.id().unwrap()).await;
        assert_eq!(within_limit(lock.wait()).await.unwrap().code(), Some(75));
    }
}

#[tokio::test]
async fn nothing_is_executed_if_zoolet_lock_is_gone_before_it_opens_the_gate() {
    let file = directory("gate").join("executed");
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut gate = command(&["lock-gate", "touch", file.to_str().unwrap()]);
    gate.stdin(OwnedFd::from(theirs));
    let gate = tokio::spawn(ended(gate));
    drop(ours);
    let ended = gate.await.unwrap();
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(1), ""));
    assert!(!file.exists());
}
