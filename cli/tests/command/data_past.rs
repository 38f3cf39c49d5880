//! `zoolet data at` and `history`: the past of a data directory, as an administrator asks for it.

use std::path::{Path, PathBuf};

use serde_json::Value;
use zoolet::client::Client;
use zoolet::protocol::CreateMode;
use zoolet::server::Server;

use crate::process::{Ended, Printing, directory, file, run};

async fn data(command: &str, directory: &Path, rest: &[&str]) -> Ended {
    let directory = directory.to_str().expect("the name is text");
    run(&[&["data", command, directory], rest].concat()).await
}

/// A directory whose server has stopped: /app was created as 0x2, changed as 0x4 and deleted as 0x7, with an
/// ephemeral of a session that closed.
async fn written(name: &str) -> PathBuf {
    let directory = directory(name);
    let server = Server::builder().data_dir(&directory).start().await.expect("it starts");
    let client = Client::connect(server.dialer()).await.expect("it is there");
    client.create("/app").data("one").await.expect("it is new");
    client.create("/app/mine").data("x").mode(CreateMode::Ephemeral).await.expect("it is new");
    client.set("/app", "second").await.expect("it is there");
    client.close().await.expect("it is there");
    let client = Client::connect(server.dialer()).await.expect("it is there");
    client.delete("/app").await.expect("it has no children");
    server.shutdown().await;
    directory
}

#[tokio::test]
async fn the_tree_is_told_as_it_was() {
    let directory = written("at").await;
    let at = data("at", &directory, &["--zxid", "0x3"]).await;
    assert_eq!(at.code, Some(0), "{}", at.stderr);
    let lines: Vec<_> = at.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("/app  3 bytes  version 0  2"), "{lines:?}");
    assert!(lines[1].contains("/app/mine  1 bytes") && lines[1].contains("  ephemeral of 0x"));
    assert!(at.stderr.starts_with("the state after 0x3 (2"), "{}", at.stderr);
    assert!(at.stderr.ends_with("): snapshot.0, and 3 transactions\n"), "{}", at.stderr);

    let get = data("at", &directory, &["/app", "--zxid", "4", "--get"]).await;
    assert_eq!((get.code, get.stdout.as_str()), (Some(0), "second"), "{}", get.stderr);
    let ended = data("at", &directory, &["--zxid", "7"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{}", ended.stderr);
    assert!(ended.stderr.contains("; no later transaction is in the files"), "{}", ended.stderr);
    let now = data("at", &directory, &["--time", "2100-01-01"]).await;
    assert_eq!((now.code, now.stdout.as_str()), (Some(0), ""), "{}", now.stderr);

    let export = data("at", &directory, &["--zxid", "4", "--export"]).await;
    let to = self::directory("at-import");
    let lines = file("at.jsonl", &export.stdout);
    let import = data("import", &to, &[lines.to_str().expect("the name is text")]).await;
    assert_eq!(import.stdout, "1 znode imported, 1 ephemeral left out\n", "{}", import.stderr);
}

#[tokio::test]
async fn who_changed_a_znode_is_told() {
    let directory = written("history").await;
    let told = data("history", &directory, &["/app"]).await;
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    let lines: Vec<_> = told.stdout.lines().collect();
    let ends = ["created /app (3 bytes)", "set /app (6 bytes, version 1)", "deleted /app"];
    assert_eq!(lines.len(), 3, "{lines:?}");
    for (line, end) in lines.iter().zip(ends) {
        assert!(line.ends_with(end), "{line}");
    }
    assert!(lines[0].contains("  0x2  0x") && lines[0].contains("  cxid "), "{}", lines[0]);
    assert!(told.stderr.contains("do not have the addresses of clients; --audit-log"), "{told:?}");

    let told = data("history", &directory, &["/app", "--recursive", "--json"]).await;
    assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""), "{told:?}");
    let lines = told.stdout.lines().map(|line| serde_json::from_str(line).expect("it is JSON"));
    let lines: Vec<Value> = lines.collect();
    let mine: Vec<_> = lines.iter().filter(|line| line["path"] == "/app/mine").collect();
    assert_eq!(
        (mine[0]["action"].as_str(), mine[0]["data"].as_str()),
        (Some("created"), Some("x"))
    );
    assert_eq!(mine[0]["kind"], "ephemeral");
    assert_eq!(
        (mine[1]["action"].as_str(), mine[1]["by"].as_str()),
        (Some("deleted"), Some("session-end"))
    );
    assert_eq!(mine[0]["session"], mine[1]["session"]);

    let session = mine[0]["session"].as_str().expect("it is text");
    let audit = format!("session={session}\tuser=10.0.0.7,ann\tip=10.0.0.7\toperation=create\n");
    let audit = file("history-audit.log", &audit);
    let audit = audit.to_str().expect("the name is text");
    let told = data("history", &directory, &["/app/mine", "--audit-log", audit]).await;
    let by = format!("{session} of 10.0.0.7 (ann)");
    assert!(told.stdout.lines().all(|line| line.contains(&by)), "{told:?}");
    assert_eq!(told.stderr, "");
}

