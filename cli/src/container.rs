//! `zoolet container`: the entry point of a container image that takes the place of ZooKeeper's
//! official one.
//!
//! There is no shell in the image, so this does what `docker-entrypoint.sh` and `zkServer.sh` do there.

mod image;
mod jvm_flags;
mod user;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};

use self::image::Image;
use crate::health;
use crate::logging::{self, LogLevel};
use crate::serve::{self, ServeError};
use crate::server_options::{Contradiction, ServerOptions};
use crate::zoo_cfg::{ZooCfg, ZooCfgError};

/// The options. The help text of the command is on its variant in the list of commands.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Container {
    #[command(subcommand)]
    script: Option<Script>,
}

/// The scripts of the official image that have a meaning here. `zkCli.sh` is `zoolet cli`.
#[derive(Debug, Subcommand)]
enum Script {
    /// What ZooKeeper's script of this name does in the official image
    #[command(name = "zkServer.sh")]
    ZkServer(ZkServer),
}

#[derive(Debug, Args)]
struct ZkServer {
    /// The directory of the configuration [default: that of ZOO_CONF_DIR, or /conf]
    #[arg(long, value_name = "DIR")]
    config: Option<PathBuf>,

    #[arg(value_enum)]
    verb: Verb,

    /// The configuration file, in the directory of the configuration unless it is a path
    #[arg(value_name = "FILE", default_value = "zoo.cfg")]
    file: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Verb {
    /// Start the server, and stop it at SIGTERM
    StartForeground,
    /// Ask the server that these settings describe, and say its mode: 0 if it serves, otherwise 1
    Status,
    /// Print the version
    Version,
}

impl Container {
    pub(crate) fn run(self) -> ExitCode {
        let script = self.script.unwrap_or_else(|| {
            Script::ZkServer(ZkServer {
                config: None,
                verb: Verb::StartForeground,
                file: "zoo.cfg".into(),
            })
        });
        let Script::ZkServer(ZkServer { config, verb, file }) = script;
        let mut image = Image::from_env();
        if let Some(directory) = config {
            image.conf_dir = directory;
        }
        let file = image.conf_dir.join(file);
        let done = match verb {
            Verb::StartForeground => start(&image, &file).map(|()| ExitCode::SUCCESS),
            Verb::Status => status(&image, &file),
            Verb::Version => {
                let printed = crate::print(concat!("zoolet ", env!("CARGO_PKG_VERSION"), "\n"));
                printed.map(|()| ExitCode::SUCCESS).map_err(ContainerError::Unprinted)
            }
        };
        done.unwrap_or_else(|error| {
            crate::complain(&error);
            error.exit_code()
        })
    }
}

/// Prepares the directories as the entry point of the official image does, and runs the server.
fn start(image: &Image, file: &Path) -> Result<(), ContainerError> {
    logging::start(None, LogLevel::Info);
    user::leave_root(image)?;
    let Settings { zoo_cfg, generated } = settings(image, file)?;
    if let Some(text) = generated {
        match std::fs::write(file, text) {
            Ok(()) => tracing::info!("{} was written from the environment", file.display()),
            Err(error) => tracing::warn!(
                "{} cannot be written ({error}); the settings of the environment count without it",
                file.display()
            ),
        }
    }
    // They name the file, which is there now.
    for remark in &zoo_cfg.remarks {
        tracing::warn!("{remark}");
    }
    image.write_myid()?;
    Ok(serve::run(&zoo_cfg.options, serve::Parent::ANY)?)
}

fn status(image: &Image, file: &Path) -> Result<ExitCode, ContainerError> {
    let options = settings(image, file)?.zoo_cfg.options;
    let is_serving = match options.listen().map_err(ServeError::from)? {
        Some(listen) => health::is_serving(&listen),
        // Only clients have the certificates with which it could be asked.
        None => {
            let secure = options.tls.listen().map_err(Contradiction::from);
            secure.map_err(ServeError::from)?.is_some_and(|listen| health::is_accepting(&listen))
        }
    };
    Ok(if is_serving { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The settings of a container.
struct Settings {
    zoo_cfg: ZooCfg,
    /// The text of the configuration file that is not there.
    generated: Option<String>,
}

/// Reads the configuration file, or what the environment says if there is none.
fn settings(image: &Image, file: &Path) -> Result<Settings, ContainerError> {
    let flags = jvm_flags::zoo_cfg(&image.jvm_flags)?;
    let (mut zoo_cfg, generated) = if file.exists() {
        (flags.read_over(file)?, None)
    } else {
        let text = image.zoo_cfg()?;
        (flags.parse_over(file, &text)?, Some(text))
    };
    listen_for_the_network(&mut zoo_cfg.options);
    Ok(Settings { zoo_cfg, generated })
}

/// Where nothing is said, an image listens for other machines on the ports that it declares. Outside of
/// an image the defaults are for this machine only.
fn listen_for_the_network(options: &mut ServerOptions) {
    if options.names_no_port() {
        options.client_port = Some(image::CLIENT_PORT);
    }
    let admin = &mut options.admin;
    if admin.admin_enable_server == Some(true) && admin.admin_server_address.is_none() {
        admin.admin_server_address = Some("0.0.0.0".to_owned());
    }
}

/// Why a container does not start.
#[derive(Debug, thiserror::Error)]
enum ContainerError {
    #[error(
        "ZOO_SERVERS names {0} servers, but zoolet is a single node; name one, or none, or use the \
         image zookeeper for an ensemble"
    )]
    Ensemble(usize),
    #[error(transparent)]
    ZooCfg(#[from] ZooCfgError),
    #[error(
        "cannot write {}: {source}; the data directory must belong to the user of the container \
         (1000), or start it with --user root: it then gives it to that user, and becomes it",
        path.display()
    )]
    MyId { path: PathBuf, source: io::Error },
    #[error(
        "cannot create the data directory {}: {source}; mount a volume there, or create it in the image for \
         the user of the container (1000). ZOO_DATA_DIR names another",
        path.display()
    )]
    NoDataDirectory { path: PathBuf, source: io::Error },
    #[error("cannot give {} to the user {}: {source}", path.display(), user::NAME)]
    Owner { path: PathBuf, source: io::Error },
    #[error(
        "cannot become the user {}: {source}; start the container with --user 1000:1000",
        user::NAME
    )]
    User { source: io::Error },
    #[error("stdout cannot be written: {0}")]
    Unprinted(io::Error),
    #[error(transparent)]
    Serve(#[from] ServeError),
}

