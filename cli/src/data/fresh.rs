//! The directories that a command creates for a server, and deletes again if it fails.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zoolet_server::storage::{Disk, StorageConfig};

/// What was not there before the command began.
#[derive(Debug)]
pub(super) struct Fresh {
    disk: Arc<dyn Disk>,
    /// Those that a server locks.
    locked: Vec<PathBuf>,
    /// Those with the files of a server.
    files: Vec<PathBuf>,
    locks: Vec<PathBuf>,
    /// Those that hold nothing else, each before the one that it is in.
    directories: Vec<PathBuf>,
}

impl Fresh {
    /// Looks before anything is created; `None` if files of a server are there already.
    pub(super) fn of(config: &StorageConfig) -> Option<Self> {
        let disk = Arc::clone(&config.disk);
        let (locked, files, locks, directories) = Default::default();
        let mut fresh = Self { disk, locked, files, locks, directories };
        for directory in std::iter::once(&config.data_dir).chain(&config.data_log_dir) {
            let files = directory.join("version-2");
            // One that cannot be looked at is perhaps there.
            if files.try_exists().unwrap_or(true) {
                return None;
            }
            if !fresh.locked.contains(directory) {
                fresh.locked.push(directory.clone());
            }
            fresh.files.push(files);
            fresh.locks.extend(missing(directory.join("zoolet.lock")));
            let above = directory.ancestors().take_while(|it| *it != Path::new(""));
            fresh.directories.extend(above.map_while(|it| missing(it.to_owned())));
        }
        // A directory may be within the other.
        fresh.directories.sort_by_key(|it| std::cmp::Reverse(it.components().count()));
        fresh.directories.dedup();
        Some(fresh)
    }

    /// Deletes all of it. A directory in which others have created something stays.
    ///
    /// A server may have waited for its turn, and uses the directories by now: then nothing is deleted.
    pub(super) fn delete(&self) -> io::Result<()> {
        let lock = |it: &PathBuf| self.disk.lock(it).map_err(io::Error::other);
        let _locks = self.locked.iter().map(lock).collect::<io::Result<Vec<_>>>()?;
        let there = |done: io::Result<()>| match done {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        };
        self.files.iter().try_for_each(|it| there(fs::remove_dir_all(it)))?;
        self.locks.iter().try_for_each(|it| there(fs::remove_file(it)))?;
        self.directories.iter().for_each(|it| drop(fs::remove_dir(it)));
        Ok(())
    }
}

/// The path, if nothing is there.
fn missing(path: PathBuf) -> Option<PathBuf> {
    let is_missing = matches!(path.try_exists(), Ok(false));
    is_missing.then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_uses_by_now_is_not_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let config = StorageConfig::at(directory.path().join("new"));
        let fresh = Fresh::of(&config).unwrap();
        let files = config.data_dir.join("version-2");
        fs::create_dir_all(&files).unwrap();
        let lock = config.disk.lock(&config.data_dir).unwrap();
        fresh.delete().unwrap_err();
        assert!(files.exists() && config.data_dir.join("zoolet.lock").exists());
        drop(lock);
        fresh.delete().unwrap();
        assert!(!config.data_dir.exists() && directory.path().exists());
    }
}
