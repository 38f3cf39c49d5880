//! The mechanism DIGEST-MD5.

use zoolet_sasl::{DigestMd5Client, Nonce, Password};

use super::{Exchange, Mechanism, Refused};

/// DIGEST-MD5, as ZooKeeper's own clients speak it.
///
/// The password is not sent, and the server proves that it knows it. The mechanism is obsolete all
/// the same (RFC 6331): who reads an exchange can try passwords on it. Use it with TLS.
///
/// ```no_run
/// use zoolet_client::Client;
/// use zoolet_client::sasl::{DigestMd5, Password};
///
/// # async fn example() -> Result<(), zoolet_client::Error> {
/// let mechanism = DigestMd5::new("ann", Password::from("secret"));
/// let client = Client::builder().sasl(mechanism).connect("localhost:2181").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct DigestMd5 {
    user: String,
    password: Password,
}

impl DigestMd5 {
    /// Authenticates as this user.
    #[must_use]
    pub fn new(user: impl Into<String>, password: Password) -> Self {
        Self { user: user.into(), password }
    }
}

impl Mechanism for DigestMd5 {
    fn begin(&self) -> (Vec<u8>, Box<dyn Exchange>) {
        let mut random = [0; 30];
        let exchange: Box<dyn Exchange> = match getrandom::fill(&mut random) {
            Ok(()) => {
                let (user, password) = (self.user.clone(), self.password.clone());
                let cnonce = Nonce::from_random(random);
                Box::new(Begun(DigestMd5Client::new(user, password, cnonce)))
            }
            Err(error) => Box::new(NoRandomNumbers(error)),
        };
        (Vec::new(), exchange)
    }
}

#[derive(Debug)]
struct Begun(DigestMd5Client);

impl Exchange for Begun {
    fn respond(&mut self, token: &[u8]) -> Result<Option<Vec<u8>>, Refused> {
        self.0.respond(token).map_err(|refused| Refused(refused.to_string()))
    }
}

/// The exchange of a system without random numbers.
#[derive(Debug)]
struct NoRandomNumbers(getrandom::Error);

impl Exchange for NoRandomNumbers {
    fn respond(&mut self, _token: &[u8]) -> Result<Option<Vec<u8>>, Refused> {
        Err(Refused(format!("the system gives no random numbers: {}", self.0)))
    }
}
