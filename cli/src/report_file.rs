//! Files that the user names for a report.

use std::fs;
use std::io;
use std::path::Path;

/// Checks that a file can be written, without changing it: a long run must not fail at its end.
///
/// # Errors
///
/// The error of the file system if it cannot be written.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    let was_there = path.exists();
    fs::OpenOptions::new().append(true).create(true).open(path)?;
    if was_there { Ok(()) } else { fs::remove_file(path) }
}
