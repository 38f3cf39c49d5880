//! The options of the data directory.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use zoolet_server::storage::{Compression, Durability, StorageConfig};

use super::values::{self, BadValue};
use super::{Contradiction, put};

/// A field is `None` unless a file or a flag sets it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct StorageOptions {
    /// Keep the data here, in ZooKeeper's format [default: in memory only]
    #[arg(long, value_name = "DIR", value_parser = directory_option(), help_heading = STORAGE)]
    pub(crate) data_dir: Option<PathBuf>,

    /// Keep the logs here, on a disk of their own say [default: in the data directory]
    #[arg(long, value_name = "DIR", value_parser = directory_option(), help_heading = STORAGE)]
    #[arg(visible_alias = "log-dir")]
    pub(crate) data_log_dir: Option<PathBuf>,

    /// What an acknowledged write survives [default: synced, with a data directory]
    #[arg(long, value_name = "MODE", help_heading = STORAGE)]
    pub(crate) durability: Option<DurabilityOption>,

    /// Take a snapshot after as many writes [default: 100000]
    #[arg(long, value_name = "COUNT", value_parser = snap_count, help_heading = STORAGE)]
    pub(crate) snap_count: Option<u64>,

    /// Take a snapshot after as many KiB of log; -1 for any number [default: 4194304]
    #[arg(long, value_name = "KB", value_parser = limit_kb, help_heading = STORAGE)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) snap_size_limit_in_kb: Option<KbLimit>,

    /// Begin a new log after as many KiB; -1 for any number [default: -1]
    #[arg(long, value_name = "KB", value_parser = limit_kb, help_heading = STORAGE)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) txn_log_size_limit_in_kb: Option<KbLimit>,

    /// Set as many KiB aside for a log at once; 0 for none [default: 65536]
    #[arg(long, value_name = "KB", value_parser = allocate_kb, help_heading = STORAGE)]
    pub(crate) pre_alloc_size: Option<u64>,

    /// Compress snapshots: gz, snappy, or nothing [default: nothing]
    #[arg(long, value_name = "NAME", value_parser = compression, help_heading = STORAGE)]
    pub(crate) snapshot_compression_method: Option<Compression>,

    /// Keep as many snapshots, three at least, and the logs after them [default: 3]
    #[arg(long, value_name = "COUNT", value_parser = retain, help_heading = STORAGE)]
    pub(crate) autopurge_snap_retain_count: Option<usize>,

    /// Whether old files are deleted: not if it is 0 [default: after each snapshot, with a zoo.cfg not]
    #[arg(long, value_name = "HOURS", value_parser = purge_interval, help_heading = STORAGE)]
    pub(crate) autopurge_purge_interval: Option<Purge>,

    /// Start without a snapshot, although the logs do not go back to the first write
    #[arg(long, value_name = "BOOL", value_parser = values::boolean, help_heading = STORAGE)]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    pub(crate) snapshot_trust_empty: Option<bool>,

    /// Create the directories of the data if they are missing [default: true]
    #[arg(long, value_name = "BOOL", value_parser = values::boolean, help_heading = STORAGE)]
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    pub(crate) datadir_autocreate: Option<bool>,

    /// Log and count a sync of the log that takes longer [default: 1000]
    #[arg(long, value_name = "MS", value_parser = sync_warning, help_heading = STORAGE)]
    pub(crate) fsync_warningthresholdms: Option<Duration>,

    /// `forceSync`.
    #[arg(skip)]
    pub(crate) force_sync: Option<bool>,
}

/// What an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityOption {
    /// Nothing: it is in memory
    Memory,
    /// The end of the process, not of the machine
    Buffered,
    /// The end of the machine: it is synced
    Synced,
}

/// A number of KiB, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KbLimit(Option<u64>);

/// Whether old files are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purge {
    Never,
    AfterSnapshots,
}

