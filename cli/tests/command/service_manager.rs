//! The server under a service manager: what it tells it, and the sockets that it takes from it. No
//! systemd is needed: the test is the service manager.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram as StdUnixDatagram;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixDatagram};
use tokio::process::Command;

use crate::process::{Running, command, ended, file, within_limit};
use crate::test_control::ask;

/// Hears what servers tell their service manager.
struct Manager {
    socket: UnixDatagram,
    path: String,
}

impl Manager {
    fn new(name: &str) -> Self {
        // The path of a socket has 100 bytes at most.
        let path = std::env::temp_dir().join(format!("zoolet-{name}-{}", std::process::id()));
        let path = path.to_str().expect("the path is UTF-8").to_owned();
        let socket = StdUnixDatagram::bind(&path).expect("the socket is new");
        socket.set_nonblocking(true).expect("it can be set");
        Self { socket: UnixDatagram::from_std(socket).expect("a runtime runs"), path }
    }

    async fn next(&self) -> String {
        let mut buffer = [0; 4096];
        let received = within_limit(self.socket.recv(&mut buffer)).await;
        let bytes = &buffer[..received.expect("a message comes")];
        String::from_utf8(bytes.to_vec()).expect("messages are UTF-8")
    }

    /// The messages up to one that begins with this.
    async fn until(&self, beginning: &str) -> String {
        loop {
            let message = self.next().await;
            if message.starts_with(beginning) {
                return message;
            }
        }
    }

    /// Whether nothing comes for this long.
    async fn is_silent(&self, time: Duration) -> bool {
        tokio::time::timeout(time, self.next()).await.is_err()
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The time after which the service manager would restart a server that has told it nothing.
const WATCHDOG: Duration = Duration::from_millis(600);

#[tokio::test]
async fn the_service_manager_hears_of_a_server_as_long_as_it_answers() {
    let manager = Manager::new("hears");
    let args = ["serve", "--listen", "127.0.0.1:0", "--test-control", "127.0.0.1:0"];
    let mut command = command(&args);
    command.env("NOTIFY_SOCKET", &manager.path);
    command.env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string());
    let mut server = Running::spawn(command).await;

    assert_eq!(manager.next().await, "STATUS=recovering the data\n");
    let ready = format!("READY=1\nSTATUS=serving on {}\n", server.address);
    assert_eq!(manager.next().await, ready);
    for _ in 0..3 {
        let message = manager.next().await;
        let expected = format!("WATCHDOG=1\nSTATUS=serving on {}: ", server.address);
        assert!(message.starts_with(&expected), "{message}");
        assert!(message.contains("0 sessions, 0 watches"), "{message}");
    }

    let line = server.next_stdout_line().await.expect("the second line says where");
    let control = line.strip_prefix("test control on http://").expect("it is a URL");
    let control: SocketAddr = control.parse().expect("it is an address");
    let (status, fault) = ask(control, "POST /v1/faults", json!({ "fault": "freeze" })).await;
    assert_eq!(status, 200, "{fault}");
    // An answer may have been under way.
    while !manager.is_silent(2 * WATCHDOG).await {}
    let (status, _) = ask(control, "DELETE /v1/faults", Value::Null).await;
    assert_eq!(status, 200);
    manager.until("WATCHDOG=1\n").await;

    let (status, log) = server.end("TERM").await;
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("the server has carried out nothing for 300ms"), "{log}");
    assert_eq!(manager.until("STOPPING").await, "STOPPING=1\nSTATUS=shutting down\n");
}

#[tokio::test]
async fn a_server_that_cannot_start_says_why() {
    let manager = Manager::new("why");
    let mut command = command(&["serve", "--listen", "127.0.0.1:0", "--data-dir", "/dev/null/x"]);
    command.env("NOTIFY_SOCKET", &manager.path);
    // ZooKeeper's status for a data directory that cannot be used.
    assert_eq!(ended(command).await.code, Some(3));
    let message = manager.until("STATUS=failed: ").await;
    assert!(message.contains("cannot create /dev/null/x/version-2: "), "{message}");
    assert_eq!(message.matches('\n').count(), 1, "{message}");
}

