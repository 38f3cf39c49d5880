//! Why recovery cannot use a snapshot.

use std::io;
use std::path::PathBuf;

use zoolet_core::RestoreError;
use zoolet_protocol::Zxid;

use super::snapshot_reader::SnapshotError;

/// A snapshot that is not usable.
///
/// ```
/// use zoolet_server::storage::StorageError;
///
/// fn list(error: &StorageError) {
///     if let StorageError::NoUsableSnapshot(snapshots) = error {
///         for unusable in snapshots {
///             println!("{}: {}", unusable.path.display(), unusable.reason);
///         }
///     }
/// }
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct SnapshotUnusable {
    /// The file.
    pub path: PathBuf,
    /// Why it is not usable.
    pub reason: SnapshotFault,
}

/// Why a snapshot is not usable.
///
/// ```
/// use zoolet_core::RestoreError;
/// use zoolet_server::storage::SnapshotFault;
///
/// let fault = SnapshotFault::from(RestoreError::RootMissing);
/// assert_eq!(fault.to_string(), "the snapshot has no root");
/// ```
#[derive(Debug, thiserror::Error)]
pub enum SnapshotFault {
    /// The file is damaged or not a snapshot.
    #[error(transparent)]
    File(#[from] SnapshotError),
    /// Its tree is invalid.
    #[error(transparent)]
    Tree(#[from] RestoreError),
    /// It lacks transactions up to the zxid in its name.
    #[error("it was taken at {0}, which its name does not say")]
    Misnamed(Zxid),
    /// Something follows it.
    #[error("something follows the end of the snapshot")]
    Overlong,
    /// After this zxid too few are left for a server to go on.
    #[error("it has the zxid {0}, after which no server can go on")]
    LastZxid(Zxid),
}

impl From<io::Error> for SnapshotFault {
    fn from(error: io::Error) -> Self {
        Self::File(error.into())
    }
}