impl StorageOptions {
    /// The configuration of the storage; `None` without a directory.
    ///
    /// # Errors
    ///
    /// [`Contradiction::NoDataDir`] if data is to be durable and there is no directory.
    pub(super) fn config(&self) -> Result<Option<StorageConfig>, Contradiction> {
        let durability = match (self.durability, self.force_sync) {
            (Some(DurabilityOption::Memory), _) => return Ok(None),
            (Some(DurabilityOption::Synced), _) | (None, None | Some(true)) => Durability::Synced,
            (Some(DurabilityOption::Buffered), _) | (None, Some(false)) => Durability::Buffered,
        };
        let Some(data_dir) = &self.data_dir else {
            return match self.durability {
                Some(_) => Err(Contradiction::NoDataDir),
                None => Ok(None),
            };
        };
        let mut config = StorageConfig { durability, ..StorageConfig::at(data_dir) };
        config.data_log_dir.clone_from(&self.data_log_dir);
        put(&mut config.snap_count, self.snap_count);
        let bytes = |limit: KbLimit| limit.0.map(|kb| kb.saturating_mul(1024));
        put(&mut config.snap_size_limit_bytes, self.snap_size_limit_in_kb.map(bytes));
        put(&mut config.log_size_limit_bytes, self.txn_log_size_limit_in_kb.map(bytes));
        put(&mut config.allocate_bytes, self.pre_alloc_size.map(|kb| kb * 1024));
        put(&mut config.snapshot_compression, self.snapshot_compression_method);
        put(&mut config.snap_retain_count, self.autopurge_snap_retain_count.map(Some));
        if self.autopurge_purge_interval == Some(Purge::Never) {
            config.snap_retain_count = None;
        }
        put(&mut config.trust_empty_snapshot, self.snapshot_trust_empty);
        put(&mut config.create_directories, self.datadir_autocreate);
        put(&mut config.sync_warning, self.fsync_warningthresholdms);
        Ok(Some(config))
    }

    /// Whether the server will refuse to start because the data directory is missing. Until then
    /// nothing else creates it either.
    pub(super) fn lacks_directory(&self) -> bool {
        let lacks = |directory: &PathBuf| !directory.join("version-2").exists();
        self.datadir_autocreate == Some(false) && self.data_dir.as_ref().is_some_and(lacks)
    }

    /// Whether there is a data directory that is neither read nor written.
    pub(super) fn ignores_directory(&self) -> bool {
        self.durability == Some(DurabilityOption::Memory) && self.data_dir.is_some()
    }

    /// Whether an option is set that has no effect without a data directory.
    pub(super) fn is_idle(&self) -> bool {
        let chosen = Self { durability: None, ..self.clone() };
        self.data_dir.is_none() && chosen != Self::default()
    }
}

/// The parser of an option that names a directory, whose name need not be UTF-8.
pub(crate) fn directory_option() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|name: OsString| match name.into_string() {
        Ok(text) => directory(&text),
        Err(name) => Ok(name.into()),
    })
}

pub(crate) fn directory(text: &str) -> Result<PathBuf, BadValue> {
    if text.trim().is_empty() { Err(BadValue::Empty) } else { Ok(text.trim().into()) }
}

/// Two for everything below, as in `ZooKeeperServer.getSnapCount`.
pub(crate) fn snap_count(text: &str) -> Result<u64, BadValue> {
    Ok(values::decoded(text, 1..=values::INT_MAX)?.max(2) as u64)
}

/// No limit for everything below zero. A limit of nothing lets ZooKeeper divide by zero.
pub(crate) fn limit_kb(text: &str) -> Result<KbLimit, BadValue> {
    match values::decoded(text, i64::MIN..=i64::MAX) {
        Ok(kb) if kb != 0 => Ok(KbLimit(u64::try_from(kb).ok())),
        _ => Err(BadValue::NotInRangeNorMinusOne(1..=i64::MAX, "no limit")),
    }
}

/// A terabyte at most: it is bytes that count.
pub(crate) fn allocate_kb(text: &str) -> Result<u64, BadValue> {
    Ok(values::decoded(text, 0..=1 << 30)? as u64)
}

/// Any time. ZooKeeper takes less than none too, and then warns of every sync.
pub(crate) fn sync_warning(text: &str) -> Result<Duration, BadValue> {
    Ok(Duration::from_millis(values::decoded(text, 0..=values::INT_MAX)? as u64))
}

pub(crate) fn compression(text: &str) -> Result<Compression, BadValue> {
    text.parse().map_err(|_| BadValue::NotACompression)
}

/// Three for everything below, as in `DatadirCleanupManager`.
pub(crate) fn retain(text: &str) -> Result<usize, BadValue> {
    Ok(values::whole(text, 0..=values::INT_MAX)?.max(3) as usize)
}

/// A number of hours, or of what a unit behind it says. Only whether it is 0 counts here.
pub(crate) fn purge_interval(text: &str) -> Result<Purge, BadValue> {
    let number = text.trim().trim_end_matches(|c: char| c.is_ascii_alphabetic());
    match values::whole(number, values::INT_MIN..=values::INT_MAX) {
        Ok(1..) => Ok(Purge::AfterSnapshots),
        Ok(_) => Ok(Purge::Never),
        Err(_) => Err(BadValue::NotInRange(0..=values::INT_MAX)),
    }
}

const STORAGE: &str = "Storage";
