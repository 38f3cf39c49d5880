//! Who shakes hands with whom: stores, client authentication, names, protocols, revocation.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateRevocationListParams, IsCa, KeyIdMethod, KeyPair,
    RevokedCertParams, SerialNumber, date_time_ymd,
};
use support::{Authority, handshake, handshake_resuming, handshake_with, params};
use zoolet_tls::rustls::client::Resumption;
use zoolet_tls::rustls::pki_types::CertificateDer;
use zoolet_tls::rustls::pki_types::pem::PemObject;
use zoolet_tls::rustls::{CertificateError, Error, ProtocolVersion};
use zoolet_tls::{
    ClientAuth, ClientTls, ClientTlsOptions, HostnameVerification, Protocol, ServerTls,
    ServerTlsOptions, Store, TlsError,
};

#[test]
fn a_client_is_known_by_the_name_of_its_certificate() {
    let ca = Authority::new();
    let server = ServerTls::load(ca.server_options()).unwrap();
    let client = ClientTls::load(ca.client_options()).unwrap();
    let agreed = handshake(&server, &client).unwrap();
    assert_eq!(agreed.version, ProtocolVersion::TLSv1_3);
    assert_eq!(agreed.client.as_deref(), Some("CN=client"));
}

#[test]
fn a_client_without_a_certificate_is_accepted_if_none_is_needed() {
    let ca = Authority::new();
    let anonymous =
        ClientTls::load(ClientTlsOptions::new().trust_store(ca.store("ca.pem"))).unwrap();
    for mode in [ClientAuth::None, ClientAuth::Want] {
        let server = ServerTls::load(ca.server_options().client_auth(mode)).unwrap();
        assert_eq!(handshake(&server, &anonymous).unwrap().client, None, "{mode}");
    }
    let server = ServerTls::load(ca.server_options()).unwrap();
    assert_eq!(handshake(&server, &anonymous).unwrap_err(), Error::NoCertificatesPresented);
}

#[test]
fn a_client_of_another_authority_is_refused_also_where_none_is_needed() {
    let (ca, other) = (Authority::new(), Authority::new());
    let options = ClientTlsOptions::new()
        .key_store(Store::new(other.issue("client")))
        .trust_store(ca.store("ca.pem"));
    let stranger = ClientTls::load(options).unwrap();
    for mode in [ClientAuth::Want, ClientAuth::Need] {
        let server = ServerTls::load(ca.server_options().client_auth(mode)).unwrap();
        let error = handshake(&server, &stranger).unwrap_err();
        assert!(matches!(error, Error::InvalidCertificate(_)), "{mode}: {error}");
    }
}

/// A resumed TLS session would keep the identity of a certificate that has expired since.
#[test]
fn where_clients_show_certificates_no_tls_session_is_resumed() {
    let ca = Authority::new();
    for protocol in Protocol::ALL {
        let client = ClientTls::load(ca.client_options().protocols([protocol])).unwrap();
        let mut resuming = (*client.config()).clone();
        resuming.resumption = Resumption::in_memory_sessions(8);
        let resuming = Arc::new(resuming);
        for mode in [ClientAuth::None, ClientAuth::Want, ClientAuth::Need] {
            let server = ServerTls::load(ca.server_options().client_auth(mode)).unwrap();
            let resumed = || handshake_resuming(&server, &resuming).unwrap().is_resumed;
            assert!(!resumed(), "{protocol} {mode}: the first time");
            assert_eq!(resumed(), mode == ClientAuth::None, "{protocol} {mode}");
        }
    }
}

/// The client verifies the certificate of its server each time.
#[test]
fn a_client_resumes_no_tls_session() {
    let ca = Authority::new();
    let server = ServerTls::load(ca.server_options().client_auth(ClientAuth::None)).unwrap();
    for protocol in Protocol::ALL {
        let client = ClientTls::load(ca.client_options().protocols([protocol])).unwrap();
        for _ in 0..2 {
            assert!(!handshake(&server, &client).unwrap().is_resumed, "{protocol}");
        }
    }
}

#[test]
fn client_certificates_need_a_trust_store() {
    let ca = Authority::new();
    let options = ServerTlsOptions::new(Store::new(ca.issue("server")));
    assert!(matches!(ServerTls::load(options.clone()), Err(TlsError::NoTrustStore)));
    assert!(ServerTls::load(options.client_auth(ClientAuth::None)).is_ok());
}

