//! The command `zoolet cli`, with commands from its arguments and from a pipe.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use zoolet::client::Client;
use zoolet::protocol::CreateMode;
use zoolet::recipes::{InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphoreV2};

use crate::process::{self, Running, within_limit};
use crate::stage::{Stage, cli, masked, run};

/// As [`masked`], with one space wherever there are several.
fn squeezed(text: &str) -> String {
    let line = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n";
    masked(&text.lines().map(line).collect::<String>())
}

#[tokio::test]
async fn a_script_reads_and_writes() {
    let stage = Stage::new().await;
    let ended = stage
        .script(
            "# what there is\n\
             ls /\n\
             create /a 'two words'\n\
             get /a\n\
             create -p /b/c/d\n\
             create -s /b/n- x\n\
             \n\
             set -v 0 /a \"it's new\"\n\
             set -s /a -17\n\
             ls -s /b\n\
             ls -R /b\n\
             create -e /e\n\
             delete -v 0 /e\n\
             deleteall /b\n\
             ls\n\
             sync /\n\
             whoami\n",
        )
        .await;
    let expected = "[zookeeper]\n\
                    Created /a\n\
                    two words\n\
                    Created /b/c/d\n\
                    Created /b/n-0000000001\n\
                    cZxid = 0x3\n\
                    ctime = TIME\n\
                    mZxid = 0x9\n\
                    mtime = TIME\n\
                    pZxid = 0x3\n\
                    cversion = 0\n\
                    dataVersion = 2\n\
                    aclVersion = 0\n\
                    ephemeralOwner = 0x0\n\
                    dataLength = 3\n\
                    numChildren = 0\n";
    let (stat, rest) = ended.stdout.split_at(ended.stdout.find("[c, n-").unwrap());
    assert_eq!(masked(stat), expected);
    assert_eq!(
        masked(rest).lines().filter(|line| !line.contains(" = ")).collect::<Vec<_>>(),
        [
            "[c, n-0000000001]",
            "/b",
            "/b/c",
            "/b/c/d",
            "/b/n-0000000001",
            "Created /e",
            "[a, zookeeper]",
            "Sync is OK",
            "Auth scheme: User",
            "ip: 127.0.0.1",
        ]
    );
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let (data, _) = stage.client.get("/a").await.unwrap();
    assert_eq!(&data[..], b"-17");
}

#[tokio::test]
async fn a_failed_command_is_reported_with_its_line_and_the_script_goes_on() {
    let stage = Stage::new().await;
    let ended = stage
        .script(
            "create /a/b\n\
             create /a\n\
             create /a\n\
             create /a/b\n\
             delete /a\n\
             set -v 7 /a x\n\
             get /nothing\n\
             stat /nothing\n\
             create -e /e\n\
             create /e/x\n\
             deleteall /\n\
             gte /a\n\
             ls --recursiv /\n\
             get 'a\n\
             get a\n\
             ls /a\n",
        )
        .await;
    let expected = "\
error in line 1: Node does not exist: /a/b; its parent /a is missing; `create -p` makes it too
error in line 3: Node already exists: /a; `set` replaces its data, `create -s` adds a number
error in line 5: Node not empty: /a; `deleteall /a` deletes its children too
error in line 6: version No is not valid : /a; somebody has changed it, and `stat /a` shows its version
error in line 7: Node does not exist: /nothing; `ls` shows what there is, `create` makes one
error in line 8: Node does not exist: /nothing; `ls` shows what there is, `create` makes one
error in line 10: Ephemerals cannot have children: /e/x; its parent /e is ephemeral
error in line 11: the root is there to stay; name one of its children
error in line 12: there is no command \"gte\"; did you mean get?
error in line 13: unexpected argument '--recursiv' found

  tip: a similar argument exists: '--recursive'

Usage: ls --recursive [PATH]
error in line 14: a quote is not closed: ' and \" come in pairs, and \\' stands for one by itself
error in line 15: invalid value 'a' for '<PATH>': \"a\": does not begin with /
";
    assert_eq!(ended.stderr, expected);
    assert_eq!(ended.stdout, "Created /a\nCreated /a/b\nCreated /e\n[b]\n");
    assert_eq!(ended.code, Some(1));
}

