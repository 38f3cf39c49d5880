//! The options by which a command authenticates by SASL.

use std::fs::File;
use std::io::{self, Read};

use clap::Args;
use zoolet_client::Builder;
use zoolet_client::sasl::{DigestMd5, Password};

/// A password is read from a file or from the environment. Everyone on the machine can see the
/// arguments of a command.
#[derive(Debug, Args)]
pub(crate) struct SaslOptions {
    /// Authenticate by SASL, with DIGEST-MD5, as this user; the password is in a file, or in the
    /// variable ZOOLET_SASL_PASSWORD
    #[arg(long, value_name = "USER", env = "ZOOLET_SASL_USER")]
    sasl_user: Option<String>,

    /// The file whose first line is the password of --sasl-user
    #[arg(long, value_name = "FILE", env = "ZOOLET_SASL_PASSWORD_FILE", value_parser = first_line)]
    #[arg(requires = "sasl_user")]
    sasl_password_file: Option<Password>,
}

/// The variable with the password.
const PASSWORD: &str = "ZOOLET_SASL_PASSWORD";

/// There is a user without a password.
#[derive(Debug, thiserror::Error)]
#[error("--sasl-user needs a password; name a file with --sasl-password-file, or set {PASSWORD}")]
pub(crate) struct NoPassword;

impl SaslOptions {
    pub(super) fn user_name(&self) -> Option<&str> {
        self.sasl_user.as_deref()
    }

    /// The user to authenticate as, if the options name one.
    ///
    /// # Errors
    ///
    /// [`NoPassword`].
    pub(crate) fn user(&self) -> Result<Option<SaslUser>, NoPassword> {
        let Some(user) = &self.sasl_user else { return Ok(None) };
        let from_environment = || std::env::var(PASSWORD).ok().map(Password::from);
        let password = self.sasl_password_file.clone().or_else(from_environment);
        Ok(Some(SaslUser { name: user.clone(), password: password.ok_or(NoPassword)? }))
    }
}

/// A user with a password.
#[derive(Debug, Clone)]
pub(crate) struct SaslUser {
    name: String,
    password: Password,
}

impl SaslUser {
    /// A builder that authenticates as this user.
    pub(crate) fn apply(&self, builder: Builder) -> Builder {
        builder.sasl(DigestMd5::new(&self.name, self.password.clone()))
    }
}

/// A longer line is no password that someone uses.
const PASSWORD_BYTES_MAX: u64 = 4096;

fn first_line(path: &str) -> Result<Password, String> {
    let read = || -> io::Result<String> {
        let mut text = String::new();
        File::open(path)?.take(PASSWORD_BYTES_MAX + 1).read_to_string(&mut text)?;
        Ok(text)
    };
    let text = read().map_err(|error| error.to_string())?;
    match text.lines().next() {
        None | Some("") => Err("the first line is empty, but should be a password".to_owned()),
        Some(line) if line.len() as u64 > PASSWORD_BYTES_MAX => Err(format!(
            "the first line is longer than {PASSWORD_BYTES_MAX} bytes, so it is no password"
        )),
        Some(line) => Ok(Password::from(line)),
    }
}
