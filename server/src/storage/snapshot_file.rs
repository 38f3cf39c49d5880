//! Writes a snapshot to a temporary name and renames it when all of it is synced.

use zoolet_core::Frozen;

use super::compression::Compression;
use super::directory::Directory;
use super::error::StorageError;
use super::snapshot::write_snapshot;

/// Writes a snapshot. After an error nothing is left, or a temporary file that the next start
/// deletes.
pub(crate) fn save(
    directory: &Directory,
    frozen: &Frozen,
    compression: Compression,
    is_synced: bool,
) -> Result<(), StorageError> {
    let saved = write(directory, frozen, compression, is_synced);
    if saved.is_err() {
        // The disk may be full because of it.
        let _ = directory.disk.remove(&directory.unfinished_path(frozen.zxid));
    }
    saved
}

fn write(
    directory: &Directory,
    frozen: &Frozen,
    compression: Compression,
    is_synced: bool,
) -> Result<(), StorageError> {
    let disk = &directory.disk;
    let unfinished = directory.unfinished_path(frozen.zxid);
    let mut file = disk.create(&unfinished).map_err(StorageError::io("create", &unfinished))?;
    let written = compression.write(&mut file, |out| write_snapshot(frozen, out));
    written.map_err(StorageError::io("write to", &unfinished))?;
    if is_synced {
        file.sync().map_err(StorageError::io("sync", &unfinished))?;
    }
    let path = directory.snapshot_path(frozen.zxid, compression);
    disk.rename(&unfinished, &path).map_err(StorageError::io("rename", &unfinished))?;
    if is_synced {
        let snapshots = &directory.snapshots;
        disk.sync_directory(snapshots).map_err(StorageError::io("sync", snapshots))?;
    }
    Ok(())
}
