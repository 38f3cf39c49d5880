//! The test harness of the golden scripts: one test for each script.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use libtest_mimic::{Arguments, Failed, Trial};

use crate::peers::{self, Peer};
use crate::script::{Script, corpus};
use crate::servers::{ScriptServers, ServerKind};

/// Runs every script against `kind`, and reports each as a test with its name.
///
/// A test that needs a peer that is not installed is reported as ignored, with the reason in its
/// name. With `ZOOLET_REQUIRE_PEERS=1` it fails.
///
/// # Panics
///
/// If the scripts cannot be listed.
#[must_use]
pub fn golden(kind: ServerKind) -> ExitCode {
    let mut arguments = Arguments::from_args();
    if kind == ServerKind::Apache {
        // Most of the time a script waits for the server, or for a new one.
        arguments.test_threads = Some(4);
    }
    let scripts = corpus().expect("the scripts are part of this crate");
    // Scripts on one server run one after the other, because zxids are counted from the start of each.
    let mut servers = BTreeMap::new();
    let mut servers_of = |script: &Script| {
        let new = || Arc::new(Mutex::new(ScriptServers::new(kind)));
        match script.setting() {
            setting if kind == ServerKind::Apache && setting.shares_servers() => {
                Arc::clone(servers.entry(setting).or_insert_with(new))
            }
            _ => new(),
        }
    };
    let trials = scripts.into_iter().map(|script| trial(servers_of(&script), script, kind));
    let trials = trials.collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    // Stop the servers before the process ends.
    drop(servers);
    conclusion.exit_code()
}

fn trial(servers: Arc<Mutex<ScriptServers>>, script: Script, kind: ServerKind) -> Trial {
    let name = script.name.clone();
    let peers: &[Peer] = if kind == ServerKind::Apache { &[Peer::Apache] } else { &[] };
    needs(peers, &name, move || {
        let check = |servers: &mut ScriptServers| servers.check(&script);
        check(&mut servers.lock().unwrap_or_else(|held| held.into_inner())).map_err(Failed::from)
    })
}

/// A test that needs peers. If one is missing, the test is ignored with the reason in its name, or
/// fails if peers are required.
pub fn needs(
    peers: &[Peer],
    name: &str,
    test: impl FnOnce() -> Result<(), Failed> + Send + 'static,
) -> Trial {
    let Err(missing) = peers.iter().try_for_each(|peer| peer.find()) else {
        return Trial::test(name, test);
    };
    let reason = missing.to_string();
    let fails = move || Err(Failed::from(missing));
    if peers::are_required() {
        Trial::test(name, fails)
    } else {
        Trial::test(format!("{name} (ignored: {reason})"), fails).with_ignored_flag(true)
    }
}
