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
pub(crate) mod servers;
pub(crate) mod sessions;
pub(crate) mod survey;

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use zoolet_client::{Client, RetryPolicy};
use zoolet_protocol::ErrorCode;

use self::finding::Severity;
use self::limits::{GOODBYE_WITHIN, SECOND_LOOK_AFTER};
use self::report::Report;
use self::scan::Scan;
use self::servers::{NoServer, ServersOptions};
use crate::connect_options::SecurityError;
use crate::logging::{self, LogLevel};
use crate::server_options::values;

/// The options. The help text of the command is on its variant in the list of commands.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Doctor {
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

    /// How many znodes to look at
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000_000)]
    #[arg(value_parser = values::number::<u64>(1..=i64::MAX))]
    max_znodes: u64,

    #[command(flatten)]
    servers: ServersOptions,

    /// How much to log [default: error, or what the variable RUST_LOG says]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<LogLevel>,
}

/// With a warning, and with a critical finding. 2 is for a wrong command line, as clap has it.
const WARNED: u8 = 1;
const CRITICAL: u8 = 3;

/// Without a report: the servers cannot be reached or do not answer, or the path cannot be read.
const UNREAD: u8 = 4;

/// For a wrong command line, and for files that cannot be used.
const WRONG: u8 = 2;

/// For a report or a page that cannot be written, as in `sysexits.h`.
const NOT_WRITTEN: u8 = 73;

/// For a system that has no sockets or threads left, as in `sysexits.h`.
const NO_SYSTEM: u8 = 71;

/// How long to wait before a read is sent again whose answer was lost with the connection.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Security(#[from] SecurityError),
    #[error(transparent)]
    NoServer(#[from] NoServer),
    #[error("there is no znode {0}; name one that exists, as PATH and behind HOSTS")]
    NoPath(String),
    #[error("{0} cannot be read: {1}")]
    Unread(String, #[source] zoolet_client::Error),
    #[error("{0} cannot be written: {1}")]
    Unwritten(String, #[source] io::Error),
}

impl Failure {
    fn code(&self) -> u8 {
        match self {
            Self::Security(_) => WRONG,
            Self::Unwritten(..) => NOT_WRITTEN,
            Self::NoServer(_) | Self::NoPath(_) | Self::Unread(..) => UNREAD,
        }
    }
}

impl Doctor {
    /// Looks, reports, and returns the exit status.
    pub(crate) fn run(self) -> ExitCode {
        logging::start(self.log_level, LogLevel::Error);
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
        let client = self.servers.connect(self.servers.builder()?).await?;
        let client = client.with_retry_policy(RetryPolicy::one_time(AGAIN_AFTER));
        let looked = self.look_with(&client).await;
        // Without an answer the server ends it after its timeout.
        let _ = tokio::time::timeout(GOODBYE_WITHIN, client.close()).await;
        looked
    }

    async fn look_with(&self, client: &Client) -> Result<Report, Failure> {
        let path = &self.servers.path;
        let unread = |error: zoolet_client::Error| match error {
            error if error.is(ErrorCode::NO_NODE) => Failure::NoPath(self.servers.whole_path()),
            error => Failure::Unread(path.clone(), error),
        };
        let options = self.servers.scan(self.max_znodes);
        let scan = || Scan::new(client, options);
        let mut survey = scan().tree(path).await.map_err(unread)?;
        let sessions = self.servers.sessions(client, None).await?;
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
        let findings = findings::findings(&survey, &sessions, &cycles, options.frame_bytes);
        let server = self.servers.hosts().to_owned();
        Ok(Report { server, path: path.clone(), survey, sessions, findings })
    }

    /// Prints and writes the report.
    fn tell(&self, report: &Report) -> Result<u8, Failure> {
        if let Some(file) = &self.html {
            let failed = |error| Failure::Unwritten(file.display().to_string(), error);
            fs::write(file, report.page()).map_err(failed)?;
        }
        let text = if self.json { report.json().to_string() } else { report.text(self.quiet) };
        let printed = crate::print(&format!("{}\n", text.trim_end()));
        printed.map_err(|error| Failure::Unwritten("stdout".to_owned(), error))?;
        Ok(match report.worst() {
            None | Some(Severity::Notice) => 0,
            Some(Severity::Warning) => WARNED,
            Some(Severity::Critical) => CRITICAL,
        })
    }
}

const AFTER_HELP: &str = "\
It changes nothing and leaves no watch. Of each server it asks srvr, cons, dump, wchs and wchp, to
name clients and to see who is silent and who watches what; it says which of them were refused, and
how to allow them.

Exit status: 0 if there is nothing but notices, 1 with a warning, 3 with a critical finding, 4 if
the servers or the path cannot be read, 2 if the command line is wrong, 73 if the report or the page
cannot be written. A server of several that does not answer is a warning. What servers refuse by
their settings is told and changes nothing.

Examples:
  zoolet doctor zk1.example,zk2.example,zk3.example
  zoolet doctor zk.example:2181 /locks --json
  zoolet doctor zk.example:2181 --html locks.html --quiet
  zoolet doctor zk.example:2181 --watch 30s --quiet";
