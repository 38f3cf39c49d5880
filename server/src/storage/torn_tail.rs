//! What a start cuts off a log is kept in a file of its own, in case somebody wants to look at it.

use std::io::{self, Read};
use std::path::PathBuf;

use super::directory::{self, Directory, LogFile};
use super::error::StorageError;

/// A log that ends with what a crash has left.
#[derive(Debug)]
pub(crate) struct TornLog {
    pub(super) log: LogFile,
    /// Where that begins.
    pub(super) offset: u64,
    /// Where the last byte of it ends.
    pub(super) end: u64,
}

/// Copies what is to be cut off a log, and returns the file that keeps it. Its name is certain once the
/// directory was synced.
pub(super) fn keep(directory: &Directory, torn: &TornLog) -> Result<PathBuf, StorageError> {
    let disk = &*directory.disk;
    let path = free_path(directory, torn)?;
    let mut tail = disk.open(&torn.log.path).map_err(StorageError::io("read", &torn.log.path))?;
    let skipped = io::copy(&mut tail.by_ref().take(torn.offset), &mut io::sink());
    skipped.map_err(StorageError::io("read", &torn.log.path))?;
    let mut file = disk.create(&path).map_err(StorageError::io("create", &path))?;
    let copied = io::copy(&mut tail.take(torn.end - torn.offset), &mut file);
    copied.map_err(StorageError::io("write to", &path))?;
    file.sync().map_err(StorageError::io("sync", &path))?;
    Ok(path)
}

/// A name that no file has: a log of this name may have been torn at this place before, and begun anew.
fn free_path(directory: &Directory, torn: &TornLog) -> Result<PathBuf, StorageError> {
    let logs = &directory.logs;
    let taken = directory.disk.list(logs).map_err(StorageError::io("list", logs))?;
    let first = directory::torn_name(torn.log.zxid, torn.offset);
    let others = (2_u32..).map(|number| format!("{first}.{number}"));
    let mut names = std::iter::once(first.clone()).chain(others);
    let free = names.find(|name| !taken.contains(name)).expect("fewer than 2^32 are taken");
    Ok(logs.join(free))
}
