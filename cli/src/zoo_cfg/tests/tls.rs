//! The keys of TLS, for clients and for the admin server.

use zoolet_server::tls::{ClientAuth, StoreType};

use super::*;
use crate::server_options::https::HttpsOptions;
use crate::server_options::tls::{self, TlsOptions};

#[test]
fn every_key_of_tls_has_its_effect() {
    let text = "secureClientPort=2281\nsecureClientPortAddress=localhost\n\
                client.portUnification=true\nclient.certReload=true\n\
                netty.server.outstandingHandshake.limit=7\n\
                ssl.keyStore.location=/k\nssl.keyStore.password=kp\n\
                ssl.keyStore.passwordPath=/kp\nssl.keyStore.type=JKS\n\
                ssl.trustStore.location=/t\nzookeeper.ssl.trustStore.password=tp\n\
                ssl.trustStore.passwordPath=/tp\nssl.trustStore.type=pem\n\
                ssl.clientAuth=WANT\nssl.protocol=TLSv1.2\nssl.enabledProtocols=TLSv1.3\n\
                ssl.ciphersuites=TLS_AES_128_GCM_SHA256\nssl.hostnameVerification=true\n\
                ssl.clientHostnameVerification=true\nssl.crl=true\nssl.ocsp=false\n\
                ssl.context.supplier.class=A\nssl.authProvider=x509\nzoolet.ssl.crlFile=/crl";
    let tls = TlsOptions {
        secure_client_port: Some(2281),
        secure_client_port_address: Some("localhost".to_owned()),
        client_port_unification: Some(true),
        client_cert_reload: Some(true),
        netty_server_outstanding_handshake_limit: tls::handshakes("7").ok(),
        ssl_key_store_location: Some("/k".into()),
        key_store_password: Some("kp".into()),
        ssl_key_store_password_path: Some("/kp".into()),
        ssl_key_store_type: Some(StoreType::Jks),
        ssl_trust_store_location: Some("/t".into()),
        trust_store_password: Some("tp".into()),
        ssl_trust_store_password_path: Some("/tp".into()),
        ssl_trust_store_type: Some(StoreType::Pem),
        ssl_client_auth: Some(ClientAuth::Want),
        protocol: tls::context_protocol("TLSv1.2").ok(),
        ssl_enabled_protocols: tls::protocols("TLSv1.3").ok(),
        ssl_ciphersuites: tls::cipher_suites("TLS_AES_128_GCM_SHA256").ok(),
        ssl_hostname_verification: Some(true),
        ssl_client_hostname_verification: Some(true),
        crl: Some(true),
        ocsp: Some(false),
        context_supplier: Some("A".to_owned()),
        auth_provider: Some("x509".to_owned()),
        ssl_crl_file: vec!["/crl".into()],
    };
    assert_eq!(options(text), ServerOptions { tls, ..ServerOptions::default() });
    for key in keys::tls::KEYS.iter().map(|(key, _)| *key) {
        assert!(text.contains(key), "{key}");
    }
}

#[test]
fn every_key_of_https_has_its_effect() {
    let text = "admin.enableServer=true\nadmin.forceHttps=true\nadmin.portUnification=false\n\
                zookeeper.admin.needClientAuth=true\n\
                ssl.quorum.keyStore.location=/k\nssl.quorum.keyStore.password=kp\n\
                ssl.quorum.keyStore.passwordPath=/kp\nssl.quorum.keyStore.type=JKS\n\
                ssl.quorum.trustStore.location=/t\nssl.quorum.trustStore.password=tp\n\
                ssl.quorum.trustStore.passwordPath=/tp\nssl.quorum.trustStore.type=pem\n\
                ssl.quorum.enabledProtocols=TLSv1.3\n\
                ssl.quorum.ciphersuites=TLS_AES_128_GCM_SHA256\n\
                sslQuorumReloadCertFiles=true\nzoolet.ssl.quorum.crlFile=/crl";
    let https = HttpsOptions {
        admin_force_https: Some(true),
        admin_port_unification: Some(false),
        admin_need_client_auth: Some(true),
        ssl_quorum_key_store_location: Some("/k".into()),
        key_store_password: Some("kp".into()),
        ssl_quorum_key_store_password_path: Some("/kp".into()),
        ssl_quorum_key_store_type: Some(StoreType::Jks),
        ssl_quorum_trust_store_location: Some("/t".into()),
        trust_store_password: Some("tp".into()),
        ssl_quorum_trust_store_password_path: Some("/tp".into()),
        ssl_quorum_trust_store_type: Some(StoreType::Pem),
        ssl_quorum_enabled_protocols: tls::protocols("TLSv1.3").ok(),
        ssl_quorum_ciphersuites: tls::cipher_suites("TLS_AES_128_GCM_SHA256").ok(),
        ssl_quorum_reload_cert_files: Some(true),
        ssl_quorum_crl_file: vec!["/crl".into()],
    };
    let admin = AdminOptions { admin_enable_server: Some(true), https, ..AdminOptions::default() };
    assert_eq!(options(text), ServerOptions { admin, ..ServerOptions::default() });
    for key in keys::https::KEYS.iter().map(|(key, _)| *key) {
        assert!(text.contains(key), "{key}");
    }
}

#[test]
fn stores_of_an_ensemble_are_remarked_upon() {
    let remarks = |text: &str| read(text).unwrap().options.remarks();
    let of_ensemble = remarks("ssl.quorum.keyStore.location=/k\nsslQuorumReloadCertFiles=true\n");
    assert_eq!(of_ensemble.len(), 1, "{of_ensemble:?}");
    assert!(of_ensemble[0].contains("zoolet is a single node"), "{of_ensemble:?}");
    let unified = "admin.enableServer=true\nadmin.portUnification=true\n";
    assert_eq!(remarks(unified), [""; 0]);
    let half_open = remarks(&format!("{unified}admin.needClientAuth=true\n"));
    assert_eq!(half_open.len(), 1, "{half_open:?}");
    assert!(half_open[0].contains("answers plaintext too"), "{half_open:?}");
}
