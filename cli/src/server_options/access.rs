//! The options of access control and authentication.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use zoolet_server::sasl::{DigestMd5, JaasError, JaasFile, Password, Sasl, Users};
use zoolet_server::{DigestAlgorithm, EnforceAuth, Settings, SuperDigest};

use super::storage::directory;
use super::values::{self, BadValue};
use super::{Contradiction, put};

/// A field is `None` unless a file or a flag sets it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct AccessOptions {
    /// Let everyone do everything, whatever access control lists say [default: no]
    #[arg(long, value_name = "YES|NO", value_parser = values::yes_or_no, help_heading = ACCESS)]
    #[arg(num_args = 0..=1, default_missing_value = "yes")]
    pub(crate) skip_acl: Option<bool>,

    /// Who may do everything: a user and the hash of user:password, as in ACLs
    // Checked later: clap would show a password that someone gives in place of the hash.
    #[arg(long, value_name = "USER:HASH", help_heading = ACCESS)]
    pub(crate) super_digest: Option<SuperDigest>,

    /// The hash of the digest scheme: SHA1, SHA-256 or SHA3-256 [default: SHA1]
    #[arg(long, value_name = "NAME", value_parser = values::digest_algorithm)]
    #[arg(help_heading = ACCESS)]
    pub(crate) digest_alg: Option<DigestAlgorithm>,

    /// Whether clients can authenticate by the digest scheme at all [default: true]
    #[arg(long, value_name = "BOOL", value_parser = values::boolean, help_heading = ACCESS)]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    pub(crate) digest_authentication_provider_enabled: Option<bool>,

    /// Cut off clients that ask for anything before they authenticate [default: false]
    #[arg(long, value_name = "BOOL", value_parser = values::boolean, help_heading = ACCESS)]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    pub(crate) enforce_auth_enabled: Option<bool>,

    /// The schemes that --enforce-auth-enabled accepts, such as digest or sasl, with commas between
    #[arg(long, value_name = "SCHEMES", value_parser = values::auth_schemes)]
    #[arg(help_heading = ACCESS)]
    pub(crate) enforce_auth_schemes: Option<String>,

    /// A way to authenticate beside digest and ip: x509, sasl, ensemble, or ZooKeeper's class
    #[arg(long = "auth-provider", value_name = "SCHEME", help_heading = ACCESS)]
    pub(crate) auth_providers: Vec<AuthProvider>,

    /// The subject of the certificate of who may do everything, such as CN=admin,O=Example
    #[arg(long, value_name = "DN", value_parser = values::some_text, help_heading = ACCESS)]
    pub(crate) x509_super_user: Option<String>,

    /// The names of this ensemble, with commas between, for the scheme ensemble
    #[arg(long, value_name = "NAMES", help_heading = ACCESS)]
    pub(crate) ensemble_auth_name: Option<String>,

    /// Let the users of this JAAS file authenticate by SASL, with DIGEST-MD5, which is obsolete
    #[arg(long, value_name = "FILE", value_parser = jaas_file, help_heading = ACCESS)]
    pub(crate) jaas_config: Option<PathBuf>,

    /// The section of the JAAS file that has the users [default: Server]
    #[arg(long, value_name = "NAME", value_parser = values::some_text, help_heading = ACCESS)]
    pub(crate) sasl_serverconfig: Option<String>,

    /// A SASL user who may do everything; may be given several times
    #[arg(long = "super-user", value_name = "USER", value_parser = values::some_text)]
    #[arg(help_heading = ACCESS)]
    pub(crate) super_users: Vec<String>,

    /// Cut off clients that ask for anything before they authenticate by SASL [default: false]
    #[arg(long, value_name = "BOOL", value_parser = values::boolean, help_heading = ACCESS)]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    pub(crate) session_require_client_sasl_auth: Option<bool>,

    /// Let clients go on that failed to authenticate by SASL, without the identity [default: false]
    #[arg(long, value_name = "BOOL", value_parser = values::boolean, help_heading = ACCESS)]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    pub(crate) allow_sasl_failed_clients: Option<bool>,

    /// Every SASL user matches the entry sasl:USER of an access control list
    #[arg(long, value_name = "USER", value_parser = values::some_text, help_heading = ACCESS)]
    pub(crate) let_any_sasl_user_do_x: Option<String>,

    /// Let nobody take over a session by its id: derive session passwords from a secret in the data
    /// directory, with which Apache ZooKeeper cannot take over the sessions [default: false]
    #[arg(long, value_name = "BOOL", value_parser = values::boolean, help_heading = ACCESS)]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    pub(crate) secret_session_passwords: Option<bool>,

    /// `SASLAuthenticationProvider.superPassword`: the password of the user `super`. Not a flag,
    /// since anyone can see those.
    #[arg(skip)]
    pub(crate) sasl_super_password: Option<Secret>,

    /// `fips-mode`, which forbids DIGEST-MD5.
    #[arg(skip)]
    pub(crate) fips_mode: Option<bool>,
}

