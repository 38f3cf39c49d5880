//! Where a report is written: into a file, down a pipe, or to stdout.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::super::failure::Failure;
use crate::report_file;

/// The name that stands for stdout.
const STDOUT: &str = "-";

/// Where one report is written.
#[derive(Debug)]
pub(in super::super) struct Destination {
    path: PathBuf,
    target: Target,
}

/// A file can be written again. What has gone down a pipe cannot be taken back, so that a pipe gets one
/// report only: the last.
#[derive(Debug)]
enum Target {
    File,
    Pipe(File),
    Stdout,
}

impl Destination {
    /// Checks that it can be written, without changing a file. Opening a named pipe waits for its reader.
    ///
    /// # Errors
    ///
    /// [`Failure::Report`] if it cannot be written.
    pub(in super::super) fn open(path: &Path) -> Result<Self, Failure> {
        let path = path.to_owned();
        match target_of(&path) {
            Ok(target) => Ok(Self { path, target }),
            Err(error) => Err(Failure::Report { path, error }),
        }
    }

    /// Whether the report goes to stdout.
    pub(in super::super) fn is_stdout(&self) -> bool {
        matches!(self.target, Target::Stdout)
    }

    /// Writes what is true for now, where the last report can replace it.
    ///
    /// # Errors
    ///
    /// [`Failure::Report`] if it cannot be written.
    pub(in super::super) fn write_for_now(&self, text: &str) -> Result<(), Failure> {
        match self.target {
            Target::File => self.write(text),
            Target::Pipe(_) | Target::Stdout => Ok(()),
        }
    }

    /// Writes the last report.
    ///
    /// # Errors
    ///
    /// [`Failure::Report`] if it cannot be written.
    pub(in super::super) fn write(&self, text: &str) -> Result<(), Failure> {
        let written = match &self.target {
            Target::File => fs::write(&self.path, text),
            Target::Pipe(pipe) => (&*pipe).write_all(text.as_bytes()),
            Target::Stdout => write_to_stdout(text),
        };
        written.map_err(|error| Failure::Report { path: self.path.clone(), error })
    }
}

fn target_of(path: &Path) -> io::Result<Target> {
    if path.as_os_str() == STDOUT {
        return Ok(Target::Stdout);
    }
    match fs::metadata(path) {
        Ok(found) if is_stdout(&found)? => Ok(Target::Stdout),
        Ok(found) if !found.is_file() => {
            fs::OpenOptions::new().write(true).open(path).map(Target::Pipe)
        }
        _ => report_file::check(path).map(|()| Target::File),
    }
}

/// Whether this is what stdout leads to, as `/dev/stdout` is. A device such as `/dev/null` keeps nothing,
/// and a terminal is read by a person.
fn is_stdout(found: &Metadata) -> io::Result<bool> {
    let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?).metadata()?;
    let is_kept = !std::os::unix::fs::FileTypeExt::is_char_device(&stdout.file_type());
    Ok(is_kept && (stdout.dev(), stdout.ino()) == (found.dev(), found.ino()))
}

fn write_to_stdout(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}
