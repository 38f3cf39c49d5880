//! HTTPS for the admin server.

use super::{Key, put};
use crate::server_options::storage::directory;
use crate::server_options::{tls, values};

pub(in crate::zoo_cfg) const KEYS: &[Key] = &[
    ("admin.forceHttps", |c, v| put(&mut c.admin.https.admin_force_https, values::boolean(v))),
    ("admin.portUnification", |c, v| {
        put(&mut c.admin.https.admin_port_unification, values::boolean(v))
    }),
    ("admin.needClientAuth", |c, v| {
        put(&mut c.admin.https.admin_need_client_auth, values::boolean(v))
    }),
    ("ssl.quorum.keyStore.location", |c, v| {
        put(&mut c.admin.https.ssl_quorum_key_store_location, directory(v))
    }),
    ("ssl.quorum.keyStore.password", |c, v| {
        put(&mut c.admin.https.key_store_password, Ok(v.into()))
    }),
    ("ssl.quorum.keyStore.passwordPath", |c, v| {
        put(&mut c.admin.https.ssl_quorum_key_store_password_path, directory(v))
    }),
    ("ssl.quorum.keyStore.type", |c, v| {
        put(&mut c.admin.https.ssl_quorum_key_store_type, tls::store_type(v))
    }),
    ("ssl.quorum.trustStore.location", |c, v| {
        put(&mut c.admin.https.ssl_quorum_trust_store_location, directory(v))
    }),
    ("ssl.quorum.trustStore.password", |c, v| {
        put(&mut c.admin.https.trust_store_password, Ok(v.into()))
    }),
    ("ssl.quorum.trustStore.passwordPath", |c, v| {
        put(&mut c.admin.https.ssl_quorum_trust_store_password_path, directory(v))
    }),
    ("ssl.quorum.trustStore.type", |c, v| {
        put(&mut c.admin.https.ssl_quorum_trust_store_type, tls::store_type(v))
    }),
    ("ssl.quorum.enabledProtocols", |c, v| {
        put(&mut c.admin.https.ssl_quorum_enabled_protocols, tls::protocols(v))
    }),
    ("ssl.quorum.ciphersuites", |c, v| {
        put(&mut c.admin.https.ssl_quorum_ciphersuites, tls::cipher_suites(v))
    }),
    ("sslQuorumReloadCertFiles", |c, v| {
        put(&mut c.admin.https.ssl_quorum_reload_cert_files, values::boolean(v))
    }),
    ("zoolet.ssl.quorum.crlFile", |c, v| {
        c.admin.https.ssl_quorum_crl_file.push(directory(v)?);
        Ok(())
    }),
];
