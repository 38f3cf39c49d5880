//! The options by which a command connects to a server.

mod identities;
mod sasl;
mod tls;

use std::time::Duration;

use clap::Args;
use zoolet_client::{Builder, Client, Error, Hosts};

use self::identities::IdentityOptions;
pub(crate) use self::identities::{Identities, identities};
pub(crate) use self::sasl::{NoPassword, SaslOptions, SaslUser};
pub(crate) use self::tls::{TlsFailure, TlsOptions};
use crate::server_options::values;

/// The options of every command that is a client of a server.
#[derive(Debug, Args)]
pub(crate) struct ConnectOptions {
    /// The servers, each HOST or HOST:PORT, and the znode under which all paths are
    #[arg(short, long, value_name = "HOST:PORT,..[/CHROOT]", env = "ZOOLET_SERVER")]
    #[arg(default_value = "localhost:2181", value_parser = hosts)]
    pub(crate) server: String,

    /// For how long the server keeps the session, and what is held in it, without hearing of it
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = values::some_time)]
    session_timeout: Duration,

    #[command(flatten)]
    pub(crate) tls: TlsOptions,

    #[command(flatten)]
    sasl: SaslOptions,

    #[command(flatten)]
    identities: IdentityOptions,
}

impl ConnectOptions {
    /// The name of the SASL user, if there is one.
    pub(crate) fn sasl_user(&self) -> Option<&str> {
        self.sasl.user_name()
    }

    /// The builder of a client that waits this long for a connection.
    ///
    /// # Errors
    ///
    /// [`SecurityError`] if the options of TLS or SASL cannot be used.
    pub(crate) fn builder(&self, connection_timeout: Duration) -> Result<Builder, SecurityError> {
        let builder = Client::builder()
            .session_timeout(self.session_timeout)
            .connection_timeout(connection_timeout)
            // The server's limit counts, which nobody is to give a second time here.
            .jute_max_buffer(usize::MAX);
        let builder = match self.tls.load()? {
            Some(tls) => builder.tls(tls),
            None => builder,
        };
        let builder = self.identities.apply(builder);
        Ok(match self.sasl.user()? {
            Some(user) => user.apply(builder),
            None => builder,
        })
    }
}

/// Why a command cannot connect as the options of TLS or SASL say.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecurityError {
    #[error(transparent)]
    Tls(#[from] TlsFailure),
    #[error(transparent)]
    Sasl(#[from] NoPassword),
}

pub(crate) fn hosts(text: &str) -> Result<String, String> {
    match text.parse::<Hosts>() {
        Ok(_) => Ok(text.to_owned()),
        Err(error @ Error::Path(_)) => Err(format!(
            "the chroot, which begins at the first /, is no path of a znode: {error}; write it like \
             HOST:PORT/app/locks"
        )),
        Err(error) => Err(error.to_string()),
    }
}
