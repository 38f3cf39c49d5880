//! Foreign clients on our server: the shells of the Java and the C client, kazoo's
//! recipes, Curator's mutex, kazoo's own tests, the examples of tests in other languages, by
//! themselves and under `zoolet sweep`, and a browser, on the page that `zoolet bench` writes.
//!
//! The checks are separate programs below `conformance`, each of which can be run by hand
//! against any server.

mod page;
mod sweep;

use std::process::{Command, Output};

use libtest_mimic::Failed;
use zoolet_conformance::harness::Section;
use zoolet_conformance::peers::{self, Peer};
use zoolet_conformance::process::zoolet_binary;
use zoolet_conformance::script::Setting;
use zoolet_conformance::servers;
use zoolet_conformance::wire::Wire;

pub(crate) fn tests() -> Section {
    // Those that take longest come first.
    let mut section = Section::new("foreign", 1);
    section.test(&[Peer::Kazoo], "kazoo-suite", kazoo_suite);
    section.test(&[Peer::Kazoo], "sweep-kazoo", sweep::finds_the_defects_of_kazoo);
    section.test(&[Peer::Curator], "sweep-curator", sweep::finds_the_defects_of_curator);
    client(&mut section, "zkcli", Peer::Apache);
    client(&mut section, "zoolet-cli", Peer::Apache);
    client(&mut section, "c-client", Peer::Apache);
    client(&mut section, "kazoo-recipes", Peer::Kazoo);
    client(&mut section, "curator-mutex", Peer::Curator);
    section.test(&[Peer::Apache, Peer::Kazoo, Peer::SecureC], "sasl", sasl);
    section.test(&[Peer::Kazoo], "pytest-example", pytest_example);
    section.test(&[Peer::Curator, Peer::JUnit], "junit-example", junit_example);
    section.test(&[Peer::Chromium], "page", page::shows_lines_by_day_and_by_night);
    section
}

/// Runs a program that checks a server.
fn client(section: &mut Section, name: &'static str, peer: Peer) {
    section.test(&[peer], name, move || {
        let server = Wire::start(servers::config(Setting::Steady))?;
        let program = peers::conformance_folder().join("foreign").join(name);
        let mut check = Command::new(program);
        // Only one of the programs runs it, and it is built once.
        check.arg(server.address().to_string()).env("ZOOLET", zoolet_binary()?);
        succeeded(&check.output()?)
    });
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
