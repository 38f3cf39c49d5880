//! `zoolet data`: checks, dumps and converts the data directory of a server that does not run, and tells
//! its past, even while a server runs.

mod at;
mod check;
mod clients;
mod diff;
mod dump;
mod fresh;
mod history;
mod json;
mod locks;
mod moment;
mod progress;
mod replay;
mod sessions;
mod transfer;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use zoolet_client as client;
use zoolet_protocol::Zxid;
use zoolet_server::StartError;
use zoolet_server::storage::history::HistoryError;
use zoolet_server::storage::{
    Compression, LogError, SnapshotError, StorageConfig, StorageError, compact,
};

use self::progress::bytes_text;
use crate::complain;
use crate::counted::counted;
use crate::logging::{self, LogLevel};
use crate::server_options::storage;
use crate::writers::{self, Writer};

/// The commands.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Data {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Read every file, check every record and seal, and say what a server would start with
    ///
    /// Exits with 1 if something that was acknowledged is lost. What a crash leaves is not that, and
    /// is cut off when a server starts. Nothing is changed.
    Check(check::Check),

    /// Print the transactions of a log, a line each
    DumpLog(dump::DumpLog),

    /// Print the sessions and znodes of a snapshot, a line each
    DumpSnapshot(dump::DumpSnapshot),

    /// Print a znode and all its descendants as lines of JSON, as a server would start with them
    Export(transfer::Export),

    /// Print the tree as it was after a transaction, or at a time
    ///
    /// Reads the newest snapshot before it, and the logs from there. A server may run on the directory.
    /// Nothing is changed.
    At(at::At),

    /// Print who has created, changed and deleted a znode, and when
    ///
    /// Reads all logs, a line for each change, the oldest first. A server may run on the directory.
    /// Nothing is changed.
    History(history::History),

    /// Print when sessions began and ended, by whom, and what they owned
    ///
    /// Reads all logs. A line for each session, in the order in which they ended; those that are open come
    /// last. A server may run on the directory. Nothing is changed.
    Sessions(sessions::Sessions),

    /// Print who held each lock, how long, and how long they waited
    ///
    /// Reads all logs, and knows the locks, semaphores and elections of the common libraries by the names
    /// of their znodes. A server may run on the directory. Nothing is changed.
    Locks(locks::Locks),

    /// Print what differs between the states after two transactions
    ///
    /// A line for each znode that one of them has only (+, -) or that is different (~), and for each
    /// session. A server may run on the directory. Nothing is changed.
    Diff(diff::Diff),

    /// Create the znodes that `export` has printed
    ///
    /// Data, access control lists and kinds are kept; zxids, versions and times are new. Ephemerals
    /// are left out, since their sessions are not there. What exists already gets the new data. If a
    /// line is wrong, a data directory that the command has created is deleted again; of an empty
    /// one, zoolet.lock stays.
    Import(transfer::Import),

    /// Put everything into one snapshot, read it again, and delete all other files of the server
    Compact(Compact),
}

/// The directories of a server.
#[derive(Debug, Args)]
struct Directories {
    /// The data directory, the one that has version-2 in it
    #[arg(value_name = "DIR", value_parser = storage::directory_option())]
    data_dir: PathBuf,

    /// Where the logs are, if not in the data directory
    #[arg(long, value_name = "DIR", value_parser = storage::directory_option())]
    #[arg(visible_alias = "log-dir")]
    data_log_dir: Option<PathBuf>,
}

impl Directories {
    fn config(&self) -> StorageConfig {
        let data_log_dir = self.data_log_dir.clone();
        StorageConfig { data_log_dir, ..StorageConfig::at(&self.data_dir) }
    }
}

#[derive(Debug, Args)]
struct Compact {
    #[command(flatten)]
    directories: Directories,

    /// Compress the snapshot: gz or snappy
    #[arg(long, value_name = "NAME", value_parser = storage::compression, default_value = "")]
    #[arg(hide_default_value = true)]
    compression: Compression,
}

