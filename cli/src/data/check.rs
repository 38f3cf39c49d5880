//! `zoolet data check`.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use zoolet_server::storage::{CheckedFile, FileKind, FileState, Inspection, Opened};

use super::progress::{bar, bytes_text};
use super::{DataError, Directories, require_files};
use crate::complain;
use crate::counted::counted;

#[derive(Debug, Args)]
pub(super) struct Check {
    #[command(flatten)]
    directories: Directories,
}

impl Check {
    pub(super) fn run(self) -> Result<ExitCode, DataError> {
        let config = self.directories.config();
        require_files(&config)?;
        let inspection = Inspection::new(&config)?;
        let bar = bar(inspection.bytes(), true);
        let mut damaged = 0_u64;
        for file in inspection.check() {
            bar.inc(file.bytes);
            damaged += u64::from(file.state.is_damaged());
            bar.suspend(|| print(&file))?;
        }
        bar.finish_and_clear();
        if let Some(warning) = inspection.mark_warning() {
            crate::print(&format!("{warning}\n"))?;
        }
        let opened = match inspection.open() {
            Ok(opened) => opened,
            Err(error) => {
                crate::print("A server would not start.\n")?;
                complain(&error);
                return Ok(ExitCode::FAILURE);
            }
        };
        crate::print(&start(&opened))?;
        if damaged > 0 {
            let are = if damaged == 1 { "is" } else { "are" };
            let files = counted(damaged, "damaged file");
            crate::print(&format!(
                "{files} {are} not needed for that, but {are} no backup either.\n"
            ))?;
        }
        Ok(if damaged > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

/// With what a server would start, and what another server would make of it.
fn start(opened: &Opened) -> String {
    let state = &opened.state;
    let znodes = counted(state.counted() as u64, "znode");
    let sessions = counted(state.sessions().len() as u64, "session");
    let replayed = counted(opened.replayed, "transaction");
    let from = match (opened.snapshot, opened.replayed) {
        (Some(zxid), _) => format!("the snapshot at {zxid}, and {replayed}"),
        (None, 0) => {
            "those that every server has; there is no snapshot and no transaction".to_owned()
        }
        (None, _) => format!("no snapshot, and {replayed}"),
    };
    let mut text =
        format!("A server would start with {znodes} and {sessions} at {}: {from}.\n", state.zxid);
    let ttl = state.ttl_znodes();
    if ttl > 0 {
        let ttl = counted(ttl as u64, "TTL znode");
        text += &format!(
            "{ttl} among them: Apache ZooKeeper deletes such at its first start without \
             zookeeper.extendedTypesEnabled=true.\n"
        );
    }
    text
}

fn print(file: &CheckedFile) -> io::Result<()> {
    let (path, bytes) = (file.path.display(), bytes_text(file.bytes));
    let what = match file.kind {
        FileKind::Snapshot => "znodes",
        FileKind::TornTail => {
            return writeln!(io::stdout(), "{path}  {bytes}  cut off a log that a crash had torn");
        }
        _ => "transactions",
    };
    let state = match &file.state {
        FileState::Whole => "whole".to_owned(),
        FileState::Torn { offset } => format!("torn at offset {offset}, as a crash leaves it"),
        FileState::Unwritten => "nothing written to it yet".to_owned(),
        FileState::Damaged(error) => format!("damaged: {error}"),
    };
    let last = file.last.map(|zxid| format!(" up to {zxid}")).unwrap_or_default();
    let records = file.records;
    writeln!(io::stdout(), "{path}  {bytes}  {records} {what}{last}  {state}")
}
