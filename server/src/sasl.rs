//! SASL: how a client proves to be a user of a list.
//!
//! The mechanism is behind a trait: [`Mechanism`] begins an [`Exchange`] for each connection. With the
//! feature `sasl` there is one, `DigestMd5`.
//!
//! A user has the identity `sasl:USER`. Access control lists may name it if
//! [`Settings::sasl_scheme`](crate::Settings::sasl_scheme) is set.

#[cfg(feature = "sasl")]
mod digest_md5;

use std::fmt;
use std::sync::Arc;

#[cfg(feature = "sasl")]
pub use self::digest_md5::DigestMd5;
#[cfg(feature = "sasl")]
#[doc(inline)]
pub use zoolet_sasl::{JaasError, JaasErrorKind, JaasFile, Password, Users};

/// How clients authenticate by SASL: [`Config::sasl`](crate::Config::sasl).
///
/// ```
/// use std::sync::Arc;
///
/// use zoolet_server::sasl::{Answer, Exchange, Mechanism, Refused, Sasl};
///
/// /// Lets in who knows the word.
/// #[derive(Debug)]
/// struct Word(&'static [u8]);
///
/// impl Mechanism for Word {
///     fn begin(&self) -> Box<dyn Exchange> {
///         Box::new(Self(self.0))
///     }
/// }
///
/// impl Exchange for Word {
///     fn respond(&mut self, token: &[u8]) -> Result<Answer, Refused> {
///         if token != self.0 {
///             return Err(Refused("the word is wrong".to_owned()));
///         }
///         Ok(Answer { token: Vec::new(), user: Some("friend".to_owned()) })
///     }
/// }
///
/// let sasl = Sasl::new(Word(b"mellon"));
/// assert!(!sasl.allow_failed_clients);
/// ```
#[derive(Debug, Clone)]
pub struct Sasl {
    mechanism: Arc<dyn Mechanism>,
    /// Whether a client that failed may go on without the identity: `allowSaslFailedClients`. Off by
    /// default: the server then closes the connection. Without effect where
    /// [`Config::enforce_auth`](crate::Config::enforce_auth) asks for the scheme sasl.
    pub allow_failed_clients: bool,
}

impl Sasl {
    /// Clients authenticate by this mechanism.
    #[must_use]
    pub fn new(mechanism: impl Mechanism + 'static) -> Self {
        Self { mechanism: Arc::new(mechanism), allow_failed_clients: false }
    }

    pub(crate) fn begin(&self) -> Box<dyn Exchange> {
        self.mechanism.begin()
    }
}

/// A SASL mechanism, on the server's side. See [`Sasl`] for an example.
pub trait Mechanism: fmt::Debug + Send + Sync {
    /// Begins the exchange of one connection. A connection has one, which it begins with the client's
    /// first token.
    fn begin(&self) -> Box<dyn Exchange>;
}

/// One exchange of tokens. It is called while a request is handled, so it must return at once.
pub trait Exchange: fmt::Debug + Send {
    /// Answers the client's next token.
    ///
    /// # Errors
    ///
    /// [`Refused`]: the client has failed to authenticate. It may be called again even so, and after
    /// the exchange is complete.
    fn respond(&mut self, token: &[u8]) -> Result<Answer, Refused>;
}

/// What the server answers. See [`Sasl`] for an example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The token for the client.
    pub token: Vec<u8>,
    /// The user as whom the client has authenticated; `None` if the exchange goes on.
    pub user: Option<String>,
}

/// Why a client failed to authenticate, for the log. The client is not told. See [`Sasl`] for an
/// example.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);
