//! Writes a snapshot to a temporary name and renames it when all of it is synced.

use std::path::{Path, PathBuf};

use zoolet_core::Frozen;

use super::compression::Compression;
use super::config::{Durability, StorageConfig};
use super::directory::Directory;
use super::disk::DiskFile;
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
    let unfinished = directory.unfinished_path(frozen.zxid);
    let mut unpublished =
        Unpublished::write(directory, unfinished, frozen, compression, is_synced)?;
    unpublished.sync()?;
    unpublished.publish()?;
    Ok(())
}

/// Why a snapshot has not got its name for good.
#[derive(Debug)]
pub(crate) enum PublishError {
    /// It has not got it.
    Unpublished(StorageError),
    /// It has it, but perhaps not after a crash.
    Unsynced(StorageError),
}

impl From<PublishError> for StorageError {
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::Unpublished(error) | PublishError::Unsynced(error) => error,
        }
    }
}

/// A snapshot that is written under its temporary name. If it is dropped unpublished its file is deleted.
#[derive(Debug)]
pub(crate) struct Unpublished<'a> {
    directory: &'a Directory,
    file: Box<dyn DiskFile>,
    unfinished: PathBuf,
    path: PathBuf,
    is_synced: bool,
    has_its_name: bool,
}

impl<'a> Unpublished<'a> {
    /// Writes a snapshot that was asked for, and syncs it, as the storage is configured.
    pub(crate) fn write_on_request(
        directory: &'a Directory,
        storage: &StorageConfig,
        frozen: &Frozen,
    ) -> Result<Self, StorageError> {
        let unfinished = directory.unfinished_path_on_request(frozen.zxid);
        let is_synced = storage.durability == Durability::Synced;
        let compression = storage.snapshot_compression;
        let mut written = Self::write(directory, unfinished, frozen, compression, is_synced)?;
        written.sync()?;
        Ok(written)
    }

    /// Writes a snapshot under a temporary name, which [`Self::sync`] must follow.
    pub(crate) fn write(
        directory: &'a Directory,
        unfinished: PathBuf,
        frozen: &Frozen,
        compression: Compression,
        is_synced: bool,
    ) -> Result<Self, StorageError> {
        let path = directory.snapshot_path(frozen.zxid, compression);
        let file =
            directory.disk.create(&unfinished).map_err(StorageError::io("create", &unfinished))?;
        let mut unpublished =
            Self { directory, file, unfinished, path, is_synced, has_its_name: false };
        let written = compression.write(&mut unpublished.file, |out| write_snapshot(frozen, out));
        written.map_err(StorageError::io("write to", &unpublished.unfinished))?;
        Ok(unpublished)
    }

    /// Syncs what is written, if the storage is to.
    pub(super) fn sync(&mut self) -> Result<(), StorageError> {
        match self.is_synced {
            true => self.file.sync().map_err(StorageError::io("sync", &self.unfinished)),
            false => Ok(()),
        }
    }

    /// Gives it its name, from when on the next start recovers from it, and returns the path.
    pub(crate) fn publish(self) -> Result<PathBuf, PublishError> {
        let (directory, is_synced) = (self.directory, self.is_synced);
        let path = self.rename().map_err(PublishError::Unpublished)?;
        if is_synced {
            let snapshots: &Path = &directory.snapshots;
            let synced = directory.disk.sync_directory(snapshots);
            synced.map_err(StorageError::io("sync", snapshots)).map_err(PublishError::Unsynced)?;
        }
        Ok(path)
    }

    /// The same without a sync: the name survives a crash once the directory was synced.
    pub(super) fn rename(mut self) -> Result<PathBuf, StorageError> {
        let renamed = self.directory.disk.rename(&self.unfinished, &self.path);
        renamed.map_err(StorageError::io("rename", &self.unfinished))?;
        self.has_its_name = true;
        Ok(self.path.clone())
    }
}

impl Drop for Unpublished<'_> {
    fn drop(&mut self) {
        if !self.has_its_name {
            // The disk may be full because of it.
            let _ = self.directory.disk.remove(&self.unfinished);
        }
    }
}
