//! The mechanism DIGEST-MD5 with a list of users.

use std::sync::Arc;

use zoolet_sasl::{DigestMd5Server, Nonce, Users};

use super::{Answer, Exchange, Mechanism, Refused};

/// DIGEST-MD5 with a list of users, which a [`JaasFile`](super::JaasFile) may have: as in ZooKeeper.
///
/// The mechanism is obsolete (RFC 6331): who reads an exchange can try passwords on it. Use it with
/// TLS.
///
/// ```
/// use zoolet_server::sasl::{DigestMd5, Password, Sasl, Users};
/// use zoolet_server::{Config, Settings};
///
/// let users: Users = [("ann".to_owned(), Password::from("secret"))].into_iter().collect();
/// let config = Config {
///     sasl: Some(Sasl::new(DigestMd5::new(users))),
///     // So that access control lists may name the users.
///     settings: Settings { sasl_scheme: true, ..Settings::default() },
///     ..Config::default()
/// };
/// ```
#[derive(Debug)]
pub struct DigestMd5 {
    users: Arc<Users>,
}

impl DigestMd5 {
    /// Lets these users in.
    #[must_use]
    pub fn new(users: Users) -> Self {
        Self { users: Arc::new(users) }
    }
}

impl Mechanism for DigestMd5 {
    fn begin(&self) -> Box<dyn Exchange> {
        let mut random = [0; 30];
        match getrandom::fill(&mut random) {
            Ok(()) => {
                let nonce = Nonce::from_random(random);
                Box::new(Begun(DigestMd5Server::new(Arc::clone(&self.users), nonce)))
            }
            Err(error) => Box::new(NoRandomNumbers(error)),
        }
    }
}

#[derive(Debug)]
struct Begun(DigestMd5Server);

impl Exchange for Begun {
    fn respond(&mut self, token: &[u8]) -> Result<Answer, Refused> {
        let answer = self.0.respond(token).map_err(|refused| Refused(refused.to_string()))?;
        Ok(Answer { token: answer.token, user: answer.user })
    }
}

/// The exchange of a system without random numbers: nobody can authenticate.
#[derive(Debug)]
struct NoRandomNumbers(getrandom::Error);

impl Exchange for NoRandomNumbers {
    fn respond(&mut self, _token: &[u8]) -> Result<Answer, Refused> {
        Err(Refused(format!("the system gives no random numbers: {}", self.0)))
    }
}
