//! The command `zoolet cli`, as a person at a terminal has it.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use nix::pty::openpty;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use zoolet::client::Client;
use zoolet::server::Server;

use crate::process::within_limit;

/// A shell at a terminal, and what stood there that was not read yet.
struct Terminal {
    child: Child,
    keys: File,
    screen: mpsc::UnboundedReceiver<Vec<u8>>,
    unread: String,
    state: PathBuf,
}

impl Terminal {
    /// Starts a shell; its history is in a directory of this name.
    async fn start(address: &str, name: &str) -> Self {
        let state = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let pty = openpty(None, None).unwrap();
        let theirs = || Stdio::from(pty.slave.try_clone().unwrap());
        let child = Command::new(env!("CARGO_BIN_EXE_zoolet"))
            .args(["cli", "--server", address])
            .env("XDG_STATE_HOME", &state)
            .env("TERM", "xterm")
            .env_remove("RUST_LOG")
            .kill_on_drop(true)
            .stdin(theirs())
            .stdout(theirs())
            .stderr(theirs())
            .spawn()
            .unwrap();
        let keys = File::from(pty.master);
        let screen = read_all(keys.try_clone().unwrap());
        let mut terminal = Self { child, keys, screen, unread: String::new(), state };
        terminal.wait_for("> ").await;
        terminal
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Reads until a text stands there.
    async fn wait_for(&mut self, text: &str) {
        while !self.unread.contains(text) {
            match tokio::time::timeout(WAIT, self.screen.recv()).await {
                Ok(Some(bytes)) => self.unread += &String::from_utf8_lossy(&bytes),
                _ => panic!("{text:?} does not come: {:?}", self.unread),
            }
        }
        let end = self.unread.find(text).unwrap() + text.len();
        self.unread.drain(..end);
    }

    async fn ends(mut self) -> Option<i32> {
        within_limit(self.child.wait()).await.unwrap().code()
    }
}

const WAIT: Duration = Duration::from_secs(30);

/// What comes, until nobody has the other end any more.
fn read_all(mut screen: File) -> mpsc::UnboundedReceiver<Vec<u8>> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = screen.read(&mut bytes) {
            if sender.send(bytes[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

async fn stage() -> (Server, Client, String) {
    let server = Server::builder().listen(([127, 0, 0, 1], 0).into()).start().await.unwrap();
    let client = Client::connect(server.dialer()).await.unwrap();
    let address = server.local_addr().unwrap().to_string();
    (server, client, address)
}

#[tokio::test]
async fn tab_completes_commands_and_znodes() {
    let (_server, client, address) = stage().await;
    client.create("/apps").await.unwrap();
    client.create("/apps/one and only").data("found it").await.unwrap();
    let mut terminal = Terminal::start(&address, "cli-tab").await;
    terminal.press("get /ap\t");
    terminal.wait_for("get /apps").await;
    terminal.press("/o\t");
    terminal.wait_for("'/apps/one and only'").await;
    terminal.press("\r");
    terminal.wait_for("found it").await;
    terminal.press("delet\t");
    terminal.wait_for("delete").await;
    // Ctrl-C drops the line, Ctrl-D ends the shell.
    terminal.press("\u{3}");
    terminal.wait_for("> ").await;
    terminal.press("\u{4}");
    assert_eq!(terminal.ends().await, Some(0));
}

#[tokio::test]
async fn tab_completes_modes_and_the_session_that_there_is() {
    let (_server, client, address) = stage().await;
    let (_other, others, other) = stage().await;
    client.create("/here").await.unwrap();
    others.create("/there").await.unwrap();
    let mut terminal = Terminal::start(&address, "cli-modes").await;
    terminal.press("addWatch -m PERSISTENT_\t /he\t\r");
    terminal.wait_for("PERSISTENT_RECURSIVE").await;
    terminal.wait_for("/here").await;
    terminal.wait_for("> ").await;
    client.set("/here", "x").await.unwrap();
    terminal.wait_for("event: NodeDataChanged /here").await;
    terminal.press("printwatches o\t");
    terminal.wait_for("printwatches o").await;
    terminal.press("\u{3}");
    terminal.wait_for("> ").await;
    terminal.press("close\r");
    terminal.wait_for("(not connected)> ").await;
    terminal.press("ls /\r");
    terminal.wait_for("Not connected; `connect` opens a session").await;
    terminal.press(&format!("connect {other}\r"));
    terminal.wait_for(&format!("{other}> ")).await;
    terminal.press("get /th\t");
    terminal.wait_for("/there").await;
    terminal.press("\r");
    terminal.press("history\r");
    terminal.wait_for("connect").await;
    terminal.wait_for("history").await;
    terminal.press("quit\r");
    assert_eq!(terminal.ends().await, Some(0));
}

#[tokio::test]
async fn events_are_printed_while_a_line_is_typed() {
    let (_server, client, address) = stage().await;
    client.create("/a").await.unwrap();
    let mut terminal = Terminal::start(&address, "cli-events").await;
    terminal.press("get -w /a\r");
    terminal.wait_for("\r\n").await;
    terminal.wait_for("> ").await;
    terminal.press("get");
    terminal.wait_for("get").await;
    client.set("/a", "new").await.unwrap();
    terminal.wait_for("event: NodeDataChanged /a").await;
    terminal.wait_for("> get").await;
    terminal.press(" /a\rquit\r");
    terminal.wait_for("new").await;
    assert_eq!(terminal.ends().await, Some(0));
}

#[tokio::test]
async fn pasted_lines_are_carried_out_one_after_another() {
    let (_server, client, address) = stage().await;
    let mut terminal = Terminal::start(&address, "cli-pasted").await;
    terminal.press("create /a\rcreate /b\r");
    terminal.wait_for("Created /a").await;
    terminal.wait_for("Created /b").await;
    terminal.wait_for("> ").await;
    terminal.press("\u{1b}[200~create /c x\rget /nothing\rcreate /d\u{1b}[201~\r");
    terminal.wait_for("Created /c").await;
    terminal.wait_for("Node does not exist: /nothing").await;
    terminal.wait_for("Created /d").await;
    assert_eq!(&client.get("/c").await.unwrap().0[..], b"x");
    terminal.press("quit\r");
    assert_eq!(terminal.ends().await, Some(0));
}

#[tokio::test]
async fn the_history_survives_the_shell_and_contains_no_secrets() {
    let (_server, _client, address) = stage().await;
    let mut terminal = Terminal::start(&address, "cli-history").await;
    let file = terminal.state.join("zoolet/history");
    let _ = std::fs::remove_file(&file);
    terminal.press("create /a\r");
    terminal.wait_for("Created /a").await;
    terminal.wait_for("> ").await;
    for line in ["addauth digest ann:secret", "setAcl /a digest:ann:secret:r"] {
        terminal.press(&format!("{line}\r"));
        terminal.wait_for("secret").await;
        terminal.wait_for("> ").await;
    }
    terminal.press("\u{4}");
    assert_eq!(terminal.ends().await, Some(0));
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&file).unwrap());
    assert_eq!(mode & 0o777, 0o600, "only its owner reads it");
    let history = std::fs::read_to_string(&file).unwrap();
    assert!(history.contains("create /a") && !history.contains("secret"), "{history}");

    let mut terminal = Terminal::start(&address, "cli-history").await;
    // The line before this one.
    terminal.press("\u{10}");
    terminal.wait_for("create /a").await;
    terminal.press("\r");
    terminal.wait_for("Node already exists: /a").await;
    terminal.press("exit\r");
    assert_eq!(terminal.ends().await, Some(0));
}

#[tokio::test]
async fn control_characters_in_data_do_not_reach_the_terminal() {
    let (_server, client, address) = stage().await;
    client.create("/a").data("one\n\u{1b}[2Jtwo").await.unwrap();
    let mut terminal = Terminal::start(&address, "cli-data").await;
    terminal.press("get /a\r");
    terminal.wait_for("one\r\n\\u{1b}[2Jtwo\r\n").await;
    terminal.press("quit\r");
    assert_eq!(terminal.ends().await, Some(0));
}

#[tokio::test]
async fn the_shell_reports_a_lost_and_a_restored_connection() {
    let (server, _client, address) = stage().await;
    let mut terminal = Terminal::start(&address, "cli-connection").await;
    server.shutdown().await;
    terminal.wait_for("the connection is lost").await;
    let listen = address.parse().unwrap();
    // Somebody else on this machine may have the port for a moment.
    let _server = within_limit(async {
        loop {
            match Server::builder().listen(listen).start().await {
                Ok(server) => return server,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    })
    .await;
    // Nothing of the first server is known to the second.
    terminal.wait_for("the session is over").await;
    terminal.wait_for("connected again").await;
    terminal.press("ls /\r");
    terminal.wait_for("[zookeeper]").await;
    terminal.press("quit\r");
    assert_eq!(terminal.ends().await, Some(0));
}