#[tokio::test]
async fn a_service_manager_that_is_gone_does_not_stop_a_server() {
    let mut command = command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("NOTIFY_SOCKET", "/nowhere/notify").env("WATCHDOG_USEC", "200000");
    let server = Running::spawn(command).await;
    assert!(server.ask("srvr").await.contains("Mode: standalone"));
    let (status, log) = server.end("TERM").await;
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("the service manager cannot be told"), "{log}");
}

/// A server that is given a file descriptor as a service manager does.
fn with_passed(passed: impl Into<OwnedFd>, count: &str, args: &[&str]) -> Command {
    let mut shell = Command::new("sh");
    // The file descriptor comes as 0, because that is what can be handed over.
    shell
        .arg("-c")
        .arg(format!("exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS={count} exec \"$0\" \"$@\""));
    shell.arg(env!("CARGO_BIN_EXE_zoolet")).args(args).kill_on_drop(true);
    shell.env_remove("RUST_LOG").env_remove("NO_COLOR");
    let passed: OwnedFd = passed.into();
    shell.stdin(Stdio::from(passed)).stdout(Stdio::piped()).stderr(Stdio::piped());
    shell
}

async fn srvr(mut stream: TcpStream) -> String {
    let talk = async {
        stream.write_all(b"srvr").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.map(|_| answer)
    };
    within_limit(talk).await.expect("the server answers")
}

#[tokio::test]
async fn clients_wait_at_a_passed_socket_while_no_server_runs() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    for round in 0..2 {
        let early = TcpStream::connect(address).await.expect("the system accepts it");
        let passed = listener.try_clone().expect("it can be shared");
        // The port of the option belongs to nobody: it does not count.
        let args = ["serve", "--listen", "192.0.2.1:1", "--log-level", "info"];
        let server = Running::spawn(with_passed(passed, "1", &args)).await;
        assert_eq!(server.address, address, "round {round}");
        assert!(srvr(early).await.contains("Mode: standalone"), "round {round}");
        assert!(server.ask("srvr").await.contains("Mode: standalone"), "round {round}");
        let (status, log) = server.end("TERM").await;
        assert_eq!(status.code(), Some(0), "{log}");
        assert!(log.contains("the service manager passed a socket"), "{log}");
    }
}

#[tokio::test]
async fn what_is_no_single_tcp_socket_is_refused() {
    let listener = || TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let args = ["serve", "--listen", "127.0.0.1:0"];
    let other = ended(with_passed(listener(), "2", &args)).await;
    assert_eq!(other.code, Some(2), "{other:?}");
    assert!(other.stderr.contains("passed 2 sockets"), "{other:?}");
    let other = ended(with_passed(listener(), "4000000000", &args)).await;
    assert_eq!(other.code, Some(2), "{other:?}");

    let no_socket = File::open(file("no-socket", "")).expect("it was just written");
    let other = ended(with_passed(no_socket, "1", &args)).await;
    assert_eq!(other.code, Some(2), "{other:?}");
    assert!(other.stderr.contains("something else than a TCP socket"), "{other:?}");

    let far = listener();
    let connected = std::net::TcpStream::connect(far.local_addr().expect("it has one"));
    let connected = connected.expect("it listens");
    let other = ended(with_passed(connected, "1", &args)).await;
    assert_eq!(other.code, Some(1), "{other:?}");
    assert!(other.stderr.contains("the socket that was passed cannot be used"), "{other:?}");
}

#[tokio::test]
async fn sockets_for_another_process_are_left_alone() {
    let mut command = command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("LISTEN_FDS", "1").env("LISTEN_PID", "1");
    let server = Running::spawn(command).await;
    assert!(server.ask("srvr").await.contains("Mode: standalone"));
    assert_eq!(server.end("TERM").await.0.code(), Some(0));
}
