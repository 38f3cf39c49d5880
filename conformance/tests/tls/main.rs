//! TLS with others: stores of openssl and keytool, the names that Java gives to certificates, Java's
//! client and kazoo on our server, and our client on Apache ZooKeeper.
//!
//! With `ZOOLET_APACHE_JARS=DIR` server and client in Java are those of these jars.

#[path = "../../../tls/tests/support/mod.rs"]
mod support;

mod guide;
mod interop;
mod stores;
mod subjects;
mod workshop;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use zoolet_conformance::harness::needs;
use zoolet_conformance::peers::Peer;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let makers = &[Peer::OpenSsl, Peer::Java];
    let apache = &[Peer::OpenSsl, Peer::Java, Peer::Apache];
    let trials = vec![
        needs(makers, "stores-are-read", stores::are_read),
        needs(makers, "bad-stores-are-told", stores::bad_ones_are_told),
        needs(&[Peer::Java], "subjects-of-java", subjects::are_those_of_java),
        needs(apache, "java-on-ours", interop::java_on_ours),
        needs(&[Peer::OpenSsl, Peer::Java, Peer::Kazoo], "kazoo-on-ours", interop::kazoo_on_ours),
        needs(makers, "ours-on-ours", interop::ours_on_ours),
        needs(apache, "ours-on-apache", interop::ours_on_apache),
        needs(makers, "guide", guide::works),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}
