//! `zoolet data at`: the tree as it was.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use zoolet_core::{EphemeralType, Frozen, Znode};
use zoolet_protocol::ZPath;
use zoolet_server::storage::history::{History, Past};

use super::dump::length;
use super::moment::When;
use super::transfer::{is_exported, write_lines, znode};
use super::{DataError, Directories, json, require_files};
use crate::cli::output::visible;
use crate::notice;

#[derive(Debug, Args)]
pub(super) struct At {
    #[command(flatten)]
    directories: Directories,

    /// The znode to begin with; what is built in, below /zookeeper, only if it is named
    #[arg(value_name = "PATH", default_value = "/", value_parser = znode)]
    path: ZPath,

    #[command(flatten)]
    when: When,

    /// Print the data of the znode, and nothing else
    #[arg(long, conflicts_with = "export")]
    get: bool,

    /// Print the znode and all its descendants as lines of JSON, as `zoolet data export` does; `import`
    /// reads them
    #[arg(long)]
    export: bool,

    /// Write to a file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl At {
    pub(super) fn run(self) -> Result<ExitCode, DataError> {
        let config = self.directories.config();
        require_files(&config)?;
        let past = History::open(&config)?.past(self.when.until())?;
        // Not to be taken for what it is not: a time may be long after the last transaction.
        notice(&told(&past));
        if let Some(back) = past.went_back() {
            notice(&format!(
                "the clock of the servers went back: later transactions, the last of them {}, have earlier times \
                 and are not in it; --zxid names a state exactly",
                back.zxid
            ));
        }
        match &self.output {
            None => self.write(&past, BufWriter::new(io::stdout()))?,
            Some(path) => {
                let error = |source| DataError::OutputFile { path: path.clone(), source };
                let file = File::create(path).map_err(error)?;
                match self.write(&past, BufWriter::new(file)) {
                    Err(DataError::Output(source)) => return Err(error(source)),
                    written => written?,
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn write(&self, past: &Past, mut out: impl Write) -> Result<(), DataError> {
        let state = past.state();
        let top = self.path.as_str();
        let missing = || DataError::NoZnodeAt(top.to_owned(), past.zxid());
        let found = match (self.get, self.export) {
            (true, _) => {
                let znodes = state.znodes();
                let znode = znodes.iter().find(|znode| znode.path.as_str() == top);
                let data = znode.ok_or_else(missing)?.data.as_deref();
                out.write_all(data.unwrap_or_default())?;
                1
            }
            (_, true) => write_lines(&state, top, &mut out, || {})?,
            _ => list(&state, top, &mut out)?,
        };
        out.flush()?;
        if found == 0 && top != "/" { Err(missing()) } else { Ok(()) }
    }
}

/// Which state it is, and what it was made of.
fn told(past: &Past) -> String {
    let from = match past.snapshot() {
        Some(path) => {
            let name = path.file_name().unwrap_or_default();
            format!("{}, and ", name.to_string_lossy())
        }
        None => String::new(),
    };
    let (zxid, replayed) = (past.zxid(), past.replayed());
    let transactions = if replayed == 1 { "transaction" } else { "transactions" };
    let time = past.last().map(|last| format!(" ({})", json::time(last.time_ms)));
    let end = if past.is_newest() { "; no later transaction is in the files" } else { "" };
    let time = time.unwrap_or_default();
    format!("the state after {zxid}{time}: {from}{replayed} {transactions}{end}")
}

fn list(state: &Frozen, top: &str, out: &mut impl Write) -> Result<u64, DataError> {
    let mut count = 0;
    for znode in state.znodes().into_iter().filter(|znode| is_exported(&znode.path, top)) {
        writeln!(out, "{}", line(znode))?;
        count += 1;
    }
    Ok(count)
}

/// As in a dump of a snapshot, with what deletes the znode.
fn line(znode: &Znode) -> String {
    let (path, stat) = (visible(&znode.path), &znode.stat);
    let kind = match stat.ephemeral_owner.ephemeral_type() {
        EphemeralType::Persistent => String::new(),
        EphemeralType::Container => "  container".to_owned(),
        EphemeralType::Ttl { ttl_ms } => format!("  ttl {ttl_ms} ms"),
        EphemeralType::Ephemeral(session) => format!("  ephemeral of {session}"),
    };
    let (bytes, changed) = (length(znode.data.as_deref()), json::time(stat.mtime));
    format!("{path}  {bytes}  version {}  {changed}{kind}", stat.version)
}
