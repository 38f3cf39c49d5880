//! `zoolet console` over HTTP, on Apache ZooKeeper: locks of kazoo and ours, with their holders, waiters and
//! sessions, a hand-over after the death of a holder, and the tree.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use libtest_mimic::Failed;
use serde_json::Value;
use tokio::runtime::Builder;
use zoolet_client::Client;
use zoolet_conformance::apache::Apache;
use zoolet_conformance::harness::Section;
use zoolet_conformance::peers::{Peer, apache39_jars, kazoo_python};
use zoolet_conformance::process::zoolet_binary;
use zoolet_conformance::script::Setting;
use zoolet_conformance::servers;
use zoolet_recipes::InterProcessMutex;

/// How long the console may be silent: it tells something every ten seconds.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn tests() -> Section {
    let jars = || vec!["--jars".to_owned(), apache39_jars().display().to_string()];
    let mut section = Section::new("console_apache", 1);
    section.test(&[Peer::Kazoo, Peer::Apache], "apache", || run(Vec::new()));
    section.test(&[Peer::Kazoo, Peer::Apache39], "apache-3.9", move || run(jars()));
    section
}

/// A process that ends when it is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process of kazoo that acquires a lock, says so, and keeps it.
fn kazoo(address: SocketAddr, path: &str) -> Result<Process, Failed> {
    const PROGRAM: &str = "\
import sys
import time
from kazoo.client import KazooClient

address, path = sys.argv[1:3]
client = KazooClient(hosts=address, timeout=3)
client.start()
print('%#x' % client.client_id[0], flush=True)
client.Lock(path, 'kazoo').acquire()
print('holds', flush=True)
time.sleep(3600)
";
    let mut command = Command::new(kazoo_python());
    command.args(["-c", PROGRAM, &address.to_string(), path]);
    Ok(Process(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?))
}

/// The console of a server, and where it is.
fn console(server: SocketAddr) -> Result<(Process, SocketAddr), Failed> {
    let server = server.to_string();
    let mut command = Command::new(zoolet_binary()?);
    command.args(["console", &server, "--listen", "127.0.0.1:0", "--interval", "200ms"]);
    let mut process = Process(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?);
    let line = line(&mut process)?;
    let (_, url) = line.split_once(" on http://").ok_or_else(|| format!("it says {line:?}"))?;
    let address = url.trim_end_matches('/').parse().map_err(|error| format!("{url}: {error}"))?;
    Ok((process, address))
}

/// The next line that a process prints. What follows in its output is not looked at.
fn line(process: &mut Process) -> Result<String, Failed> {
    let mut line = String::new();
    let stdout = process.0.stdout.as_mut().ok_or("its output is piped")?;
    // Byte by byte, so that the rest stays where it is.
    let mut byte = [0];
    while stdout.read(&mut byte)? == 1 {
        match byte[0] {
            b'\n' => return Ok(line),
            byte => line.push(char::from(byte)),
        }
    }
    Err(format!("it has ended after {line:?}").into())
}

fn ask(console: SocketAddr, path: &str, further: &str) -> Result<TcpStream, Failed> {
    let mut stream = TcpStream::connect(console)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {console}\r\n{further}\r\n")?;
    Ok(stream)
}

/// The answer to a request.
fn get(console: SocketAddr, path: &str) -> Result<Value, Failed> {
    let mut answer = String::new();
    ask(console, path, "Connection: close\r\n")?.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("an answer has a head")?;
    if !head.starts_with("HTTP/1.1 200 ") {
        return Err(answer.into());
    }
    Ok(serde_json::from_str(body)?)
}

/// One who looks.
struct View {
    stream: BufReader<TcpStream>,
    state: Value,
}

impl View {
    fn open(console: SocketAddr) -> Result<Self, Failed> {
        let stream = BufReader::new(ask(console, "/v1/events", "")?);
        Ok(Self { stream, state: Value::Null })
    }

