//! The client's side, as OpenJDK's `DigestMD5Client`.

use super::{DIGEST_URI, Exchange, Nonce, is_equal, latin1_or_utf8};
use crate::directives::{BadDirectives, Directives, quote};
use crate::limits::{CHALLENGE_BYTES_MAX, RESPONSE_BYTES_MAX, USER_BYTES_MAX};
use crate::password::Password;

/// The client's side of one exchange: the response to a challenge, and the proof that the server
/// knows the password too.
///
/// The client begins the exchange with an empty token.
///
/// ```
/// use zoolet_sasl::{DigestMd5Client, Nonce, Password, ServerRefused};
///
/// let cnonce = Nonce::from_random([7; 30]);
/// let mut client = DigestMd5Client::new("ann", Password::from("secret"), cnonce);
/// assert_eq!(client.respond(b""), Err(ServerRefused::Missing("algorithm")));
/// ```
#[derive(Debug)]
pub struct DigestMd5Client {
    user: String,
    password: Password,
    cnonce: Nonce,
    step: Step,
}

#[derive(Debug)]
enum Step {
    Challenge,
    /// The response was sent; the server proves itself by this value.
    Proof(String),
    Over,
}

/// Why the client refuses a server's token.
///
/// ```
/// use zoolet_sasl::ServerRefused;
///
/// assert!(ServerRefused::Unproved.to_string().contains("does not know the password"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerRefused {
    /// The token is longer than [`CHALLENGE_BYTES_MAX`].
    #[error("the server's token has {0} bytes, the limit is {CHALLENGE_BYTES_MAX}")]
    TooLong(usize),
    /// The token is no list of directives.
    #[error("the server's token cannot be read: {0}")]
    Unreadable(#[from] BadDirectives),
    /// A directive is missing. An empty token is how a ZooKeeper server without SASL answers.
    #[error("the server's token has no directive {0:?}; is SASL with DIGEST-MD5 set up there?")]
    Missing(&'static str),
    /// A directive has a value that this client does not have.
    #[error("the server's token has a {0:?} that this client does not have")]
    Unsupported(&'static str),
    /// The name or the password has characters beyond ISO 8859-1, and the server does not know UTF-8.
    #[error("the user or password has characters that the server cannot read: it knows no UTF-8")]
    NotLatin1,
    /// The name of the user is too long.
    #[error("the user has {0} bytes, the limit is {USER_BYTES_MAX}: use a shorter name")]
    LongUser(usize),
    /// The response would be longer than [`RESPONSE_BYTES_MAX`].
    #[error("the response would have {0} bytes, the limit is {RESPONSE_BYTES_MAX}")]
    LongResponse(usize),
    /// The server's last token does not prove that it knows the password.
    #[error("the server does not know the password of this user, so it is not the right server")]
    Unproved,
    /// The exchange is over.
    #[error("the exchange is over")]
    Over,
}

/// The directives of a challenge and of the last token.
const DIRECTIVES: [&str; 9] =
    ["realm", "qop", "algorithm", "nonce", "maxbuf", "charset", "cipher", "rspauth", "stale"];

impl DigestMd5Client {
    /// Begins an exchange. The nonce must be new.
    #[must_use]
    pub fn new(user: impl Into<String>, password: Password, cnonce: Nonce) -> Self {
        Self { user: user.into(), password, cnonce, step: Step::Challenge }
    }

    /// The token that answers a server's token; `None` when the exchange is complete: the server
    /// has accepted the user, and has proved itself.
    ///
    /// # Errors
    ///
    /// [`ServerRefused`]. The exchange is over then, without success.
    pub fn respond(&mut self, token: &[u8]) -> Result<Option<Vec<u8>>, ServerRefused> {
        let step = std::mem::replace(&mut self.step, Step::Over);
        if token.len() > CHALLENGE_BYTES_MAX {
            return Err(ServerRefused::TooLong(token.len()));
        }
        match step {
            Step::Challenge => {
                let challenge = Directives::parse(token, &DIRECTIVES, &["realm"])?;
                let (response, proof) = self.answer(&challenge)?;
                self.step = Step::Proof(proof);
                Ok(Some(response))
            }
            Step::Proof(proof) => {
                let last = Directives::parse(token, &DIRECTIVES, &[])?;
                match last.bytes("rspauth") {
                    Some(rspauth) if is_equal(rspauth, proof.as_bytes()) => Ok(None),
                    _ => Err(ServerRefused::Unproved),
                }
            }
            Step::Over => Err(ServerRefused::Over),
        }
    }

    /// The response to a challenge, and the server's proof.
    fn answer(&self, challenge: &Directives) -> Result<(Vec<u8>, String), ServerRefused> {
        if self.user.len() > USER_BYTES_MAX {
            return Err(ServerRefused::LongUser(self.user.len()));
        }
        let is_utf8 = match challenge.bytes("charset") {
            Some(b"utf-8") => true,
            Some(_) => return Err(ServerRefused::Unsupported("charset")),
            None => false,
        };
        match challenge.bytes("algorithm") {
            Some(b"md5-sess") => {}
            Some(_) => return Err(ServerRefused::Unsupported("algorithm")),
            None => return Err(ServerRefused::Missing("algorithm")),
        }
        let nonce = challenge.bytes("nonce").ok_or(ServerRefused::Missing("nonce"))?;
        let qop = challenge.text("qop").unwrap_or_else(|| "auth".to_owned());
        if !qop.split([',', ' ', '\t', '\n']).any(|offered| offered == "auth") {
            return Err(ServerRefused::Unsupported("qop"));
        }
        let mut texts = self.user.chars().chain(self.password.expose().chars());
        if !is_utf8 && texts.any(|c| u32::from(c) > 0xff) {
            return Err(ServerRefused::NotLatin1);
        }
        let realm = challenge.text("realm").unwrap_or_default();
        let exchange = Exchange {
            user: &self.user,
            realm: &realm,
            password: &self.password,
            nonce,
            cnonce: self.cnonce.as_str().as_bytes(),
            authzid: Some(self.user.as_bytes()),
            digest_uri: DIGEST_URI,
        };
        let user =
            if is_utf8 { self.user.clone().into_bytes() } else { latin1_or_utf8(&self.user) };
        let response = response(&exchange, &user, is_utf8);
        if response.len() > RESPONSE_BYTES_MAX {
            return Err(ServerRefused::LongResponse(response.len()));
        }
        Ok((response, exchange.rspauth()))
    }
}

/// In the order of Java's client, whose recorded responses it is compared with.
fn response(exchange: &Exchange<'_>, user: &[u8], is_utf8: bool) -> Vec<u8> {
    let mut response = Vec::new();
    let mut put = |name: &str, value: &[u8]| {
        if !response.is_empty() {
            response.push(b',');
        }
        response.extend_from_slice(name.as_bytes());
        response.push(b'=');
        response.extend_from_slice(value);
    };
    if is_utf8 {
        put("charset", b"utf-8");
    }
    put("username", &quote(user));
    if !exchange.realm.is_empty() {
        put("realm", &quote(exchange.realm.as_bytes()));
    }
    put("nonce", &quote(exchange.nonce));
    put("nc", b"00000001");
    put("cnonce", &quote(exchange.cnonce));
    put("digest-uri", &quote(exchange.digest_uri.as_bytes()));
    put("maxbuf", b"65536");
    put("response", exchange.response().as_bytes());
    put("qop", b"auth");
    if let Some(authzid) = exchange.authzid {
        put("authzid", &quote(authzid));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_response_is_that_of_javas_client() {
        let challenge = "realm=\"zk-sasl-md5\",nonce=\"Q5uXxPIiJv1m+zetqGe8nr7dOAtt4lLKQhpJnBIO\",\
                         charset=utf-8,algorithm=md5-sess";
        let recorded = "charset=utf-8,username=\"ann\",realm=\"zk-sasl-md5\",\
                        nonce=\"Q5uXxPIiJv1m+zetqGe8nr7dOAtt4lLKQhpJnBIO\",nc=00000001,\
                        cnonce=\"vkLOamGVuqQm2Ok9gZNfEM5sk4DoI7s71R0EzrE8\",\
                        digest-uri=\"zookeeper/zk-sasl-md5\",maxbuf=65536,\
                        response=0c3898052caf85a29ff759d61a3b36d1,qop=auth,authzid=\"ann\"";
        let cnonce = Nonce::recorded("vkLOamGVuqQm2Ok9gZNfEM5sk4DoI7s71R0EzrE8");
        let mut client = DigestMd5Client::new("ann", Password::from("secret"), cnonce);
        let response = client.respond(challenge.as_bytes()).expect("it is valid");
        assert_eq!(response.as_deref(), Some(recorded.as_bytes()));
        let last = client.respond(b"rspauth=7d28b3887ad5f488122c62b53d87cccd");
        assert_eq!(last, Ok(None));
    }
}