impl ContainerError {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Ensemble(_) | Self::ZooCfg(_) => ExitCode::from(2),
            Self::MyId { .. }
            | Self::NoDataDirectory { .. }
            | Self::Owner { .. }
            | Self::User { .. }
            | Self::Unprinted(_) => ExitCode::FAILURE,
            Self::Serve(error) => error.exit_code(),
        }
    }
}

const AFTER_HELP: &str = "\
Without a script, it is `zkServer.sh start-foreground`. It reads /conf/zoo.cfg. If that is not
there, the settings are those of the variables of the official image, with its defaults:
ZOO_TICK_TIME, ZOO_INIT_LIMIT, ZOO_SYNC_LIMIT, ZOO_AUTOPURGE_PURGEINTERVAL,
ZOO_AUTOPURGE_SNAPRETAINCOUNT, ZOO_MAX_CLIENT_CNXNS, ZOO_STANDALONE_ENABLED,
ZOO_ADMINSERVER_ENABLED, ZOO_SERVERS (one at most), ZOO_4LW_COMMANDS_WHITELIST, ZOO_CFG_EXTRA.
ZOO_MY_ID, ZOO_CONF_DIR, ZOO_DATA_DIR and ZOO_DATA_LOG_DIR, ZOO_DATADIR_AUTOCREATE_DISABLE, and
the properties in SERVER_JVMFLAGS and JVMFLAGS, count in both cases.

Another word is taken for a command of zoolet: `zoolet container health` is `zoolet health`.";
