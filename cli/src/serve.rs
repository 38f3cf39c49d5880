//! `zoolet serve`: runs a server until a signal ends it.

mod admin;
mod announcement;
mod ending;
mod listen;
mod metrics;
mod service_manager;
mod test_control;
mod test_ensemble;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgMatches, Args, FromArgMatches};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use zoolet_server::storage::StorageError;
use zoolet_server::{Config, Server};
use zoolet_testkit::{Faults, TestEnsembleError};

use self::admin::ServeAdminError;
use self::announcement::{Addresses, Form};
use self::ending::{Ending, Endings};
use self::listen::{ListenError, Listening, Plain};
use self::metrics::ServeMetricsError;
use self::service_manager::{PassedError, ServiceManager};
use self::test_control::Subject;
use crate::console::{Embedded, EmbeddedError, EmbeddedOptions};
use crate::logging::{self, LogFormat, LogLevel, LogLevels};
use crate::server_options::admin::AdminServer;
use crate::server_options::monitoring::MetricsPage;
use crate::server_options::{Contradiction, ServerOptions, values};
use crate::writers::{self, Writer};
use crate::zoo_cfg::{ZooCfg, ZooCfgError};

/// The most servers of a `TestEnsemble`.
const SERVERS_MAX: i64 = 15;

/// The options. The help text of the command is on its variant in the list of commands.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Serve {
    /// Read this zoo.cfg, the configuration file of ZooKeeper; options override it
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// How much to log: off, error, warn, info, debug or trace, also for one part, as in
    /// zoolet_server::transport=debug,info [default: info, or what the variable RUST_LOG says]
    #[arg(long, value_name = "LEVELS")]
    log_level: Option<LogLevels>,

    /// How to write the log to stderr
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,

    /// For tests: let programs on this machine set faults over HTTP at this address, as 127.0.0.1:0
    #[arg(long, value_name = "ADDR:PORT", value_parser = test_control::loopback)]
    test_control: Option<SocketAddr>,

    /// For tests, with --test-control: run so many servers that behave as an ensemble, with a free port
    /// for each; a test double, which replicates and keeps nothing
    #[arg(long, value_name = "COUNT", requires = "test_control")]
    #[arg(value_parser = values::number::<usize>(1..=SERVERS_MAX))]
    servers: Option<usize>,

    /// Print one line of JSON when the server is ready, in place of the text
    #[arg(long)]
    ready_json: bool,

    /// End when standard input ends, as it does when the program ends that started this one
    #[arg(long)]
    exit_with_stdin: bool,

    #[command(flatten)]
    console: EmbeddedOptions,

    #[command(flatten)]
    options: ServerOptions,
}

/// How a server is started by another program.
#[derive(Debug, Clone)]
pub(crate) struct Parent {
    /// Where the test control listens.
    test_control: Option<SocketAddr>,
    ready: Form,
    /// Whether the end of standard input ends the server.
    exits_with_stdin: bool,
    console: EmbeddedOptions,
}

impl Parent {
    /// It reads what is printed if it likes, and sends a signal.
    pub(crate) const ANY: Self = Self {
        test_control: None,
        ready: Form::Text,
        exits_with_stdin: false,
        console: EmbeddedOptions::NONE,
    };
}

impl Serve {
    /// Runs the server, and returns when a signal has ended it.
    ///
    /// # Errors
    ///
    /// [`ServeError`] if it cannot start or fails.
    pub(crate) fn run(self, matches: &ArgMatches) -> Result<(), ServeError> {
        logging::start_with(self.log_level, LogLevel::Info, self.log_format);
        if self.servers.is_some() {
            test_ensemble::check(matches)?;
        }
        let options = match &self.config {
            Some(path) => {
                let ZooCfg { mut options, remarks } = ZooCfg::read(path, &self.options.storage)?;
                for remark in remarks {
                    tracing::warn!("{remark}");
                }
                options.update_from_arg_matches(matches)?;
                options
            }
            None => self.options,
        };
        let parent = Parent {
            test_control: self.test_control,
            ready: if self.ready_json { Form::Json } else { Form::Text },
            exits_with_stdin: self.exit_with_stdin,
            console: self.console,
        };
        let Some(servers) = self.servers else { return run(&options, parent) };
        raise_descriptor_limit();
        runtime()?.block_on(test_ensemble::serve(servers, &options, parent))
    }
}