#[tokio::test]
async fn sessions_are_told_with_what_they_owned() {
    let directory = written("sessions").await;
    let told = data("sessions", &directory, &[]).await;
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    let lines: Vec<_> = told.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("(0x5), closed by its client  1 ephemeral created"), "{lines:?}");
    assert!(lines[0].ends_with("deleted with it: /app/mine"), "{lines:?}");
    assert!(lines[1].contains("open at the end of the logs  0 ephemerals created, has: none"));
    assert!(told.stderr.starts_with("sessions from 2"), "{}", told.stderr);

    let told = data("sessions", &directory, &["--json"]).await;
    let line = told.stdout.lines().next().expect("there is one");
    let first: Value = serde_json::from_str(line).expect("it is JSON");
    assert_eq!((first["how"].as_str(), first["created"].as_u64()), (Some("closed"), Some(1)));
    assert_eq!((&first["begin"]["zxid"], &first["end"]["zxid"]), (&"0x1".into(), &"0x5".into()));
    assert_eq!(first["owned"], serde_json::json!(["/app/mine"]));
}

#[tokio::test]
async fn what_differs_between_two_states_is_told() {
    let directory = written("diff").await;
    let told = data("diff", &directory, &["0x2", "0x4"]).await;
    assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""), "{told:?}");
    let lines: Vec<_> = told.stdout.lines().collect();
    let changed = "~ /app (6 bytes, version 1): data; it was 3 bytes, version 0";
    assert_eq!((lines.len(), lines[0]), (2, changed), "{lines:?}");
    assert!(lines[1].starts_with("+ /app/mine (1 bytes, version 0, ephemeral of 0x"), "{lines:?}");

    let back = data("diff", &directory, &["0x7", "0x4", "--json"]).await;
    let lines = back.stdout.lines().map(|line| serde_json::from_str(line).expect("it is JSON"));
    let lines: Vec<Value> = lines.collect();
    let changes: Vec<_> = lines.iter().map(|line| line["change"].as_str().expect("text")).collect();
    assert_eq!(changes, ["created", "created", "deleted", "created"], "{lines:?}");
    assert_eq!(lines[0]["after"]["data"], "second");
    assert!(lines[2]["session"].as_str().is_some_and(|session| session.starts_with("0x")));
    let same = data("diff", &directory, &["4", "4"]).await;
    assert_eq!((same.code, same.stdout.as_str()), (Some(0), ""));
    let below = data("diff", &directory, &["2", "4", "/app/mine"]).await;
    assert_eq!(below.stdout.lines().count(), 1, "{below:?}");
    // What is misspelt does not look like what is the same.
    let nowhere = data("diff", &directory, &["2", "4", "/nothing"]).await;
    assert_eq!(nowhere.code, Some(1), "{nowhere:?}");
    let cause = "there was no znode /nothing at 0x2 and none at 0x4";
    assert!(nowhere.stderr.contains(cause), "{nowhere:?}");
}

