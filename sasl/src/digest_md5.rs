//! The mechanism DIGEST-MD5, with what both sides compute.

pub(crate) mod client;
pub(crate) mod server;

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};

use crate::password::Password;

/// The realm, and the host of the service, that ZooKeeper's servers and clients all use.
const REALM: &str = "zk-sasl-md5";

/// The service and its host, as a client names them.
const DIGEST_URI: &str = "zookeeper/zk-sasl-md5";

/// The text by which one side makes sure that the other's answer is fresh. Each exchange needs a
/// new one.
///
/// ```
/// use zoolet_sasl::Nonce;
///
/// assert_eq!(Nonce::from_random([0; 30]).as_str(), "A".repeat(40));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Nonce(String);

impl Nonce {
    /// The nonce of these bytes, which must come from a source of random numbers that nobody can
    /// predict.
    #[must_use]
    pub fn from_random(bytes: [u8; 30]) -> Self {
        Self(STANDARD.encode(bytes))
    }

    /// The nonce as it is sent.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A recorded nonce.
    #[cfg(test)]
    pub(crate) fn recorded(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nonce")
    }
}

/// What both sides hash.
struct Exchange<'a> {
    user: &'a str,
    realm: &'a str,
    password: &'a Password,
    nonce: &'a [u8],
    cnonce: &'a [u8],
    authzid: Option<&'a [u8]>,
    digest_uri: &'a str,
}

impl Exchange<'_> {
    /// The proof that the client knows the password.
    fn response(&self) -> String {
        self.value("AUTHENTICATE")
    }

    /// The proof that the server knows it.
    fn rspauth(&self) -> String {
        self.value("")
    }

    fn value(&self, method: &str) -> String {
        let Self { user, realm, password, .. } = *self;
        let secret = hash(&[
            &latin1_or_utf8(user),
            b":",
            &latin1_or_utf8(realm),
            b":",
            &latin1_or_utf8(password.expose()),
        ]);
        let mut a1 = vec![&secret[..], b":", self.nonce, b":", self.cnonce];
        if let Some(authzid) = self.authzid {
            a1.extend([&b":"[..], authzid]);
        }
        let (a1, a2) = (hash(&a1), hash(&[method.as_bytes(), b":", self.digest_uri.as_bytes()]));
        // The count is always that of the first use of a nonce, and the quality "auth".
        let ends = (hex(&a1), hex(&a2));
        hex(&hash(&[
            ends.0.as_bytes(),
            b":",
            self.nonce,
            b":00000001:",
            self.cnonce,
            b":auth:",
            ends.1.as_bytes(),
        ]))
    }
}

/// ISO 8859-1 if that has all the characters, and otherwise UTF-8.
fn latin1_or_utf8(text: &str) -> Vec<u8> {
    let latin1: Result<Vec<u8>, _> = text.chars().map(|c| u8::try_from(u32::from(c))).collect();
    latin1.unwrap_or_else(|_| text.as_bytes().to_vec())
}

fn hash(parts: &[&[u8]]) -> [u8; 16] {
    let mut md5 = Md5::new();
    parts.iter().for_each(|part| md5.update(part));
    md5.finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Compares without telling by its time how much is equal.
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |diff, (a, b)| diff | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_hashed_as_latin_1_where_possible() {
        assert_eq!(latin1_or_utf8("aé"), [b'a', 0xe9]);
        assert_eq!(latin1_or_utf8("aé€"), "aé€".as_bytes());
    }
}
