//! The command `zoolet data`, as an administrator runs it.

use std::path::{Path, PathBuf};

use zoolet::client::Client;
use zoolet::protocol::{Acl, CreateMode, Id, Permissions};
use zoolet::server::storage::StorageConfig;
use zoolet::server::{Config, Server, StartError};

use crate::process::{Ended, directory, run};

async fn data(args: &[&str], directory: &Path) -> Ended {
    let directory = directory.to_str().expect("the name is text");
    let (command, rest) = args.split_first().expect("a command");
    run(&[&["data", *command, directory], rest].concat()).await
}

/// A directory in which a server has left some znodes.
async fn written(name: &str) -> PathBuf {
    let directory = directory(name);
    let server = Server::builder().data_dir(&directory).start().await.expect("it starts");
    let client = Client::connect(server.dialer()).await.expect("it is there");
    client.create("/app").data("text").await.expect("it is new");
    client.create("/app/bytes").data(&b"\xff\0"[..]).await.expect("it is new");
    client.create("/app/box").mode(CreateMode::Container).await.expect("it is new");
    let acl = vec![Acl { permissions: Permissions::READ, id: Id::new("world", "anyone") }];
    client.create("/app/box/closed").data("x").acl(acl).await.expect("it is new");
    client.create("/app/mine").mode(CreateMode::Ephemeral).await.expect("it is new");
    server.shutdown().await;
    directory
}

#[tokio::test]
async fn check_prints_the_state_with_which_a_server_would_start() {
    let directory = written("check-good").await;
    let ended = data(&["check"], &directory).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let lines: Vec<_> = ended.stdout.lines().collect();
    assert!(lines[0].ends_with("snapshot.0  478 B  5 znodes up to 0x0  whole"), "{}", lines[0]);
    assert!(lines[1].ends_with(" 6 transactions up to 0x6  whole"), "{}", lines[1]);
    assert_eq!(
        lines[2],
        // Which counts the root twice, as the original does.
        "A server would start with 10 znodes and 1 session at 0x6: the snapshot at 0x0, and 6 \
         transactions."
    );
}

#[tokio::test]
async fn check_tells_of_what_there_is_not_and_of_ttl_znodes() {
    let empty = directory("check-empty");
    std::fs::create_dir(empty.join("version-2")).expect("it is new");
    let ended = data(&["check"], &empty).await;
    let expected = "A server would start with 5 znodes and 0 sessions at 0x0: those that every server has; \
                    there is no snapshot and no transaction.\n";
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), expected), "{ended:?}");

    let lines =
        crate::process::file("check-ttl.jsonl", "{\"path\":\"/a\",\"kind\":{\"ttl_ms\":9}}");
    let to = directory("check-ttl");
    let ended = data(&["import", lines.to_str().expect("the name is text")], &to).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let ended = data(&["check"], &to).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("1 TTL znode among them: Apache ZooKeeper deletes"), "{ended:?}");
    assert!(ended.stdout.contains("zookeeper.extendedTypesEnabled=true"), "{ended:?}");
}

#[tokio::test]
async fn check_names_damage_with_file_and_offset_and_fails() {
    let directory = written("check-damaged").await;
    let path = directory.join("version-2/log.1");
    let mut log = std::fs::read(&path).expect("it was written");
    log[16 + 40] ^= 1;
    std::fs::write(&path, log).expect("it can be changed");
    let ended = data(&["check"], &directory).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.stdout.contains("log.1: offset 16: the checksum is"), "{}", ended.stdout);
    assert!(ended.stderr.contains("log.1: offset 16: the checksum is"), "{}", ended.stderr);
}

#[tokio::test]
async fn check_accepts_the_files_that_a_crash_leaves() {
    let directory = written("check-torn").await;
    let path = directory.join("version-2/log.1");
    let log = std::fs::read(&path).expect("it was written");
    std::fs::write(&path, &log[..log.len() - 1]).expect("it can be changed");
    // As of a crash before the sync.
    std::fs::remove_file(directory.join("version-2/zoolet.durable")).expect("it is there");
    let ended = data(&["check"], &directory).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("5 transactions up to 0x5  torn at offset"), "{}", ended.stdout);
    let after = std::fs::read(&path).expect("it is there");
    assert_eq!(after.len(), log.len() - 1, "nothing is changed");
}

