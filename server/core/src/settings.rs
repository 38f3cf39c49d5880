//! The settings of the state machine that an administrator may change.

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
    pub super_digest: Option<String>,
    /// The hash of the digest scheme: `DigestAuthenticationProvider.digestAlg`. SHA-1 by default.
    pub digest_algorithm: DigestAlgorithm,
    /// Whether the digest scheme is enabled: `DigestAuthenticationProvider.enabled`. On by default.
    pub digest_scheme: bool,
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