#[tokio::test]
async fn stop_on_error_and_quit_end_a_script() {
    let stage = Stage::new().await;
    let script = "ls /nothing\ncreate /a\n";
    let ended = run(&stage.address, &["--stop-on-error"], script).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    let ended = stage.script("create /a\nquit\ncreate /b\n").await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "Created /a\n"));
    assert_eq!(stage.client.exists("/b").await.unwrap(), None);
}

#[tokio::test]
async fn the_exit_status_is_that_of_a_single_command() {
    let stage = Stage::new().await;
    let created = stage.run(&["create", "/a b", "two words"]).await;
    assert_eq!((created.code, created.stdout.as_str()), (Some(0), "Created /a b\n"));
    let got = stage.run(&["get", "/a b"]).await;
    assert_eq!((got.code, got.stdout.as_str()), (Some(0), "two words\n"));
    let listed = stage.run(&["ls", "-R", "/"]).await;
    assert!(listed.stdout.starts_with("/\n/a b\n/zookeeper\n"), "{}", listed.stdout);
    let missing = stage.run(&["get", "/nothing"]).await;
    assert_eq!(missing.code, Some(1));
    assert!(missing.stderr.starts_with("error: Node does not exist: /nothing; "));
    let help = stage.run(&["help", "create"]).await;
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
    assert!(help.stdout.contains("--ephemeral"), "{}", help.stdout);
}

#[tokio::test]
async fn usage_errors_and_a_missing_server_have_their_own_exit_statuses() {
    let stage = Stage::new().await;
    stage.server.shutdown().await;
    let wrong = run(&stage.address, &["gte", "/a"], "").await;
    assert_eq!(wrong.code, Some(2), "words are looked at before a server is looked for");
    assert_eq!(wrong.stderr, "error: there is no command \"gte\"; did you mean get?\n");
    let wrong = run(&stage.address, &["--serve", "x", "ls"], "").await;
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("'--server'"), "{}", wrong.stderr);
    let alone = run(&stage.address, &["--connect-timeout", "300ms", "ls", "/"], "").await;
    assert_eq!(alone.code, Some(69));
    assert!(alone.stderr.contains("is one running there?"), "{}", alone.stderr);
    let alone = run(&stage.address, &["--connect-timeout", "1500ms", "ls", "/"], "").await;
    let meanwhile = format!("no server at {0} yet ({0}: Connection refused", stage.address);
    assert!(alone.stderr.starts_with(&meanwhile), "{}", alone.stderr);
    assert_eq!(alone.stderr.lines().count(), 2, "{}", alone.stderr);
}

#[tokio::test]
async fn a_multi_is_carried_out_whole_or_not_at_all() {
    let stage = Stage::new().await;
    let ended = stage
        .script(
            "multi 'create /a' 'create -s /a/n- \"two words\"' 'create -e /e'\n\
             multi 'check -v 0 /a' 'set /a x' 'delete /a/n-0000000000'\n\
             multi 'set /a y' 'check -v 0 /a' 'delete /a'\n\
             multi 'get /a'\n\
             get /a\n",
        )
        .await;
    assert_eq!(ended.stdout, "Created /a\nCreated /a/n-0000000000\nCreated /e\nx\n");
    assert_eq!(
        ended.stderr,
        "error in line 3: nothing was done, because of operation 2 of the multi: version No is not \
         valid : /a; somebody has changed it, and `stat /a` shows its version\n\
         error in line 4: there is no operation \"get\"; did you mean set?\n"
    );
    assert_eq!(ended.code, Some(1));
}

