//! A password.

use std::fmt;

use zeroize::Zeroizing;

/// A password. It is not printed, and its memory is overwritten when it is dropped.
///
/// ```
/// use zoolet_tls::Secret;
///
/// let password = Secret::from("changeit");
/// assert_eq!(format!("{password:?}"), "Secret(..)");
/// ```
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
