//! The file system of the machine.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{DirectoryLock, Disk, DiskFile, LockError};

/// The file in a directory that its user locks. It contains the process id.
const LOCK_FILE: &str = "zoolet.lock";

/// How often the lock file may be another one than that which was opened.
const LOCK_TRIES: usize = 10;

/// The bytes that are read at once.
const READ_BYTES: usize = 256 << 10;

/// What is written at once to reserve space.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The file system of the machine.
///
/// ```
/// use std::path::Path;
/// use zoolet_server::storage::{Disk, FsDisk};
///
/// assert!(FsDisk.list(Path::new("/no/such/directory")).is_err());
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct FsDisk;

impl Disk for FsDisk {
    fn create_directory(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let new: Vec<_> = directory.ancestors().take_while(|path| !path.exists()).collect();
        fs::create_dir_all(directory)?;
        // The name of each is in its parent.
        Ok(new.iter().rev().filter_map(|new| new.parent()).map(Path::to_owned).collect())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(directory)? {
            // No file of the server has a name that is not UTF-8.
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(BufReader::with_capacity(READ_BYTES, File::open(path)?)))
    }

    fn open_at(&self, path: &Path, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(Box::new(BufReader::with_capacity(READ_BYTES, file)))
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.len())
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(FsFile(File::create(path)?)))
    }

    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(path)?;
        if length < file.metadata()?.len() {
            file.set_len(length)?;
        }
        file.sync_all()
    }

    fn rewrite(&self, path: &Path, part: Range<u64>) -> io::Result<()> {
        let mut file = OpenOptions::new().read(true).write(true).open(path)?;
        let mut position = part.start;
        let mut bytes = Vec::with_capacity(READ_BYTES);
        while position < part.end {
            bytes.clear();
            file.seek(SeekFrom::Start(position))?;
            let wanted = (part.end - position).min(READ_BYTES as u64);
            if (&file).take(wanted).read_to_end(&mut bytes)? == 0 {
                break;
            }
            file.seek(SeekFrom::Start(position))?;
            file.write_all(&bytes)?;
            position += bytes.len() as u64;
        }
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    /// The inode number, mixed with the creation time if the file system keeps it: the number of a
    /// deleted file is reused.
    fn identity(&self, path: &Path) -> io::Result<u64> {
        let metadata = fs::metadata(path)?;
        let created = metadata.created().ok();
        let created = created.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        let created = created.map_or(0, |time| time.as_nanos() as u64);
        Ok(number_of(&metadata) ^ created.rotate_left(32))
    }

    fn modified_ms(&self, path: &Path) -> io::Result<i64> {
        let modified = fs::metadata(path)?.modified()?;
        let since = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Ok(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        // The parent of a relative path may be empty.
        let is_here = directory.as_os_str().is_empty();
        File::open(if is_here { Path::new(".") } else { directory })?.sync_all()
    }

    fn lock(&self, directory: &Path) -> Result<Box<dyn DirectoryLock>, LockError> {
        Ok(Box::new(FsLock::take(directory)?))
    }
}

impl FsLock {
    fn take(directory: &Path) -> Result<Self, LockError> {
        let path = directory.join(LOCK_FILE);
        for _ in 0..LOCK_TRIES {
            if let Some(lock) = Self::of(Self::open(&path)?, &path)? {
                return Ok(lock);
            }
        }
        Err(io::Error::other(format!("{LOCK_FILE} is replaced again and again")).into())
    }

    fn open(path: &Path) -> io::Result<File> {
        // Not truncated before it is locked, because it contains the process id of its owner.
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
    }

    /// Locks the file; `None` if its owner has deleted it meanwhile: the next process would lock another.
    fn of(file: File, path: &Path) -> Result<Option<Self>, LockError> {
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // The owner may not have written its process id yet.
                let _ = file.take(20).read_to_string(&mut pid);
                return Err(LockError::Held { by: pid.trim().parse().ok() });
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        let mut lock = Self { file };
        if !is_at(&lock.file, path)? {
            return Ok(None);
        }
        lock.file.set_len(0)?;
        writeln!(lock.file, "{}", std::process::id())?;
        Ok(Some(lock))
    }
}

#[derive(Debug)]
struct FsFile(File);

impl Write for FsFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl DiskFile for FsFile {
    fn write_at(&mut self, position: u64, bytes: &[u8]) -> io::Result<()> {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::write_all_at(&self.0, bytes, position);
        #[cfg(not(unix))]
        {
            let before = self.0.stream_position()?;
            self.0.seek(SeekFrom::Start(position))?;
            self.0.write_all(bytes)?;
            self.0.seek(SeekFrom::Start(before)).map(drop)
        }
    }

    fn set_length(&mut self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn reserve(&mut self, part: Range<u64>) -> io::Result<()> {
        let mut position = part.start;
        while position < part.end {
            let count = (part.end - position).min(ZEROS.len() as u64);
            self.write_at(position, &ZEROS[..count as usize])?;
            position += count;
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}

/// The system releases the lock when the process ends, for whatever reason.
#[derive(Debug)]
struct FsLock {
    file: File,
}

impl DirectoryLock for FsLock {}

impl Drop for FsLock {
    fn drop(&mut self) {
        // A child process that another thread starts at this moment has the file open as well, until
        // it executes its program. Closing the file here alone would leave the lock with it.
        let _ = self.file.unlock();
    }
}

#[cfg(unix)]
fn number_of(metadata: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn number_of(_metadata: &fs::Metadata) -> u64 {
    0
}

/// Whether an open file is still the one at its path.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let opened = file.metadata()?;
    match fs::metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (opened.dev(), opened.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(not(unix))]
fn is_at(_file: &File, _path: &Path) -> io::Result<bool> {
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_created_with_its_parents_and_tells_what_is_to_be_synced() {
        let directory = std::env::temp_dir().join(format!("zoolet-{}", std::process::id()));
        let below = directory.join("a/b");
        let above = [std::env::temp_dir(), directory.clone(), directory.join("a")];
        for to_sync in [&above[..], &[]] {
            assert_eq!(FsDisk.create_directory(&below).unwrap(), to_sync);
            assert!(below.is_dir());
        }
        above.iter().for_each(|above| FsDisk.sync_directory(above).unwrap());
        FsDisk.sync_directory(Path::new("")).unwrap();
        FsDisk.create(&below.join("file")).unwrap();
        FsDisk.create_directory(&below.join("file/c")).unwrap_err();
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    #[cfg(unix)]
    fn a_reserved_part_takes_space_and_changes_no_byte_and_no_position() {
        use std::os::unix::fs::MetadataExt;
        let path = std::env::temp_dir().join(format!("zoolet-reserve-{}", std::process::id()));
        let mut file = FsDisk.create(&path).unwrap();
        let length = 4 << 20;
        file.set_length(length).unwrap();
        file.write_all(b"before").unwrap();
        file.reserve(4_096..4_096 + (1 << 20)).unwrap();
        file.sync().unwrap();
        let metadata = fs::metadata(&path).unwrap();
        assert!(metadata.blocks() * 512 >= 1 << 20, "{} blocks", metadata.blocks());
        assert!(metadata.blocks() * 512 < 2 << 20, "{} blocks", metadata.blocks());
        file.write_all(b" and after").unwrap();
        let mut expected = b"before and after".to_vec();
        expected.resize(length as usize, 0);
        assert!(fs::read(&path).unwrap() == expected);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_lock_ends_though_a_child_process_has_the_file_open() {
        let directory = std::env::temp_dir().join(format!("zoolet-lock-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let lock = FsLock::take(&directory).unwrap();
        let of_the_child = lock.file.try_clone().unwrap();
        FsDisk.lock(&directory).unwrap_err();
        drop(lock);
        FsDisk.lock(&directory).unwrap();
        drop(of_the_child);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    #[cfg(unix)]
    fn a_lock_file_that_was_deleted_since_it_was_opened_is_not_locked() {
        let directory = format!("zoolet-unlinked-{}", std::process::id());
        let directory = std::env::temp_dir().join(directory);
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join(LOCK_FILE);
        let opened = FsLock::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(FsLock::of(opened.try_clone().unwrap(), &path).unwrap().is_none());
        let lock = FsLock::take(&directory).unwrap();
        assert!(FsLock::of(opened, &path).unwrap().is_none());
        FsDisk.lock(&directory).unwrap_err();
        drop(lock);
        fs::remove_dir_all(directory).unwrap();
    }
}