/// Runs a server with these options, and returns when a signal has ended it.
///
/// # Errors
///
/// [`ServeError`] if it cannot start or fails.
pub(crate) fn run(options: &ServerOptions, parent: Parent) -> Result<(), ServeError> {
    for remark in options.remarks() {
        tracing::warn!("{remark}");
    }
    let config = options.config()?;
    if let Some(storage) = &config.storage {
        writers::refuse_others(storage)?;
    }
    let plain = match service_manager::passed_listener()? {
        Some(listener) => {
            tracing::info!(
                "the service manager passed a socket: --listen and clientPort do not count"
            );
            Plain::Passed(Arc::new(listener))
        }
        None => Plain::Addresses(listen::resolve(options.listen()?.as_ref())?),
    };
    let secure = options.tls.listen().map_err(Contradiction::from)?;
    let listening = Listening { plain, secure: listen::resolve(secure.as_ref())? };
    let admin = options.admin.server().map_err(Contradiction::from)?;
    let beside = Beside { page: options.monitoring.page(), admin };
    let manager = ServiceManager::from_env();
    raise_descriptor_limit();
    let served = runtime()?.block_on(serve(config, listening, beside, parent, &manager));
    if let Err(error) = &served {
        manager.failed(error);
    }
    served
}

fn runtime() -> Result<Runtime, ServeError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(ServeError::Runtime)
}

/// What is served beside clients.
#[derive(Debug)]
struct Beside {
    page: Option<MetricsPage>,
    admin: Option<AdminServer>,
}

async fn serve(
    config: Config,
    listening: Listening,
    beside: Beside,
    parent: Parent,
    manager: &ServiceManager,
) -> Result<(), ServeError> {
    // Before the server announces itself, so that no signal is missed.
    let mut endings = Endings::new(parent.exits_with_stdin).map_err(ServeError::Runtime)?;
    let Beside { page, admin } = beside;
    let faults = parent.test_control.map(|_| Faults::default());
    manager.starting();
    let mut server = listen::start(&config, &listening, faults.as_ref()).await?;
    let page = metrics::start(&server, page.as_ref()).await?;
    let admin = admin::start(&server, admin).await?;
    let console = parent.console.start(&server, faults.as_ref()).await?;
    let (restart, mut restarts) = mpsc::channel(1);
    let control = match (parent.test_control, &faults) {
        (Some(address), Some(faults)) => {
            let subject = Subject::Server { faults: faults.clone(), restarts: restart };
            let control = test_control::start(address, subject).await;
            Some(control.map_err(|source| ServeError::TestControl { address, source })?)
        }
        _ => None,
    };
    let address = server.local_addr().or_else(|| server.secure_addr());
    let Some(address) = address else {
        return Err(ServeError::Runtime(io::Error::other("the socket has no address")));
    };
    let console_url = console.as_ref().map(Embedded::url);
    Addresses::of(&server, control, console_url).announce(parent.ready, config.storage.as_ref());
    let mut reassurance = manager.ready(address, server.probe());
    let listening = listening.again(&server);
    let ending = loop {
        tokio::select! {
            ending = endings.next() => break ending,
            failure = server.failure() => return Err(ServeError::Storage(failure)),
            Some(restart) = restarts.recv() => {
                drop(reassurance);
                if let Some(ending) = stop_for(restart.down, server, &mut endings).await? {
                    tracing::info!("{ending} during a restart");
                    return Ok(());
                }
                server = listen::start(&config, &listening, faults.as_ref()).await?;
                metrics::start(&server, page.as_ref()).await?;
                admin::start(&server, admin.clone()).await?;
                if let Some(console) = &console {
                    console.follow(&server);
                }
                reassurance = manager.ready(address, server.probe());
                // The requester may be gone.
                let _ = restart.done.send(());
            }
        }
    };
    tracing::info!("{ending}, shutting down");
    manager.stopping();
    drop(reassurance);
    if let Some(console) = console {
        console.end().await;
    }
    stop(server, ending, &mut endings).await
}

/// Shuts a server down and waits for `down`. Returns what ended the wait, if something did.
async fn stop_for(
    down: Duration,
    server: Server,
    endings: &mut Endings,
) -> Result<Option<Ending>, ServeError> {
    let mut shutdown = pin!(server.shutdown());
    tokio::select! {
        () = &mut shutdown => {}
        ending = endings.next() => {
            tokio::select! {
                () = shutdown => return Ok(Some(ending)),
                () = endings.second_signal(ending) => return Err(ServeError::Hurried),
            }
        }
    }
    tokio::select! {
        () = tokio::time::sleep(down) => Ok(None),
        ending = endings.next() => Ok(Some(ending)),
    }
}

