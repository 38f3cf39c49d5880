//! The command `zoolet lock`: whom it keeps out, what it hands on, and when it stops what it runs.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use zoolet::client::Client;
use zoolet::protocol::{Acl, Id, Permissions};
use zoolet::server::{Config, Server};

use crate::process::{Ended, command_with_default_signals, ended, send, within_limit};

/// A server in this process, and a client of it.
struct Stage {
    server: Server,
    client: Client,
    address: String,
}

impl Stage {
    async fn new() -> Self {
        let config = Config { tick_time_ms: 1000, ..Config::default() };
        let listen = ([127, 0, 0, 1], 0).into();
        let server = Server::builder().config(config).listen(listen).start().await.unwrap();
        let client = Client::connect(server.dialer()).await.unwrap();
        let address = server.local_addr().unwrap().to_string();
        Self { server, client, address }
    }

    fn command(&self, args: &[&str]) -> Command {
        lock(&self.address, args)
    }

    /// Runs it to its end.
    async fn run(&self, args: &[&str]) -> Ended {
        ended(self.command(args)).await
    }

    /// Starts one that holds its lock until it is told otherwise.
    async fn hold(&self, args: &[&str]) -> Holder {
        let script = "echo inside; read -r line; exit 5";
        self.start(&[args, &["--", "sh", "-c", script]].concat()).await
    }

    /// Starts one that says that it is inside.
    async fn start(&self, args: &[&str]) -> Holder {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = within_limit(lines.next_line()).await.unwrap();
        if line.as_deref() != Some("inside") {
            let mut stderr = String::new();
            child.stderr.take().unwrap().read_to_string(&mut stderr).await.unwrap();
            panic!("it is not inside: {line:?} {stderr}");
        }
        Holder { child, lines }
    }

    async fn names(&self, path: &str) -> Vec<String> {
        let names = within_limit(self.client.children(path).into_future()).await.unwrap();
        names.iter().map(str::to_owned).collect()
    }