impl Data {
    /// Runs the command.
    pub(crate) fn run(self) -> ExitCode {
        logging::start(None, LogLevel::Error);
        let done = match self.command {
            Command::Check(check) => check.run(),
            Command::DumpLog(dump) => dump.run(),
            Command::DumpSnapshot(dump) => dump.run(),
            Command::Export(export) => export.run(),
            Command::At(at) => at.run(),
            Command::History(history) => history.run(),
            Command::Sessions(sessions) => sessions.run(),
            Command::Locks(locks) => locks.run(),
            Command::Diff(diff) => diff.run(),
            Command::Import(import) => import.run(),
            Command::Compact(compact) => compact.run(),
        };
        match done {
            Ok(code) => code,
            // A reader that closed the pipe wants no more.
            Err(DataError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                ExitCode::SUCCESS
            }
            Err(error) => {
                complain(&error);
                ExitCode::FAILURE
            }
        }
    }
}

impl Compact {
    fn run(self) -> Result<ExitCode, DataError> {
        let snapshot_compression = self.compression;
        let config = StorageConfig { snapshot_compression, ..self.directories.config() };
        require_files(&config)?;
        writers::refuse_others(&config)?;
        let compacted = compact(&config)?;
        crate::print(&format!(
            "{} deleted, {} became {}\n",
            counted(compacted.deleted as u64, "file"),
            bytes_text(compacted.bytes_before),
            bytes_text(compacted.bytes_after)
        ))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Refuses a directory that is not there, which would look like an empty one, and one that may not be read.
fn require_files(config: &StorageConfig) -> Result<(), DataError> {
    let directory = &config.data_dir;
    if directory.join("version-2").is_dir() {
        return Ok(());
    }
    let unreadable = |source| DataError::Input { path: directory.clone(), source };
    directory.read_dir().map_err(unreadable)?;
    match directory.parent().filter(|_| directory.ends_with("version-2")) {
        Some(parent) => Err(DataError::WithinDataDirectory(directory.clone(), parent.to_owned())),
        None => Err(DataError::NoDataDirectory(directory.clone())),
    }
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
enum DataError {
    #[error("{} has no directory version-2, so it is not the data directory of a server", .0.display())]
    NoDataDirectory(PathBuf),
    #[error("{} is within the data directory of a server: name {}", .0.display(), .1.display())]
    WithinDataDirectory(PathBuf, PathBuf),
    #[error("there is no snapshot in {}", .0.display())]
    NoSnapshot(PathBuf),
    #[error(transparent)]
    InUse(#[from] Writer),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("{}: {source}", path.display())]
    Log { path: PathBuf, source: LogError },
    #[error("{}: {source}", path.display())]
    Snapshot { path: PathBuf, source: SnapshotError },
    #[error("cannot read {}: {source}", path.display())]
    Input { path: PathBuf, source: io::Error },
    #[error("cannot write to {}: {source}", path.display())]
    OutputFile { path: PathBuf, source: io::Error },
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
    #[error("line {line}: {what}")]
    Line { line: u64, what: String },
    #[error("{error}; {left}")]
    Import { error: Box<Self>, left: String },
    #[error("there is no znode {0}")]
    NoZnode(String),
    #[error("there was no znode {0} at {1}")]
    NoZnodeAt(String, Zxid),
    #[error("there was no znode {0} at {1} and none at {2}: nothing is compared")]
    NoZnodeAtEither(String, Zxid, Zxid),
    #[error("no transaction of {0} is in the logs, {1}")]
    NoHistory(String, String),
    #[error(
        "no line of {} names the client of a session: it must be an audit log, with session=0x.. and ip=.., or \
         the log of a server that says \"session 0x.. for client /ADDRESS\"",
        .0.display()
    )]
    NoClients(PathBuf),
    #[error(transparent)]
    History(#[from] HistoryError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Client(#[from] client::Error),
}

const AFTER_HELP: &str = "\
DIR is the directory that has version-2 in it: dataDir of zoo.cfg.

Exit status: 0 if it was done, 1 if it failed, or check found that something that was acknowledged
is lost, 2 if the command line is wrong, 3 if a part of the past is missing in what history,
sessions or locks printed.

Examples:
  zoolet data check /var/lib/zookeeper                  what a server would start with
  zoolet data locks /var/lib/zookeeper /locks/backup    who held a lock, and who had to wait
  zoolet data history /var/lib/zookeeper /config/db     who has changed a znode
  zoolet data at /var/lib/zookeeper --time '2026-07-01 14:03' /config
  zoolet data export /var/lib/zookeeper > znodes.jsonl";
