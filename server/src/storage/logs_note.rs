//! A note beside the snapshots that names `dataLogDir`, if the logs are elsewhere. Everything else
//! that belongs to zoolet is beside the logs, so that a server whose configuration lost the key
//! would find snapshots only, as Apache ZooKeeper may leave them, and start with an old tree.
//!
//! ZooKeeper and its purge ignore a file of this name.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use super::directory::{Directory, Files};
use super::error::StorageError;
use super::mark;
use super::names::LOGS_NOTE;

/// Its name until it is complete.
const NAME_UNFINISHED: &str = "zoolet.logs-in.new";

/// The longest path of the systems on which zoolet runs (`PATH_MAX` of Linux).
const PATH_BYTES: u64 = 4_096;

/// Refuses a log directory with neither logs nor a mark if the note names another one. Directories
/// that were moved, or are mounted elsewhere, contain one of both.
pub(super) fn check(directory: &Directory, files: &Files) -> Result<(), StorageError> {
    let Some(noted) = read(directory)? else { return Ok(()) };
    if noted == log_directory(directory) || !files.logs.is_empty() {
        return Ok(());
    }
    let logs = &directory.logs;
    let disk = &directory.disk;
    match disk.length(&mark::path(directory)) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(StorageError::LogsElsewhere { note: path(directory), noted, logs: logs.clone() })
        }
        Err(error) => Err(StorageError::io("look at", &mark::path(directory))(error)),
    }
}

/// Writes the note, or removes that of an earlier configuration. Both survive a crash once the
/// directory was synced.
pub(crate) fn update(directory: &Directory) -> Result<(), StorageError> {
    let (noted, path, disk) = (read(directory)?, path(directory), &*directory.disk);
    if directory.logs == directory.snapshots {
        return match noted {
            Some(_) => disk.remove(&path).map_err(StorageError::io("delete", &path)),
            None => Ok(()),
        };
    }
    let logs = log_directory(directory);
    if noted.as_ref() == Some(&logs) {
        return Ok(());
    }
    let unfinished = directory.snapshots.join(NAME_UNFINISHED);
    let mut file = disk.create(&unfinished).map_err(StorageError::io("create", &unfinished))?;
    let written = file.write_all(format!("{logs}\n").as_bytes()).and_then(|()| file.sync());
    written.map_err(StorageError::io("write to", &unfinished))?;
    disk.rename(&unfinished, &path).map_err(StorageError::io("rename", &unfinished))
}

/// The directory that the note names.
fn read(directory: &Directory) -> Result<Option<String>, StorageError> {
    let path = path(directory);
    let mut input = match directory.disk.open(&path) {
        Ok(input) => input.take(PATH_BYTES),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StorageError::io("read", &path)(error)),
    };
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes).map_err(StorageError::io("read", &path))?;
    Ok(Some(String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned()))
}

/// `dataLogDir`, as the note names it.
fn log_directory(directory: &Directory) -> String {
    let logs = directory.logs.parent().unwrap_or(&directory.logs);
    // The server may be started elsewhere the next time.
    let absolute = std::path::absolute(logs);
    absolute.as_deref().unwrap_or(logs).display().to_string()
}

fn path(directory: &Directory) -> PathBuf {
    directory.snapshots.join(LOGS_NOTE)
}
