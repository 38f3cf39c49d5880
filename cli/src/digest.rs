//! `zoolet digest`: prints what the digest scheme makes of a user and a password.

use std::io::{self, BufRead, IsTerminal, Read};
use std::process::ExitCode;

use clap::Args;
use zoolet_core::{DigestAlgorithm, Identities, Settings, authenticate};

use crate::complain;
use crate::server_options::values;
use crate::zoo_cfg::written;

/// The options. The help text of the command is on its variant in the list of commands.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Digest {
    /// The name of the user
    #[arg(value_parser = user)]
    user: String,

    /// The hash that the server uses: SHA1, SHA-256 or SHA3-256
    #[arg(long, value_name = "NAME", default_value = "SHA1")]
    #[arg(value_parser = values::digest_algorithm)]
    algorithm: DigestAlgorithm,

    /// Print the line for zoo.cfg that makes this user the superuser
    #[arg(long)]
    superuser: bool,
}

impl Digest {
    pub(crate) fn run(self) -> ExitCode {
        let result = password().and_then(|password| self.print(&password));
        match result {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                complain(&error);
                ExitCode::FAILURE
            }
        }
    }

    fn print(&self, password: &str) -> Result<(), DigestError> {
        let identity = identity(&self.user, password, self.algorithm);
        let line = if self.superuser { zoo_cfg_line(&identity) } else { identity };
        crate::print(&format!("{line}\n")).map_err(DigestError::Output)
    }
}

/// The line of a `zoo.cfg` that makes `USER:HASH` the superuser.
fn zoo_cfg_line(identity: &str) -> String {
    written("DigestAuthenticationProvider.superDigest", identity)
}

/// `USER:HASH`, which is an identity of the digest scheme.
fn identity(user: &str, password: &str, algorithm: DigestAlgorithm) -> String {
    let settings = Settings { digest_algorithm: algorithm, ..Settings::default() };
    let credentials = format!("{user}:{password}");
    let authenticated =
        authenticate("digest", credentials.as_bytes(), &Identities::default(), &settings);
    let ids = authenticated.unwrap_or_default();
    ids.iter().find_map(|id| id.id.as_deref().map(str::to_owned)).unwrap_or_default()
}

/// The password that someone types twice without seeing it, or the first line of stdin.
fn password() -> Result<String, DigestError> {
    if io::stdin().is_terminal() {
        let password = rpassword::prompt_password("Password: ").map_err(DigestError::Input)?;
        let again = rpassword::prompt_password("Again: ").map_err(DigestError::Input)?;
        return if password == again { some(password) } else { Err(DigestError::Different) };
    }
    let mut line = String::new();
    let mut stdin = io::stdin().lock().take(PASSWORD_BYTES_MAX + 1);
    stdin.read_line(&mut line).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => DigestError::NotUtf8,
        _ => DigestError::Input(error),
    })?;
    if line.len() as u64 > PASSWORD_BYTES_MAX {
        return Err(DigestError::TooLong);
    }
    some(line.trim_end_matches(['\r', '\n']).to_owned())
}

fn some(password: String) -> Result<String, DigestError> {
    if password.is_empty() { Err(DigestError::Empty) } else { Ok(password) }
}

/// A longer line is no password that someone uses.
const PASSWORD_BYTES_MAX: u64 = 4096;

#[derive(Debug, thiserror::Error)]
enum DigestError {
    #[error("the password cannot be read: {0}")]
    Input(io::Error),
    #[error("stdout cannot be written: {0}")]
    Output(io::Error),
    #[error("the password is not UTF-8, in which clients send it; convert it, with iconv say")]
    NotUtf8,
    #[error("the two passwords differ; try again")]
    Different,
    #[error(
        "the password is empty; type one, or write it to stdin: printf %s secret | zoolet digest ann"
    )]
    Empty,
    #[error("the password is longer than {PASSWORD_BYTES_MAX} bytes; is stdin the right file?")]
    TooLong,
}

fn user(text: &str) -> Result<String, &'static str> {
    match text {
        "" => Err("must not be empty"),
        // A client sends user and password with the first colon between.
        _ if text.contains(':') => Err("must not contain a colon"),
        _ if text.len() > USER_BYTES_MAX => Err("is longer than any server takes"),
        _ => Ok(text.to_owned()),
    }
}

/// What is left of the server's limit of an identity without the colon and the longest hash.
const USER_BYTES_MAX: usize = zoolet_core::limits::IDENTITY_BYTES_MAX - 1 - 44;

const AFTER_HELP: &str = "\
The password is typed at the terminal, or read from stdin up to the end of the line.

Examples:
  zoolet digest ann                         prints ann:HASH
  zoolet cli setAcl /a digest:ann:HASH:cdrwa
                                            gives the znode to who authenticates as ann
  zoolet digest --superuser admin >> zoo.cfg
                                            who authenticates as admin may do everything";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_zookeepers_main_method() {
        let identity = |algorithm| identity("super", "test", algorithm);
        assert_eq!(identity(DigestAlgorithm::Sha1), "super:D/InIHSb7yEEbrWz8b9l71RjZJU=");
        assert_eq!(identity(DigestAlgorithm::Sha256).len(), "super:".len() + 44);
        let longest = "u".repeat(USER_BYTES_MAX);
        assert!(super::identity(&longest, "x", DigestAlgorithm::Sha256).starts_with("uuu"));
    }

    #[test]
    fn the_line_for_zoo_cfg_names_the_same_user() {
        let identity = identity(r"DOM\admin", "test", DigestAlgorithm::Sha1);
        let hash = identity.strip_prefix(r"DOM\admin:").unwrap();
        let expected = format!(r"DigestAuthenticationProvider.superDigest=DOM\\admin:{hash}");
        assert_eq!(zoo_cfg_line(&identity), expected);
    }

    #[test]
    fn a_user_has_a_name_without_colons() {
        assert!(user("ann").is_ok());
        for bad in ["", "a:b", &"u".repeat(USER_BYTES_MAX + 1)] {
            assert!(user(bad).is_err(), "{bad}");
        }
    }
}
