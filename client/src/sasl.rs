//! SASL: how a client proves to be a user of the server's list.
//!
//! The client authenticates at the beginning of every connection, before any request. If that fails
//! the client is closed: it never goes on without the identity.
//!
//! The mechanism is behind a trait: [`Mechanism`] begins an [`Exchange`] for each connection. With the
//! feature `sasl` there is one, `DigestMd5`.

#[cfg(feature = "sasl")]
mod digest_md5;

use std::fmt;

#[cfg(feature = "sasl")]
pub use self::digest_md5::DigestMd5;
#[cfg(feature = "sasl")]
#[doc(inline)]
pub use zoolet_sasl::{JaasError, JaasErrorKind, JaasFile, Password};

/// A SASL mechanism, on the client's side: [`Builder::sasl`](crate::Builder::sasl).
///
/// ```
/// use zoolet_client::Client;
/// use zoolet_client::sasl::{Exchange, Mechanism, Refused};
///
/// /// Says a word, and expects nothing.
/// #[derive(Debug)]
/// struct Word(&'static [u8]);
///
/// impl Mechanism for Word {
///     fn begin(&self) -> (Vec<u8>, Box<dyn Exchange>) {
///         (self.0.to_vec(), Box::new(Self(self.0)))
///     }
/// }
///
/// impl Exchange for Word {
///     fn respond(&mut self, token: &[u8]) -> Result<Option<Vec<u8>>, Refused> {
///         if token.is_empty() { Ok(None) } else { Err(Refused("an answer".to_owned())) }
///     }
/// }
///
/// let builder = Client::builder().sasl(Word(b"mellon"));
/// ```
pub trait Mechanism: fmt::Debug + Send + Sync {
    /// Begins the exchange of a connection: with the token to send first, which may be empty.
    fn begin(&self) -> (Vec<u8>, Box<dyn Exchange>);
}

/// One exchange of tokens. It is called under the client's lock, so it must return at once.
pub trait Exchange: fmt::Debug + Send {
    /// The token that answers a server's token; `None` when the client is authenticated, and the
    /// server has proved itself as far as the mechanism asks for that.
    ///
    /// A server without SASL, and one that lets clients go on that failed, sends a null token, which
    /// is an empty one here.
    ///
    /// # Errors
    ///
    /// [`Refused`]: the client fails with [`Error::AuthFailed`](crate::Error::AuthFailed).
    fn respond(&mut self, token: &[u8]) -> Result<Option<Vec<u8>>, Refused>;
}

/// Why an exchange failed, for the log. See [`Mechanism`] for an example.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);
