//! A disk in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Cursor, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{DirectoryLock, Disk, DiskFile, LockError};

type Content = Arc<Mutex<Vec<u8>>>;

/// A disk in memory: a server that is started on it again, in the same process, finds the files of
/// the server before. It loses nothing, and the space by which a log is extended takes no memory.
/// Clones share the files.
///
/// ```
/// use std::path::Path;
/// use zoolet_server::storage::{Disk, MemDisk};
///
/// # fn main() -> std::io::Result<()> {
/// let disk = MemDisk::default();
/// disk.create(Path::new("/data/log.1"))?;
/// assert_eq!(disk.clone().list(Path::new("/data"))?, ["log.1"]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct MemDisk(Arc<Mutex<Files>>);

#[derive(Debug, Default)]
struct Files {
    files: BTreeMap<PathBuf, Content>,
    locked: BTreeSet<PathBuf>,
}

impl MemDisk {
    fn file(&self, path: &Path) -> io::Result<Content> {
        self.0.lock().files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Disk for MemDisk {
    fn create_directory(&self, _directory: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        Ok(names_in(directory, self.0.lock().files.keys()))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        let content = self.file(path)?.lock().clone();
        Ok(Box::new(Cursor::new(content)))
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        Ok(self.file(path)?.lock().len() as u64)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let content = Content::default();
        self.0.lock().files.insert(path.to_owned(), Arc::clone(&content));
        Ok(Box::new(MemFile { content, position: 0 }))
    }

    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        let content = self.file(path)?;
        let mut content = content.lock();
        content.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        Ok(())
    }

    fn rewrite(&self, path: &Path, _part: Range<u64>) -> io::Result<()> {
        self.file(path).map(drop)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut files = self.0.lock();
        let content = files.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.files.insert(to.to_owned(), content);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let removed = self.0.lock().files.remove(path);
        removed.map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync_directory(&self, _directory: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, directory: &Path) -> Result<Box<dyn DirectoryLock>, LockError> {
        if !self.0.lock().locked.insert(directory.to_owned()) {
            return Err(LockError::Held { by: Some(std::process::id()) });
        }
        Ok(Box::new(MemLock { disk: self.clone(), directory: directory.to_owned() }))
    }

    fn is_immediate(&self) -> bool {
        true
    }
}

/// The names of the files directly in a directory.
pub(super) fn names_in<'a>(
    directory: &Path,
    paths: impl Iterator<Item = &'a PathBuf>,
) -> Vec<String> {
    paths
        .filter(|path| path.parent() == Some(directory))
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .collect()
}

/// Overwrites bytes at an offset, which may be behind the end.
pub(super) fn write_at(content: &mut Vec<u8>, position: usize, bytes: &[u8]) {
    let end = position + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[position..end].copy_from_slice(bytes);
}

#[derive(Debug)]
struct MemFile {
    content: Content,
    position: usize,
}

impl Write for MemFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write_at(&mut self.content.lock(), self.position, bytes);
        self.position += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for MemFile {
    fn write_at(&mut self, position: u64, bytes: &[u8]) -> io::Result<()> {
        let position = usize::try_from(position).map_err(|_| io::ErrorKind::FileTooLarge)?;
        write_at(&mut self.content.lock(), position, bytes);
        Ok(())
    }

    fn set_length(&mut self, length: u64) -> io::Result<()> {
        let length = usize::try_from(length).map_err(|_| io::ErrorKind::FileTooLarge)?;
        self.content.lock().truncate(length);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct MemLock {
    disk: MemDisk,
    directory: PathBuf,
}

impl Drop for MemLock {
    fn drop(&mut self) {
        self.disk.0.lock().locked.remove(&self.directory);
    }
}

impl DirectoryLock for MemLock {}
