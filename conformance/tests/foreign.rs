//! Clients that know nothing of us, on our server: the shells of the Java and the C client, kazoo's
//! recipes, Curator's mutex, and kazoo's own tests.
//!
//! The checks are programs of their own below `conformance`, each of which can be run by hand
//! against any server.

use std::process::{Command, ExitCode, Output};

use libtest_mimic::{Arguments, Failed, Trial};
use zoolet_conformance::harness;
use zoolet_conformance::peers::{self, Peer};
use zoolet_conformance::process::zoolet_binary;
use zoolet_conformance::script::Setting;
use zoolet_conformance::stage;
use zoolet_conformance::wire::Wire;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Each keeps two cores busy by itself.
    arguments.test_threads = Some(1);
    let trials = vec![
        client("zkcli", Peer::Apache),
        client("c-client", Peer::Apache),
        client("kazoo-recipes", Peer::Kazoo),
        client("curator-mutex", Peer::Curator),
        harness::needs(&[Peer::Kazoo], "kazoo-suite", kazoo_suite),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A program that checks a server as a client of its kind sees it.
fn client(name: &'static str, peer: Peer) -> Trial {
    harness::needs(&[peer], name, move || {
        let server = Wire::start(stage::config(Setting::Steady))?;
        let program = peers::conformance_folder().join("foreign").join(name);
        succeeded(&Command::new(program).arg(server.address().to_string()).output()?)
    })
}

/// kazoo's tests on our binary: all that pass on Apache ZooKeeper must pass, but for those that are
/// listed with a reason.
fn kazoo_suite() -> Result<(), Failed> {
    let folder = peers::conformance_folder();
    let mut run = Command::new(folder.join("kazoo/run"));
    run.args(["--server", "zoolet", "--workers", "2", "--zoolet-bin"]).arg(zoolet_binary()?);
    succeeded(&run.output()?)
}

/// What a program said goes into the report of a failure.
fn succeeded(output: &Output) -> Result<(), Failed> {
    if output.status.success() {
        return Ok(());
    }
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    Err(format!("{}\n{}", output.status, String::from_utf8_lossy(&said)).into())
}
