//! How a connection gets its identities (`AuthenticationProvider.handleAuthentication`).

use std::fmt;

use zoolet_protocol::Id;

use super::digest;
use super::identities::Identities;
use crate::limits::{IDENTITIES_BYTES_MAX, IDENTITIES_MAX, IDENTITY_BYTES_MAX, LOGGED_CHARS_MAX};
use crate::settings::Settings;

/// Why a connection got no identity.
///
/// ```
/// use zoolet_core::{Identities, Settings, authenticate};
///
/// let refused = authenticate("kerberos", b"", &Identities::default(), &Settings::default());
/// assert_eq!(refused.unwrap_err().to_string(), "no provider for the scheme \"kerberos\"");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthRefused(Refusal);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Refusal {
    /// The scheme's name, cut to [`LOGGED_CHARS_MAX`] characters.
    NoProvider(String),
    /// The scheme x509 without a client certificate.
    NoCertificate,
    /// The scheme sasl, which has a request of its own.
    SaslByAuth,
    TooMany,
    /// The identity has this many bytes.
    TooLong(usize),
    TooLongTogether,
}

impl fmt::Display for AuthRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Refusal::NoProvider(scheme) => write!(f, "no provider for the scheme {scheme:?}"),
            Refusal::NoCertificate => f.write_str("the client has shown no certificate"),
            Refusal::SaslByAuth => {
                f.write_str("SASL users authenticate by the request sasl, not by auth")
            }
            Refusal::TooMany => {
                write!(
                    f,
                    "the connection has {IDENTITIES_MAX} identities, which is the limit: add fewer with auth"
                )
            }
            Refusal::TooLong(bytes) => write!(
                f,
                "the identity has {bytes} bytes, the limit is {IDENTITY_BYTES_MAX}: use a shorter user name"
            ),
            Refusal::TooLongTogether => write!(
                f,
                "the identities of the connection have more than {IDENTITIES_BYTES_MAX} bytes together: \
                 use fewer identities or shorter user names"
            ),
        }
    }
}

impl std::error::Error for AuthRefused {}

/// The identities of a connection after an `auth` packet.
///
/// As in ZooKeeper, there is no list of users: any user with any password is accepted in the digest
/// scheme. An access control list then permits only clients that know the same user and password.
///
/// # Errors
///
/// [`AuthRefused`] if the scheme has no provider, or if a limit is exceeded: [`IDENTITIES_MAX`],
/// [`IDENTITY_BYTES_MAX`] or [`IDENTITIES_BYTES_MAX`]. The server then closes the connection, as
/// ZooKeeper does.
///
/// ```
/// use zoolet_core::{Identities, Settings, authenticate};
///
/// let who = authenticate("digest", b"ann:secret", &Identities::default(), &Settings::default());
/// assert_eq!(who.unwrap().client_infos()[0].user.as_deref(), Some("ann"));
/// ```
pub fn authenticate(
    scheme: &str,
    credentials: &[u8],
    identities: &Identities,
    settings: &Settings,
) -> Result<Identities, AuthRefused> {
    match scheme {
        // The connection has this identity from the start.
        "ip" => Ok(identities.clone()),
        "digest" if settings.digest_scheme => {
            let id = digest::identity(credentials, settings.digest_algorithm);
            let is_super =
                settings.super_digest.as_ref().is_some_and(|it| it.expose() == id.as_str());
            let superuser = is_super.then(|| Id::new("super", ""));
            with(identities, superuser, &id, |before| before.and(Id::new("digest", id.as_str())))
        }
        // The connection has it since the TLS handshake.
        "x509" if settings.x509_scheme && identities.have_scheme("x509") => Ok(identities.clone()),
        "x509" if settings.x509_scheme => Err(AuthRefused(Refusal::NoCertificate)),
        "sasl" if settings.sasl_scheme => Err(AuthRefused(Refusal::SaslByAuth)),
        _ => {
            let shown = scheme.chars().take(LOGGED_CHARS_MAX).collect();
            Err(AuthRefused(Refusal::NoProvider(shown)))
        }
    }
}