#[tokio::test]
async fn paths_are_below_the_chroot() {
    let stage = Stage::new().await;
    stage.client.create("/app").await.unwrap();
    let script = "create /a\nmulti 'create /b'\nstat -w /a\nset /a x\nls -R /\n";
    let ended = run(&format!("{}/app", stage.address), &[], script).await;
    let lines: Vec<_> = ended.stdout.lines().filter(|line| !line.contains(" = ")).collect();
    let expected = ["Created /a", "Created /b", "event: NodeDataChanged /a", "/", "/a", "/b"];
    assert_eq!(lines, expected, "{}", ended.stderr);
}

#[tokio::test]
async fn a_watch_prints_its_event_once_and_before_the_next_reply() {
    let stage = Stage::new().await;
    let ended = stage
        .script(
            "create /a\n\
             get -w /a\n\
             ls -w /a\n\
             set /a x\n\
             create /a/b\n\
             set /a y\n\
             stat -w /nothing\n\
             create /nothing\n",
        )
        .await;
    let expected = "Created /a\n\n[]\nevent: NodeDataChanged /a\nCreated /a/b\n\
                    event: NodeChildrenChanged /a\nCreated /nothing\nevent: NodeCreated /nothing\n";
    assert_eq!(ended.stdout, expected);
    let stderr = "error in line 7: Node does not exist: /nothing; `ls` shows what there is, `create` \
                  makes one\n";
    assert_eq!(ended.stderr, stderr);
}

