//! What may be chosen about a server's files. The names are those of `zoo.cfg`.

use std::path::PathBuf;
use std::sync::Arc;

use super::compression::Compression;
use super::disk::{Disk, FsDisk};

/// Where a server keeps its data, and how well.
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
    /// `dataDir`: snapshots are in `version-2` below it.
    pub data_dir: PathBuf,
    /// `dataLogDir`: where the logs are, if not below `data_dir` too.
    pub data_log_dir: Option<PathBuf>,
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// `snapCount`: a snapshot is taken after as many transactions, 100,000 by default. ZooKeeper
    /// takes one after half as many to as many, by chance, so that the servers of an ensemble do not
    /// all do so at once.
    pub snap_count: u64,
    /// `snapSizeLimitInKb`: a snapshot is taken after as many bytes of log, 4 GiB by default; `None`
    /// for any number.
    pub snap_size_limit_bytes: Option<u64>,
    /// `txnLogSizeLimitInKb`: a new log is begun when one has as many bytes; `None`, the default, for
    /// any number.
    pub log_size_limit_bytes: Option<u64>,
    /// `preAllocSize`: by how much a log is made longer ahead of what is written, in bytes. 64 MiB by
    /// default, which take no room before they are written to; 0 for not at all.
    pub allocate_bytes: u64,
    /// `snapshot.compression.method`; none by default.
    pub snapshot_compression: Compression,
    /// `autopurge.snapRetainCount`: how many snapshots are kept, with the logs that go with them. Three
    /// by default; `None` to keep everything.
    pub snap_retain_count: Option<usize>,
    /// `snapshot.trust.empty`: start without a snapshot although the logs do not begin with the first
    /// transaction. Off by default.
    pub trust_empty_snapshot: bool,
    /// The disk; that of the machine by default.
    pub disk: Arc<dyn Disk>,
}

impl StorageConfig {
    /// ZooKeeper's defaults, in a directory, but for old files, which are deleted.
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
            disk: Arc::new(FsDisk),
        }
    }
}

/// What an acknowledged write survives. Without a [`StorageConfig`] it does not survive the server.
///
/// ```
/// use zoolet_server::storage::Durability;
///
/// assert_eq!(Durability::default(), Durability::Synced);
/// assert_eq!("buffered".parse(), Ok(Durability::Buffered));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// The end of the process, but not of the machine: it was given to the system. ZooKeeper's
    /// `forceSync=no`.
    Buffered,
    /// The end of the machine: it was synced.
    #[default]
    Synced,
}

/// A name of no [`Durability`].
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
