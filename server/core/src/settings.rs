//! The settings of the state machine that an administrator may change.

use std::collections::BTreeSet;
use std::fmt;

/// The settings. The docs of each name ZooKeeper's property.
///
/// ```
/// use zoolet_core::Settings;
///
/// let settings = Settings { enforce_quota: true, ..Settings::default() };
/// assert!(settings.ttl_znodes);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Whether clients may create TTL znodes: `extendedTypesEnabled`. On by default; in ZooKeeper
    /// it is off by default.
    pub ttl_znodes: bool,
    /// Whether hard quotas are enforced: `enforceQuota`. Off by default.
    pub enforce_quota: bool,
    /// Whether access control lists are ignored: `skipACL`. Off by default.
    pub skip_acl: bool,
    /// The digest identity of the superuser, `user:hash`. A connection that adds it with `auth` may
    /// do everything: `DigestAuthenticationProvider.superDigest`. None by default.
    pub super_digest: Option<SuperDigest>,
    /// The hash of the digest scheme: `DigestAuthenticationProvider.digestAlg`. SHA-1 by default.
    pub digest_algorithm: DigestAlgorithm,
    /// Whether the digest scheme is enabled: `DigestAuthenticationProvider.enabled`. On by default.
    pub digest_scheme: bool,
    /// Whether the x509 scheme is there: `authProvider.x509` with `X509AuthenticationProvider`, as in
    /// each ZooKeeper with a TLS port. Off by default.
    pub x509_scheme: bool,
    /// The subject of the superuser's certificate, as [`authenticate_certificate`] is given it:
    /// `X509AuthenticationProvider.superUser`. None by default.
    ///
    /// [`authenticate_certificate`]: crate::authenticate_certificate
    pub x509_super_user: Option<String>,
    /// Whether access control lists may have entries of the sasl scheme: `authProvider.sasl` with
    /// `SASLAuthenticationProvider`. Off by default. Clients can authenticate by SASL without it.
    pub sasl_scheme: bool,
    /// The SASL users that are superusers: `superUser` and `superUser.N`. None by default.
    pub sasl_super_users: BTreeSet<String>,
    /// Every SASL user matches the entry `sasl:X` of a list, if this is `X`: `letAnySaslUserDoX`.
    /// None by default.
    pub any_sasl_user: Option<String>,
    /// Whether the ensemble scheme is there, by which a client names the ensemble that it means:
    /// `authProvider.ensemble` with `EnsembleAuthenticationProvider`. Off by default.
    pub ensemble_scheme: bool,
    /// The names of this ensemble: `ensembleAuthName`. `None`, the default, for any name.
    pub ensemble_names: Option<BTreeSet<String>>,
    /// Whether `reconfig` is refused with `Unimplemented` and not with `ReconfigDisabled`, as by a
    /// standalone ZooKeeper with `reconfigEnabled`. Off by default.
    pub reconfig_enabled: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ttl_znodes: true,
            enforce_quota: false,
            skip_acl: false,
            super_digest: None,
            digest_algorithm: DigestAlgorithm::Sha1,
            digest_scheme: true,
            x509_scheme: false,
            x509_super_user: None,
            sasl_scheme: false,
            sasl_super_users: BTreeSet::new(),
            any_sasl_user: None,
            ensemble_scheme: false,
            ensemble_names: None,
            reconfig_enabled: false,
        }
    }
}

impl Settings {
    /// Whether clients can have identities of this scheme: whether `enforce.auth.schemes` may name it.
    ///
    /// ```
    /// use zoolet_core::Settings;
    ///
    /// let settings = Settings { x509_scheme: true, ..Settings::default() };
    /// assert!(settings.has_scheme("x509") && !settings.has_scheme("sasl"));
    /// ```
    #[must_use]
    pub fn has_scheme(&self, scheme: &str) -> bool {
        match scheme {
            "ip" => true,
            "digest" => self.digest_scheme,
            "x509" => self.x509_scheme,
            "sasl" => self.sasl_scheme,
            // The name of an ensemble is no identity.
            _ => false,
        }
    }
}

/// The digest identity of the superuser, `user:hash`. `Debug` does not show it: the hash can be
/// attacked, and someone may put a password in its place.
///
/// ```
/// use zoolet_core::{Settings, SuperDigest};
///
/// let digest = SuperDigest::from("super:D/InIHSb7yEEbrWz8b9l71RjZJU=");
/// assert!(!format!("{digest:?}").contains("RjZJU"));
/// let settings = Settings { super_digest: Some(digest), ..Settings::default() };
/// # let _ = settings;
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct SuperDigest(String);

impl SuperDigest {
    /// `user:hash`.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<&str> for SuperDigest {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for SuperDigest {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for SuperDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SuperDigest(..)")
    }
}

/// The hash of the digest scheme.
///
/// ```
/// use zoolet_core::DigestAlgorithm;
///
/// assert_eq!(DigestAlgorithm::from_name("sha-256"), Some(DigestAlgorithm::Sha256));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DigestAlgorithm {
    /// SHA-1, ZooKeeper's default.
    #[default]
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA3-256.
    Sha3_256,
}

impl DigestAlgorithm {
    /// The algorithm with this Java name, in upper or lower case: `SHA1`, `SHA-256`, `SHA3-256`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name.to_ascii_uppercase().as_str() {
            "SHA1" | "SHA-1" | "SHA" => Some(Self::Sha1),
            "SHA-256" | "SHA256" => Some(Self::Sha256),
            "SHA3-256" => Some(Self::Sha3_256),
            _ => None,
        }
    }
}
