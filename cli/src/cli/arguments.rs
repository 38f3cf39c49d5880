//! Arguments of commands, and their parsers.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use zoolet_core::{StatsTrack, TTL_MS_MAX};
use zoolet_protocol::{CreateMode, Expect, PathError, WatchMode, ZPath};

use super::acl::AclList;
use crate::server_options::values;

#[derive(Debug, Args)]
#[group(skip)]
pub(super) struct Create {
    /// With a number after its name
    #[arg(short, long)]
    pub(super) sequential: bool,
    /// Ephemeral: deleted when this session ends
    #[arg(short, long)]
    pub(super) ephemeral: bool,
    /// A container: deleted some time after its last child
    #[arg(short, long, conflicts_with_all = ["sequential", "ephemeral"])]
    pub(super) container: bool,
    /// Deleted when unchanged and without children for this long: milliseconds, or a time such as 10m
    #[arg(short, long, value_name = "TIME", value_parser = time_to_live)]
    #[arg(conflicts_with_all = ["ephemeral", "container"], allow_negative_numbers = true)]
    pub(super) ttl: Option<Duration>,
    /// May end with a slash with -s
    pub(super) path: String,
    #[arg(default_value = "", allow_negative_numbers = true)]
    pub(super) data: String,
    /// The access control list, such as world:anyone:r
    #[arg(default_value = "world:anyone:cdrwa")]
    pub(super) acl: AclList,
}

#[derive(Debug, Args)]
#[group(skip)]
pub(super) struct Set {
    /// Only if the data has this version
    #[arg(short = 'v', long, value_name = "VERSION")]
    #[arg(value_parser = any_version, allow_negative_numbers = true)]
    version: Option<i32>,
    #[arg(value_parser = znode)]
    pub(super) path: String,
    #[arg(allow_negative_numbers = true)]
    pub(super) data: String,
}

#[derive(Debug, Args)]
pub(super) struct Delete {
    /// Only if the data has this version
    #[arg(short = 'v', long, value_name = "VERSION")]
    #[arg(value_parser = any_version, allow_negative_numbers = true)]
    version: Option<i32>,
    #[arg(value_parser = znode)]
    pub(super) path: String,
}

/// How data is printed.
#[derive(Debug, Clone, Copy, Args)]
#[group(skip)]
pub(super) struct DataForm {
    /// In base64
    #[arg(short, long)]
    pub(super) base64: bool,
    /// As a hex dump, with -b too
    #[arg(short = 'x', long)]
    pub(super) hex: bool,
}

/// The modes of `addWatch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum WatchModeName {
    #[value(name = "PERSISTENT")]
    Persistent,
    #[value(name = "PERSISTENT_RECURSIVE")]
    Recursive,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Switch {
    On,
    Off,
}

/// Which watches are removed: all, unless an option says which.
#[derive(Debug, Clone, Copy, Args)]
#[group(multiple = false)]
pub(super) struct RemovedWatches {
    /// Those for children
    #[arg(short, long)]
    pub(super) children: bool,
    /// Those for data
    #[arg(short, long)]
    pub(super) data: bool,
    /// Persistent ones
    #[arg(short, long)]
    pub(super) persistent: bool,
    /// Persistent recursive ones
    #[arg(short, long)]
    pub(super) recursive: bool,
    /// All: the default
    #[arg(short, long)]
    pub(super) all: bool,
}

/// One limit of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limit {
    /// The key in the data of the quota.
    pub(super) key: &'static str,
    pub(super) value: i64,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct NewQuota {
    /// How many znodes, itself included, before the server warns
    #[arg(short = 'n', long, value_name = "NUMBER", value_parser = znodes, allow_negative_numbers = true)]
    count: Option<i64>,
    /// How many bytes of data before the server warns
    #[arg(short = 'b', long, value_name = "NUMBER", value_parser = bytes, allow_negative_numbers = true)]
    bytes: Option<i64>,
    /// How many znodes at most
    #[arg(short = 'N', long, value_name = "NUMBER", value_parser = znodes, allow_negative_numbers = true)]
    hard_count: Option<i64>,
    /// How many bytes of data at most
    #[arg(short = 'B', long, value_name = "NUMBER", value_parser = bytes, allow_negative_numbers = true)]
    hard_bytes: Option<i64>,
}

/// Limits of a quota: all, unless an option says which.
#[derive(Debug, Clone, Copy, Args)]
#[group(multiple = false)]
pub(super) struct LimitKinds {
    /// The number of znodes before the server warns
    #[arg(short = 'n', long)]
    count: bool,
    /// The bytes of data before the server warns
    #[arg(short = 'b', long)]
    bytes: bool,
    /// The number of znodes
    #[arg(short = 'N', long)]
    hard_count: bool,
    /// The bytes of data
    #[arg(short = 'B', long)]
    hard_bytes: bool,
}

/// A change of the members of an ensemble.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(super) struct Members {
    /// Members to add, with commas between: server.4=host:2888:3888;2181
    #[arg(long, value_name = "SERVERS")]
    pub(super) add: Option<String>,
    /// The numbers of the members to remove, with commas between
    #[arg(long, value_name = "IDS")]
    pub(super) remove: Option<String>,
    /// All members, with commas between
    #[arg(long, value_name = "SERVERS", conflicts_with_all = ["add", "remove"])]
    pub(super) members: Option<String>,
    /// A file with all members, one a line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["add", "remove", "members"])]
    pub(super) file: Option<PathBuf>,
}

