//! A configuration that is made anew when its files change.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::{Mutex, RwLock};

use crate::{FileProblem, TlsError};

/// A configuration, and the state of the files of which it was made.
#[derive(Debug)]
pub(crate) struct Reloading<C> {
    paths: Vec<PathBuf>,
    current: RwLock<Arc<C>>,
    seen: Mutex<Seen>,
}

/// The files of the last attempt.
#[derive(Debug)]
struct Seen {
    stamps: Vec<Option<Stamp>>,
    /// Whether they have a certificate that will be valid later.
    is_early: bool,
}

impl<C> Reloading<C> {
    /// Loads the first configuration.
    pub(crate) fn load(
        paths: Vec<PathBuf>,
        load: impl FnOnce() -> Result<C, TlsError>,
    ) -> Result<Self, TlsError> {
        // Before they are read: a file that is changed meanwhile differs later.
        let seen = Seen { stamps: stamps(&paths), is_early: false };
        let current = Arc::new(load()?);
        Ok(Self { paths, current: RwLock::new(current), seen: Mutex::new(seen) })
    }

    pub(crate) fn current(&self) -> Arc<C> {
        Arc::clone(&self.current.read())
    }

    /// Loads the configuration anew if a file has changed. If that fails the old one stays, and the
    /// same files are not tried again, unless one could not be read, or has a certificate that will
    /// be valid later, which is told once.
    pub(crate) fn reload_if_changed(
        &self,
        load: impl FnOnce() -> Result<C, TlsError>,
    ) -> Result<bool, TlsError> {
        // One at a time, so that an older configuration does not follow a newer one.
        let mut seen = self.seen.lock();
        let stamps = stamps(&self.paths);
        let has_changed = seen.stamps != stamps;
        if !has_changed && !seen.is_early {
            return Ok(false);
        }
        let loaded = match load() {
            Err(error @ TlsError::Io { .. }) => return Err(error),
            loaded => loaded,
        };
        let is_early = loaded.as_ref().is_err_and(is_early);
        *seen = Seen { stamps, is_early };
        if is_early && !has_changed {
            return Ok(false);
        }
        *self.current.write() = Arc::new(loaded?);
        Ok(true)
    }
}

/// Whether the same files can be used later.
fn is_early(error: &TlsError) -> bool {
    matches!(error, TlsError::File { problem: FileProblem::NotYetValid { .. }, .. })
}

/// What changes when a file is written, or when another one takes its place. It is that of the file
/// itself, behind all symbolic links: Kubernetes replaces a link to a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    modified: Option<SystemTime>,
    identity: Identity,
}

/// Device, inode, and the time at which the inode changed.
#[cfg(unix)]
type Identity = (u64, u64, i64, i64);
#[cfg(not(unix))]
type Identity = ();

fn stamps(paths: &[PathBuf]) -> Vec<Option<Stamp>> {
    let stamp = |path| {
        let metadata = fs::metadata(path).ok()?;
        let (bytes, modified) = (metadata.len(), metadata.modified().ok());
        Some(Stamp { bytes, modified, identity: identity(&metadata) })
    };
    paths.iter().map(stamp).collect()
}

#[cfg(unix)]
fn identity(metadata: &fs::Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
}

#[cfg(not(unix))]
fn identity(_metadata: &fs::Metadata) -> Identity {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TlsFile;

    fn early() -> Result<u8, TlsError> {
        let problem = FileProblem::NotYetValid { subject: String::new(), time: String::new() };
        Err(TlsError::File { file: TlsFile::KeyStore, path: PathBuf::new(), problem })
    }

    #[test]
    fn a_certificate_that_becomes_valid_is_loaded_then_and_told_of_once() {
        let file = tempfile::NamedTempFile::new().expect("there is room");
        let reloading = Reloading::load(vec![file.path().to_owned()], || Ok(1)).expect("it loads");
        fs::write(file.path(), "renewed").expect("there is room");
        assert!(reloading.reload_if_changed(early).is_err());
        for _ in 0..2 {
            assert!(matches!(reloading.reload_if_changed(early), Ok(false)));
            assert_eq!(*reloading.current(), 1);
        }
        assert!(matches!(reloading.reload_if_changed(|| Ok(2)), Ok(true)));
        assert_eq!(*reloading.current(), 2);
        assert!(matches!(reloading.reload_if_changed(|| Ok(3)), Ok(false)), "nothing has changed");
    }
}
