//! A secret from which the passwords of sessions are derived.

use std::fmt;

use sha3::{Digest, Sha3_256};
use zoolet_protocol::{PASSWORD_BYTES, Password, SessionId};

/// A secret from which the server derives the passwords of sessions:
/// [`Config::session_key`](crate::Config::session_key).
///
/// ZooKeeper derives them from the ids of the sessions alone, by a public algorithm, so that whoever
/// knows the id of a session can take it over. With a secret only its client can. A server that is
/// restarted needs the same secret, or its clients lose their sessions. For the same reason Apache
/// ZooKeeper cannot take over the sessions of such a data directory; it can take over everything
/// else.
///
/// ```
/// use zoolet_server::{Config, SessionKey};
///
/// // 32 bytes that nobody can guess.
/// let key = SessionKey::from_random([7; 32]);
/// let config = Config { session_key: Some(key), ..Config::default() };
/// assert_eq!(format!("{:?}", config.session_key), "Some(SessionKey)");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct SessionKey([u8; 32]);

impl SessionKey {
    /// The secret of these bytes, which must come from a source of random numbers that nobody can
    /// predict.
    #[must_use]
    pub fn from_random(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(crate) fn password(&self, session: SessionId) -> Password {
        // The input has a fixed length, and SHA-3 can be keyed by a prefix.
        let hash = Sha3_256::new().chain_update(self.0).chain_update(session.0.to_be_bytes());
        Password::from_bytes(hash.finalize()[..PASSWORD_BYTES].to_vec())
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey")
    }
}

/// Compares without telling by its time how much is equal.
pub(crate) fn is_equal(a: &Password, b: &Password) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    a.len() == b.len() && a.iter().zip(b).fold(0, |diff, (a, b)| diff | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_depends_on_the_key_and_on_the_session() {
        let password =
            |key, session| SessionKey::from_random([key; 32]).password(SessionId(session));
        assert!(is_equal(&password(1, 1), &password(1, 1)));
        for other in [password(2, 1), password(1, 2), Password::of(SessionId(1)), Password::NULL] {
            assert!(!is_equal(&password(1, 1), &other));
        }
    }
}
