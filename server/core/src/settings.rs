//! What an administrator may choose about the state machine.

/// The choices, with ZooKeeper's property in the docs of each.
///
/// ```
/// use zoolet_core::Settings;
///
/// let settings = Settings { enforce_quota: true, ..Settings::default() };
/// assert!(settings.ttl_znodes);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Whether znodes with a time to live may be created: `extendedTypesEnabled`. Off in
    /// ZooKeeper, on here.
    pub ttl_znodes: bool,
    /// Whether hard quotas are enforced: `enforceQuota`. Off by default.
    pub enforce_quota: bool,
    /// Whether access control lists are not looked at: `skipACL`. Off by default.
    pub skip_acl: bool,
    /// The digest identity, `user:hash`, whose password makes a connection the superuser's:
    /// `DigestAuthenticationProvider.superDigest`. None by default.
    pub super_digest: Option<String>,
    /// The hash of the digest scheme: `DigestAuthenticationProvider.digestAlg`. SHA-1 by default.
    pub digest_algorithm: DigestAlgorithm,
    /// Whether the digest scheme exists: `DigestAuthenticationProvider.enabled`. On by default.
    pub digest_scheme: bool,
    /// Whether `reconfig` is refused as unimplemented rather than as disabled, as a standalone
    /// server does with `reconfigEnabled`. Off by default.
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
            reconfig_enabled: false,
        }
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
    /// What ZooKeeper uses unless told otherwise.
    #[default]
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA3-256.
    Sha3_256,
}

impl DigestAlgorithm {
    /// The algorithm of a Java name, in any case: `SHA1`, `SHA-256`, `SHA3-256`.
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