/// A text that `Debug` does not show.
pub(crate) type Secret = Password;

/// A way to authenticate, by the scheme's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AuthProvider {
    Digest,
    Ip,
    X509,
    Sasl,
    Ensemble,
}

impl AuthProvider {
    const CLASSES: [(Self, &'static str, &'static str); 5] = [
        (Self::Digest, "digest", "DigestAuthenticationProvider"),
        (Self::Ip, "ip", "IPAuthenticationProvider"),
        (Self::X509, "x509", "X509AuthenticationProvider"),
        (Self::Sasl, "sasl", "SASLAuthenticationProvider"),
        (Self::Ensemble, "ensemble", "EnsembleAuthenticationProvider"),
    ];
    const PACKAGE: &'static str = "org.apache.zookeeper.server.auth.";

    /// The provider of ZooKeeper's class with this name.
    pub(crate) fn of_class(class: &str) -> Result<Self, BadValue> {
        let known =
            |(_, _, known): &&(_, _, &str)| class.strip_prefix(Self::PACKAGE) == Some(*known);
        let found = Self::CLASSES.iter().find(known);
        found.map(|(provider, _, _)| *provider).ok_or(BadValue::NotAnAuthProvider)
    }

    /// The names of the classes, for messages.
    pub(crate) fn class_names() -> String {
        let names: Vec<_> = Self::CLASSES.iter().map(|(_, _, class)| *class).collect();
        format!("{}{{{}}}", Self::PACKAGE, names.join(","))
    }

    /// The names of the schemes, for messages.
    pub(crate) fn scheme_names() -> String {
        Self::CLASSES.map(|(_, scheme, _)| scheme).join(", ")
    }
}

impl FromStr for AuthProvider {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        match Self::CLASSES.iter().find(|(_, scheme, _)| *scheme == text) {
            Some((provider, _, _)) => Ok(*provider),
            None => Self::of_class(text).map_err(|_| BadValue::NotAnAuthScheme),
        }
    }
}

/// Why SASL cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SaslContradiction {
    #[error(transparent)]
    Jaas(#[from] JaasError),
    #[error(
        "fips-mode=true forbids DIGEST-MD5, the only SASL mechanism here; remove it, or remove the \
         JAAS file and let clients authenticate by certificates"
    )]
    Fips,
    #[error(
        "{0} says how to use SASL, but there are no users; name a JAAS file with --jaas-config"
    )]
    NoUsers(&'static str),
}

impl AccessOptions {
    pub(super) fn put_settings(&self, settings: &mut Settings) -> Result<(), Contradiction> {
        settings.super_digest.clone_from(&self.super_digest);
        put(&mut settings.skip_acl, self.skip_acl);
        put(&mut settings.digest_algorithm, self.digest_alg);
        put(&mut settings.digest_scheme, self.digest_authentication_provider_enabled);
        for provider in &self.auth_providers {
            match provider {
                AuthProvider::Digest => settings.digest_scheme = true,
                // It is always there.
                AuthProvider::Ip => {}
                AuthProvider::X509 => settings.x509_scheme = true,
                AuthProvider::Sasl => settings.sasl_scheme = true,
                AuthProvider::Ensemble => settings.ensemble_scheme = true,
            }
        }
        settings.x509_super_user.clone_from(&self.x509_super_user);
        settings.sasl_super_users = self.super_users.iter().cloned().collect();
        settings.any_sasl_user.clone_from(&self.let_any_sasl_user_do_x);
        let names = self.ensemble_auth_name.as_deref();
        settings.ensemble_names =
            names.map(|names| names.split(',').map(|name| name.trim().to_owned()).collect());
        let Some(digest) = self.super_digest.as_ref().map(SuperDigest::expose) else {
            return Ok(());
        };
        values::super_digest(digest).map_err(Contradiction::SuperDigest)?;
        if !has_length_of(digest, settings.digest_algorithm) {
            return Err(Contradiction::SuperDigestOfOtherAlgorithm);
        }
        Ok(())
    }

