//! The digest scheme: an identity is a user name and a hash of user name and password
//! (`DigestAuthenticationProvider`).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};
use sha2::Sha256;
use sha3::Sha3_256;

use crate::settings::DigestAlgorithm;

/// `user:base64(hash("user:password"))`, from `user:password`.
pub(super) fn identity(credentials: &[u8], algorithm: DigestAlgorithm) -> String {
    let hash = match algorithm {
        DigestAlgorithm::Sha1 => Sha1::digest(credentials).to_vec(),
        DigestAlgorithm::Sha256 => Sha256::digest(credentials).to_vec(),
        DigestAlgorithm::Sha3_256 => Sha3_256::digest(credentials).to_vec(),
    };
    let user = credentials.split(|&byte| byte == b':').next().unwrap_or_default();
    format!("{}:{}", String::from_utf8_lossy(user), STANDARD.encode(hash))
}

/// Whether the identity has two parts. Parts are counted as by Java's `split`, which drops empty
/// parts at the end.
pub(super) fn is_valid(id: &str) -> bool {
    id.trim_end_matches(':').split(':').count() == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hashes_are_those_of_zookeeper() {
        let digest = |algorithm| identity(b"super:test", algorithm);
        assert_eq!(digest(DigestAlgorithm::Sha1), "super:D/InIHSb7yEEbrWz8b9l71RjZJU=");
        assert!(digest(DigestAlgorithm::Sha256).starts_with("super:"));
        assert_ne!(digest(DigestAlgorithm::Sha256), digest(DigestAlgorithm::Sha3_256));
    }

    #[test]
    fn a_valid_identity_has_two_parts() {
        for (id, valid) in [
            ("a:b", true),
            (":b", true),
            ("a", false),
            ("a:", false),
            ("a:b:c", false),
            ("a:b::", true),
        ] {
            assert_eq!(is_valid(id), valid, "{id}");
        }
    }
}
