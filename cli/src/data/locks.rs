//! `zoolet data locks`: who held each lock, how long, and how long they waited.
//!
//! `watch` sees the places of locks come and go. `shape` has their directories and what belongs to one lock, and `settle`
//! asks `zoolet-layouts` who holds after each change. `hold` is what happened at one lock, `recent` has its last holds,
//! `others` is what happened at those that are told together, `times` is a distribution, and `report` and `page` tell it.

mod hold;
mod others;
mod page;
mod recent;
mod report;
mod settle;
mod shape;
#[cfg(test)]
mod tests;
mod times;
mod watch;

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use zoolet_protocol::ZPath;
use zoolet_server::storage::history::History;

use self::report::Report;
use self::watch::Watch;
use super::clients::ClientOptions;
use super::replay::replay;
use super::transfer::znode;
use super::{DataError, Directories, require_files};
use crate::report_file;

#[derive(Debug, Args)]
pub(super) struct Locks {
    #[command(flatten)]
    directories: Directories,

    /// Only locks at and below this path
    #[arg(value_name = "PATH", default_value = "/", value_parser = znode)]
    path: ZPath,

    /// Print each hold when it ends, a line each, in place of the report
    #[arg(long)]
    holds: bool,

    /// Print the report as one JSON value; with --holds, a line of JSON for each hold
    #[arg(long)]
    json: bool,

    /// Write the report with a timeline as a page for a browser into a file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    #[command(flatten)]
    clients: ClientOptions,
}

impl Locks {
    pub(super) fn run(self) -> Result<ExitCode, DataError> {
        let config = self.directories.config();
        require_files(&config)?;
        if let Some(path) = &self.html {
            let error = |source| DataError::OutputFile { path: path.clone(), source };
            report_file::check(path).map_err(error)?;
        }
        let clients = self.clients.load()?;
        let history = History::open(&config)?;
        let mut out = BufWriter::new(io::stdout());
        let mut watch = Watch::new(self.path.as_str(), None);
        if self.holds {
            watch = Watch::new(
                self.path.as_str(),
                Some(Box::new(|path, hold| {
                    let line = match self.json {
                        true => report::hold_json(path, hold, &clients).to_string(),
                        false => report::hold_text(path, hold, &clients),
                    };
                    Ok(writeln!(out, "{line}")?)
                })),
            );
        }
        let span = replay(&history, &mut watch);
        let report = span.map(|span| Report::new(self.path.as_str(), span, watch, &clients));
        out.flush()?;
        let report = report?;
        if let Some(path) = &self.html {
            let error = |source| DataError::OutputFile { path: path.clone(), source };
            fs::write(path, page::page(&report)).map_err(error)?;
        }
        match (self.holds, self.json) {
            (true, _) => {}
            (false, true) => writeln!(io::stdout(), "{}", report.json())?,
            (false, false) => io::stdout().write_all(report.text().as_bytes())?,
        }
        if report.is_empty() && self.path.as_str() != "/" {
            crate::notice(&format!(
                "there was no lock at or below {}; `zoolet data locks DIR` without a path tells of all",
                self.path
            ));
        }
        if !self.json {
            clients.tell_missing();
        }
        Ok(report.span.exit_code())
    }
}
