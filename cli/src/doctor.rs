//! `zoolet doctor`: finds what is wrong with the locks of a server or an ensemble.
//!
//! It reads the tree (`scan`), asks the servers for sessions and watches (`sessions`), looks for what is
//! wrong (`findings`), and reports that (`report`). It writes nothing, and leaves neither a watch nor a
//! session.

pub(crate) mod finding;
pub(crate) mod findings;
pub(crate) mod limits;
mod report;
pub(crate) mod scan;
pub(crate) mod sessions;
pub(crate) mod survey;

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use zoolet_client::tls::ClientTls;
use zoolet_client::{Client, Hosts, RetryPolicy};
use zoolet_protocol::{ErrorCode, ZPath};

use self::finding::Severity;
use self::limits::{CHILDREN_LISTED_MAX, GOODBYE_WITHIN, SECOND_LOOK_AFTER};
use self::report::Report;
use self::scan::{Scan, ScanOptions};
use self::sessions::AdminOptions;
use crate::connect_options::{self, ConnectOptions, SecurityError};
use crate::logging::{self, LogLevel};
use crate::server_options::values;

/// The options. The help text of the command is on its variant in the list of commands.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Doctor {
    /// The servers, each HOST or HOST:PORT, and the znode under which all paths are; name all servers
    /// of an ensemble to see all clients [default: that of --server]
    #[arg(value_name = "HOSTS", value_parser = connect_options::hosts)]
    hosts: Option<String>,

    /// The znode below which to look
    #[arg(value_name = "PATH", default_value = "/", value_parser = path)]
    path: String,

    /// Print the report as one JSON value
    #[arg(long)]
    json: bool,

    /// Write the report as a page for a browser into a file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Look again and again, with this pause
    #[arg(long, value_name = "TIME", value_parser = values::some_time)]
    watch: Option<Duration>,

    /// Print the findings only, not the locks
    #[arg(short, long)]
    quiet: bool,

    /// The most requests in a second
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,

    /// How many znodes to look at
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    max_znodes: u64,

    /// How many children a directory may have to be listed; of one with more only their number is told
    #[arg(long, value_name = "NUMBER", default_value_t = CHILDREN_LISTED_MAX)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    max_children: u32,

    /// The longest message that servers and clients accept, in bytes: their jute.maxbuffer
    #[arg(long, value_name = "BYTES", default_value_t = FRAME_BYTES)]
    #[arg(value_parser = clap::value_parser!(u32).range(1_024..))]
    max_message: u32,

    #[command(flatten)]
    admin: AdminOptions,

    /// How long to wait for a connection, and for the answer to a four-letter word
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = values::some_time)]
    connect_timeout: Duration,

    #[command(flatten)]
    server: ConnectOptions,

    /// How much to log [default: error, or what the variable RUST_LOG says]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<LogLevel>,
}

/// The limit of servers and clients that were told no other.
const FRAME_BYTES: u32 = zoolet_protocol::limits::FRAME_BYTES_MAX_DEFAULT as u32;

/// With a warning, and with a critical finding. 2 is for a wrong command line, as clap has it.
const WARNED: u8 = 1;
const CRITICAL: u8 = 3;

/// Without a report: the servers cannot be reached or do not answer, or the path cannot be read.
const UNREAD: u8 = 4;

/// For a wrong command line, and for files that cannot be used.
const WRONG: u8 = 2;

/// For a system that has no sockets or threads left, as in `sysexits.h`.
const NO_SYSTEM: u8 = 71;

