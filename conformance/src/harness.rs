//! What the golden tests share: one test for each script, against one kind of server.

use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use libtest_mimic::{Arguments, Failed, Trial};

use crate::peers::{self, Peer};
use crate::script::{Script, corpus};
use crate::stage::{Kind, Stage};

/// Runs every script against `kind` and reports each as a test of its name.
///
/// A test that needs a peer which is not installed is reported as ignored, the reason in its
/// name's brackets; with `ZOOLET_REQUIRE_PEERS=1` it fails.
///
/// # Panics
///
/// When the scripts cannot be listed.
#[must_use]
pub fn golden(kind: Kind) -> ExitCode {
    let mut arguments = Arguments::from_args();
    if kind == Kind::Apache {
        // Scripts on one server take turns: zxids are counted from the begin of each.
        arguments.test_threads = Some(1);
    }
    let scripts = corpus().expect("the scripts are a part of this crate");
    let stage = Arc::new(Mutex::new(Stage::new(kind)));
    let trials = scripts.into_iter().map(|script| trial(script, kind, &stage)).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    // The servers go before the process does.
    drop(stage);
    conclusion.exit_code()
}

fn trial(script: Script, kind: Kind, stage: &Arc<Mutex<Stage>>) -> Trial {
    let name = script.name.clone();
    let peers: &[Peer] = if kind == Kind::Apache { &[Peer::Apache] } else { &[] };
    let stage = Arc::clone(stage);
    needs(peers, &name, move || {
        let check = |stage: &mut Stage| stage.check(&script);
        match kind {
            Kind::Apache => check(&mut stage.lock().unwrap_or_else(|held| held.into_inner())),
            Kind::Core | Kind::Wire => check(&mut Stage::new(kind)),
        }
        .map_err(Failed::from)
    })
}

/// A test that needs peers: without one of them it is ignored and says why, or fails where peers are
/// required.
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