    /// Takes the next message.
    fn next(&mut self) -> Result<(), Failed> {
        let mut name = String::new();
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Err("the console has closed the connection".into());
            }
            let line = line.trim_end();
            if let Some(event) = line.strip_prefix("event: ") {
                event.clone_into(&mut name);
            } else if let Some(data) = line.strip_prefix("data: ") {
                self.take(&name, serde_json::from_str(data)?);
                return Ok(());
            }
        }
    }

    fn take(&mut self, name: &str, value: Value) {
        let Value::Object(changes) = value else { panic!("{name}: {value}") };
        if name == "snapshot" {
            self.state = Value::Object(changes);
            return;
        }
        for (part, change) in changes {
            if !["locks", "sessions"].contains(&part.as_str()) {
                self.state[part] = change;
                continue;
            }
            let entries = self.state[&part].as_object_mut().expect("it was told whole");
            for gone in change["gone"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                entries.remove(gone);
            }
            entries.extend(change["put"].as_object().cloned().unwrap_or_default());
        }
    }

    /// Reads until the sessions of the places of a lock are these, the holder first, and all are known
    /// with their clients.
    fn until_queue(&mut self, path: &str, sessions: &[&str]) -> Result<(), Failed> {
        loop {
            self.next().map_err(|failed| {
                let reason = failed.message().unwrap_or_default();
                format!("{path} is not that of {sessions:?}: {reason} in {:#}", self.state)
            })?;
            let mut locks =
                self.state["locks"].as_object().into_iter().flat_map(|all| all.values());
            let Some(lock) = locks.find(|lock| lock["path"] == path) else { continue };
            let places = lock["places"].as_array().ok_or("a lock has places")?;
            let is_held = places.first().is_some_and(|place| place["held_since_ms"].is_i64());
            let client = |id: &str| self.state["sessions"][id]["client"].as_str();
            let is_known = |id: &&str| client(id).is_some_and(|it| it.starts_with("127.0.0.1:"));
            if places
                .iter()
                .map(|place| place["session"].as_str())
                .eq(sessions.iter().copied().map(Some))
                && is_held
                && sessions.iter().all(is_known)
            {
                return Ok(());
            }
        }
    }
}

fn run(further: Vec<String>) -> Result<(), Failed> {
    let mut arguments = further;
    arguments.extend(servers::properties(Setting::Steady));
    let server = Apache::start(&arguments)?;
    let address = server.address();
    let mut holder = kazoo(address, "/kazoo")?;
    let first = line(&mut holder)?;
    assert_eq!(line(&mut holder)?, "holds");
    let mut waiter = kazoo(address, "/kazoo")?;
    let second = line(&mut waiter)?;
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let client = runtime.block_on(Client::connect(address.to_string().as_str()))?;
    let guard = runtime.block_on(InterProcessMutex::new(&client, "/ours")?.acquire())?;

    let (_console, console) = console(address)?;
    let mut view = View::open(console)?;
    view.until_queue("/kazoo", &[&first, &second])?;
    view.until_queue("/ours", &[&client.session_id().to_string()])?;
    let state = &view.state;
    assert_eq!(state["sessions"][&first]["holds"], serde_json::json!(["/kazoo"]), "{state:#}");
    assert_eq!(state["sessions"][&second]["waits"], serde_json::json!(["/kazoo"]), "{state:#}");
    assert_eq!(state["not_seen"], serde_json::json!([]), "all words are allowed: {state:#}");
    assert!(state["totals"]["wait"].as_u64() == Some(1), "{state:#}");

    // The holder dies, and its session expires.
    drop(holder);
    view.until_queue("/kazoo", &[&second])?;
    assert!(view.state["totals"]["hand_overs"].as_u64() >= Some(1), "{:#}", view.state);

    let children = get(console, "/v1/children?path=/")?;
    let names: Vec<_> = children["children"].as_array().into_iter().flatten().collect();
    for name in ["kazoo", "ours", "zookeeper"] {
        assert!(names.iter().any(|child| child["name"] == name), "{children:#}");
    }
    let znode = get(console, "/v1/znode?path=/zookeeper")?;
    assert_eq!(znode["path"], "/zookeeper", "{znode:#}");
    runtime.block_on(guard.release())?;
    Ok(())
}
