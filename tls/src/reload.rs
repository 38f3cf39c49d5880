//! A configuration that is made anew when its files change.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::{Mutex, RwLock};

use crate::TlsError;

/// A configuration, and the state of the files of which it was made.
#[derive(Debug)]
pub(crate) struct Reloading<C> {
    paths: Vec<PathBuf>,
    current: RwLock<Arc<C>>,
    seen: Mutex<Vec<Option<Stamp>>>,
}

impl<C> Reloading<C> {
    /// Loads the first configuration.
    pub(crate) fn load(
        paths: Vec<PathBuf>,
        load: impl FnOnce() -> Result<C, TlsError>,
    ) -> Result<Self, TlsError> {
        // Before they are read: a file that is changed meanwhile differs later.
        let seen = stamps(&paths);
        let current = Arc::new(load()?);
        Ok(Self { paths, current: RwLock::new(current), seen: Mutex::new(seen) })
    }

    pub(crate) fn current(&self) -> Arc<C> {
        Arc::clone(&self.current.read())
    }

    /// Loads the configuration anew if a file has changed. If that fails the old one stays, and the
    /// same files are not tried again, unless one could not be read.
    pub(crate) fn reload_if_changed(
        &self,
        load: impl FnOnce() -> Result<C, TlsError>,
    ) -> Result<bool, TlsError> {
        // One at a time, so that an older configuration does not follow a newer one.
        let mut seen = self.seen.lock();
        let now = stamps(&self.paths);
        if *seen == now {
            return Ok(false);
        }
        let loaded = load();
        if !matches!(loaded, Err(TlsError::Io { .. })) {
            *seen = now;
        }
        *self.current.write() = Arc::new(loaded?);
        Ok(true)
    }
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
