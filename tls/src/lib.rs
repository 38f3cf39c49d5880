//! TLS for zoolet's server and client, without the sockets.
//!
//! [`ServerTls`] and [`ClientTls`] read key and trust stores as ZooKeeper has them, each a [`Store`]
//! in PEM, PKCS12 or JKS, and make configurations of [`rustls`] of them. When the files change,
//! `reload_if_changed` makes a new configuration. If that fails the old one stays.
//!
//! [`distinguished_name`] is the name by which ZooKeeper's `x509` scheme knows a client.
//!
//! What Java does and this does not: there is TLS 1.2 and 1.3, and no suite with CBC or without
//! forward secrecy; certificates are X.509 version 3, and have the name of their server as a
//! subject alternative name, because the common name is not looked at. Keys are RSA with 2048 to
//! 8192 bits, ECDSA with P-256 or P-384, or Ed25519.
//!
//! ```no_run
//! use zoolet_tls::{ServerTls, ServerTlsOptions, Store, TlsError};
//!
//! # fn example() -> Result<(), TlsError> {
//! let options = ServerTlsOptions::new(Store::new("/etc/zoolet/server.pem"))
//!     .trust_store(Store::new("/etc/zoolet/ca.pem"));
//! let tls = ServerTls::load(options)?;
//! let config = tls.config(); // for one handshake
//! // Now and then:
//! if tls.reload_if_changed()? {
//!     println!("new certificates");
//! }
//! # Ok(())
//! # }
//! ```

mod certificate;
mod cipher_suites;
mod client;
mod clock;
mod crl;
mod distinguished_name;
mod error;
mod files;
mod limits;
mod own;
mod private_key;
mod protocol;
mod reload;
mod secret;
mod server;
mod store;
mod trust;
mod verifiers;

pub use rustls;

pub use self::cipher_suites::cipher_suite_names;
pub use self::client::{ClientTls, ClientTlsOptions, SettingNames};
pub use self::distinguished_name::distinguished_name;
pub use self::error::{FileProblem, TlsError, TlsFile};
pub use self::protocol::{ClientAuth, HostnameVerification, Protocol};
pub use self::secret::Secret;
pub use self::server::{ServerTls, ServerTlsOptions};
pub use self::store::{Store, StoreType};
