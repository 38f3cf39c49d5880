//! The sasl scheme: an identity is a user that authenticated by SASL (`SASLAuthenticationProvider`).

/// Whether a list may contain the identity. It must be a Kerberos principal, `user/host@REALM`, or
/// a name without `@`, whatever the mechanism.
pub(super) fn is_valid(user: &str) -> bool {
    match user.split_once('@') {
        None => true,
        Some((name, realm)) => {
            !realm.contains(['/', '@']) && name.bytes().filter(|&byte| byte == b'/').count() <= 1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_an_at_sign_must_be_a_kerberos_principal() {
        for user in ["", "bob", "bob@EXAMPLE.COM", "bob/host@R", "bob/host", "a/b/c", "@", "/@"] {
            assert!(is_valid(user), "{user}");
        }
        for user in ["a@b@c", "a@b/c", "a/b/c@d", "bob@/"] {
            assert!(!is_valid(user), "{user}");
        }
    }
}