#[tokio::test]
async fn a_running_server_is_followed() {
    let directory = directory("history-follow");
    let server = Server::builder().data_dir(&directory).start().await.expect("it starts");
    let client = Client::connect(server.dialer()).await.expect("it is there");
    client.create("/app").await.expect("it is new");
    let path = directory.to_str().expect("the name is text");
    let mut followed = Printing::start(&["data", "history", path, "/app", "--follow"]);
    assert!(followed.next_line().await.ends_with("created /app (0 bytes)"));
    client.set("/app", "text").await.expect("it is there");
    assert!(followed.next_line().await.ends_with("set /app (4 bytes, version 1)"));
    client.delete("/app").await.expect("it is there");
    assert!(followed.next_line().await.ends_with("deleted /app"));
    server.shutdown().await;
}

#[tokio::test]
async fn what_is_asked_wrongly_is_told_with_its_cure() {
    let directory = written("past-errors").await;
    let at: [(&[&str], i32, &str); 7] = [
        (
            &["--zxid", "0x99"],
            1,
            "there is no transaction 0x99 yet: the files have the states from 0x0 to 0x7 (2",
        ),
        (
            &["--time", "2001-01-01"],
            1,
            "do not reach back to 2001-01-01T00:00:00.000Z: the files have",
        ),
        (&["/nothing", "--zxid", "3"], 1, "there was no znode /nothing at 0x3"),
        (&["--zxid", "latest"], 2, "must be a zxid such as 0x1f, or 31"),
        (&["--time", "yesterday"], 2, "must be a time such as 2026-07-01T14:03:00Z"),
        (&[], 2, "<--zxid <ZXID>|--time <TIME>>"),
        (&["--zxid", "3", "--time", "2026-07-01"], 2, "cannot be used with"),
    ];
    for (args, code, text) in at {
        let ended = data("at", &directory, args).await;
        assert_eq!(ended.code, Some(code), "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(text), "{args:?}: {}", ended.stderr);
    }
    let never = data("history", &directory, &["/never"]).await;
    assert_eq!(never.code, Some(1));
    let text = "no transaction of /never is in the logs, which have 0x1 to 0x7";
    assert!(never.stderr.contains(text), "{}", never.stderr);
    let audit = file("no-audit.log", "nothing of use\n");
    let audit = audit.to_str().expect("the name is text");
    let told = data("history", &directory, &["/app", "--audit-log", audit]).await;
    assert!(told.stderr.contains("it must be an audit log, with session=0x.."), "{told:?}");

    let empty = self::directory("past-empty");
    std::fs::create_dir_all(empty.join("version-2")).expect("it can be made");
    let ended = data("at", &empty, &["--zxid", "1"]).await;
    assert!(ended.stderr.contains("no server has written anything here"), "{}", ended.stderr);
    let ended = data("history", &empty, &["/app"]).await;
    assert!(ended.stderr.contains("in the logs, which are empty"), "{}", ended.stderr);
    let log = directory.join("version-2/log.1");
    let ended = data("history", &log, &["/app"]).await;
    assert!(ended.stderr.contains("log.1: Not a directory"), "{}", ended.stderr);
    let wrong = self::directory("past-wrong");
    for (dir, text) in [
        (wrong.clone(), "has no directory version-2, so it is not"),
        (empty.join("version-2"), "is within the data directory of a server: name "),
        (wrong.join("nothing"), "past-wrong/nothing: No such file"),
    ] {
        let ended = data("sessions", &dir, &[]).await;
        assert!(ended.code == Some(1) && ended.stderr.contains(text), "{dir:?}: {ended:?}");
    }

    // What stands before a damage is told.
    let mut bytes = std::fs::read(&log).expect("it is there");
    let end = bytes.len();
    bytes[end - 20] ^= 1;
    std::fs::write(&log, bytes).expect("it can be changed");
    let ended = data("history", &directory, &["/app"]).await;
    assert_eq!((ended.code, ended.stdout.lines().count()), (Some(3), 2), "{ended:?}");
    assert!(ended.stderr.contains("log.1: offset "), "{}", ended.stderr);
}
