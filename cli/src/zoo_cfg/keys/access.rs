//! Access control.

use super::{Key, put};
use crate::server_options::values;

pub(super) const KEYS: &[Key] = &[
    ("skipACL", |c, v| put(&mut c.skip_acl, values::yes_or_no(v))),
    ("DigestAuthenticationProvider.superDigest", |c, v| {
        put(&mut c.super_digest, values::super_digest(v))
    }),
    ("DigestAuthenticationProvider.digestAlg", |c, v| {
        put(&mut c.digest_alg, values::digest_algorithm(v))
    }),
    ("DigestAuthenticationProvider.enabled", |c, v| {
        put(&mut c.digest_authentication_provider_enabled, values::boolean(v))
    }),
    ("enforce.auth.enabled", |c, v| put(&mut c.enforce_auth_enabled, values::boolean(v))),
    ("enforce.auth.schemes", |c, v| put(&mut c.enforce_auth_schemes, values::auth_schemes(v))),
    ("sessionRequireClientSASLAuth", |c, v| put(&mut c.require_sasl, values::boolean(v))),
];
