//! Stores that were damaged in any way are errors, and take neither long nor much memory.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::fs;

use p12_keystore::{Certificate, KeyStore, KeyStoreEntry, PrivateKey, PrivateKeyChain};
use proptest::prelude::*;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use support::Authority;
use zoolet_tls::rustls;
use zoolet_tls::rustls::pki_types::CertificateDer;
use zoolet_tls::{ClientAuth, Secret, ServerTls, ServerTlsOptions, Store, TlsError};

const PASSWORD: &str = "changeit";

/// A store that keytool made, with a private key and a trusted certificate.
const JKS: &[u8] = include_bytes!("data/keytool.jks");

/// Loads bytes as a key store, and as a trust store.
fn load(ca: &Authority, name: &str, bytes: &[u8]) -> [Result<(), TlsError>; 2] {
    let path = ca.path(name);
    fs::write(&path, bytes).unwrap();
    let store = Store::new(&path).password(Secret::from(PASSWORD));
    let own = ServerTlsOptions::new(store.clone()).client_auth(ClientAuth::None);
    let trusted = ServerTlsOptions::new(ca.store("server.pem")).trust_store(store);
    [own, trusted].map(|options| ServerTls::load(options).map(|_| ()))
}

fn pkcs12(ca: &Authority) -> Vec<u8> {
    let pem = fs::read(ca.path("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(&pem).unwrap();
    let certificate = CertificateDer::from_pem_slice(&pem).unwrap();
    let certificate = Certificate::from_der(&certificate).unwrap();
    let key = PrivateKey::from_der(key.secret_der()).unwrap();
    let chain = PrivateKeyChain::new("id", key, [certificate]);
    let mut store = KeyStore::new();
    store.add_entry("server", KeyStoreEntry::PrivateKeyChain(chain));
    // Few rounds, since the test opens many.
    store.writer(PASSWORD).encryption_iterations(10).mac_iterations(10).write().unwrap()
}

#[test]
fn the_whole_stores_are_read() {
    let ca = Authority::new();
    ca.issue("server");
    let pem = fs::read(ca.path("server.pem")).unwrap();
    for (name, bytes) in [("a.jks", JKS.to_vec()), ("a.p12", pkcs12(&ca)), ("a.pem", pem)] {
        for loaded in load(&ca, name, &bytes) {
            loaded.unwrap();
        }
    }
}

#[test]
fn each_store_that_ends_too_early_is_an_error() {
    let ca = Authority::new();
    ca.issue("server");
    let pem = fs::read(ca.path("server.pem")).unwrap();
    // All that a PEM file says is above its last line.
    let pem = pem.strip_suffix(b"-----END CERTIFICATE-----\n").unwrap();
    for (name, whole) in [("a.jks", JKS.to_vec()), ("a.p12", pkcs12(&ca)), ("a.pem", pem.to_vec())]
    {
        // A step of three is for the time that it takes.
        for length in (0..whole.len()).step_by(3) {
            for loaded in load(&ca, name, &whole[..length]) {
                let error = loaded.expect_err(&format!("{name} of {length} bytes"));
                assert!(error.to_string().contains(name), "{error}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Its digest covers each byte of a JKS file.
    #[test]
    fn each_change_of_a_jks_file_is_an_error(at in 0..JKS.len(), change in 1_u8..) {
        let ca = Authority::new();
        ca.issue("server");
        let mut bytes = JKS.to_vec();
        bytes[at] ^= change;
        for loaded in load(&ca, "a.jks", &bytes) {
            prop_assert!(loaded.is_err());
        }
    }

    #[test]
    fn no_change_of_a_file_is_a_panic(
        kind in 0..2_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let ca = Authority::new();
        ca.issue("server");
        let (name, mut bytes) = match kind {
            0 => ("a.p12", pkcs12(&ca)),
            _ => ("a.pem", fs::read(ca.path("server.pem")).unwrap()),
        };
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = load(&ca, name, &bytes);
    }

    #[test]
    fn no_bytes_are_a_panic(
        kind in 0..3_usize,
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let ca = Authority::new();
        ca.issue("server");
        let starts: [(_, &[u8]); 3] = [
            ("a.p12", &[0x30, 0x82]),
            ("a.pem", b"-----BEGIN PRIVATE KEY-----\n"),
            ("a.jks", &[0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2]),
        ];
        let (name, start) = starts[kind];
        let bytes = [start, &bytes].concat();
        for loaded in load(&ca, name, &bytes) {
            prop_assert!(loaded.is_err());
        }
        let _ = zoolet_tls::distinguished_name(&bytes);
    }
}

/// The file of a password wins over a password, and the end of its last line does not count.
#[test]
fn a_password_file_wins() {
    let ca = Authority::new();
    ca.write("a.jks", "");
    fs::write(ca.path("a.jks"), JKS).unwrap();
    let load = |password: &str, file: &[u8]| {
        fs::write(ca.path("password"), file).unwrap();
        let store = ca.store("a.jks").password(Secret::from(password));
        let store = store.password_file(ca.path("password"));
        ServerTls::load(ServerTlsOptions::new(store).client_auth(ClientAuth::None))
    };
    for file in ["changeit", "changeit\n", "changeit\r\n"] {
        load("wrong", file.as_bytes()).unwrap();
    }
    for file in ["changeit \n", "changeit\n\n", "wrong"] {
        assert!(load("changeit", file.as_bytes()).is_err(), "{file:?}");
    }
    let error = load("changeit", &[0xff]).unwrap_err().to_string();
    assert!(error.contains("password file") && error.contains("UTF-8"), "{error}");
    let error = load("changeit", &[b'a'; 5000]).unwrap_err().to_string();
    assert!(error.contains("longer than 4096 bytes"), "{error}");
}

#[test]
fn no_password_is_printed() {
    let store = Store::new("a.jks").password(Secret::from("hidden"));
    let options = ServerTlsOptions::new(store);
    assert!(!format!("{options:?}").contains("hidden"));
}