    /// Waits until so many stand in a line.
    async fn line_of(&self, path: &str, count: usize) {
        within_limit(async {
            while self.names(path).await.len() != count {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }
}

/// A command that is inside.
struct Holder {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Holder {
    async fn next_line(&mut self) -> Option<String> {
        within_limit(self.lines.next_line()).await.unwrap()
    }

    /// Has it leave, and returns its exit status.
    async fn leave(mut self) -> Option<i32> {
        drop(self.child.stdin.take());
        self.status().await
    }

    async fn status(&mut self) -> Option<i32> {
        within_limit(self.child.wait()).await.unwrap().code()
    }

    async fn stderr(&mut self) -> String {
        let mut text = String::new();
        let stderr = self.child.stderr.as_mut().unwrap();
        within_limit(stderr.read_to_string(&mut text)).await.unwrap();
        text
    }

    async fn send(&self, signal: &str) {
        send(signal, self.child.id().unwrap()).await;
    }
}

fn lock(server: &str, args: &[&str]) -> Command {
    let mut command = command_with_default_signals(&[&["lock"], args].concat());
    command.env("ZOOLET_SERVER", server);
    command
}

fn new_path(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&path);
    path
}

/// A server that nobody runs: its port is free again.
async fn nobody() -> String {
    let stage = Stage::new().await;
    stage.server.shutdown().await;
    stage.address
}

#[tokio::test]
async fn processes_hold_the_lock_one_at_a_time() {
    let stage = Stage::new().await;
    let file = new_path("one-at-a-time");
    // Without clobbering a file is opened with O_EXCL.
    let script = format!("set -C; : > '{0}' || exit 9; sleep 0.05; rm '{0}'", file.display());
    for kind in ["--exclusive", "--mutex", "--semaphore=1"] {
        let path = format!("/locks/{kind}");
        let args = [path.as_str(), kind, "--", "sh", "-c", &script];
        let commands: Vec<_> = (0..5).map(|_| tokio::spawn(ended(stage.command(&args)))).collect();
        for command in commands {
            let ended = command.await.unwrap();
            assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{kind}");
        }
    }
    assert_eq!(stage.names("/locks/--exclusive").await, Vec::<String>::new());
}

#[tokio::test]
async fn the_exit_status_is_that_of_the_command() {
    let stage = Stage::new().await;
    let cases = [
        (vec!["true"], 0),
        (vec!["sh", "-c", "exit 7"], 7),
        (vec!["sh", "-c", "kill -KILL $$"], 128 + 9),
        (vec!["/nowhere/command"], 127),
        (vec!["/"], 126),
    ];
    for (command, code) in cases {
        let ended = stage.run(&[&["/locks/a", "--"], &command[..]].concat()).await;
        assert_eq!(ended.code, Some(code), "{command:?} {}", ended.stderr);
        assert_eq!(ended.stderr.is_empty(), code != 126 && code != 127, "{}", ended.stderr);
    }
    assert_eq!(stage.names("/locks/a").await.len(), 0);
}

#[tokio::test]
async fn the_command_receives_its_znode_and_a_growing_fencing_token() {
    let stage = Stage::new().await;
    let script = "echo inside; echo $ZOOLET_FENCING_TOKEN; echo $ZOOLET_LOCK_PATH; read -r line";
    let mut last = 0;
    for kind in ["--shared", "--exclusive", "--exclusive"] {
        let mut holder = stage.start(&["/locks/a", kind, "--", "sh", "-c", script]).await;
        let token: i64 = holder.next_line().await.unwrap().parse().unwrap();
        let path = holder.next_line().await.unwrap();
        assert!(token > last, "{token} {last}");
        last = token;
        let (data, stat) = stage.client.get(&path).await.unwrap();
        assert_eq!(stat.czxid.0, token);
        let data = String::from_utf8(data.to_vec()).unwrap();
        let (who, what) = data.split_once(' ').unwrap();
        assert!(who.ends_with(&format!(":{}", holder.child.id().unwrap())), "{data}");
        assert!(what.starts_with("sh -c 'echo inside"), "{data}");
        assert_eq!(holder.leave().await, Some(1));
    }
}

#[tokio::test]
async fn paths_are_below_the_chroot() {
    let stage = Stage::new().await;
    let server = format!("{}/app", stage.address);
    let ended = stage.run(&["--server", &server, "/a", "sh", "-c", "echo $ZOOLET_LOCK_PATH"]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.starts_with("/a/_c_"), "{}", ended.stdout);
    assert_eq!(stage.names("/app/a").await.len(), 0);
}

#[tokio::test]
async fn nonblock_does_not_wait_for_a_held_lock() {
    let stage = Stage::new().await;
    for (index, kind) in ["--exclusive", "--mutex", "--semaphore=1"].into_iter().enumerate() {
        let path = format!("/locks/{index}");
        let holder = stage.hold(&[&path, kind]).await;
        for args in [vec!["--nonblock"], vec!["--wait=0"], vec!["-n", "-E", "42"]] {
            let code = if args.contains(&"42") { 42 } else { 1 };
            let ended = stage.run(&[&[&path, kind], &args[..], &["--", "true"]].concat()).await;
            assert_eq!(ended.code, Some(code), "{kind} {args:?} {}", ended.stderr);
            let told = format!("error: {path} is held by another; `zoolet cli locks {path}` shows");
            assert!(ended.stderr.starts_with(&told), "{}", ended.stderr);
        }
        assert_eq!(holder.leave().await, Some(5));
        let ended = stage.run(&[&path, kind, "--nonblock", "--", "true"]).await;
        assert_eq!(ended.code, Some(0), "{kind} {}", ended.stderr);
    }
}

#[tokio::test]
async fn a_timeout_leaves_the_line() {
    let stage = Stage::new().await;
    let holder = stage.hold(&["/locks/a"]).await;
    let ended = stage.run(&["/locks/a", "--wait", "2s", "--", "true"]).await;
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert_eq!(stage.names("/locks/a").await.len(), 1);
    assert_eq!(holder.leave().await, Some(5));
}

#[tokio::test]
async fn a_waiter_acquires_the_lock_when_the_holder_releases_it() {
    let stage = Stage::new().await;
    let holder = stage.hold(&["/locks/a"]).await;
    let waiting = tokio::spawn(ended(stage.command(&["/locks/a", "--wait=50s", "echo", "in"])));
    stage.line_of("/locks/a", 2).await;
    assert_eq!(holder.leave().await, Some(5));
    let ended = waiting.await.unwrap();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "in\n"), "{}", ended.stderr);
}

#[tokio::test]
async fn a_missing_server_is_reported_at_the_deadline() {
    let ended = ended(lock(&nobody().await, &["/locks/a", "--wait", "300ms", "--", "true"])).await;
    assert_eq!(ended.code, Some(69), "{}", ended.stderr);
    assert!(ended.stderr.contains("is one running there?"), "{}", ended.stderr);
}

#[tokio::test]
async fn readers_share_the_lock_and_a_writer_excludes_them() {
    let stage = Stage::new().await;
    let one = stage.hold(&["/locks/a", "--shared"]).await;
    let other = stage.hold(&["/locks/a", "--shared"]).await;
    let refused = stage.run(&["/locks/a", "--nonblock", "true"]).await;
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert_eq!((one.leave().await, other.leave().await), (Some(5), Some(5)));

    let alone = stage.hold(&["/locks/a"]).await;
    let refused = stage.run(&["/locks/a", "--shared", "--nonblock", "true"]).await;
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert_eq!(alone.leave().await, Some(5));
}

#[tokio::test]
async fn a_semaphore_admits_as_many_holders_as_it_has_permits() {
    let stage = Stage::new().await;
    let args = ["/permits", "--semaphore", "2"];
    let (one, other) = (stage.hold(&args).await, stage.hold(&args).await);
    let nonblock = [&args[..], &["--nonblock", "--", "true"]].concat();
    assert_eq!(stage.run(&nonblock).await.code, Some(1));
    assert_eq!(one.leave().await, Some(5));
    assert_eq!(stage.run(&nonblock).await.code, Some(0));
    assert_eq!(other.leave().await, Some(5));
    assert_eq!(stage.names("/permits/leases").await.len(), 0);
}

#[tokio::test]
async fn a_path_with_another_kind_of_lock_is_refused() {
    let stage = Stage::new().await;
    let kinds = ["--exclusive", "--mutex", "--semaphore=1"];
    for held in kinds {
        let path = format!("/locks/{held}");
        let holder = stage.hold(&[&path, held]).await;
        for asked in kinds.into_iter().filter(|kind| *kind != held) {
            let ended = stage.run(&[&path, asked, "--wait=20s", "--", "true"]).await;
            assert_eq!(ended.code, Some(78), "{held} {asked} {}", ended.stderr);
        }
        assert_eq!(holder.leave().await, Some(5));
    }
}

#[tokio::test]
async fn a_missing_permission_has_its_own_exit_status() {
    let stage = Stage::new().await;
    let anyone = Id::new("world", "anyone");
    let acl = vec![Acl { permissions: Permissions::READ, id: anyone }];
    stage.client.create("/closed").acl(acl).await.unwrap();
    let ended = stage.run(&["/closed/a", "--", "true"]).await;
    assert_eq!(ended.code, Some(77), "{}", ended.stderr);
    assert!(ended.stderr.contains("NoAuth"), "{}", ended.stderr);
}

/// What a command does that is inside and waits to be stopped.
const TRAPPED: &str = "trap 'echo stopped; exit 3' TERM; echo inside; echo $ZOOLET_LOCK_PATH; \
                       while :; do sleep 0.05; done";

#[tokio::test]
async fn the_command_is_stopped_when_its_znode_is_deleted() {
    let stage = Stage::new().await;
    for kind in ["--exclusive", "--shared", "--mutex", "--semaphore=3"] {
        let path = format!("/locks/{kind}");
        let mut holder = stage.start(&[&path, kind, "--", "sh", "-c", TRAPPED]).await;
        let znode = holder.next_line().await.unwrap();
        stage.client.delete(&znode).await.unwrap();
        assert_eq!(holder.next_line().await.as_deref(), Some("stopped"), "{kind}");
        assert_eq!(holder.status().await, Some(75), "{kind}");
        let stderr = holder.stderr().await;
        let told = format!("error: the lock {path} is lost: its znode was deleted, or ");
        assert!(stderr.contains(&told), "{stderr}");
    }
}

#[tokio::test]
async fn a_command_that_does_not_stop_is_killed_with_its_children() {
    let stage = Stage::new().await;
    // The one in the background has inherited that SIGTERM is ignored.
    let script = "trap '' TERM; (while :; do sleep 0.05; done) & echo inside; echo $!; \
                  echo $ZOOLET_LOCK_PATH; wait";
    let args = ["/locks/a", "--kill-after", "200ms", "--", "sh", "-c", script];
    let mut holder = stage.start(&args).await;
    let started = holder.next_line().await.unwrap();
    let znode = holder.next_line().await.unwrap();
    send("0", started.parse().unwrap()).await;
    stage.client.delete(&znode).await.unwrap();
    assert_eq!(holder.status().await, Some(75));
    // Both have had stdout.
    assert_eq!(holder.next_line().await, None);
}

#[tokio::test]
async fn the_command_is_stopped_when_the_server_is_silent_for_too_long() {
    let stage = Stage::new().await;
    let times = ["--session-timeout", "2s", "--kill-after", "300ms"];
    let args = [&["/locks/a"], &times[..], &["--", "sh", "-c", TRAPPED]].concat();
    let mut holder = stage.start(&args).await;
    holder.next_line().await.unwrap();
    stage.server.shutdown().await;
    assert_eq!(holder.next_line().await.as_deref(), Some("stopped"));
    assert_eq!(holder.status().await, Some(75));
}

#[tokio::test]
async fn a_kill_after_that_exceeds_the_proof_is_warned_of() {
    let stage = Stage::new().await;
    for (kill_after, is_warned_of) in [("300ms", false), ("400ms", true)] {
        let times = ["--session-timeout", "2s", "--kill-after", kill_after];
        let ended = stage.run(&[&["/locks/a"], &times[..], &["--", "true"]].concat()).await;
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(ended.stderr.contains("others may have the lock"), is_warned_of, "{kill_after}");
        assert_eq!(ended.stderr.is_empty(), !is_warned_of, "{}", ended.stderr);
    }
}

#[tokio::test]
async fn a_command_is_not_stopped_after_a_wait_for_its_lock() {
    let stage = Stage::new().await;
    // The proof of the session has half of its time left, almost none, and none.
    for waited in [2_000, 3_000, 6_000].map(Duration::from_millis) {
        let path = format!("/locks/{}", waited.as_millis());
        let holder = stage.hold(&[&path]).await;
        let args = [path.as_str(), "--session-timeout=4s", "--"];
        let script = ["sh", "-c", "sleep 5; echo done"];
        let waiting = tokio::spawn(ended(stage.command(&[&args[..], &script].concat())));
        stage.line_of(&path, 2).await;
        tokio::time::sleep(waited).await;
        assert_eq!(holder.leave().await, Some(5));
        let ended = waiting.await.unwrap();
        assert_eq!(ended.code, Some(0), "{waited:?} {}", ended.stderr);
        assert_eq!(ended.stdout, "done\n");
    }
}

#[tokio::test]
async fn a_lock_lost_before_the_command_ended_is_reported() {
    let stage = Stage::new().await;
    let script = "echo inside; echo $ZOOLET_LOCK_PATH; read -r line; echo ended";
    let mut holder = stage.start(&["/locks/a", "--", "sh", "-c", script]).await;
    let znode = holder.next_line().await.unwrap();
    holder.send("STOP").await;
    stage.client.delete(&znode).await.unwrap();
    drop(holder.child.stdin.take());
    // Who is stopped cannot have stopped it.
    assert_eq!(holder.next_line().await.as_deref(), Some("ended"));
    holder.send("CONT").await;
    assert_eq!(holder.status().await, Some(75));
}

#[tokio::test]
async fn signals_are_forwarded_to_the_command() {
    let stage = Stage::new().await;
    for signal in ["INT", "TERM", "HUP"] {
        let script = format!(
            "trap 'echo {signal}; exit 21' {signal}; echo inside; while :; do sleep 0.05; done"
        );
        let mut holder = stage.start(&["/locks/a", "--", "sh", "-c", &script]).await;
        holder.send(signal).await;
        assert_eq!(holder.next_line().await.as_deref(), Some(signal));
        assert_eq!(holder.status().await, Some(21), "{signal}");
    }
    assert_eq!(stage.names("/locks/a").await.len(), 0);
}

/// What a command does that only SIGKILL ends, and that has a process in the background.
const STUBBORN: &str = "trap '' TERM; (while :; do sleep 0.05; done) & echo inside; wait";

/// What a waiter does who comes next.
async fn next_in_line(stage: &Stage) -> tokio::task::JoinHandle<Ended> {
    let next = stage.command(&["/locks/a", "--wait", "50s", "--", "echo", "next"]);
    let next = tokio::spawn(ended(next));
    stage.line_of("/locks/a", 2).await;
    next
}

#[tokio::test]
async fn the_command_ends_before_the_next_begins_when_zoolet_lock_is_killed() {
    let stage = Stage::new().await;
    for script in ["echo inside; exec sleep 1000", STUBBORN] {
        let times = ["--session-timeout", "4s", "--kill-after", "300ms"];
        let args = [&["/locks/a"], &times[..], &["--", "sh", "-c", script]].concat();
        let mut holder = stage.start(&args).await;
        let next = next_in_line(&stage).await;
        holder.send("KILL").await;
        // All processes that have stdout are gone.
        assert_eq!(holder.next_line().await, None);
        assert!(!next.is_finished(), "the lock is another's before the command is gone");
        assert!(holder.stderr().await.starts_with("error: zoolet lock was killed, so the command"));
        let next = next.await.unwrap();
        assert_eq!(next.stdout, "next\n", "{next:?}");
    }
}

#[tokio::test]
async fn the_command_ends_when_zoolet_lock_is_killed_though_nobody_reads_stderr() {
    let stage = Stage::new().await;
    // More than a pipe takes.
    let script = "head -c 1000000 /dev/zero >&2 & sleep 0.5; echo inside; exec sleep 1000";
    let args = ["/locks/a", "--session-timeout", "4s", "--", "sh", "-c", script];
    let mut holder = stage.start(&args).await;
    let next = next_in_line(&stage).await;
    holder.send("KILL").await;
    assert_eq!(holder.next_line().await, None);
    assert!(!next.is_finished(), "the lock is another's before the command is gone");
    assert_eq!(next.await.unwrap().stdout, "next\n");
}

/// The watchdog of a `zoolet lock`, which has its name soon after its start.
#[cfg(target_os = "linux")]
async fn watchdog_of(holder: &Holder) -> u32 {
    let name = |id: &str| std::fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
    let tasks = format!("/proc/{}/task", holder.child.id().unwrap());
    within_limit(async {
        loop {
            let tasks = std::fs::read_dir(&tasks).unwrap().map(|task| task.unwrap().path());
            let children =
                tasks.map(|task| std::fs::read_to_string(task.join("children")).unwrap());
            let children = children.collect::<String>();
            if let Some(id) = children.split(' ').find(|id| name(id) == "lock-watchdog\n") {
                return id.parse().unwrap();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn no_signal_but_sigkill_ends_the_watchdog_before_zoolet_lock_and_that_is_warned_of() {
    let stage = Stage::new().await;
    let times = ["--session-timeout", "4s", "--kill-after", "300ms"];
    let args = [&["/locks/a"], &times[..], &["--", "sh", "-c", STUBBORN]].concat();
    let mut holder = stage.start(&args).await;
    let watchdog = watchdog_of(&holder).await;
    for signal in ["TERM", "INT", "HUP", "QUIT", "TSTP", "TTOU"] {
        send(signal, watchdog).await;
    }
    let next = next_in_line(&stage).await;
    holder.send("KILL").await;
    assert_eq!(holder.next_line().await, None);
    assert!(!next.is_finished(), "the lock is another's before the command is gone");
    assert_eq!(next.await.unwrap().stdout, "next\n");

    let holder = stage.hold(&["/locks/b"]).await;
    send("KILL", watchdog_of(&holder).await).await;
    let mut stderr = BufReader::new(holder.child.stderr.unwrap()).lines();
    let warning = within_limit(stderr.next_line()).await.unwrap().unwrap();
    assert!(warning.contains("the watchdog is gone"), "{warning}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_is_ignored_at_the_start_is_ignored_and_a_command_that_is_stopped_alone_is_let_be() {
    let stage = Stage::new().await;
    let zoolet = env!("CARGO_BIN_EXE_zoolet");
    let script =
        format!("trap '' HUP INT; exec {zoolet} lock /locks/a -- sh -c 'echo $$; read -r line'");
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .env("ZOOLET_SERVER", &stage.address)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut holder = Holder { child, lines };
    let command: u32 = holder.next_line().await.unwrap().parse().unwrap();
    for signal in ["HUP", "INT"] {
        holder.send(signal).await;
        send(signal, command).await;
    }
    send("STOP", command).await;
    let stat = format!("/proc/{command}/stat");
    within_limit(async {
        while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    send("CONT", command).await;
    holder.child.stdin.as_mut().unwrap().write_all(b"go on\n").await.unwrap();
    assert_eq!(holder.status().await, Some(0));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_command_ends_before_the_next_begins_when_zoolet_lock_stands_still() {
    let stage = Stage::new().await;
    let times = ["--session-timeout", "4s", "--kill-after", "600ms"];
    let script = "trap '' TERM; echo inside; echo $$; while :; do sleep 0.05; done";
    let args = [&["/locks/a"], &times[..], &["--", "sh", "-c", script]].concat();
    let mut holder = stage.start(&args).await;
    let pid = holder.next_line().await.unwrap();
    holder.send("STOP").await;
    // Who stands still does not wait for its child, which so is a zombie at most.
    let state = format!("/proc/{pid}/status");
    let next = stage.run(&["/locks/a", "--wait", "50s", "--", "grep", "^State:", &state]).await;
    assert_eq!(next.stdout, "State:\tZ (zombie)\n", "{next:?}");
    holder.send("CONT").await;
    assert_eq!(holder.status().await, Some(75));
    assert!(holder.stderr().await.starts_with("error: zoolet lock stands still, so the command"));
}

#[tokio::test]
async fn what_a_command_leaves_in_the_background_goes_on() {
    let stage = Stage::new().await;
    let script = "(sleep 0.5; echo later) & echo inside";
    let mut holder = stage.start(&["/locks/a", "--", "sh", "-c", script]).await;
    assert_eq!(holder.status().await, Some(0));
    assert_eq!(holder.next_line().await.as_deref(), Some("later"));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn zoolet_lock_stops_and_continues_with_its_command() {
    let stage = Stage::new().await;
    let script = "echo inside; while read -r line; do echo $line; done";
    let mut holder = stage.start(&["/locks/a", "--", "sh", "-c", script]).await;
    let stat = format!("/proc/{}/stat", holder.child.id().unwrap());
    holder.send("TSTP").await;
    within_limit(async {
        while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    holder.child.stdin.as_mut().unwrap().write_all(b"again\n").await.unwrap();
    holder.send("CONT").await;
    assert_eq!(holder.next_line().await.as_deref(), Some("again"));
    assert_eq!(holder.leave().await, Some(0));
}

#[tokio::test]
async fn a_signal_ends_the_wait_and_leaves_no_znode() {
    let stage = Stage::new().await;
    let holder = stage.hold(&["/locks/a"]).await;
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let mut waiting = stage.command(&["/locks/a", "--", "true"]).spawn().unwrap();
        stage.line_of("/locks/a", 2).await;
        send(signal, waiting.id().unwrap()).await;
        let status = within_limit(waiting.wait()).await.unwrap();
        assert_eq!(status.code(), Some(code), "{signal}");
        assert_eq!(stage.names("/locks/a").await.len(), 1);
    }
    assert_eq!(holder.leave().await, Some(5));
}

#[tokio::test]
async fn a_server_that_refuses_is_told_while_it_is_tried_and_at_the_end() {
    let refused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let ended = ended(lock(&refused.to_string(), &["/a", "--wait", "3s", "true"])).await;
    assert_eq!(ended.code, Some(69), "{ended:?}");
    let lines: Vec<_> = ended.stderr.lines().collect();
    let meanwhile = format!("no server at {refused} yet ({refused}: Connection refused");
    assert!(lines[0].starts_with(&meanwhile), "{ended:?}");
    assert!(lines[0].ends_with("; trying again until 3s have passed"), "{ended:?}");
    let last = format!("could be connected to in time ({refused}: Connection refused");
    assert!(lines[1].contains(&last), "{ended:?}");
}

#[tokio::test]
async fn a_port_that_accepts_and_is_silent_is_told_of() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let ended = ended(lock(&address, &["/a", "--wait", "3s", "true"])).await;
    assert_eq!(ended.code, Some(69), "{ended:?}");
    let lines: Vec<_> = ended.stderr.lines().collect();
    let meanwhile = format!("no server at {address} yet (nothing has answered yet);");
    assert!(lines[0].starts_with(&meanwhile), "{ended:?}");
    let last = "could be connected to in time (nothing has answered yet);";
    assert!(lines[1].contains(last), "{ended:?}");
}

#[tokio::test]
async fn invalid_arguments_get_a_suggestion() {
    let cases: [(&[&str], &str); 6] = [
        (&["/a", "--nonblok", "true"], "'--nonblock'"),
        (&["/a", "--wait", "soon", "true"], "must be a time such as 10s"),
        (&["/a", "--semaphore", "0", "true"], "a whole number from 1 to"),
        (&["/a", "--shared", "--mutex", "true"], "cannot be used with"),
        (&["a", "true"], "does not begin with /"),
        (&["/a"], "<COMMAND>"),
    ];
    for (args, expected) in cases {
        let ended = ended(lock("localhost:1", args)).await;
        assert_eq!(ended.code, Some(2), "{args:?}");
        assert!(ended.stderr.contains(expected), "{args:?} {}", ended.stderr);
    }
}