#[tokio::test]
async fn an_export_can_be_imported() {
    let from = written("export-from").await;
    let file = from.join("export.jsonl");
    let file = file.to_str().expect("the name is text");
    let ended = data(&["export", "/app", "--output", file], &from).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{}", ended.stderr);
    let text = std::fs::read_to_string(file).expect("it was written");
    assert!(text.contains(r#"{"path":"/app/bytes","data_base64":"/wA=""#), "{text}");
    let to = directory("import-to");
    let ended = data(&["import", file], &to).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.stdout, "4 znodes imported, 1 ephemeral left out\n");
    // And once more, over what is there.
    let ended = data(&["import", file], &to).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);

    let again = data(&["export"], &to).await.stdout;
    let without_stat = |text: &str| -> Vec<String> {
        let kept = |line: &&str| !line.contains("ephemeral_of");
        let cut = |line: &str| line.split(",\"stat\"").next().unwrap_or_default().to_owned();
        text.lines().filter(kept).map(cut).collect()
    };
    assert_eq!(without_stat(&again), without_stat(&text));
}

#[tokio::test]
async fn an_invalid_line_of_an_import_is_named() {
    let to = directory("import-bad");
    let there = written("import-bad-there").await;
    let cases = [
        ("{\"path\":\"/a\"}\nnonsense", "line 2: expected"),
        ("{\"path\":\"a\"}", "line 1: "),
        ("{\"path\":\"/a\",\"dat\":\"x\"}", "unknown field `dat`"),
        ("{\"path\":\"/a\",\"data_base64\":\"?\"}", "line 1: data_base64: "),
        ("{\"path\":\"/a\",\"acl\":[\"x\"]}", "line 1: \"x\" is not SCHEME:ID:PERMISSIONS"),
        ("{\"path\":\"/a\",\"kind\":{\"ttl_ms\":0}}", "line 1: ttl_ms must be more than 0"),
    ];
    for (text, expected) in cases {
        let file = crate::process::file("import-bad.jsonl", text);
        let ended = data(&["import", file.to_str().expect("the name is text")], &to).await;
        assert_eq!(ended.code, Some(1), "{text}");
        assert!(ended.stderr.contains(expected), "{text}: {}", ended.stderr);
        assert!(ended.stderr.contains("; nothing is imported"), "{text}: {}", ended.stderr);
        let left = std::fs::read_dir(&to).expect("it is there");
        let left: Vec<_> = left.map(|entry| entry.expect("it can be listed").file_name()).collect();
        assert_eq!(left, ["zoolet.lock"], "{text}");
    }
    let file = crate::process::file("import-bad-line.jsonl", cases[0].0);
    let file = file.to_str().expect("the name is text");
    // What the command has created itself is deleted too, and what was there stays.
    let ended = data(&["import", file], &to.join("new/er")).await;
    assert_eq!((ended.code, to.join("new").exists()), (Some(1), false), "{ended:?}");
    let ended = data(&["import", file], &there).await;
    assert!(ended.stderr.contains("; imported until then: 1 znode\n"), "{ended:?}");
    let kept = data(&["export"], &there).await.stdout;
    assert!(kept.contains(r#""path":"/app""#) && kept.contains(r#""path":"/a""#), "{kept}");
}

#[tokio::test]
async fn compact_leaves_one_snapshot() {
    let directory = written("compact").await;
    let before = data(&["export"], &directory).await.stdout;
    let ended = data(&["compact", "--compression", "gz"], &directory).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.starts_with("2 files deleted, "), "{}", ended.stdout);
    let names: Vec<_> = std::fs::read_dir(directory.join("version-2"))
        .expect("it is there")
        .map(|entry| entry.expect("it can be listed").file_name())
        .collect();
    let mut names = names;
    names.sort();
    assert_eq!(names, ["snapshot.6.gz", "zoolet.durable"]);
    assert_eq!(data(&["export"], &directory).await.stdout, before);
}

#[tokio::test]
async fn a_directory_in_use_is_neither_compacted_nor_imported_into() {
    let directory = directory("compact-in-use");
    let _server = Server::builder().data_dir(&directory).start().await.expect("it starts");
    for args in [["compact"].as_slice(), &["import", "/dev/null"]] {
        let ended = data(args, &directory).await;
        assert_eq!(ended.code, Some(1));
        let expected = format!("in use: the process {} uses it", std::process::id());
        assert!(ended.stderr.contains(&expected), "{}", ended.stderr);
    }
}

/// As with a server of Apache ZooKeeper, which locks nothing and would go on with a deleted log.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn files_that_another_process_writes_are_left_alone() {
    let directory = written("compact-beside-a-writer").await;
    let log = directory.join("version-2/log.1");
    let writer = std::fs::File::options().append(true).open(&log).expect("it is there");
    let text = directory.to_str().expect("the name is text");
    let serve = ["serve", "--listen", "127.0.0.1:0", "--data-dir", text, "--exit-with-stdin"];
    let refused = [
        data(&["compact"], &directory).await,
        data(&["import", "/dev/null"], &directory).await,
        run(&serve).await,
    ];
    for ended in refused {
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let cause = format!("is in use: the process {} uses it, and writes ", std::process::id());
        assert!(ended.stderr.contains(&cause), "{ended:?}");
    }
    assert!(log.exists());
    drop(writer);
    // Who reads is in nobody's way.
    let _reader = std::fs::File::open(&log).expect("it is there");
    assert_eq!(data(&["compact"], &directory).await.code, Some(0));
}