/// Turned off, the verification of names accepts no certificate that is not trusted.
#[test]
fn hostname_verification_is_about_the_name_only() {
    let (ca, other) = (Authority::new(), Authority::new());
    let server = ServerTls::load(ca.server_options()).unwrap();
    let load = |options: ClientTlsOptions| ClientTls::load(options).unwrap();

    let strict = load(ca.client_options());
    assert!(handshake_with(&server, &strict, "127.0.0.1").is_ok());
    let error = handshake_with(&server, &strict, "elsewhere.example").unwrap_err();
    assert!(matches!(
        error,
        Error::InvalidCertificate(CertificateError::NotValidForNameContext { .. })
    ));
    let named = load(ca.client_options().server_name("localhost"));
    assert!(handshake_with(&server, &named, "elsewhere.example").is_ok());

    let lax = load(ca.client_options().hostname_verification(HostnameVerification::Off));
    assert!(handshake_with(&server, &lax, "elsewhere.example").is_ok());
    let options = ca.client_options().trust_store(other.store("ca.pem"));
    let lax = load(options.hostname_verification(HostnameVerification::Off));
    let error = handshake_with(&server, &lax, "elsewhere.example").unwrap_err();
    // Both authorities have the same name, and different keys.
    assert_eq!(error, Error::InvalidCertificate(CertificateError::BadSignature));
}

#[test]
fn the_name_of_a_server_is_a_host_or_an_address() {
    let ca = Authority::new();
    let tls = ClientTls::load(ca.client_options()).unwrap();
    assert!(tls.server_name("::1").is_ok() && tls.server_name("zoo_1").is_ok());
    assert!(matches!(tls.server_name("no host"), Err(TlsError::ServerName { .. })));
    let wrong = ca.client_options().server_name("a b");
    assert!(matches!(ClientTls::load(wrong), Err(TlsError::ServerName { .. })));
}

#[test]
fn a_client_may_have_to_come_from_the_address_in_its_certificate() {
    let ca = Authority::new();
    let pem = std::fs::read(ca.issue("client")).unwrap();
    let certificate = CertificateDer::from_pem_slice(&pem).unwrap();
    let here = IpAddr::from(Ipv4Addr::LOCALHOST);
    let mapped = IpAddr::from(Ipv4Addr::LOCALHOST.to_ipv6_mapped());
    let elsewhere = IpAddr::from([10, 0, 0, 7]);

    let lax = ServerTls::load(ca.server_options()).unwrap();
    assert!(lax.verify_client_host(&certificate, elsewhere).is_ok());
    let options = ca.server_options().client_hostname_verification(HostnameVerification::On);
    let strict = ServerTls::load(options).unwrap();
    assert!(strict.verify_client_host(&certificate, here).is_ok());
    assert!(strict.verify_client_host(&certificate, mapped).is_ok());
    let error = strict.verify_client_host(&certificate, elsewhere).unwrap_err();
    assert!(error.to_string().contains("10.0.0.7"), "{error}");
}

#[test]
fn protocols_and_cipher_suites_are_those_that_are_set() {
    let ca = Authority::new();
    let client = ClientTls::load(ca.client_options()).unwrap();
    let old = ServerTls::load(ca.server_options().protocols([Protocol::Tls12])).unwrap();
    assert_eq!(handshake(&old, &client).unwrap().version, ProtocolVersion::TLSv1_2);
    // The only suite is one of TLS 1.2, so 1.3 is not spoken.
    let suite = ["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"];
    let one_suite = ServerTls::load(ca.server_options().cipher_suites(suite)).unwrap();
    assert_eq!(handshake(&one_suite, &client).unwrap().version, ProtocolVersion::TLSv1_2);
    let new = ClientTls::load(ca.client_options().protocols([Protocol::Tls13])).unwrap();
    assert!(handshake(&old, &new).is_err());

    let unknown = ca.server_options().cipher_suites(["TLS_RSA_WITH_NULL_MD5"]);
    assert!(matches!(ServerTls::load(unknown), Err(TlsError::CipherSuite { .. })));
    let neither = ca.server_options().cipher_suites(suite).protocols([Protocol::Tls13]);
    assert!(matches!(ServerTls::load(neither), Err(TlsError::NoCommonSuite(_))));
}

