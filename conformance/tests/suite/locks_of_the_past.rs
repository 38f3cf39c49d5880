//! `zoolet data locks` on the data directory of Apache ZooKeeper, and of our server, while processes of kazoo
//! take a lock from each other: it tells the holders that the processes themselves have recorded. One of them
//! is killed while it holds.

use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use zoolet_conformance::harness::Section;
use zoolet_conformance::peers::{Peer, kazoo_python};
use zoolet_conformance::process::{Implementation, Process, zoolet_binary};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

pub(crate) fn tests() -> Section {
    let mut section = Section::new("locks_of_the_past", 1);
    section.test(&[Peer::Kazoo], "zoolet", || Ok(told(Implementation::Zoolet)?));
    section.test(&[Peer::Kazoo, Peer::Apache], "apache", || Ok(told(Implementation::Apache)?));
    section
}

/// How often each process takes the lock; the first one is killed the fifth time.
const ROUNDS: [&str; 4] = ["5", "30", "30", "30"];

/// Prints each time at which it has the lock and, but for the killed one, at which it is about to release it.
const MEMBER: &str = "\
import os
import signal
import sys
import time
from kazoo.client import KazooClient

address, rounds, dies = sys.argv[1], int(sys.argv[2]), sys.argv[3] == 'dies'
client = KazooClient(hosts=address, timeout=4.0)
client.start()
session = hex(client.client_id[0] & (2 ** 64 - 1))

def told(what):
    print(what, session, time.time_ns() // 1000000, flush=True)

for number in range(rounds):
    lock = client.Lock('/locks/a', 'member')
    lock.acquire()
    told('acquired')
    if dies and number == rounds - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.02)
    told('releases')
    lock.release()
client.stop()
";

/// What a process has recorded of one hold.
#[derive(Debug)]
struct Recorded {
    session: String,
    acquired_ms: i64,
    /// `None` of the one that was killed.
    releases_ms: Option<i64>,
}

fn told(implementation: Implementation) -> Outcome<()> {
    let zoolet = zoolet_binary()?;
    let directory = tempfile::tempdir()?;
    let server = Process::start(implementation, directory.path(), 0)?;
    let recorded = members(&server.address().to_string())?;
    // The server runs on.
    let holds = report(&zoolet, directory.path())?;
    assert_eq!(holds.len(), recorded.len(), "{holds:?}");
    for (recorded, hold) in recorded.iter().zip(&holds) {
        let text = |field: &str| hold[field].as_str().unwrap_or_default();
        assert_eq!(text("session"), recorded.session, "{recorded:?} {hold}");
        let (since, until) = (ms(text("since"))?, ms(text("until"))?);
        assert!(since <= recorded.acquired_ms, "{recorded:?} {hold}");
        assert!(recorded.releases_ms.is_none_or(|at| at <= until), "{recorded:?} {hold}");
        let expected = match recorded.releases_ms {
            Some(_) => "released",
            None => "session-ended-by-server",
        };
        assert_eq!(text("cause"), expected, "{recorded:?} {hold}");
    }
    let expired: Vec<_> = holds.windows(2).filter(|pair| pair[0]["cause"] != "released").collect();
    let [pair] = &expired[..] else { return Err(format!("one expires: {expired:?}").into()) };
    assert_eq!(pair[0]["next"], pair[1]["session"], "the lock changed hands at the expiry");
    drop(server);
    Ok(())
}

/// Runs the processes to their end, and returns what they recorded in the order of time.
fn members(address: &str) -> Outcome<Vec<Recorded>> {
    let start = |(index, rounds): (usize, &&str)| {
        let dies = if index == 0 { "dies" } else { "lives" };
        let mut command = Command::new(kazoo_python());
        command.args(["-c", MEMBER, address, rounds, dies]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
    };
    let started: Vec<_> = ROUNDS.iter().enumerate().map(start).collect::<Result<_, _>>()?;
    let mut recorded: Vec<Recorded> = Vec::new();
    for member in started {
        let output = String::from_utf8(member.wait_with_output()?.stdout)?;
        for line in output.lines() {
            let fields: Vec<_> = line.split(' ').collect();
            let [what, session, at] = fields[..] else { return Err(line.into()) };
            match (what, recorded.last_mut()) {
                ("releases", Some(last)) => last.releases_ms = Some(at.parse()?),
                _ => recorded.push(Recorded {
                    session: session.to_owned(),
                    acquired_ms: at.parse()?,
                    releases_ms: None,
                }),
            }
        }
    }
    recorded.sort_by_key(|recorded| recorded.acquired_ms);
    Ok(recorded)
}

fn report(zoolet: &Path, directory: &Path) -> Outcome<Vec<Value>> {
    let mut command = Command::new(zoolet);
    command.args(["data", "locks"]).arg(directory).args(["/locks/a", "--holds", "--json"]);
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let lines = String::from_utf8(output.stdout)?;
    lines.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// A time as the report prints it, in milliseconds since 1970.
fn ms(text: &str) -> Outcome<i64> {
    Ok(text.parse::<jiff::Timestamp>()?.as_millisecond())
}
