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
    lock_directories: Vec<PathBuf>,
    /// Those with the files of a server.
    files: Vec<PathBuf>,
    /// In the directories that go too. Another one stays, since somebody may wait for it.
    lock_files: Vec<PathBuf>,
    /// Those that hold nothing else, each before the one that it is in.
    directories: Vec<PathBuf>,
}

impl Fresh {
    /// Looks before anything is created; `None` if files of a server are there already.
    pub(super) fn of(config: &StorageConfig) -> Option<Self> {
        let disk = Arc::clone(&config.disk);
        let (lock_directories, files, lock_files, directories) = Default::default();
        let mut fresh = Self { disk, lock_directories, files, lock_files, directories };
        for directory in std::iter::once(&config.data_dir).chain(&config.data_log_dir) {
            let files = directory.join("version-2");
            // One that cannot be looked at is perhaps there.
            if files.try_exists().unwrap_or(true) {
                return None;
            }
            if !fresh.lock_directories.contains(directory) {
                fresh.lock_directories.push(directory.clone());
            }
            fresh.files.push(files);
            fresh.lock_files.extend(missing(directory).map(lock_file));
            let above = directory.ancestors().take_while(|it| *it != Path::new(""));
            fresh.directories.extend(above.map_while(missing).map(Path::to_owned));
        }
        // A directory may be within the other.
        fresh.directories.sort_by_key(|it| std::cmp::Reverse(it.components().count()));
        fresh.directories.dedup();
        Some(fresh)
    }

    /// Deletes all of it, but no lock file in a directory that stays.
    ///
    /// A server may have waited for its turn, and uses the directories by now, or has used them since: then
    /// nothing is deleted. A directory in which others have created something stays, and is an error.
    pub(super) fn delete(&self) -> io::Result<()> {
        self.lock_directories.iter().try_for_each(|it| check_last_user(it))?;
        let lock = |it: &PathBuf| self.disk.lock(it).map_err(io::Error::other);
        let _locks = self.lock_directories.iter().map(lock).collect::<io::Result<Vec<_>>>()?;
        let there = |done: io::Result<()>| match done {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        };
        self.files.iter().try_for_each(|it| there(fs::remove_dir_all(it)))?;
        self.lock_files.iter().try_for_each(|it| there(fs::remove_file(it)))?;
        self.directories.iter().try_for_each(|it| there(fs::remove_dir(it)))
    }
}

/// The path, if nothing is there.
fn missing(path: &Path) -> Option<&Path> {
    let is_missing = matches!(path.try_exists(), Ok(false));
    is_missing.then_some(path)
}

fn lock_file(directory: &Path) -> PathBuf {
    directory.join("zoolet.lock")
}

/// The lock file contains the process id of who has locked the directory last.
fn check_last_user(directory: &Path) -> io::Result<()> {
    let last = fs::read_to_string(lock_file(directory))?;
    if last.trim() == std::process::id().to_string() {
        return Ok(());
    }
    Err(io::Error::other(format!("the process {} has used it since", last.trim())))
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
        assert!(files.exists() && lock_file(&config.data_dir).exists());
        drop(lock);
        fs::write(lock_file(&config.data_dir), "0\n").unwrap();
        let error = fresh.delete().unwrap_err().to_string();
        assert_eq!(error, "the process 0 has used it since");
        assert!(files.exists());
        drop(config.disk.lock(&config.data_dir).unwrap());
        fs::write(config.data_dir.join("theirs"), "").unwrap();
        fresh.delete().unwrap_err();
        assert!(config.data_dir.join("theirs").exists() && !files.exists());
    }

    #[test]
    fn a_directory_goes_with_its_lock_file_or_both_stay() {
        let directory = tempfile::tempdir().unwrap();
        let (there, new) = (directory.path().to_owned(), directory.path().join("new/er"));
        for (data_dir, stays) in [(there, true), (new, false)] {
            let config = StorageConfig::at(data_dir);
            let fresh = Fresh::of(&config).unwrap();
            fs::create_dir_all(config.data_dir.join("version-2")).unwrap();
            drop(config.disk.lock(&config.data_dir).unwrap());
            fresh.delete().unwrap();
            assert!(!config.data_dir.join("version-2").exists());
            assert_eq!(lock_file(&config.data_dir).exists(), stays);
        }
        assert!(directory.path().exists() && !directory.path().join("new").exists());
    }
}