/// How long to wait before a read is sent again whose answer was lost with the connection.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Security(#[from] SecurityError),
    #[error("no server at {0} can be used: {1}")]
    NoServer(String, #[source] zoolet_client::Error),
    #[error("there is no znode {0}; name one that exists, below the one that HOSTS names")]
    NoPath(String),
    #[error("{0} cannot be read: {1}")]
    Unread(String, #[source] zoolet_client::Error),
    #[error("{0} cannot be written: {1}")]
    Page(String, #[source] io::Error),
}

impl Failure {
    fn code(&self) -> u8 {
        match self {
            Self::Security(_) | Self::Page(..) => WRONG,
            Self::NoServer(..) | Self::NoPath(_) | Self::Unread(..) => UNREAD,
        }
    }
}

impl Doctor {
    /// Looks, reports, and returns the exit status.
    pub(crate) fn run(mut self) -> ExitCode {
        logging::start(self.log_level, LogLevel::Error);
        if let Some(hosts) = self.hosts.take() {
            self.server.server = hosts;
        }
        match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => ExitCode::from(runtime.block_on(self.run_until_interrupted())),
            Err(error) => {
                crate::complain(&format!("the system refuses what this needs: {error}"));
                ExitCode::from(NO_SYSTEM)
            }
        }
    }

    async fn run_until_interrupted(&self) -> u8 {
        // The status of the last whole look.
        let mut code = 0;
        loop {
            let looked = tokio::select! {
                looked = self.look() => looked,
                _ = tokio::signal::ctrl_c() => return code,
            };
            code = match looked.and_then(|report| self.tell(&report)) {
                Ok(code) => code,
                Err(failure) => {
                    crate::complain(&failure);
                    failure.code()
                }
            };
            let Some(pause) = self.watch else { return code };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = tokio::signal::ctrl_c() => return code,
            }
        }
    }

    /// Looks once, with a session of its own.
    async fn look(&self) -> Result<Report, Failure> {
        let server = &self.server.server;
        let builder = self.server.builder(self.connect_timeout)?.allow_read_only();
        let client = builder.connect(server.as_str()).await;
        let client = client.map_err(|error| Failure::NoServer(server.clone(), error))?;
        let client = client.with_retry_policy(RetryPolicy::one_time(AGAIN_AFTER));
        let looked = self.look_with(&client).await;
        // Without an answer the server ends it after its timeout.
        let _ = tokio::time::timeout(GOODBYE_WITHIN, client.close()).await;
        looked
    }

    async fn look_with(&self, client: &Client) -> Result<Report, Failure> {
        let unread = |error: zoolet_client::Error| match error {
            error if error.is(ErrorCode::NO_NODE) => Failure::NoPath(self.path.clone()),
            error => Failure::Unread(self.path.clone(), error),
        };
        let scan = || Scan::new(client, self.scan_options());
        let mut survey = scan().tree(&self.path).await.map_err(unread)?;
        let tls = self.server.tls.load().map_err(SecurityError::from)?.map(Arc::new);
        let members = sessions::members(client).await;
        let sessions = self.sessions(members.as_deref(), tls.as_ref()).await?;
        survey.learn(&sessions);
        let mut cycles = findings::cycles(&survey);
        if !cycles.is_empty() {
            tokio::time::sleep(SECOND_LOOK_AFTER).await;
            let steps = cycles.iter().flat_map(|cycle| &cycle.steps);
            let directories = survey.directories_of(steps);
            let mut second = scan().directories(directories).await.map_err(unread)?;
            second.learn(&sessions);
            cycles = findings::still_there(cycles, &second);
        }
        let findings = findings::findings(&survey, &sessions, &cycles, self.frame_bytes());
        let server = self.server.server.clone();
        Ok(Report { server, path: self.path.clone(), survey, sessions, findings })
    }

    async fn sessions(
        &self,
        members: Option<&[String]>,
        tls: Option<&Arc<ClientTls>>,
    ) -> Result<sessions::Sessions, Failure> {
        let admin = self.admin.servers(&self.server.tls).map_err(SecurityError::from)?;
        let ways = sessions::Ways { tls, admin, limit: self.connect_timeout };
        Ok(match self.server.server.parse::<Hosts>() {
            Ok(hosts) => sessions::ask(&hosts, members, ways).await,
            // The client has connected to them.
            Err(_) => sessions::Sessions::default(),
        })
    }

    fn scan_options(&self) -> ScanOptions {
        let Self { rate, max_znodes, max_children, .. } = *self;
        ScanOptions {
            rate,
            znodes_max: max_znodes,
            children_max: max_children,
            frame_bytes: self.frame_bytes(),
        }
    }

    fn frame_bytes(&self) -> usize {
        usize::try_from(self.max_message).unwrap_or(usize::MAX)
    }

    /// Prints and writes the report.
    fn tell(&self, report: &Report) -> Result<u8, Failure> {
        if let Some(file) = &self.html {
            let failed = |error| Failure::Page(file.display().to_string(), error);
            fs::write(file, report.page()).map_err(failed)?;
        }
        if self.json {
            print(&report.json().to_string());
        } else {
            print(report.text(self.quiet).trim_end());
        }
        Ok(match report.worst() {
            None | Some(Severity::Notice) => 0,
            Some(Severity::Warning) => WARNED,
            Some(Severity::Critical) => CRITICAL,
        })
    }
}

/// Prints a line, or several.
fn print(text: &str) {
    // A reader that closed stdout does not want it.
    let _ = writeln!(io::stdout().lock(), "{text}");
}

fn path(text: &str) -> Result<String, zoolet_protocol::PathError> {
    ZPath::check(text).map(|()| text.to_owned())
}

const AFTER_HELP: &str = "\
It changes nothing and leaves no watch. Of each server it asks srvr, cons, dump, wchs and wchp, to
name clients and to see who is silent and who watches what; it says which of them were refused, and
how to allow them.

Exit status: 0 if there is nothing but notices, 1 with a warning, 3 with a critical finding, 4 if
the servers or the path cannot be read, 2 if the command line is wrong.

Examples:
  zoolet doctor zk1.example,zk2.example,zk3.example
  zoolet doctor zk.example:2181 /locks --json
  zoolet doctor zk.example:2181 --html locks.html --quiet
  zoolet doctor zk.example:2181 --watch 30s --quiet";