/// The identities of a connection after a TLS handshake in which the client has shown a certificate
/// that the server trusts. `subject` is the name of its subject as Java's `X500Principal.getName`
/// writes it: by RFC 2253.
///
/// The superuser gets the identity `super:SUBJECT` too, as in ZooKeeper.
///
/// # Errors
///
/// As [`authenticate`]; the scheme is x509.
///
/// ```
/// use zoolet_core::{Identities, Settings, authenticate_certificate};
///
/// let settings = Settings { x509_scheme: true, ..Settings::default() };
/// let who = authenticate_certificate("CN=ann,O=Example", &Identities::default(), &settings);
/// assert_eq!(who.unwrap().iter().next().unwrap().to_string(), "x509:CN=ann,O=Example");
/// ```
pub fn authenticate_certificate(
    subject: &str,
    identities: &Identities,
    settings: &Settings,
) -> Result<Identities, AuthRefused> {
    if !settings.x509_scheme {
        return Err(AuthRefused(Refusal::NoProvider("x509".to_owned())));
    }
    let is_super = settings.x509_super_user.as_deref() == Some(subject);
    let superuser = is_super.then(|| Id::new("super", subject));
    with(identities, superuser, subject, |before| before.and(Id::new("x509", subject)))
}

/// The identities of a connection whose client has authenticated by SASL as `user`.
///
/// Without the provider ([`Settings::sasl_scheme`]) the user has the identity all the same, and no
/// entry of a list matches it: as in ZooKeeper.
///
/// # Errors
///
/// As [`authenticate`], but for want of a provider.
///
/// ```
/// use zoolet_core::{Identities, Settings, authenticate_sasl};
///
/// let settings = Settings {
///     sasl_scheme: true,
///     sasl_super_users: ["root".to_owned()].into(),
///     ..Settings::default()
/// };
/// let who = authenticate_sasl("root", &Identities::default(), &settings).unwrap();
/// assert!(who.are_super());
/// ```
pub fn authenticate_sasl(
    user: &str,
    identities: &Identities,
    settings: &Settings,
) -> Result<Identities, AuthRefused> {
    let is_super = settings.sasl_super_users.contains(user) && !user.is_empty();
    let superuser = is_super.then(|| Id::new("super", ""));
    with(identities, superuser, user, |before| before.and_sasl(user, settings))
}

/// Adds an identity, and before it that of the superuser, within the limits.
fn with(
    identities: &Identities,
    superuser: Option<Id>,
    text: &str,
    add: impl FnOnce(&Identities) -> Identities,
) -> Result<Identities, AuthRefused> {
    if identities.len() >= IDENTITIES_MAX {
        return Err(AuthRefused(Refusal::TooMany));
    }
    if text.len() > IDENTITY_BYTES_MAX {
        return Err(AuthRefused(Refusal::TooLong(text.len())));
    }
    let all = match superuser {
        Some(superuser) => add(&identities.and(superuser)),
        None => add(identities),
    };
    if all.text_bytes() > IDENTITIES_BYTES_MAX {
        return Err(AuthRefused(Refusal::TooLongTogether));
    }
    Ok(all)
}

/// What the name is worth that a client gives to the ensemble that it means.
///
/// ```
/// use zoolet_core::{EnsembleName, Settings, check_ensemble_name};
///
/// let names = Some(["blue".to_owned()].into());
/// let settings = Settings { ensemble_scheme: true, ensemble_names: names, ..Settings::default() };
/// assert_eq!(check_ensemble_name(b"blue", &settings), EnsembleName::Own);
/// assert_eq!(check_ensemble_name(b"green", &settings), EnsembleName::Other);
/// assert_eq!(check_ensemble_name(b"", &settings), EnsembleName::Unchecked);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnsembleName {
    /// It is a name of this ensemble.
    Own,
    /// It is the name of another one: the server closes the connection, so that the client connects
    /// to another server.
    Other,
    /// The client named none, or the server has none to compare with.
    Unchecked,
}

/// Compares the name that a client gives with [`Settings::ensemble_names`]
/// (`EnsembleAuthenticationProvider`).
#[must_use]
pub fn check_ensemble_name(name: &[u8], settings: &Settings) -> EnsembleName {
    match &settings.ensemble_names {
        Some(names) if !name.is_empty() => {
            let is_own = names.contains(String::from_utf8_lossy(name).as_ref());
            if is_own { EnsembleName::Own } else { EnsembleName::Other }
        }
        _ => EnsembleName::Unchecked,
    }
}
