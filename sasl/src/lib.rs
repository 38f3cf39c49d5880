//! SASL authentication as ZooKeeper has it: the mechanism DIGEST-MD5 (RFC 2831), and the JAAS file in
//! which ZooKeeper keeps its users.
//!
//! [`DigestMd5Server`] and [`DigestMd5Client`] are machines without I/O: they take a token of the
//! peer and return the next token to send. They follow OpenJDK's mechanism, on which ZooKeeper
//! relies, also where that is stricter or laxer than the RFC.
//!
//! DIGEST-MD5 is obsolete (RFC 6331). It does not send the password, but whoever reads an exchange
//! can try passwords on it, and nothing that follows is encrypted or signed. Use it with TLS.
//!
//! ```
//! use std::sync::Arc;
//!
//! use zoolet_sasl::{DigestMd5Client, DigestMd5Server, JaasFile, Nonce, Password};
//!
//! let text = r#"Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_ann="secret"; };"#;
//! let users = JaasFile::parse("jaas.conf", text)?.digest_users("Server")?;
//! let mut server = DigestMd5Server::new(Arc::new(users), Nonce::from_random([1; 30]));
//! let password = Password::from("secret");
//! let mut client = DigestMd5Client::new("ann", password, Nonce::from_random([2; 30]));
//!
//! let challenge = server.respond(b"")?.token;
//! let response = client.respond(&challenge)?.expect("a challenge has a response");
//! let last = server.respond(&response)?;
//! assert_eq!(last.user.as_deref(), Some("ann"));
//! assert_eq!(client.respond(&last.token)?, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod digest_md5;
mod directives;
mod jaas;
mod password;

pub mod limits;

pub use self::digest_md5::Nonce;
pub use self::digest_md5::client::{DigestMd5Client, ServerRefused};
pub use self::digest_md5::server::{Answer, ClientRefused, DigestMd5Server};
pub use self::directives::BadDirectives;
pub use self::jaas::{JaasError, JaasErrorKind, JaasFile};
pub use self::password::{Password, Users};
