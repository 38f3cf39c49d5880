//! `zoolet data check`.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use zoolet_server::storage::{CheckedFile, FileKind, FileState, Inspection};

use super::progress::{bar, bytes_text};
use super::{DataError, Directories, require_files};
use crate::complain;

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
        let mut damaged = 0;
        for file in inspection.check() {
            bar.inc(file.bytes);
            damaged += usize::from(file.state.is_damaged());
            bar.suspend(|| print(&file))?;
        }
        bar.finish_and_clear();
        if let Some(warning) = inspection.mark_warning() {
            println!("{warning}");
        }
        let opened = match inspection.open() {
            Ok(opened) => opened,
            Err(error) => {
                println!("A server would not start.");
                complain(&error);
                return Ok(ExitCode::FAILURE);
            }
        };
        let (znodes, sessions, zxid) =
            (opened.state.counted(), opened.state.sessions().len(), opened.state.zxid);
        let from = match opened.snapshot {
            Some(zxid) => format!("the snapshot at {zxid}"),
            None => "nothing".to_owned(),
        };
        let replayed = opened.replayed;
        println!(
            "A server would start with {znodes} znodes and {sessions} sessions at {zxid}: {from}, and \
             {replayed} transactions."
        );
        if damaged > 0 {
            println!("{damaged} damaged files are not needed for that, but are no backup either.");
        }
        Ok(if damaged > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
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
