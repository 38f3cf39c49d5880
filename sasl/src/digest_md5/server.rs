//! The server's side, as OpenJDK's `DigestMD5Server` and ZooKeeper's `SaslServerCallbackHandler`.

use std::sync::Arc;

use super::{DIGEST_URI, Exchange, Nonce, REALM, is_equal};
use crate::directives::{BadDirectives, Directives, shown};
use crate::limits::RESPONSE_BYTES_MAX;
use crate::password::Users;

/// The server's side of one exchange: a challenge, and the judgement of the response.
///
/// It is for one exchange on one connection. After that, and after a response that was refused, it
/// refuses everything.
///
/// ```
/// use std::sync::Arc;
///
/// use zoolet_sasl::{ClientRefused, DigestMd5Server, Nonce, Users};
///
/// let mut server = DigestMd5Server::new(Arc::new(Users::default()), Nonce::from_random([7; 30]));
/// let challenge = server.respond(b"").unwrap();
/// assert!(challenge.token.starts_with(b"realm=\"zk-sasl-md5\",nonce=\"") && challenge.user.is_none());
/// assert_eq!(server.respond(b"x=y"), Err(ClientRefused::Missing("username")));
/// assert_eq!(server.respond(b""), Err(ClientRefused::Over));
/// ```
#[derive(Debug)]
pub struct DigestMd5Server {
    users: Arc<Users>,
    nonce: Nonce,
    step: Step,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Challenge,
    Response,
    Over,
}

/// What the server answers.
///
/// ```
/// use zoolet_sasl::Answer;
///
/// let answer = Answer { token: b"rspauth=..".to_vec(), user: Some("ann".to_owned()) };
/// assert!(answer.user.is_some(), "the exchange is complete");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The token to send.
    pub token: Vec<u8>,
    /// The user as whom the client has authenticated. The exchange is complete.
    pub user: Option<String>,
}

/// Why the server refuses a client's token. The texts are for the server's log; a client is told
/// that it failed, and no more.
///
/// ```
/// use zoolet_sasl::ClientRefused;
///
/// assert_eq!(ClientRefused::WrongPassword.to_string(), "the password is wrong");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientRefused {
    /// The token is longer than [`RESPONSE_BYTES_MAX`].
    #[error("the token has {0} bytes, the limit is {RESPONSE_BYTES_MAX}")]
    TooLong(usize),
    /// The token is no list of directives.
    #[error("the response cannot be read: {0}")]
    Unreadable(#[from] BadDirectives),
    /// A directive is missing.
    #[error("the response has no directive {0:?}")]
    Missing(&'static str),
    /// A directive has a value that the server did not offer.
    #[error("the response has another {0:?} than the server expects")]
    Mismatch(&'static str),
    /// There is no such user.
    #[error("there is no user {0:?}")]
    NoSuchUser(String),
    /// The password is wrong.
    #[error("the password is wrong")]
    WrongPassword,
    /// The exchange is over.
    #[error("the exchange is over; a client authenticates once on a connection")]
    Over,
}

/// The directives of a response. `nc` is not among them, as it is not in Java.
const DIRECTIVES: [&str; 12] = [
    "username",
    "realm",
    "nonce",
    "cnonce",
    "nonce-count",
    "qop",
    "digest-uri",
    "response",
    "maxbuf",
    "charset",
    "cipher",
    "authzid",
];

impl DigestMd5Server {
    /// Begins an exchange. The nonce must be new.
    #[must_use]
    pub fn new(users: Arc<Users>, nonce: Nonce) -> Self {
        Self { users, nonce, step: Step::Challenge }
    }

    /// Answers the client's next token. The first is ignored: it is empty, or the response to an
    /// earlier challenge, which this server does not remember.
    ///
    /// # Errors
    ///
    /// [`ClientRefused`].
    pub fn respond(&mut self, token: &[u8]) -> Result<Answer, ClientRefused> {
        if token.len() > RESPONSE_BYTES_MAX {
            return Err(ClientRefused::TooLong(token.len()));
        }
        match self.step {
            Step::Challenge => {
                self.step = Step::Response;
                Ok(Answer { token: self.challenge(), user: None })
            }
            Step::Response => {
                self.step = Step::Over;
                self.judge(&Directives::parse(token, &DIRECTIVES, &[])?)
            }
            Step::Over => Err(ClientRefused::Over),
        }
    }

    fn challenge(&self) -> Vec<u8> {
        let nonce = self.nonce.as_str();
        format!("realm=\"{REALM}\",nonce=\"{nonce}\",charset=utf-8,algorithm=md5-sess").into_bytes()
    }

    /// In the order of Java's checks, which decides about the reason in the log.
    fn judge(&self, response: &Directives) -> Result<Answer, ClientRefused> {
        let is_number = |name, radix| {
            let number = response.text(name).map(|text| i32::from_str_radix(&text, radix));
            number.is_none_or(|number| number.is_ok())
        };
        check(response.bytes("charset").is_none_or(|charset| charset == b"utf-8"), "charset")?;
        check(is_number("maxbuf", 10), "maxbuf")?;
        let user = response.text("username").ok_or(ClientRefused::Missing("username"))?;
        check(response.bytes("realm") == Some(REALM.as_bytes()), "realm")?;
        let nonce = response.bytes("nonce").ok_or(ClientRefused::Missing("nonce"))?;
        check(nonce == self.nonce.as_str().as_bytes(), "nonce")?;
        let cnonce = response.bytes("cnonce").ok_or(ClientRefused::Missing("cnonce"))?;
        let count = response.text("nonce-count").map(|text| i32::from_str_radix(&text, 16));
        check(count.is_none_or(|count| count == Ok(1)), "nonce-count")?;
        check(response.bytes("qop").is_none_or(|qop| qop == b"auth"), "qop")?;
        let digest_uri = response.text("digest-uri").ok_or(ClientRefused::Missing("digest-uri"))?;
        check(digest_uri.eq_ignore_ascii_case(DIGEST_URI), "digest-uri")?;
        let proof = response.bytes("response").ok_or(ClientRefused::Missing("response"))?;
        let Some(password) = self.users.password(&user) else {
            return Err(ClientRefused::NoSuchUser(shown(&user)));
        };
        let exchange = Exchange {
            user: &user,
            realm: REALM,
            password,
            nonce,
            cnonce,
            authzid: response.bytes("authzid"),
            digest_uri: &digest_uri,
        };
        if !is_equal(proof, exchange.response().as_bytes()) {
            return Err(ClientRefused::WrongPassword);
        }
        let token = format!("rspauth={}", exchange.rspauth()).into_bytes();
        // The user is who knows the password, whatever the client says in `authzid`.
        Ok(Answer { token, user: Some(user) })
    }
}

fn check(is_as_expected: bool, name: &'static str) -> Result<(), ClientRefused> {
    if is_as_expected { Ok(()) } else { Err(ClientRefused::Mismatch(name)) }
}
