//! Keeps the incomplete end that a start cuts off a log in a file of its own, for later inspection.

use std::io::{self, Read};
use std::path::PathBuf;

use super::directory::{self, Directory, LogFile};
use super::error::StorageError;

/// A log that ends with incomplete records of a crash.
#[derive(Debug)]
pub(crate) struct TornLog {
    pub(super) log: LogFile,
    /// The offset at which they begin.
    pub(super) offset: u64,
    /// The offset at which they end.
    pub(super) end: u64,
}

/// Copies the end that is to be cut off a log, and returns the path of the copy. Its name survives
/// a crash once the directory was synced.
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

/// An unused name: a log of the same name may have been cut at the same offset before.
fn free_path(directory: &Directory, torn: &TornLog) -> Result<PathBuf, StorageError> {
    let logs = &directory.logs;
    let taken = directory.disk.list(logs).map_err(StorageError::io("list", logs))?;
    let first = directory::torn_name(torn.log.zxid, torn.offset);
    let others = (2_u32..).map(|number| format!("{first}.{number}"));
    let mut names = std::iter::once(first.clone()).chain(others);
    let free = names.find(|name| !taken.contains(name)).expect("fewer than 2^32 are taken");
    Ok(logs.join(free))
}
