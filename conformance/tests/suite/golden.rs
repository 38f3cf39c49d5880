//! Runs every golden script: against the state machine in this process, against our server over TCP, and
//! against Apache ZooKeeper 3.8, from which it was recorded.

use std::collections::BTreeMap;

use libtest_mimic::Failed;
use zoolet_conformance::apache::Apache;
use zoolet_conformance::harness::{InTurn, Section};
use zoolet_conformance::peers::Peer;
use zoolet_conformance::script::{Script, Setting, corpus};
use zoolet_conformance::servers::{ScriptServers, ServerKind};

const KINDS: [(ServerKind, &str, &[Peer]); 3] = [
    (ServerKind::Apache, "apache", &[Peer::Apache]),
    (ServerKind::Wire, "wire", &[]),
    (ServerKind::Core, "core", &[]),
];

pub(crate) fn tests() -> Section {
    let mut section = Section::new("golden", 1);
    let scripts = corpus().expect("the scripts are part of this package");
    let mut shared = BTreeMap::new();
    for (kind, prefix, peers) in KINDS {
        for script in &scripts {
            let (name, script) = (format!("{prefix}::{}", script.name), script.clone());
            if is_shared(kind, script.setting()) {
                // Scripts on one server run one after the other, because zxids are counted from the start of each.
                let new = || InTurn::new(ScriptServers::new(kind));
                let servers = shared.entry(script.setting()).or_insert_with(new);
                let check = move |servers: &mut ScriptServers| check(servers, &script);
                section.test_in_turn(servers, peers, &name, check);
            } else {
                section.test(peers, &name, move || check(&mut ScriptServers::new(kind), &script));
            }
        }
    }
    section.test(&[Peer::Apache], "apache::port-of-another-server", port_of_another_server);
    section
}

/// Two scripts that shared a server by mistake would see each other's writes.
fn port_of_another_server() -> Result<(), Failed> {
    let other = Apache::start(&[])?;
    let port = other.address().port().to_string();
    match Apache::start(&["--port".to_owned(), port]) {
        Ok(server) => Err(format!("{} passes for a new server", server.address()).into()),
        Err(_) => Ok(()),
    }
}

/// Whether a server, which takes its time to start, plays more than one script with this setting.
fn is_shared(kind: ServerKind, setting: Setting) -> bool {
    kind == ServerKind::Apache && setting.shares_servers()
}

fn check(servers: &mut ScriptServers, script: &Script) -> Result<(), Failed> {
    servers.check(script).map_err(Failed::from)
}