#[tokio::test]
async fn watch_prints_changes_as_they_happen() {
    let stage = Stage::new().await;
    let mut child = cli(&stage.address, &["watch", "-R", "-n", "4", "/a"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = within_limit(lines.next_line()).await.unwrap();
    assert_eq!(first.as_deref(), Some("watching /a"));
    stage.client.create("/a").await.unwrap();
    let created = within_limit(lines.next_line()).await.unwrap();
    assert_eq!(created.as_deref(), Some("NodeCreated /a"), "at once, not at the end");
    stage.client.create("/a/b").await.unwrap();
    stage.client.set("/a/b", "x").await.unwrap();
    stage.client.delete("/a/b").await.unwrap();
    for expected in ["NodeCreated /a/b", "NodeDataChanged /a/b", "NodeDeleted /a/b"] {
        let line = within_limit(lines.next_line()).await.unwrap();
        assert_eq!(line.as_deref(), Some(expected));
    }
    assert_eq!(within_limit(child.wait()).await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn access_control_lists_are_shown_set_and_enforced() {
    let stage = Stage::new().await;
    let ended = stage
        .script(
            "addauth digest ann:secret\n\
             create /a data auth::cdrwa\n\
             getAcl /a\n\
             create /b\n\
             setAcl -v 0 /b world:anyone:r,ip:10.0.0.1:rw\n\
             acl /b\n\
             set /b x\n",
        )
        .await;
    let lines: Vec<_> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), 5, "{}", ended.stdout);
    assert!(lines[1].starts_with("digest:ann:") && lines[1].ends_with("=:cdrwa"), "{}", lines[1]);
    assert_eq!(&lines[2..], ["Created /b", "world:anyone:r", "ip:10.0.0.1:rw"]);
    let refused = |path: &str| format!("Insufficient permission : {path}; `getAcl {path}` shows");
    assert!(ended.stderr.contains(&refused("/b")), "{}", ended.stderr);
    let other = stage.run(&["get", "/a"]).await;
    assert!(other.stderr.contains(&refused("/a")), "{}", other.stderr);
    let acl = stage.run(&["getAcl", "/a"]).await;
    assert!(acl.stderr.contains("/a; neither read nor admin is allowed; `addauth`"), "{acl:?}");
}

/// A server ends the connection at a request that is too long for it.
#[tokio::test]
async fn the_write_of_long_data_may_be_too_long_for_the_server() {
    let server =
        Running::start(&["serve", "--listen", "127.0.0.1:0", "--jute-maxbuffer", "70000"]).await;
    let (server, long) = (server.address.to_string(), "x".repeat(100_000));
    let ended = process::run(&["cli", "-s", &server, "create", "/long", &long]).await;
    let expected = "perhaps the data, of 100000 bytes, is longer than the server's jute.maxbuffer";
    assert!(ended.stderr.contains(expected), "{ended:?}");
}

#[tokio::test]
async fn locks_lists_holders_and_waiters_in_order() {
    let stage = Stage::new().await;
    let other = Client::connect(stage.server.dialer()).await.unwrap();
    let mutex = |client| InterProcessMutex::new(client, "/mutex").unwrap();
    let _held = mutex(&stage.client).with_data("here:1 backup").acquire().await.unwrap();
    let waiter = mutex(&other).with_data("there:2 backup");
    tokio::spawn(async move { waiter.acquire().await });
    let both = InterProcessReadWriteLock::new(&stage.client, "/both").unwrap();
    let _read = both.with_data("reader").read_lock().acquire().await.unwrap();
    let write = InterProcessReadWriteLock::new(&other, "/both").unwrap();
    let write = write.with_data("writer").write_lock();
    tokio::spawn(async move { write.acquire().await });
    let semaphore = InterProcessSemaphoreV2::new(&stage.client, "/permits", 1).unwrap();
    let _permit = semaphore.with_data("one\nof one").acquire(1).await.unwrap();
    let waiter = InterProcessSemaphoreV2::new(&other, "/permits", 1).unwrap().with_data("next");
    tokio::spawn(async move { waiter.acquire(1).await });
    stage.client.create("/latch").await.unwrap();
    stage.client.create("/latch/x-latch-").mode(CreateMode::EphemeralSequential).await.unwrap();
    within_limit(async {
        for (path, count) in [("/mutex", 2), ("/both", 2), ("/permits/locks", 1)] {
            while stage.client.children(path).await.unwrap().len() < count {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    })
    .await;

    let ended = stage.script("locks /mutex\nlocks /both\nlocks /permits\nlocks /latch\n").await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let without_ids = |line: &str| {
        let words = line.split(' ').map(|word| match word.split_once("_c_") {
            Some((_, id)) => format!("_c_{}", &id[36..]),
            None => word.to_owned(),
        });
        words.collect::<Vec<_>>().join(" ") + "\n"
    };
    let text: String = squeezed(&ended.stdout).lines().map(without_ids).collect();
    let expected = "\
/mutex: mutex
WHO CAME SESSION ZNODE DATA
holds TIME SESSION _c_-lock-0000000000 here:1 backup
waits TIME SESSION _c_-lock-0000000001 there:2 backup
/both: read-write lock
WHO CAME SESSION ZNODE DATA
reads TIME SESSION _c_-__READ__0000000000 reader
waits to write TIME SESSION _c_-__WRIT__0000000001 writer
/permits: semaphore
WHO CAME SESSION ZNODE DATA
has a permit TIME SESSION _c_-lease-0000000000 one\\nof one
waits TIME SESSION _c_-lock-0000000001 next
/latch: leader latch
WHO CAME SESSION ZNODE DATA
leads TIME SESSION x-latch-0000000000
";
    assert_eq!(text, expected);
    let session = stage.client.session_id().to_string();
    assert!(ended.stdout.contains(&session), "{session} {}", ended.stdout);

    let nobody = stage.script("create /a\nlocks /a\nlocks /nothing\n").await;
    assert_eq!(nobody.stdout, "Created /a\nnobody holds /a or waits for it\n");
    assert!(nobody.stderr.contains("Node does not exist: /nothing"), "{}", nobody.stderr);
}

#[tokio::test]
async fn the_shell_closes_its_session_at_its_end() {
    let stage = Stage::new().await;
    let ended = stage.run(&["create", "-e", "/e"]).await;
    assert_eq!(ended.code, Some(0));
    assert_eq!(stage.client.exists("/e").await.unwrap(), None);
}

#[tokio::test]
async fn a_closed_output_pipe_ends_the_shell_without_an_error() {
    let stage = Stage::new().await;
    let mut child = cli(&stage.address, &[]).spawn().unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"ls /\ncreate /a\n").await.unwrap();
    let output = within_limit(child.wait_with_output()).await.unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stage.client.exists("/a").await.unwrap(), None);
}