    /// As `AuthenticationHelper` combines the three.
    pub(super) fn enforce_auth(&self) -> EnforceAuth {
        if self.session_require_client_sasl_auth == Some(true) {
            return EnforceAuth::Schemes(vec!["sasl".to_owned()]);
        }
        if self.enforce_auth_enabled != Some(true) {
            return EnforceAuth::Off;
        }
        let schemes = self.enforce_auth_schemes.as_deref().unwrap_or_default().split(',');
        let schemes = schemes.map(str::trim).filter(|scheme| !scheme.is_empty());
        EnforceAuth::Schemes(schemes.map(str::to_owned).collect())
    }

    /// How clients authenticate by SASL, if there is a JAAS file.
    pub(super) fn sasl(&self) -> Result<Option<Sasl>, SaslContradiction> {
        let Some(path) = &self.jaas_config else {
            return match self.sasl_without_users() {
                Some(option) => Err(SaslContradiction::NoUsers(option)),
                None => Ok(None),
            };
        };
        if self.fips_mode == Some(true) {
            return Err(SaslContradiction::Fips);
        }
        let mut users = self.users_of(path)?;
        if let Some(password) = &self.sasl_super_password {
            users.set_password("super", password.clone());
        }
        let mut sasl = Sasl::new(DigestMd5::new(users));
        put(&mut sasl.allow_failed_clients, self.allow_sasl_failed_clients);
        Ok(Some(sasl))
    }

    fn users_of(&self, path: &Path) -> Result<Users, JaasError> {
        let section = self.sasl_serverconfig.as_deref().unwrap_or("Server");
        JaasFile::read(path)?.digest_users(section)
    }

    /// The names of the users of the JAAS file, if there is one that can be read.
    pub(super) fn jaas_users(&self) -> Option<Vec<String>> {
        let users = self.users_of(self.jaas_config.as_deref()?).ok()?;
        Some(users.names().map(ToOwned::to_owned).collect())
    }

    /// An option that would leave all clients outside, or let nobody be who it names, without users.
    fn sasl_without_users(&self) -> Option<&'static str> {
        if self.enforce_auth() == EnforceAuth::Schemes(vec!["sasl".to_owned()]) {
            return Some("enforced authentication by the scheme sasl alone");
        }
        if self.sasl_serverconfig.is_some() {
            return Some("sasl.serverconfig");
        }
        self.sasl_super_password.is_some().then_some("SASLAuthenticationProvider.superPassword")
    }

    pub(super) fn remarks(&self) -> Vec<&'static str> {
        let has_provider = |provider| self.auth_providers.contains(&provider);
        let is_idle =
            self.enforce_auth_schemes.is_some() && self.enforce_auth_enabled != Some(true);
        let has_users = self.jaas_config.is_some();
        let idle_users = !has_users && !self.super_users.is_empty();
        let idle_names = self.ensemble_auth_name.is_some() && !has_provider(AuthProvider::Ensemble);
        [
            (is_idle, "enforce.auth.schemes has no effect without enforce.auth.enabled=true"),
            (
                has_users,
                "SASL DIGEST-MD5 is obsolete: who reads a connection can try passwords on it. Prefer \
                 client certificates, or let clients connect over TLS only",
            ),
            (
                has_users && !has_provider(AuthProvider::Sasl),
                "clients can authenticate by SASL, but access control lists cannot name them without \
                 authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            ),
            (idle_users, "superUser has no effect without the users of a JAAS file: --jaas-config"),
            (
                idle_names,
                "ensembleAuthName has no effect without authProvider.ensemble=\
                 org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider",
            ),
        ]
        .into_iter()
        .filter_map(|(is_so, remark)| is_so.then_some(remark))
        .collect()
    }
}

/// The path of a JAAS file, which may be a URL of a file, and behind a `=`, as Java allows.
pub(crate) fn jaas_file(text: &str) -> Result<PathBuf, BadValue> {
    let text = text.trim();
    let path = text.strip_prefix('=').unwrap_or(text);
    let path = path.strip_prefix("file:").unwrap_or(path);
    directory(path)
}

/// Whether the hash of a digest has 20 bytes, as SHA-1's, or the 32 of the others, in base64.
fn has_length_of(digest: &str, algorithm: DigestAlgorithm) -> bool {
    let length = if algorithm == DigestAlgorithm::Sha1 { 28 } else { 44 };
    digest.split_once(':').is_some_and(|(_, hash)| hash.len() == length)
}

const ACCESS: &str = "Access control";
