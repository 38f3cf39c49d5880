//! `zoolet serve --console`: the console of a server in the same process.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use zoolet_protocol::{Dial, Dialing};
use zoolet_server::admin::Reports;
use zoolet_server::{Dialer, Server};
use zoolet_testkit::Faults;

use super::access::{Access, AccessError, Flags, Token};
use super::feed::Feed;
use super::hub::Hub;
use super::limits::{EMBEDDED_INTERVAL, EMBEDDED_RATE, EMBEDDED_ZNODES_MAX};
use super::pulse::Pulse;
use super::source::{Link, Source};
use super::tree::Lists;
use super::{Shared, collector, http};
use crate::connect_options::{self, Identities};
use crate::doctor::limits::CHILDREN_LISTED_MAX;
use crate::doctor::scan::ScanOptions;
use crate::server_options::values;

/// The options of the console of a server.
#[derive(Debug, Clone, Args)]
pub(crate) struct EmbeddedOptions {
    /// Show the server in a browser at this address, as 127.0.0.1:8181; other machines need a token
    #[arg(long, value_name = "ADDR:PORT", value_parser = values::ip_and_port)]
    #[arg(help_heading = CONSOLE)]
    console: Option<SocketAddr>,

    /// The file whose first line is the token that a viewer of the console has to know
    #[arg(long, value_name = "FILE", env = "ZOOLET_CONSOLE_TOKEN_FILE", help_heading = CONSOLE)]
    #[arg(value_parser = Token::from_file)]
    console_token_file: Option<Token>,

    /// A name by which browsers may ask for the console, as through a proxy with TLS, beside IP
    /// addresses and localhost; needs a token; can be repeated
    #[arg(long, value_name = "NAME", requires = "console", help_heading = CONSOLE)]
    console_allow_host: Vec<String>,

    /// A file with the identities with which the console reads znodes, each a line as in
    /// digest USER:PASSWORD
    #[arg(long, value_name = "FILE", requires = "console", help_heading = CONSOLE)]
    #[arg(value_parser = connect_options::identities)]
    console_auth_file: Option<Identities>,

    /// For tests, with --test-control: let viewers of the console expire, cut and freeze sessions
    #[arg(long, requires_all = ["console", "test_control"], help_heading = CONSOLE)]
    console_write: bool,
}

const CONSOLE: &str = "Console";

const FLAGS: Flags = Flags { token: "--console-token-file", allow_host: "--console-allow-host" };

/// A console that runs beside a server.
#[derive(Debug)]
pub(crate) struct Embedded {
    shared: Arc<Shared>,
    latest: Latest,
    address: SocketAddr,
    tasks: [JoinHandle<()>; 2],
}

/// Why a server has no console.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EmbeddedError {
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error("cannot listen on {0} for the console: {1}; choose another address with --console")]
    Listen(SocketAddr, #[source] io::Error),
}

/// Reaches the server that was started last.
#[derive(Debug, Clone)]
pub(super) struct Latest(Arc<Mutex<(Dialer, Reports)>>);

impl Latest {
    pub(super) fn reports(&self) -> Reports {
        self.0.lock().1.clone()
    }
}

impl Dial for Latest {
    fn dial(&self) -> Dialing {
        self.0.lock().0.dial()
    }
}

impl EmbeddedOptions {
    /// No console.
    pub(crate) const NONE: Self = Self {
        console: None,
        console_token_file: None,
        console_allow_host: Vec::new(),
        console_auth_file: None,
        console_write: false,
    };

    /// Starts the console of a server, if one is asked for. `faults` are those of the test control, which
    /// viewers can set if the options say so.
    ///
    /// # Errors
    ///
    /// [`EmbeddedError`].
    pub(crate) async fn start(
        &self,
        server: &Server,
        faults: Option<&Faults>,
    ) -> Result<Option<Embedded>, EmbeddedError> {
        let Some(address) = self.console else { return Ok(None) };
        let (token, names) = (self.console_token_file.clone(), &self.console_allow_host);
        let access = Access::new(address, token, names, FLAGS)?;
        let listen = |error| EmbeddedError::Listen(address, error);
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let latest = Latest(Arc::new(Mutex::new((server.dialer(), server.reports()))));
        let shared = Arc::new(self.shared(latest.clone(), faults));
        let looking = Arc::clone(&shared);
        let tasks = [
            tokio::spawn(http::serve(Arc::clone(&shared), access, listener)),
            tokio::spawn(async move {
                let end = looking.hub.end().clone();
                end.run_until_cancelled(collector::run(&looking)).await;
                looking.link.end().await;
            }),
        ];
        Ok(Some(Embedded { shared, latest, address, tasks }))
    }

    fn shared(&self, latest: Latest, faults: Option<&Faults>) -> Shared {
        let scan = ScanOptions {
            rate: EMBEDDED_RATE,
            znodes_max: EMBEDDED_ZNODES_MAX,
            children_max: CHILDREN_LISTED_MAX,
            frame_bytes: zoolet_protocol::limits::FRAME_BYTES_MAX_DEFAULT,
        };
        let source = Source::Embedded { latest, identities: self.console_auth_file.clone() };
        Shared {
            hub: Hub::new(CancellationToken::new()),
            link: Link::new(source),
            lists: Lists::default(),
            feed: Feed::default(),
            pulse: Pulse::default(),
            has_quick: AtomicBool::new(true),
            path: "/".to_owned(),
            scan,
            interval: EMBEDDED_INTERVAL,
            faults: faults.filter(|_| self.console_write).cloned(),
        }
    }
}

impl Embedded {
    /// Where a browser on this machine finds it.
    pub(crate) fn url(&self) -> String {
        http::url(self.address)
    }

    /// Shows this server from now on, which was started in place of the last one.
    pub(crate) fn follow(&self, server: &Server) {
        *self.latest.0.lock() = (server.dialer(), server.reports());
    }

    /// Ends it, and its session.
    pub(crate) async fn end(self) {
        self.shared.hub.end().cancel();
        for task in self.tasks {
            // A viewer that does not read is not waited for.
            let _ = tokio::time::timeout(END_WITHIN, task).await;
        }
    }
}

/// How long each part of the console may take to end.
const END_WITHIN: Duration = Duration::from_secs(2);
