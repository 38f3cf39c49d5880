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

use std::sync::Arc;

use libtest_mimic::Failed;
use zoolet_conformance::harness::Section;
use zoolet_conformance::peers::Peer;
use zoolet_conformance::peers::Peer::{Apache, Apache39, Curl, Java, Kazoo, OpenSsl, SecureC};

use self::interop::{Release, Stores};
use self::workshop::{Shared, Workshop};

/// A test that needs a thing which is made once.
type Test<T> = fn(&T) -> Result<(), Failed>;

pub(crate) fn tests() -> Section {
    let mut section = Section::new("tls", 1);
    let (workshop, stores) = (Shared::<Workshop>::new(), Shared::<Stores>::new());
    // The longest come first.
    section.test(&[OpenSsl, Java, Curl], "guide", guide::works);
    let with_stores: [(&str, &[Peer], Test<Stores>); 7] = [
        ("on-apache-3.9", &[Apache39, SecureC], |it| interop::on_apache(it, Release::V395)),
        ("on-apache-3.8", &[Apache, SecureC], |it| interop::on_apache(it, Release::Debian)),
        ("java-3.8-on-ours", &[Apache], |it| interop::java_on_ours(it, Release::Debian)),
        ("java-3.9-on-ours", &[Apache39], |it| interop::java_on_ours(it, Release::V395)),
        ("kazoo-on-ours", &[Kazoo], interop::kazoo_on_ours),
        ("c-on-ours", &[SecureC], interop::c_on_ours),
        ("ours-on-ours", &[], interop::ours_on_ours),
    ];
    for (name, peers, test) in with_stores {
        let (workshop, stores) = (Arc::clone(&workshop), Arc::clone(&stores));
        section.test(&[&[OpenSsl, Java], peers].concat(), name, move || {
            test(stores.get(|| Stores::new(workshop.get(Workshop::new)?))?)
        });
    }
    let with_workshop: [(&str, Test<Workshop>); 2] =
        [("stores-are-read", stores::are_read), ("bad-stores-are-told", stores::bad_ones_are_told)];
    for (name, test) in with_workshop {
        let workshop = Arc::clone(&workshop);
        section.test(&[OpenSsl, Java], name, move || test(workshop.get(Workshop::new)?));
    }
    section.test(&[Java], "subjects-of-java", subjects::are_those_of_java);
    section
}
