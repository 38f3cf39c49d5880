//! `zoolet console` and `zoolet serve --console`: a page for a browser that shows the locks and the
//! sessions of servers, live.
//!
//! While somebody looks, `collector` looks at the servers, as `zoolet doctor` does, and often at what has
//! changed in their locks (`quick`). What is known (`look`) is told as JSON (`shown`) in a state (`model`).
//! `hub` sends what has changed to everybody who looks. `http` serves the page and reads single znodes
//! (`tree`) for those whom `access` lets in. `feed` watches while somebody reads what happens to znodes. `pulse`
//! notices when the servers do not answer. When nobody looks, there is no session and no request.

mod access;
mod collector;
mod embedded;
mod events;
mod feed;
mod http;
mod hub;
mod limits;
mod look;
mod metrics;
mod model;
mod pulse;
mod quick;
mod shown;
mod source;
mod tree;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use zoolet_testkit::Faults;

use self::access::{Access, AccessError, Flags, Token};
use self::collector::INTERVAL_MIN;
pub(crate) use self::embedded::{Embedded, EmbeddedError, EmbeddedOptions};
use self::feed::Feed;
use self::hub::Hub;
use self::pulse::Pulse;
use self::source::{Link, Source};
use self::tree::Lists;
use crate::connect_options::SecurityError;
use crate::doctor::scan::ScanOptions;
use crate::doctor::servers::ServersOptions;
use crate::logging::{self, LogLevel};
use crate::server_options::values;
use crate::signals::Signals;

/// The options. The help text of the command is on its variant in the list of commands.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
#[command(mut_arg("session_timeout", |timeout| timeout.default_value("10s").help(SESSION_TIMEOUT_HELP)))]
pub(crate) struct Console {
    /// Where the page is; port 0 picks a free one. Other machines than this one need a token
    #[arg(short, long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8181")]
    #[arg(value_parser = values::ip_and_port)]
    listen: SocketAddr,

    /// The file whose first line is the token that a viewer has to know
    #[arg(long, value_name = "FILE", env = "ZOOLET_CONSOLE_TOKEN_FILE")]
    #[arg(value_parser = Token::from_file)]
    token_file: Option<Token>,

    /// A name by which browsers may ask for the page, as through a proxy with TLS, beside IP addresses
    /// and localhost; needs a token; can be repeated
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,

    /// The pause between two looks at the servers, while somebody looks at the page; known queues are
    /// looked at ten times as often, as long as that is cheap
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,

    /// How many znodes to look at for locks
    #[arg(long, value_name = "NUMBER", default_value_t = 100_000)]
    #[arg(value_parser = values::number::<u64>(1..=i64::MAX))]
    max_znodes: u64,

    #[command(flatten)]
    servers: ServersOptions,

    /// How much to log [default: warn, or what the variable RUST_LOG says]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<LogLevel>,
}

const FLAGS: Flags = Flags { token: "--token-file", allow_host: "--allow-host" };

/// For a wrong command line, and for files that cannot be used.
const WRONG: u8 = 2;

/// What all parts of a console share.
#[derive(Debug)]
pub(crate) struct Shared {
    hub: Hub,
    link: Link,
    lists: Lists,
    feed: Feed,
    pulse: Pulse,
    /// Whether the servers answer quick looks: those before 3.6 do not.
    has_quick: AtomicBool,
    path: String,
    scan: ScanOptions,
    interval: Duration,
    /// What viewers may do to sessions, if they may.
    faults: Option<Faults>,
}

/// Why there is no console.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error(transparent)]
    Security(#[from] SecurityError),
    #[error("cannot listen on {0} for the console: {1}; choose another address with --listen")]
    Listen(SocketAddr, #[source] io::Error),
    #[error("the system refuses what this needs: {0}")]
    System(#[from] io::Error),
}

impl Failure {
    fn code(&self) -> u8 {
        match self {
            Self::Access(_) | Self::Security(_) => WRONG,
            Self::Listen(..) | Self::System(_) => 1,
        }
    }
}

impl Console {
    /// Serves the page until a signal ends it.
    pub(crate) fn run(self) -> ExitCode {
        logging::start(self.log_level, LogLevel::Warn);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let served = match runtime {
            Ok(runtime) => runtime.block_on(self.serve()),
            Err(error) => Err(error.into()),
        };
        match served {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                crate::complain(&failure);
                ExitCode::from(failure.code())
            }
        }
    }

    async fn serve(self) -> Result<(), Failure> {
        let Self { listen, token_file, allow_host, .. } = &self;
        let access = Access::new(*listen, token_file.clone(), allow_host, FLAGS)?;
        let mut signals = Signals::new()?;
        let listener =
            TcpListener::bind(listen).await.map_err(|error| Failure::Listen(*listen, error))?;
        let address = listener.local_addr()?;
        let end = CancellationToken::new();
        let shared = Arc::new(self.shared(end.clone()));
        shared.link.source.check()?;
        announce(address, shared.link.source.name());
        let serving = http::serve(Arc::clone(&shared), access, listener);
        tokio::pin!(serving);
        tokio::select! {
            () = &mut serving => return Ok(()),
            () = collector::run(&shared) => {}
            signal = signals.next() => tracing::info!("{signal}, ending"),
        }
        end.cancel();
        // The session first: a viewer that does not read holds up the rest.
        shared.link.end().await;
        serving.await;
        Ok(())
    }

    fn shared(self, end: CancellationToken) -> Shared {
        Shared {
            hub: Hub::new(end),
            lists: Lists::default(),
            feed: Feed::default(),
            pulse: Pulse::default(),
            has_quick: AtomicBool::new(true),
            path: self.servers.path.clone(),
            scan: self.servers.scan(self.max_znodes),
            link: Link::new(Source::named(self.servers)),
            interval: self.interval,
            faults: None,
        }
    }
}

/// Tells where the page is.
fn announce(address: SocketAddr, server: &str) {
    let mut stdout = io::stdout().lock();
    // The page is there even if nobody reads this.
    let _ = writeln!(
        stdout,
        "console of {server} on {}\nIt is read-only. Stop with Ctrl-C or `kill {}`.",
        http::url(address),
        std::process::id()
    );
    let _ = stdout.flush();
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = values::some_time(text).map_err(|error| error.to_string())?;
    if interval < INTERVAL_MIN {
        return Err(format!("must be {INTERVAL_MIN:?} or more"));
    }
    Ok(interval)
}

/// What `--session-timeout` means here. Its default is that of [`limits::SESSION_TIMEOUT`].
const SESSION_TIMEOUT_HELP: &str = "The timeout of the console's session: after two thirds of it without an \
                                    answer it goes to another server, if several are named";

const AFTER_HELP: &str = "\
It changes nothing. It sets one watch, while a page shows the view Events, and leaves none. While
no page is open it has no session and sends nothing.
To see clients and who is silent it asks the words srvr, cons, dump, wchs, wchp and mntr of each
server; the page tells which were refused, and how to allow them.

Whoever can connect to a loopback address on this machine sees what the console may read. For
other machines a token is required, and the page is not encrypted: put a proxy with TLS before it.

Exit status: 0 after a signal, 1 if it cannot listen, 2 if the command line is wrong.

Examples:
  zoolet console zk1.example,zk2.example,zk3.example
  zoolet console zk.example:2181 /locks
  zoolet console zk.example --listen 0.0.0.0:8181 --token-file token --allow-host ops.example";
