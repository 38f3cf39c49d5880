//! TLS for clients.

use super::{Key, put};
use crate::server_options::storage::directory;
use crate::server_options::tls;
use crate::server_options::values;

pub(in crate::zoo_cfg) const KEYS: &[Key] = &[
    ("secureClientPort", |c, v| put(&mut c.tls.secure_client_port, values::port(v))),
    ("secureClientPortAddress", |c, v| put(&mut c.tls.secure_client_port_address, values::host(v))),
    ("client.portUnification", |c, v| put(&mut c.tls.client_port_unification, values::boolean(v))),
    ("client.certReload", |c, v| put(&mut c.tls.client_cert_reload, values::boolean(v))),
    ("netty.server.outstandingHandshake.limit", |c, v| {
        put(&mut c.tls.netty_server_outstanding_handshake_limit, tls::handshakes(v))
    }),
    ("ssl.keyStore.location", |c, v| put(&mut c.tls.ssl_key_store_location, directory(v))),
    ("ssl.keyStore.password", |c, v| put(&mut c.tls.key_store_password, Ok(v.into()))),
    ("ssl.keyStore.passwordPath", |c, v| put(&mut c.tls.ssl_key_store_password_path, directory(v))),
    ("ssl.keyStore.type", |c, v| put(&mut c.tls.ssl_key_store_type, tls::store_type(v))),
    ("ssl.trustStore.location", |c, v| put(&mut c.tls.ssl_trust_store_location, directory(v))),
    ("ssl.trustStore.password", |c, v| put(&mut c.tls.trust_store_password, Ok(v.into()))),
    ("ssl.trustStore.passwordPath", |c, v| {
        put(&mut c.tls.ssl_trust_store_password_path, directory(v))
    }),
    ("ssl.trustStore.type", |c, v| put(&mut c.tls.ssl_trust_store_type, tls::store_type(v))),
    ("ssl.clientAuth", |c, v| put(&mut c.tls.ssl_client_auth, tls::client_auth(v))),
    ("ssl.protocol", |c, v| put(&mut c.tls.protocol, tls::context_protocol(v))),
    ("ssl.enabledProtocols", |c, v| put(&mut c.tls.ssl_enabled_protocols, tls::protocols(v))),
    ("ssl.ciphersuites", |c, v| put(&mut c.tls.ssl_ciphersuites, tls::cipher_suites(v))),
    ("ssl.hostnameVerification", |c, v| {
        put(&mut c.tls.ssl_hostname_verification, values::boolean(v))
    }),
    ("ssl.clientHostnameVerification", |c, v| {
        put(&mut c.tls.ssl_client_hostname_verification, values::boolean(v))
    }),
    ("ssl.crl", |c, v| put(&mut c.tls.crl, values::boolean(v))),
    ("ssl.ocsp", |c, v| put(&mut c.tls.ocsp, values::boolean(v))),
    ("ssl.context.supplier.class", |c, v| put(&mut c.tls.context_supplier, values::some_text(v))),
    ("ssl.authProvider", |c, v| put(&mut c.tls.auth_provider, values::some_text(v))),
    ("zoolet.ssl.crlFile", |c, v| {
        c.tls.ssl_crl_file.push(directory(v)?);
        Ok(())
    }),
];

/// The keys that are no flags: passwords, which others would see in the command line, and those whose
/// default is the only value that works.
#[cfg(test)]
pub(in crate::zoo_cfg) const IN_FILES_ONLY: [&str; 7] = [
    "ssl.keyStore.password",
    "ssl.trustStore.password",
    "ssl.protocol",
    "ssl.crl",
    "ssl.ocsp",
    "ssl.context.supplier.class",
    "ssl.authProvider",
];
