//! Which other process writes the files of a data directory. A server of zoolet locks its directory; one of
//! Apache ZooKeeper does not, and would go on with files that are deleted or written by another one.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::time::Duration;

use zoolet_server::storage::StorageConfig;

/// How often to look, and the pause between two looks: a server that was just killed may be there for a moment.
const LOOKS_MAX: u32 = 10;
const PAUSE: Duration = Duration::from_millis(100);

/// Another process that writes a file of a data directory.
#[derive(Debug)]
pub(crate) struct Writer {
    directory: PathBuf,
    process: u32,
    file: PathBuf,
}

impl std::error::Error for Writer {}

impl Display for Writer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { directory, process, file } = self;
        let (directory, file) = (directory.display(), file.display());
        write!(
            f,
            "{directory} is in use: the process {process} uses it, and writes {file}; stop that server, or choose \
             another directory"
        )
    }
}

/// Refuses directories in which another process writes. Only Linux tells that, and of the processes of other users
/// only to root.
///
/// # Errors
///
/// [`Writer`] if there is one.
pub(crate) fn refuse_others(config: &StorageConfig) -> Result<(), Writer> {
    let directories = std::iter::once(&config.data_dir).chain(&config.data_log_dir);
    for directory in directories {
        // What is not there has no files.
        let Ok(files) = directory.join("version-2").canonicalize() else { continue };
        let mut looks = 0;
        while let Some((process, file)) = system::writer_below(&files) {
            looks += 1;
            if looks == LOOKS_MAX {
                return Err(Writer { directory: directory.clone(), process, file });
            }
            pause();
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "nothing else runs in this process yet")]
fn pause() {
    std::thread::sleep(PAUSE);
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs::{self, DirEntry};
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};

    /// Another process that has a file of this directory open for writing, and the file.
    pub(super) fn writer_below(directory: &Path) -> Option<(u32, PathBuf)> {
        for entry in fs::read_dir("/proc").ok()?.flatten() {
            let process = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
            let Some(process) = process.filter(|id| *id != std::process::id()) else { continue };
            // It may be gone, or that of another user.
            let Ok(open) = fs::read_dir(entry.path().join("fd")) else { continue };
            let mut written = open.flatten().filter_map(|entry| written(&entry));
            if let Some(file) = written.find(|file| file.parent() == Some(directory)) {
                return Some((process, file));
            }
        }
        None
    }

    /// The file of a descriptor that is open for writing: its link has the permission to write then.
    fn written(descriptor: &DirEntry) -> Option<PathBuf> {
        const WRITE: u32 = 0o200;
        let mode = descriptor.metadata().ok()?.permissions().mode();
        if mode & WRITE == 0 {
            return None;
        }
        fs::read_link(descriptor.path()).ok()
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::path::{Path, PathBuf};

    pub(super) fn writer_below(_: &Path) -> Option<(u32, PathBuf)> {
        None
    }
}
