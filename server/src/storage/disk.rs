//! The interface to the file system, which lets a test cut the power at any byte.

mod fs;
mod memory;
mod simulated;

use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

pub use self::fs::FsDisk;
pub use self::memory::MemDisk;
pub use self::simulated::SimDisk;

/// A file system, as the storage uses it.
///
/// Written bytes survive a crash once the file was synced. The creation, renaming or deletion of a
/// file or directory survives once the directory above it was synced.
///
/// ```
/// use std::io::Read;
/// use std::path::Path;
/// use zoolet_server::storage::{Disk, MemDisk};
///
/// # fn main() -> std::io::Result<()> {
/// let disk = MemDisk::default();
/// let mut file = disk.create(Path::new("/data/a"))?;
/// file.write_all(b"text")?;
/// file.sync()?;
/// let mut text = String::new();
/// disk.open(Path::new("/data/a"))?.read_to_string(&mut text)?;
/// assert_eq!(text, "text");
/// # Ok(())
/// # }
/// ```
pub trait Disk: Debug + Send + Sync {
    /// Creates a directory and its parents, if they do not exist. Returns the directories in which
    /// it has created one, the topmost first: what is created survives once these were synced.
    ///
    /// # Errors
    ///
    /// The error of the file system, here and in the other methods.
    fn create_directory(&self, directory: &Path) -> io::Result<Vec<PathBuf>>;

    /// The names of the files in a directory, in no order.
    #[expect(clippy::missing_errors_doc, reason = "said above")]
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;

    /// Reads a file from its beginning, with a buffer.
    #[expect(clippy::missing_errors_doc, reason = "said above")]
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>>;

    /// Reads a file from an offset on.
    #[expect(clippy::missing_errors_doc, reason = "said above")]
    fn open_at(&self, path: &Path, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        let mut file = self.open(path)?;
        io::copy(&mut file.by_ref().take(offset), &mut io::sink())?;
        Ok(file)
    }

    /// The bytes of a file.
    #[expect(clippy::missing_errors_doc, reason = "said above")]
    fn length(&self, path: &Path) -> io::Result<u64>;

    /// Creates a file, or replaces an existing one.
    #[expect(clippy::missing_errors_doc, reason = "said above")]
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Truncates a file and syncs it. If it is not longer than `length` it is only synced.
    #[expect(clippy::missing_errors_doc, reason = "said above")]
    fn truncate(&self, path: &Path, length: u64) -> io::Result<()>;

    /// Writes a part of a file again, with the bytes that are read now, and syncs the file. After a
    /// failed sync a system may serve bytes from memory that are on no disk and take them for
    /// written, so that another sync alone has no effect.
    #[expect(clippy::missing_errors_doc, reason = "said above")]
    fn rewrite(&self, path: &Path, part: Range<u64>) -> io::Result<()>;

    /// Renames a file, and replaces an existing one of that name.
    #[expect(clippy::missing_errors_doc, reason = "said above")]
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// A number that a file keeps when it is written or renamed, and that its copy does not share;
    /// 0 if the disk has no such numbers.
    ///
    /// # Errors
    ///
    /// If the file does not exist.
    fn identity(&self, _path: &Path) -> io::Result<u64> {
        Ok(0)
    }

    /// When a file was last written, in milliseconds since 1970; 0 if the disk does not know it.
    ///
    /// # Errors
    ///
    /// If the file does not exist.
    fn modified_ms(&self, _path: &Path) -> io::Result<i64> {
        Ok(0)
    }

    /// Deletes a file.
    #[expect(clippy::missing_errors_doc, reason = "said above")]
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Syncs a directory, so that the names of its files survive a crash.
    #[expect(clippy::missing_errors_doc, reason = "said above")]
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;

    /// Locks a directory against other processes until the returned lock is dropped.
    ///
    /// # Errors
    ///
    /// [`LockError::Held`] if another process has locked it.
    fn lock(&self, directory: &Path) -> Result<Box<dyn DirectoryLock>, LockError>;

    /// Whether transactions are written at once, on the thread that appends them. Then a run
    /// repeats, and no thread races tokio's paused clock.
    fn is_immediate(&self) -> bool {
        false
    }
}

/// A file that is written from its beginning to its end.
///
/// ```
/// use std::path::Path;
/// use zoolet_server::storage::{Disk, DiskFile, MemDisk};
///
/// # fn main() -> std::io::Result<()> {
/// let mut file: Box<dyn DiskFile> = MemDisk::default().create(Path::new("/a"))?;
/// file.set_length(64)?;
/// file.write_all(b"begins here")?;
/// # Ok(())
/// # }
/// ```
pub trait DiskFile: Debug + Write + Send + Sync {
    /// Overwrites bytes at an offset. The position of [`Write::write`] does not change.
    ///
    /// # Errors
    ///
    /// The error of the file system. A part of the bytes may have been written.
    fn write_at(&mut self, position: u64, bytes: &[u8]) -> io::Result<()>;

    /// Extends the file with zeros, or truncates it. The position of [`Write::write`] does not
    /// change.
    ///
    /// # Errors
    ///
    /// The error of the file system.
    fn set_length(&mut self, length: u64) -> io::Result<()>;

    /// Takes disk space for a part of the file that nothing was written to, by writing the zeros that
    /// it has already. A sync of bytes that are written there later need not record where they are,
    /// which can take as long as the bytes themselves. By default it does nothing.
    ///
    /// # Errors
    ///
    /// The error of the file system. The part has zeros as before.
    fn reserve(&mut self, _part: Range<u64>) -> io::Result<()> {
        Ok(())
    }

    /// Syncs the file, so that the written bytes survive a crash.
    ///
    /// # Errors
    ///
    /// The error of the file system. The bytes written since the last sync may then survive or not,
    /// even if a later sync succeeds.
    fn sync(&mut self) -> io::Result<()>;
}

/// The lock of a directory, which is released when this is dropped.
///
/// ```
/// use std::path::Path;
/// use zoolet_server::storage::{DirectoryLock, Disk, MemDisk};
///
/// let disk = MemDisk::default();
/// let lock: Box<dyn DirectoryLock> = disk.lock(Path::new("/data")).unwrap();
/// assert!(disk.lock(Path::new("/data")).is_err());
/// drop(lock);
/// assert!(disk.lock(Path::new("/data")).is_ok());
/// ```
pub trait DirectoryLock: Debug + Send + Sync {}

/// Why a directory cannot be locked.
///
/// ```
/// use zoolet_server::storage::LockError;
///
/// assert_eq!(LockError::Held { by: None }.to_string(), "another process uses it");
/// assert_eq!(LockError::Held { by: Some(7) }.to_string(), "the process 7 uses it");
/// ```
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has locked it.
    #[error("{} uses it", by.map_or("another process".to_owned(), |pid| format!("the process {pid}")))]
    Held {
        /// The other's process id, if it is known.
        by: Option<u32>,
    },
    /// The lock file cannot be opened.
    #[error(transparent)]
    Io(#[from] io::Error),
}
