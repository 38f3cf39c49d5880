//! Foreign clients on our server: the shells of the Java and the C client, kazoo's
//! recipes, Curator's mutex, kazoo's own tests, the examples of tests in other languages, by
//! themselves and under `zoolet sweep`, and a browser, on the page that `zoolet bench` writes.
//!
//! The checks are separate programs below `conformance`, each of which can be run by hand
//! against any server.

mod page;
mod sweep;

use std::process::{Command, ExitCode, Output};

use libtest_mimic::{Arguments, Failed, Trial};
use zoolet_conformance::harness;
use zoolet_conformance::peers::{self, Peer};
use zoolet_conformance::process::zoolet_binary;
use zoolet_conformance::script::Setting;
use zoolet_conformance::servers;
use zoolet_conformance::wire::Wire;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Foreign tests wait for most of the time. Those that take longest come first.
    arguments.test_threads = Some(4);
    let trials = vec![
        harness::needs(&[Peer::Kazoo], "kazoo-suite", kazoo_suite),
        harness::needs(&[Peer::Kazoo], "sweep-kazoo", sweep::finds_the_defects_of_kazoo),
        harness::needs(&[Peer::Curator], "sweep-curator", sweep::finds_the_defects_of_curator),
        client("zkcli", Peer::Apache),
        client("zoolet-cli", Peer::Apache),
        client("c-client", Peer::Apache),
        client("kazoo-recipes", Peer::Kazoo),
        client("curator-mutex", Peer::Curator),
        harness::needs(&[Peer::Apache, Peer::Kazoo, Peer::SecureC], "sasl", sasl),
        harness::needs(&[Peer::Kazoo], "pytest-example", pytest_example),
        harness::needs(&[Peer::Curator, Peer::JUnit], "junit-example", junit_example),
        harness::needs(&[Peer::Chromium], "page", page::shows_lines_by_day_and_by_night),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Runs a program that checks a server.
fn client(name: &'static str, peer: Peer) -> Trial {
    harness::needs(&[peer], name, move || {
        let server = Wire::start(servers::config(Setting::Steady))?;
        let program = peers::conformance_folder().join("foreign").join(name);
        let mut check = Command::new(program);
        // Only one of the programs runs it, and it is built once.
        check.arg(server.address().to_string()).env("ZOOLET", zoolet_binary()?);
        succeeded(&check.output()?)
    })
}

/// kazoo's tests on our binary: all that pass on Apache ZooKeeper must pass, except those that are
/// listed with a reason.
fn kazoo_suite() -> Result<(), Failed> {
    let folder = peers::conformance_folder();
    let mut run = Command::new(folder.join("kazoo/run"));
    run.args(["--server", "zoolet", "--workers", "2", "--zoolet-bin"]).arg(zoolet_binary()?);
    succeeded(&run.output()?)
}

/// Users of a JAAS file: four clients on our binary and on Apache ZooKeeper.
fn sasl() -> Result<(), Failed> {
    let mut run = Command::new(peers::kazoo_python());
    run.arg(peers::conformance_folder().join("foreign/sasl")).arg(zoolet_binary()?);
    succeeded(&run.output()?)
}

/// The example of lock tests in Python, with faults over HTTP.
fn pytest_example() -> Result<(), Failed> {
    let mut run = Command::new(peers::kazoo_python());
    run.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]);
    run.arg(peers::conformance_folder().join("../examples/pytest"));
    run.env("ZOOLET", zoolet_binary()?).env("PYTHONDONTWRITEBYTECODE", "1");
    succeeded(&run.output()?)
}

/// The example of lock tests in Java.
fn junit_example() -> Result<(), Failed> {
    let mut run = Command::new(peers::conformance_folder().join("../examples/junit/run"));
    succeeded(&run.env("ZOOLET", zoolet_binary()?).output()?)
}

/// Fails with the output of the program unless the program succeeded.
fn succeeded(output: &Output) -> Result<(), Failed> {
    if output.status.success() {
        return Ok(());
    }
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    Err(format!("{}\n{}", output.status, String::from_utf8_lossy(&said)).into())
}
