//! The names of certificates are those that Java gives them. `data/subjects.pem` has certificates that
//! openssl and keytool made, each after the name that Java 17 printed.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use zoolet_tls::{TlsError, distinguished_name, rustls};

const SUBJECTS: &str = include_str!("data/subjects.pem");

#[test]
fn names_are_those_that_java_printed() {
    let mut compared = 0;
    for block in SUBJECTS.split("name: ").skip(1) {
        let (name, pem) = block.split_once('\n').unwrap();
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        assert_eq!(distinguished_name(&der).unwrap(), name);
        compared += 1;
    }
    assert!(compared >= 10, "{compared}");
}

#[test]
fn what_is_no_certificate_has_no_name() {
    for der in [&b""[..], b"0", b"junk", &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]] {
        assert!(matches!(distinguished_name(der), Err(TlsError::Certificate(_))), "{der:?}");
    }
}