/// Shuts a server down, unless a second signal cuts it short.
async fn stop(server: Server, ending: Ending, endings: &mut Endings) -> Result<(), ServeError> {
    tokio::select! {
        () = server.shutdown() => Ok(()),
        () = endings.second_signal(ending) => Err(ServeError::Hurried),
    }
}

/// Raises the limit of open files, of which each client takes one, and logs it.
pub(crate) fn raise_descriptor_limit() {
    match zoolet_server::raise_descriptor_limit() {
        Ok(Some(limit)) => tracing::debug!("up to {limit} files and connections may be open"),
        Ok(None) => tracing::debug!("the system has no limit of open files and connections"),
        Err(error) => tracing::warn!("cannot raise the limit of open connections: {error}"),
    }
}

/// Why the command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    #[error(transparent)]
    ZooCfg(#[from] ZooCfgError),
    #[error("the configuration cannot be used: {0}")]
    Contradiction(#[from] Contradiction),
    #[error("{0}")]
    Arguments(#[from] clap::Error),
    #[error(transparent)]
    Passed(#[from] PassedError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Metrics(#[from] ServeMetricsError),
    #[error(transparent)]
    Admin(#[from] ServeAdminError),
    #[error(
        "--{option} has no effect with --servers; leave it out, or test with one server, without \
         --servers"
    )]
    NotOfAnEnsemble { option: String },
    #[error("the ensemble for tests cannot start: {0}")]
    TestEnsemble(#[from] TestEnsembleError),
    #[error(transparent)]
    Console(#[from] EmbeddedError),
    #[error(
        "cannot listen on {address} for the test control: {source}; choose another port with \
         --test-control, or 0 for any free one"
    )]
    TestControl { address: SocketAddr, source: io::Error },
    #[error("the system refuses what a server needs: {0}")]
    Runtime(io::Error),
    #[error(transparent)]
    InUse(#[from] Writer),
    #[error("{0}; start again when the cause is gone, nothing acknowledged is lost")]
    Storage(Arc<StorageError>),
    #[error("stopped at once by a second signal; clients may have missed replies")]
    Hurried,
}

impl ServeError {
    /// ZooKeeper's exit statuses: 2 for bad arguments or configuration, 3 for the data directory, 4 for
    /// the admin server, 1 for everything else.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::ZooCfg(_) | Self::Contradiction(_) | Self::Arguments(_) | Self::Passed(_) => 2,
            Self::Listen(error) if error.is_about_the_name() => 2,
            Self::Listen(error) if error.is_about_the_data_directory() => 3,
            Self::NotOfAnEnsemble { .. }
            | Self::TestEnsemble(TestEnsembleError::Servers(_) | TestEnsembleError::Config(_)) => 2,
            Self::Console(EmbeddedError::Access(_)) => 2,
            Self::Admin(_) => 4,
            Self::Listen(_)
            | Self::Metrics(_)
            | Self::TestEnsemble(_)
            | Self::TestControl { .. }
            | Self::Console(_)
            | Self::Runtime(_)
            | Self::InUse(_)
            | Self::Storage(_)
            | Self::Hurried => 1,
        })
    }
}

const AFTER_HELP: &str = "\
All but the first options are named after the keys of zoo.cfg. BOOL is true or false, and may be
left out for true: --enforce-quota is --enforce-quota true.

Examples:
  zoolet serve                              on 127.0.0.1:2181, for this machine only
  zoolet serve --listen 0.0.0.0:2181        for the whole network
  zoolet serve --data-dir /var/lib/zoolet   and nothing acknowledged is lost
  zoolet serve --listen 127.0.0.1:0         on any free port, which is printed
  zoolet serve --listen 127.0.0.1:0 --test-control 127.0.0.1:0
                                            for tests that break it, in any language;
                                            --ready-json --exit-with-stdin suit them too
  zoolet serve --servers 3 --test-control 127.0.0.1:0
                                            for tests with followers that lag, partitions and
                                            elections
  zoolet serve --console 127.0.0.1:8181     with its locks and sessions in a browser
  zoolet serve --config zoo.cfg             with the settings of a ZooKeeper server

Exit status: 0 after a signal, 1 if the server failed, 2 if the command or its configuration is
wrong, 3 if the data directory is missing or cannot be created, 4 if the admin server cannot start.";
