//! The seam to files, so that a test can lose power at any byte.

mod fs;
mod memory;
mod simulated;

use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::Path;

pub use self::fs::FsDisk;
pub use self::memory::MemDisk;
pub use self::simulated::SimDisk;

/// What the storage asks of a file system.
///
/// What was written is certain once the file was synced; that a file has a name, or has it no
/// more, once the directory was.
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
    /// Makes a directory and those above it, if they are not there.
    ///
    /// # Errors
    ///
    /// As the file system says; so everywhere here.
    fn create_directory(&self, directory: &Path) -> io::Result<()>;

    /// The names of the files in a directory, in no order.
    #[expect(clippy::missing_errors_doc, reason = "said above")]
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;

    /// Reads a file from its beginning, with a buffer.
    #[expect(clippy::missing_errors_doc, reason = "said above")]
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>>;

    /// The bytes of a file.
    #[expect(clippy::missing_errors_doc, reason = "said above")]
    fn length(&self, path: &Path) -> io::Result<u64>;

    /// Makes a file, in the place of one that is there.
    #[expect(clippy::missing_errors_doc, reason = "said above")]
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Cuts a file to a length, and syncs it. With its present length or more, only that.
    #[expect(clippy::missing_errors_doc, reason = "said above")]
    fn truncate(&self, path: &Path, length: u64) -> io::Result<()>;

    /// Writes a part of a file once more, as it reads now, and syncs the file. After a sync that failed, a
    /// system may read from memory what is on no disk, and take it for written: a sync alone changes
    /// nothing then.
    #[expect(clippy::missing_errors_doc, reason = "said above")]
    fn rewrite(&self, path: &Path, part: Range<u64>) -> io::Result<()>;

    /// Gives a file another name, in the place of one that has it.
    #[expect(clippy::missing_errors_doc, reason = "said above")]
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// A number that a file keeps when it is written to or renamed, and that a copy of it does not have;
    /// 0 where the disk knows none.
    ///
    /// # Errors
    ///
    /// If there is no such file.
    fn identity(&self, _path: &Path) -> io::Result<u64> {
        Ok(0)
    }

    /// Deletes a file.
    #[expect(clippy::missing_errors_doc, reason = "said above")]
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory certain.
    #[expect(clippy::missing_errors_doc, reason = "said above")]
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;

    /// Keeps other processes out of a directory until what is returned is dropped.
    ///
    /// # Errors
    ///
    /// [`LockError::Held`] if another has it.
    fn lock(&self, directory: &Path) -> Result<Box<dyn DirectoryLock>, LockError>;

    /// Whether what is decided is to be written at once, on the thread that decided: so it is
    /// repeatable, and no thread races a paused clock.
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
    /// Writes over what is at a place. What [`Write::write`] writes next goes where it would have gone.
    ///
    /// # Errors
    ///
    /// As the file system says. A part of the bytes may have been written.
    fn write_at(&mut self, position: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes the file longer, with zeros, or shorter. What is written next goes where it went.
    ///
    /// # Errors
    ///
    /// As the file system says.
    fn set_length(&mut self, length: u64) -> io::Result<()>;

    /// Makes certain what was written.
    ///
    /// # Errors
    ///
    /// As the file system says. What was written since the last sync may then be there or not,
    /// whatever a later sync says.
    fn sync(&mut self) -> io::Result<()>;
}

/// A directory that is kept, until this is dropped.
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

/// Why a directory cannot be kept.
///
/// ```
/// use zoolet_server::storage::LockError;
///
/// assert_eq!(LockError::Held { by: None }.to_string(), "another process uses it");
/// assert_eq!(LockError::Held { by: Some(7) }.to_string(), "the process 7 uses it");
/// ```
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another has it.
    #[error("{} uses it", by.map_or("another process".to_owned(), |pid| format!("the process {pid}")))]
    Held {
        /// Its process id, if it is known.
        by: Option<u32>,
    },
    /// The lock file cannot be had.
    #[error(transparent)]
    Io(#[from] io::Error),
}
