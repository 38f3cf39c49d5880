//! TLS with others: stores of openssl and keytool, the names that Java gives to certificates, clients in
//! Java, Python and C on our server, and ours and the C client on Apache ZooKeeper.
//!
//! With `ZOOLET_APACHE_JARS=DIR` the jars there take the place of Debian's ZooKeeper.

#[path = "../../../tls/tests/support/mod.rs"]
mod support;

mod guide;
mod interop;
mod stores;
mod subjects;
mod workshop;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use zoolet_conformance::harness::needs;
use zoolet_conformance::peers::Peer;
use zoolet_conformance::peers::Peer::{Apache, Apache39, Curl, Java, Kazoo, OpenSsl, SecureC};

use self::interop::{Release, Stores};
use self::workshop::{Shared, Workshop};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let (workshop, stores) = (Shared::<Workshop>::new(), Shared::<Stores>::new());
    let with_workshop = |name, test: fn(&Workshop) -> Result<(), Failed>| -> Trial {
        let workshop = Arc::clone(&workshop);
        needs(&[OpenSsl, Java], name, move || test(workshop.get(Workshop::new)?))
    };
    let with_stores = |name, peer: &[Peer], test: fn(&Stores) -> Result<(), Failed>| -> Trial {
        let (workshop, stores) = (Arc::clone(&workshop), Arc::clone(&stores));
        needs(&[&[OpenSsl, Java], peer].concat(), name, move || {
            test(stores.get(|| Stores::new(workshop.get(Workshop::new)?))?)
        })
    };
    // The longest come first.
    let trials = vec![
        needs(&[OpenSsl, Java, Curl], "guide", guide::works),
        with_stores("on-apache-3.9", &[Apache39, SecureC], |stores| {
            interop::on_apache(stores, Release::V395)
        }),
        with_stores("on-apache-3.8", &[Apache, SecureC], |stores| {
            interop::on_apache(stores, Release::Debian)
        }),
        with_workshop("stores-are-read", stores::are_read),
        with_workshop("bad-stores-are-told", stores::bad_ones_are_told),
        with_stores("java-3.8-on-ours", &[Apache], |stores| {
            interop::java_on_ours(stores, Release::Debian)
        }),
        with_stores("java-3.9-on-ours", &[Apache39], |stores| {
            interop::java_on_ours(stores, Release::V395)
        }),
        needs(&[Java], "subjects-of-java", subjects::are_those_of_java),
        with_stores("kazoo-on-ours", &[Kazoo], interop::kazoo_on_ours),
        with_stores("c-on-ours", &[SecureC], interop::c_on_ours),
        with_stores("ours-on-ours", &[], interop::ours_on_ours),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}