#[tokio::test]
async fn zookeepers_files_are_dumped() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/tests/data");
    let path = |name: &str| folder.join(name).to_str().expect("the name is text").to_owned();
    let log = run(&["data", "dump-log", &path("apache-3.8.log")]).await;
    assert_eq!((log.code, log.stdout.lines().count()), (Some(0), 16), "{}", log.stderr);
    assert!(log.stdout.contains("createTTL /soon (4 bytes)"), "{}", log.stdout);
    let log = run(&["data", "dump-log", "--json", &path("apache-3.8.log")]).await;
    assert!(log.stdout.contains(r#""ephemeral":true"#), "{}", log.stdout);
    assert!(log.stdout.contains(r#""ttl_ms":60000"#), "{}", log.stdout);
    let snapshot = run(&["data", "dump-snapshot", &path("apache-3.8.snapshot")]).await;
    assert_eq!((snapshot.code, snapshot.stdout.lines().count()), (Some(0), 7));
    let snapshot = run(&["data", "dump-snapshot", "--json", &path("apache-3.8.snapshot")]).await;
    assert!(snapshot.stdout.contains(r#""data_base64":"AP8gYnl0ZXM=""#), "{}", snapshot.stdout);
}

#[tokio::test]
async fn check_counts_as_a_server_does() {
    let directory = directory("counted");
    let server = Server::builder().data_dir(&directory).start().await.expect("it starts");
    let client = Client::connect(server.dialer()).await.expect("it is there");
    client.create("/a").await.expect("it is new");
    let znodes = server.totals().znodes;
    server.shutdown().await;
    let ended = data(&["compact"], &directory).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let check = data(&["check"], &directory).await.stdout;
    assert!(check.contains(&format!("  {znodes} znodes up to 0x2  whole")), "{check}");
    assert!(check.contains(&format!("would start with {znodes} znodes")), "{check}");
    let dump = data(&["dump-snapshot"], &directory).await;
    assert!(dump.stderr.contains(&format!("1 session, {znodes} znodes")), "{}", dump.stderr);
}

#[tokio::test]
async fn a_directory_is_dumped_like_its_files() {
    let directory = directory("dump-directory");
    for path in ["/a", "/b"] {
        // Each begins a log.
        let server = Server::builder().data_dir(&directory).start().await.expect("it starts");
        let client = Client::connect(server.dialer()).await.expect("it is there");
        client.create(path).await.expect("it is new");
        server.shutdown().await;
    }
    let log = data(&["dump-log"], &directory).await;
    assert_eq!(log.code, Some(0), "{}", log.stderr);
    let lines: Vec<_> = log.stdout.lines().collect();
    assert_eq!((lines[0], lines[3]), ("log.1:", "log.3:"), "{lines:?}");
    assert!(lines[2].contains("create2 /a") && lines[5].contains("create2 /b"), "{lines:?}");
    let json = data(&["dump-log", "--json"], &directory).await.stdout;
    assert_eq!(json.lines().filter(|line| line.contains(r#""file":"log.3""#)).count(), 2, "{json}");
    let snapshot = data(&["dump-snapshot"], &directory).await;
    assert!(snapshot.stdout.contains("/zookeeper/quota"), "{}", snapshot.stdout);

    let empty = self::directory("dump-empty");
    std::fs::create_dir_all(empty.join("version-2")).expect("it can be made");
    let log = data(&["dump-log"], &empty).await;
    assert_eq!((log.code, log.stdout.as_str()), (Some(0), ""), "{}", log.stderr);
    let snapshot = data(&["dump-snapshot"], &empty).await;
    assert!(snapshot.stderr.contains("there is no snapshot in"), "{}", snapshot.stderr);
    assert_eq!(data(&["dump-log"], &empty.join("version-2")).await.code, Some(1));
}

#[tokio::test]
async fn check_reports_cut_off_tails_and_the_durable_mark() {
    let directory = written("check-mark").await;
    let path = directory.join("version-2/log.1");
    let log = std::fs::read(&path).expect("it was written");
    std::fs::write(&path, &log[..log.len() - 1]).expect("it can be changed");
    let ended = data(&["check"], &directory).await;
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    assert!(ended.stdout.contains("by moving zoolet.durable away"), "{}", ended.stdout);
    std::fs::remove_file(directory.join("version-2/zoolet.durable")).expect("it is there");
    let server = Server::builder().data_dir(&directory).start().await.expect("it was told to");
    drop(server);
    let ended = data(&["check"], &directory).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("  cut off a log that a crash had torn"), "{}", ended.stdout);
}

#[tokio::test]
async fn a_file_of_another_program_is_an_error() {
    let nothing = directory("no-data").join("nothing");
    let ended = data(&["check"], &nothing).await;
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stderr.contains("cannot read ") && ended.stderr.contains(": No such file"),
        "{}",
        ended.stderr
    );
    let file = crate::process::file("no-log", "some notes");
    let ended = run(&["data", "dump-log", file.to_str().expect("the name is text")]).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("not a transaction log"), "{}", ended.stderr);
    let ended = run(&["data", "chek", "."]).await;
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("a similar subcommand exists: 'check'"), "{}", ended.stderr);
}

/// The configuration of a server with a directory for its logs.
fn with_logs(directory: &Path, logs: Option<&Path>) -> Config {
    let data_log_dir = logs.map(Path::to_owned);
    let storage = StorageConfig { data_log_dir, ..StorageConfig::at(directory) };
    Config { storage: Some(storage), ..Config::default() }
}

async fn start(directory: &Path, logs: Option<&Path>) -> Result<Server, StartError> {
    Server::builder().config(with_logs(directory, logs)).start().await
}

#[tokio::test]
async fn a_forgotten_log_directory_is_refused_and_its_file_is_named() {
    let (directory, logs) = (directory("logs-forgotten"), directory("logs-elsewhere"));
    let server = start(&directory, Some(&logs)).await.expect("it starts");
    let client = Client::connect(server.dialer()).await.expect("it is there");
    client.create("/precious").await.expect("it is new");
    server.shutdown().await;

    let error = start(&directory, None).await.expect_err("the logs are elsewhere").to_string();
    let expected = format!("says that the logs are in {}, but", logs.display());
    assert!(error.contains(&expected) && error.contains("is dataLogDir missing?"), "{error}");
    let check = data(&["check"], &directory).await;
    assert_eq!(check.code, Some(1), "{}", check.stdout);
    assert!(check.stderr.contains(&expected), "{}", check.stderr);

    let moved = crate::process::directory("logs-moved").join("logs");
    std::fs::rename(&logs, &moved).expect("they can be moved");
    let server = start(&directory, Some(&moved)).await.expect("the logs were moved");
    assert_eq!(server.totals().znodes, 6);
    server.shutdown().await;
    let noted = std::fs::read_to_string(directory.join("version-2/zoolet.logs-in"));
    assert_eq!(noted.expect("it is there").trim_end(), moved.to_str().expect("it is text"));

    for entry in std::fs::read_dir(moved.join("version-2")).expect("it is there") {
        let from = entry.expect("it can be listed").path();
        let to = directory.join("version-2").join(from.file_name().expect("it has a name"));
        std::fs::rename(from, to).expect("it can be moved");
    }
    let server = start(&directory, None).await.expect("the logs are in the data directory now");
    assert_eq!(server.totals().znodes, 6);
    server.shutdown().await;
    assert!(!directory.join("version-2/zoolet.logs-in").exists(), "which holds no longer");
}

#[tokio::test]
async fn snapshots_without_logs_start_if_zoolet_has_written_no_logs_elsewhere() {
    let directory = directory("snapshots-of-zookeeper");
    std::fs::create_dir_all(directory.join("version-2")).expect("it can be made");
    let snapshot = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/tests/data");
    let path = directory.join("version-2/snapshot.0");
    std::fs::copy(snapshot.join("apache-3.8.snapshot"), path).expect("it can be copied");
    let check = data(&["check"], &directory).await;
    assert_eq!(check.code, Some(0), "{} {}", check.stdout, check.stderr);
    drop(start(&directory, None).await.expect("ZooKeeper starts too"));
}

#[tokio::test]
async fn the_check_of_a_copy_says_that_missing_newest_logs_are_not_noticed() {
    let (from, to) = (written("check-original").await, directory("check-copy"));
    std::fs::create_dir_all(to.join("version-2")).expect("it can be made");
    for name in ["snapshot.0", "zoolet.durable"] {
        let name = Path::new("version-2").join(name);
        std::fs::copy(from.join(&name), to.join(&name)).expect("it can be copied");
    }
    let text = "zoolet.durable: a copy, which says nothing of the logs beside it: that the newest logs \
                are missing would not be noticed";
    let (original, copy) = (data(&["check"], &from).await, data(&["check"], &to).await);
    assert_eq!((original.code, copy.code), (Some(0), Some(0)), "{}", copy.stderr);
    assert!(!original.stdout.contains(text), "{}", original.stdout);
    assert!(copy.stdout.contains(text), "{}", copy.stdout);
    let path = to.to_str().expect("the name is text");
    let args = ["serve", "--listen", "127.0.0.1:0", "--data-dir", path];
    let mut server = crate::process::Running::start(&args).await;
    let line = server.logged(text).await;
    assert!(line.contains("WARN"), "{line}");
}