/// The options that `zkCli.sh` writes with one dash, though they have several letters.
const WITH_ONE_DASH: [&str; 4] = ["-file", "-members", "-add", "-remove"];

/// The words of a command, with two dashes before the options of `reconfig`.
pub(super) fn with_double_dashes(words: &[String]) -> Vec<String> {
    let is_reconfig = words.first().is_some_and(|word| word == "reconfig");
    let word = |word: &String| match word.as_str() {
        option if is_reconfig && WITH_ONE_DASH.contains(&option) => format!("-{option}"),
        word => word.to_owned(),
    };
    words.iter().map(word).collect()
}

impl Create {
    /// The mode that the options describe together. Contradictory options were refused.
    pub(super) fn mode(&self) -> CreateMode {
        match (self.ttl, self.container, self.sequential, self.ephemeral) {
            (Some(ttl), _, true, _) => CreateMode::PersistentSequentialWithTtl(ttl),
            (Some(ttl), _, false, _) => CreateMode::PersistentWithTtl(ttl),
            (None, true, ..) => CreateMode::Container,
            (None, false, true, true) => CreateMode::EphemeralSequential,
            (None, false, true, false) => CreateMode::PersistentSequential,
            (None, false, false, true) => CreateMode::Ephemeral,
            (None, false, false, false) => CreateMode::Persistent,
        }
    }
}

impl Set {
    pub(super) fn version(&self) -> Expect {
        expected(self.version)
    }
}

impl Delete {
    pub(super) fn version(&self) -> Expect {
        expected(self.version)
    }
}

impl WatchModeName {
    pub(super) fn mode(self) -> WatchMode {
        match self {
            Self::Persistent => WatchMode::PERSISTENT,
            Self::Recursive => WatchMode::PERSISTENT_RECURSIVE,
        }
    }
}

impl NewQuota {
    /// The limit. There is exactly one.
    pub(super) fn limit(&self) -> Option<Limit> {
        let limits = [
            (StatsTrack::COUNT, self.count),
            (StatsTrack::BYTES, self.bytes),
            (StatsTrack::COUNT_HARD_LIMIT, self.hard_count),
            (StatsTrack::BYTE_HARD_LIMIT, self.hard_bytes),
        ];
        limits.into_iter().find_map(|(key, value)| Some(Limit { key, value: value? }))
    }
}

impl LimitKinds {
    /// The key of the limit; `None` for all.
    pub(super) fn key(self) -> Option<&'static str> {
        let kinds = [
            (StatsTrack::COUNT, self.count),
            (StatsTrack::BYTES, self.bytes),
            (StatsTrack::COUNT_HARD_LIMIT, self.hard_count),
            (StatsTrack::BYTE_HARD_LIMIT, self.hard_bytes),
        ];
        kinds.into_iter().find_map(|(key, is_meant)| is_meant.then_some(key))
    }
}

/// The version that a request expects; -1 is any, as in ZooKeeper.
pub(super) fn expected(version: Option<i32>) -> Expect {
    version.map_or(Expect::Any, Expect::from)
}

/// Parses a version.
pub(super) fn any_version(text: &str) -> Result<i32, &'static str> {
    text.parse().map_err(|_| "must be a whole number, as `stat` shows it, or -1 for any version")
}

/// Parses the version of a configuration.
pub(super) fn hexadecimal(text: &str) -> Result<i64, &'static str> {
    i64::from_str_radix(text, 16).map_err(|_| "must be a hexadecimal number, as `config` shows it")
}

/// Parses how many requests are sent at a time.
pub(super) fn counted(text: &str) -> Result<usize, &'static str> {
    let wrong = "must be a whole number from 1 to 10000";
    match text.parse() {
        Ok(count @ 1..=10_000) => Ok(count),
        _ => Err(wrong),
    }
}

/// Parses a limit for the number of znodes, which ZooKeeper reads as an `int`.
fn znodes(text: &str) -> Result<i64, &'static str> {
    match text.parse::<i32>() {
        Ok(count @ 1..) => Ok(count.into()),
        _ => Err("must be a whole number from 1 to 2147483647"),
    }
}

/// Parses a limit for bytes.
fn bytes(text: &str) -> Result<i64, &'static str> {
    match text.parse() {
        Ok(bytes @ 0..) => Ok(bytes),
        _ => Err("must be a whole number from 0 up"),
    }
}

/// A path. A slash at the end is ignored.
pub(super) fn znode(text: &str) -> Result<String, PathError> {
    let path = match text.trim_end_matches('/') {
        "" => text.get(..1).unwrap_or(text),
        path => path,
    };
    ZPath::check(path).map(|()| path.to_owned())
}

/// A plain number is milliseconds, as in `zkCli.sh`.
fn time_to_live(text: &str) -> Result<Duration, String> {
    let ms = text.parse().map(Duration::from_millis);
    let limits = Duration::from_millis(1)..=Duration::from_millis(TTL_MS_MAX.cast_unsigned());
    match ms.or_else(|_| values::time(text)) {
        Ok(time) if limits.contains(&time) => Ok(time),
        Ok(_) => Err(format!("must be from 1 to {TTL_MS_MAX} milliseconds")),
        Err(_) => Err(format!(
            "must be a number of milliseconds from 1 to {TTL_MS_MAX}, or a time with units, such as \
             10m, 1h30m or 500ms"
        )),
    }
}