/// ZooKeeper's guide has each side trust the self-signed certificate of the other. OpenSSL makes
/// such certificates for authorities, which webpki by itself accepts only as issuers.
#[test]
fn a_certificate_in_the_trust_store_is_accepted_itself() {
    let folder = Authority::new();
    let self_signed = |name: &str, is_ca: IsCa, until: i32| {
        let key = KeyPair::generate().unwrap();
        let params = params(name, |params| {
            params.is_ca = is_ca;
            params.not_after = date_time_ymd(until, 1, 1);
        });
        let certificate = params.self_signed(&key).unwrap();
        folder.write(&format!("{name}-cert.pem"), &certificate.pem());
        folder.write(&format!("{name}.pem"), &[key.serialize_pem(), certificate.pem()].concat());
    };
    let authority = || IsCa::Ca(BasicConstraints::Unconstrained);
    self_signed("one", authority(), 2999);
    self_signed("two", authority(), 2999);
    self_signed("plain", IsCa::NoCa, 2999);
    self_signed("expired", authority(), 2001);
    let server = |own: &str, trusted: &str| {
        let options = ServerTlsOptions::new(folder.store(own)).trust_store(folder.store(trusted));
        ServerTls::load(options).unwrap()
    };
    let client = |own: &str, trusted: &str| {
        let options = ClientTlsOptions::new().key_store(folder.store(own));
        ClientTls::load(options.trust_store(folder.store(trusted))).unwrap()
    };
    let one = server("one.pem", "two-cert.pem");
    assert!(handshake(&one, &client("two.pem", "one-cert.pem")).is_ok());
    assert!(handshake(&one, &client("plain.pem", "one-cert.pem")).is_err());
    assert!(handshake(&one, &client("two.pem", "plain-cert.pem")).is_err());
    // The name counts all the same.
    assert!(handshake_with(&one, &client("two.pem", "one-cert.pem"), "elsewhere").is_err());
    let plain = server("plain.pem", "plain-cert.pem");
    assert!(handshake(&plain, &client("plain.pem", "plain-cert.pem")).is_ok());
    let tolerant = server("one.pem", "expired-cert.pem");
    assert!(handshake(&tolerant, &client("expired.pem", "one-cert.pem")).is_err());
}

#[test]
fn a_revoked_client_is_refused_and_so_is_one_of_an_issuer_without_a_list() {
    let ca = Authority::new();
    let issue = |name: &str, serial: u64| {
        let path = ca.issue_with(name, |params| params.serial_number = Some(serial.into()));
        ClientTls::load(ca.client_options().key_store(Store::new(path))).unwrap()
    };
    let (good, revoked) = (issue("good", 1), issue("revoked", 2));
    let list = |name: &str, until: i32, serials: &[u64]| {
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(until, 1, 1),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = params.signed_by(ca.issuer()).unwrap();
        std::fs::write(ca.path(&format!("{name}.der")), list.der()).unwrap();
        ca.write(name, &list.pem().unwrap())
    };
    let server = |list: &str| {
        ServerTls::load(ca.server_options().crl_files([ca.path(list)]))
            .map_err(|error| error.to_string())
    };
    list("list.pem", 2999, &[2]);
    for file in ["list.pem", "list.pem.der"] {
        let server = server(file).unwrap();
        assert!(handshake(&server, &good).is_ok(), "{file}");
        let error = handshake(&server, &revoked).unwrap_err();
        assert_eq!(error, Error::InvalidCertificate(CertificateError::Revoked), "{file}");
    }
    // A list that has expired tells nothing, and so nobody is accepted.
    list("expired.pem", 2021, &[]);
    assert!(handshake(&server("expired.pem").unwrap(), &good).is_err());
    // Nor is anybody whose issuer has no list.
    let other = Authority::new();
    let both = ca.write("both.pem", &[other.issuer().pem(), ca.issuer().pem()].concat());
    let options =
        ca.server_options().trust_store(Store::new(both)).crl_files([ca.path("list.pem")]);
    let server_of_both = ServerTls::load(options).unwrap();
    let stranger = ca.client_options().key_store(Store::new(other.issue("client")));
    assert!(handshake(&server_of_both, &ClientTls::load(stranger).unwrap()).is_err());

    for (name, text) in [
        ("none.pem", "nothing"),
        ("cut.pem", "-----BEGIN X509 CRL-----\nMII\n"),
        ("junk.der", "0junk"),
    ] {
        ca.write(name, text);
        let error = server(name).unwrap_err();
        assert!(error.contains(name) && error.contains("revocation list"), "{error}");
    }
}
