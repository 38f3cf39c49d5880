//! TLS with what others make and read: stores of openssl and keytool, and the names that Java gives to
//! certificates.

#[path = "../../../tls/tests/support/mod.rs"]
mod support;

mod stores;
mod subjects;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use zoolet_conformance::harness::needs;
use zoolet_conformance::peers::Peer;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let makers = &[Peer::OpenSsl, Peer::Java];
    let trials = vec![
        needs(makers, "stores-are-read", stores::are_read),
        needs(makers, "bad-stores-are-told", stores::bad_ones_are_told),
        needs(&[Peer::Java], "subjects-of-java", subjects::are_those_of_java),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}
