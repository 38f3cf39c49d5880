//! The keys of access control and authentication.

use super::{Key, put};
use crate::server_options::access::{AuthProvider, Secret, jaas_file};
use crate::server_options::values::{self, BadValue};

pub(super) const KEYS: &[Key] = &[
    ("skipACL", |c, v| put(&mut c.access.skip_acl, values::yes_or_no(v))),
    ("DigestAuthenticationProvider.superDigest", |c, v| {
        put(&mut c.access.super_digest, values::super_digest(v))
    }),
    ("DigestAuthenticationProvider.digestAlg", |c, v| {
        put(&mut c.access.digest_alg, values::digest_algorithm(v))
    }),
    ("DigestAuthenticationProvider.enabled", |c, v| {
        put(&mut c.access.digest_authentication_provider_enabled, values::boolean(v))
    }),
    ("enforce.auth.enabled", |c, v| put(&mut c.access.enforce_auth_enabled, values::boolean(v))),
    ("enforce.auth.schemes", |c, v| {
        put(&mut c.access.enforce_auth_schemes, values::auth_schemes(v))
    }),
    ("X509AuthenticationProvider.superUser", |c, v| {
        put(&mut c.access.x509_super_user, values::some_text(v))
    }),
    ("ensembleAuthName", |c, v| put(&mut c.access.ensemble_auth_name, Ok(v.to_owned()))),
    ("zoolet.jaas.config", |c, v| put(&mut c.access.jaas_config, jaas_file(v))),
    // ZooKeeper takes it on the command line of Java only.
    ("java.security.auth.login.config", |c, v| put(&mut c.access.jaas_config, jaas_file(v))),
    ("sasl.serverconfig", |c, v| put(&mut c.access.sasl_serverconfig, values::some_text(v))),
    ("superUser", |c, v| {
        c.access.super_users.push(values::some_text(v)?);
        Ok(())
    }),
    ("sessionRequireClientSASLAuth", |c, v| {
        put(&mut c.access.session_require_client_sasl_auth, values::boolean(v))
    }),
    ("allowSaslFailedClients", |c, v| {
        put(&mut c.access.allow_sasl_failed_clients, values::boolean(v))
    }),
    ("letAnySaslUserDoX", |c, v| put(&mut c.access.let_any_sasl_user_do_x, values::some_text(v))),
    ("SASLAuthenticationProvider.superPassword", |c, v| {
        put(&mut c.access.sasl_super_password, secret(v))
    }),
    ("zoolet.secretSessionPasswords", |c, v| {
        put(&mut c.access.secret_session_passwords, values::boolean(v))
    }),
    ("fips-mode", |c, v| put(&mut c.access.fips_mode, values::boolean(v))),
    ("security.auth_to_local", |_, _| Err(BadValue::Kerberos)),
    ("requireKerberosConfig", |_, v| match values::boolean(v)? {
        true => Err(BadValue::Kerberos),
        false => Ok(()),
    }),
];

/// The keys whose names go on with a dot and a name of the administrator's choice.
pub(super) const FAMILIES: &[Key] = &[
    ("authProvider", |c, v| {
        c.access.auth_providers.push(AuthProvider::of_class(v)?);
        Ok(())
    }),
    ("superUser", |c, v| {
        c.access.super_users.push(values::some_text(v)?);
        Ok(())
    }),
    ("kerberos", |_, _| Err(BadValue::Kerberos)),
];

fn secret(value: &str) -> Result<Secret, BadValue> {
    values::some_text(value).map(Secret::from)
}
