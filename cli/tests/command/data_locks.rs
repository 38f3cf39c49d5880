//! `zoolet data locks`: the report on a directory that a server writes at the same time.

use std::path::{Path, PathBuf};

use serde_json::Value;
use zoolet::client::Client;
use zoolet::protocol::CreateMode;
use zoolet::server::Server;

use crate::process::{Ended, directory, file, run};

async fn locks(directory: &Path, rest: &[&str]) -> Ended {
    let directory = directory.to_str().expect("the name is text");
    run(&[&["data", "locks", directory], rest].concat()).await
}

/// A name that a browser must not take for a part of the page.
const HOSTILE: &str = "/locks/<img src=x onerror=alert(1)>";

/// A server that runs, and a client that waits at /locks/a: another one held it, closed its session, and the
/// third holds it.
async fn scene(name: &str) -> (PathBuf, Server, [Client; 2]) {
    let directory = directory(name);
    let server = Server::builder().data_dir(&directory).start().await.expect("it starts");
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(Client::connect(server.dialer()).await.expect("it is there"));
    }
    for path in ["/locks", "/locks/a", HOSTILE] {
        clients[0].create(path).await.expect("it is new");
    }
    for client in &clients {
        let place = client.create("/locks/a/lock-").mode(CreateMode::EphemeralSequential);
        place.await.expect("it is new");
    }
    let hostile = format!("{HOSTILE}/lock-");
    let place = clients[1].create(&hostile).mode(CreateMode::EphemeralSequential);
    let place = place.await.expect("it is new");
    clients[1].delete(&place.path).await.expect("it is there");
    clients.remove(0).close().await.expect("it is there");
    let clients = clients.try_into().expect("there are two");
    (directory, server, clients)
}

#[tokio::test]
async fn the_holders_of_locks_are_told_while_a_server_runs() {
    let (directory, server, clients) = scene("locks").await;
    let told = locks(&directory, &[]).await;
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    let text = &told.stdout;
    let first = text.lines().next().expect("there is a line");
    assert!(first.starts_with("2 locks, 3 holds, 0 waits aborted; 0 locks lost by a"), "{first}");
    assert!(text.contains("\n/locks/a  mutex\n  2 holds; 0x"), "{text}");
    let waiter = clients[1].session_id().to_string();
    let waits = format!(" holds it at the end, 1 wait\n    {waiter} has waited ");
    assert!(text.contains(&waits), "{text}");
    assert!(text.contains("  1 hand-over to one that waited; 0 after a time without"), "{text}");
    assert!(told.stderr.contains("do not have the addresses of clients"), "{}", told.stderr);

    let told = locks(&directory, &["/nope"]).await;
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    assert!(told.stderr.contains("there was no lock at or below /nope;"), "{}", told.stderr);

    let told = locks(&directory, &["/locks/a", "--json"]).await;
    assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""));
    let report: Value = serde_json::from_str(&told.stdout).expect("it is JSON");
    let [lock] = &report["locks"].as_array().expect("a list")[..] else { panic!("{report}") };
    assert_eq!((lock["path"].as_str(), lock["holds"].as_u64()), (Some("/locks/a"), Some(2)));
    assert_eq!(lock["recent"][0]["cause"], "session-closed");
    assert_eq!(lock["holding"][0]["session"], lock["recent"][0]["next"]);
    assert_eq!(lock["holding"][0]["session"], clients[0].session_id().to_string());

    assert_eq!(lock["waiters"][0]["session"], waiter);
    let session = lock["recent"][0]["session"].as_str().expect("it is text");
    let audit = file("locks-audit.log", format!("session={session}\tuser=10.0.0.7\tip=10.0.0.7\n"));
    let audit = audit.to_str().expect("the name is text");
    let told = locks(&directory, &["/locks/a", "--holds", "--audit-log", audit]).await;
    let by = format!("/locks/a  {session} of 10.0.0.7  holds  from ");
    assert!(told.stdout.starts_with(&by), "{told:?}");
    assert!(told.stdout.contains(": its client closed the session, then 0x"), "{told:?}");
    let told = locks(&directory, &["--holds", "--json"]).await;
    assert_eq!(told.stdout.lines().count(), 2, "{told:?}");
    server.shutdown().await;
}

#[tokio::test]
async fn the_page_loads_nothing_and_shows_names_as_they_are() {
    let (directory, server, clients) = scene("locks-page").await;
    let page = directory.join("locks.html");
    let told = locks(&directory, &["--html", page.to_str().expect("the name is text")]).await;
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    let page = std::fs::read_to_string(page).expect("it was written");
    assert!(page.contains("<svg ") && page.contains("prefers-color-scheme: dark"), "{page}");
    assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;"), "{page}");
    // One that waits at the end has a lane as well.
    let lane = format!("<title>{0}</title>{0}", clients[1].session_id());
    assert!(page.contains(&lane), "{page}");
    for what in ["<img", "<script", "http:", "https:", "src=\"", "@import", "url("] {
        assert!(!page.contains(what), "{what}: {page}");
    }
    server.shutdown().await;
}

#[tokio::test]
async fn what_cannot_be_told_is_an_error_before_the_logs_are_read() {
    let (directory, server, _clients) = scene("locks-errors").await;
    let told = locks(&directory, &["--html", "/no/such/directory/locks.html"]).await;
    assert_eq!((told.code, told.stdout.as_str()), (Some(1), ""), "{told:?}");
    assert!(told.stderr.contains("cannot write to /no/such/directory/locks.html"), "{told:?}");
    let told = locks(&directory, &["--hold"]).await;
    assert!(told.stderr.contains("a similar argument exists: '--holds'"), "{told:?}");
    let told = locks(&directory, &["/nothing"]).await;
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(told.stdout.starts_with("0 locks, 0 holds, 0 waits aborted"), "{told:?}");
    server.shutdown().await;
}
