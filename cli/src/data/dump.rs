//! `zoolet data dump-log` and `dump-snapshot`.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use zoolet_core::TxnOp;
use zoolet_server::storage::{
    FsDisk, Inspection, LogEnd, LogReader, LogRecord, StorageConfig, open_snapshot,
};

use super::json::{self, ZnodeLine};
use super::progress::{bar, counter};
use super::{DataError, require_files};
use crate::counted::counted;

#[derive(Debug, Args)]
pub(super) struct DumpLog {
    /// The log, a file such as version-2/log.1; or the directory that has version-2 in it, for all logs
    #[arg(value_name = "FILE|DIR")]
    path: PathBuf,

    /// Print JSON, with all there is
    #[arg(long)]
    json: bool,
}

impl DumpLog {
    pub(super) fn run(self) -> Result<ExitCode, DataError> {
        let mut out = BufWriter::new(io::stdout());
        if !self.path.is_dir() {
            return self.dump(&self.path, None, &mut out);
        }
        let inspection = inspect(&self.path)?;
        for path in inspection.logs() {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            self.dump(path, name.as_deref(), &mut out)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Prints a log, with its name if it is one of several.
    fn dump(
        &self,
        path: &Path,
        name: Option<&str>,
        out: &mut impl Write,
    ) -> Result<ExitCode, DataError> {
        let input = |source| DataError::Input { path: path.to_owned(), source };
        let file = File::open(path).map_err(input)?;
        let bar = bar(file.metadata().map_err(input)?.len(), true);
        let log = |source| DataError::Log { path: path.to_owned(), source };
        let mut reader = LogReader::new(BufReader::new(bar.wrap_read(file))).map_err(log)?;
        if let Some(name) = name.filter(|_| !self.json) {
            writeln!(out, "{name}:")?;
        }
        while let Some(record) = reader.next_record().map_err(log).inspect_err(|_| {
            // The records before the damage are printed before the error.
            let _ = out.flush();
        })? {
            let line = if self.json { record_json(&record, name) } else { record_text(&record) };
            writeln!(out, "{line}")?;
        }
        out.flush()?;
        bar.finish_and_clear();
        if let Some(LogEnd::Torn { offset }) = reader.end() {
            eprintln!("{}: torn at offset {offset}, as a crash leaves it", path.display());
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The files of the directories.
fn inspect(data_dir: &Path) -> Result<Inspection, DataError> {
    let config = StorageConfig::at(data_dir);
    require_files(&config)?;
    Ok(Inspection::new(&config)?)
}

/// A record as JSON, with the name of its log if there are several.
fn record_json(record: &LogRecord, name: Option<&str>) -> String {
    let mut line = json::record(record);
    if let Some(name) = name {
        line["file"] = name.into();
    }
    line.to_string()
}

/// A record as a line: offset, zxid, time, session and operation.
fn record_text(record: &LogRecord) -> String {
    let txn = &record.txn;
    let (time, session) = (json::time(txn.time_ms), txn.session);
    format!("{:>10}  {}  {time}  {session}  {}", record.offset, txn.zxid, op_text(&txn.op))
}

fn op_text(op: &TxnOp) -> String {
    let code = op.op_code();
    match op {
        TxnOp::CreateSession { timeout_ms } => format!("{code} for {timeout_ms} ms"),
        TxnOp::CloseSession { paths } => format!("{code}, {} ephemerals", paths.len()),
        TxnOp::Create(create) => {
            let ephemeral = if create.ephemeral { ", ephemeral" } else { "" };
            format!("{code} {} ({}{ephemeral})", create.path, length(create.data.as_deref()))
        }
        TxnOp::Delete { path } | TxnOp::DeleteContainer { path } => format!("{code} {path}"),
        TxnOp::SetData { path, data, version } => {
            format!("{code} {path} ({}, version {version})", length(data.as_deref()))
        }
        TxnOp::SetAcl { path, acl, .. } => format!("{code} {path} {}", json::acl(acl).join(",")),
        TxnOp::Check { path, version } => format!("{code} {path} ({version})"),
        TxnOp::Multi(ops) => {
            let ops: Vec<_> = ops.iter().map(op_text).collect();
            format!("{code} [{}]", ops.join("; "))
        }
        TxnOp::Error(error) => format!("{code} {error}"),
    }
}

pub(super) fn length(data: Option<&[u8]>) -> String {
    match data {
        Some(data) => format!("{} bytes", data.len()),
        None => "null".to_owned(),
    }
}

#[derive(Debug, Args)]
pub(super) struct DumpSnapshot {
    /// The snapshot, a file such as version-2/snapshot.0 or snapshot.1f.gz; or the directory that has
    /// version-2 in it, for the newest
    #[arg(value_name = "FILE|DIR")]
    path: PathBuf,

    /// Print JSON, with all there is
    #[arg(long)]
    json: bool,
}

impl DumpSnapshot {
    pub(super) fn run(self) -> Result<ExitCode, DataError> {
        let path = &self.newest()?;
        let fault = |source| DataError::Snapshot { path: path.clone(), source };
        let mut snapshot = open_snapshot(&FsDisk, path).map_err(fault)?;
        let mut out = BufWriter::new(io::stdout());
        for (session, timeout_ms) in snapshot.sessions() {
            if self.json {
                let line =
                    serde_json::json!({ "session": session.to_string(), "timeout_ms": timeout_ms });
                writeln!(out, "{line}")?;
            } else {
                writeln!(out, "session {session} for {timeout_ms} ms")?;
            }
        }
        let counter = counter("znodes", true);
        while let Some(znode) = snapshot.next_znode().map_err(fault)? {
            let (path, stat) = (znode.path.to_string(), &znode.stat);
            if self.json {
                let line = ZnodeLine::new(path, znode.data.as_deref(), znode.acl.as_deref(), stat);
                writeln!(out, "{}", serde_json::to_string(&line).map_err(io::Error::other)?)?;
            } else {
                let bytes = length(znode.data.as_deref());
                let (changed, version) = (json::time(stat.mtime), stat.version);
                writeln!(out, "{path}  {bytes}  version {version}  {changed}")?;
            }
            counter.inc(1);
        }
        out.flush()?;
        // The root counts twice, as in the server's own count.
        let znodes = counter.position() + 1;
        counter.finish_and_clear();
        let sessions = counted(snapshot.sessions().len() as u64, "session");
        let znodes = counted(znodes, "znode");
        eprintln!("{}: {sessions}, {znodes} as a server counts them", path.display());
        Ok(ExitCode::SUCCESS)
    }

    /// The snapshot file to dump.
    fn newest(&self) -> Result<PathBuf, DataError> {
        if !self.path.is_dir() {
            return Ok(self.path.clone());
        }
        let inspection = inspect(&self.path)?;
        let newest = inspection.snapshots().last();
        newest.map(Path::to_owned).ok_or_else(|| DataError::NoSnapshot(self.path.clone()))
    }
}
