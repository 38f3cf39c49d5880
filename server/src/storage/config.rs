//! The configuration of a server's files, by the names of `zoo.cfg`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::compression::Compression;
use super::disk::{Disk, FsDisk};
use crate::limits::FSYNC_WARNING;

/// The configuration of a server's files.
///
/// ```
/// use zoolet_server::Config;
/// use zoolet_server::storage::{Durability, StorageConfig};
///
/// let storage = StorageConfig { durability: Durability::Buffered, ..StorageConfig::at("/var/lib/zoolet") };
/// let config = Config { storage: Some(storage), ..Config::default() };
/// ```
#[derive(Debug, Clone)]
pub struct StorageConfig {
    /// `dataDir`: the directory of snapshots, which are in `version-2` below it.
    pub data_dir: PathBuf,
    /// `dataLogDir`: the directory of logs; `None` for `data_dir`.
    pub data_log_dir: Option<PathBuf>,
    /// Whether acknowledged writes survive a crash of the machine.
    pub durability: Durability,
    /// `snapCount`: the number of transactions after which the server takes a snapshot, 100,000 by
    /// default. ZooKeeper draws a number between half of it and all, so that the servers of an
    /// ensemble do not take their snapshots at the same time.
    pub snap_count: u64,
    /// `snapSizeLimitInKb`: the bytes of log after which the server takes a snapshot, 4 GiB by
    /// default; `None` for no limit.
    pub snap_size_limit_bytes: Option<u64>,
    /// `txnLogSizeLimitInKb`: the bytes after which the server begins a new log; `None`, the
    /// default, for no limit.
    pub log_size_limit_bytes: Option<u64>,
    /// `preAllocSize`: by how many bytes a log is extended ahead of its records. 64 MiB by default,
    /// of which 1 MiB at most takes disk space before it is written; 0 to extend it not at all.
    pub allocate_bytes: u64,
    /// `snapshot.compression.method`; none by default.
    pub snapshot_compression: Compression,
    /// `autopurge.snapRetainCount`: how many snapshots are kept, with the logs since the oldest of
    /// them. Three by default; `None` to keep all files.
    pub snap_retain_count: Option<usize>,
    /// `snapshot.trust.empty`: whether the server starts without a snapshot although the logs do
    /// not begin with the first transaction. Off by default.
    pub trust_empty_snapshot: bool,
    /// `datadir.autocreate`: whether the start creates directories that are missing. On by default.
    /// Off, the server does not start if the disk of its data is not mounted, instead of starting
    /// without the data.
    pub create_directories: bool,
    /// `fsync.warningthresholdms`: a sync of the log that takes longer is logged and counted. One
    /// second by default.
    pub sync_warning: Duration,
    /// The disk; the machine's by default.
    pub disk: Arc<dyn Disk>,
}

impl StorageConfig {
    /// ZooKeeper's defaults with a data directory. In contrast to ZooKeeper old files are deleted.
    pub fn at(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            data_log_dir: None,
            durability: Durability::default(),
            snap_count: 100_000,
            snap_size_limit_bytes: Some(4 << 30),
            log_size_limit_bytes: None,
            allocate_bytes: 64 << 20,
            snapshot_compression: Compression::None,
            snap_retain_count: Some(3),
            trust_empty_snapshot: false,
            create_directories: true,
            sync_warning: FSYNC_WARNING,
            disk: Arc::new(FsDisk),
        }
    }
}

/// What an acknowledged write survives. Without a [`StorageConfig`] it does not survive a restart.
///
/// ```
/// use zoolet_server::storage::Durability;
///
/// assert_eq!(Durability::default(), Durability::Synced);
/// assert_eq!("buffered".parse(), Ok(Durability::Buffered));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// A crash of the process, but not of the machine: the record was passed to the operating
    /// system. ZooKeeper's `forceSync=no`.
    Buffered,
    /// A crash of the machine: the record was synced.
    #[default]
    Synced,
}

/// The name of an unknown [`Durability`].
///
/// ```
/// use zoolet_server::storage::Durability;
///
/// let error = "sync".parse::<Durability>().unwrap_err();
/// assert_eq!(error.to_string(), "must be buffered or synced");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be buffered or synced")]
pub struct UnknownDurability;

impl std::str::FromStr for Durability {
    type Err = UnknownDurability;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "buffered" => Ok(Self::Buffered),
            "synced" => Ok(Self::Synced),
            _ => Err(UnknownDurability),
        }
    }
}
