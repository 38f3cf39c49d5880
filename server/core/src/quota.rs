//! Quotas: limits on the number and the data bytes of a znode with its descendants. Limits and
//! counters are the data of znodes below `/zookeeper/quota` (`Quotas`, `StatsTrack`).

mod check;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bytes::Bytes;
use zoolet_protocol::ErrorCode;

use crate::tree::{Data, Tree, Znode};

const QUOTA_ROOT: &str = "/zookeeper/quota";
const LIMITS: &str = "zookeeper_limits";
const STATS: &str = "zookeeper_stats";

/// The paths that have a quota.
#[derive(Debug, Clone, Default)]
pub(crate) struct Quotas {
    paths: BTreeSet<String>,
}

/// The meaning of a znode below `/zookeeper/quota`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuotaZnode<'a> {
    /// Its data are the limits of the quota on this path.
    Limits(&'a str),
    /// Its data are the counters of the quota on this path.
    Stats(&'a str),
}

impl<'a> QuotaZnode<'a> {
    /// The meaning of the znode at `path`. `None` if it has nothing to do with quotas.
    pub(crate) fn at(path: &'a str) -> Option<Self> {
        let (parent, name) = path.strip_prefix(QUOTA_ROOT)?.rsplit_once('/')?;
        match name {
            LIMITS => Some(Self::Limits(parent)),
            STATS => Some(Self::Stats(parent)),
            _ => None,
        }
    }

    /// Whether it would be a quota on the root. ZooKeeper accepts one and then fails.
    pub(crate) fn is_of_everything(self) -> bool {
        matches!(self, Self::Limits(""))
    }
}

impl Quotas {
    /// A quota on `path` was created.
    pub(crate) fn insert(&mut self, path: &str) {
        self.paths.insert(path.to_owned());
    }

    /// The quota on `path` was deleted.
    pub(crate) fn remove(&mut self, path: &str) {
        self.paths.remove(path);
    }

    /// The paths that have a quota, in order.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.paths.iter().cloned().collect()
    }

    /// The path of the quota that counts `path`: the deepest one at or above `path`.
    fn governing<'a>(&self, path: &'a str) -> Option<&'a str> {
        if self.paths.is_empty() {
            return None;
        }
        let mut prefix = path;
        while !prefix.is_empty() {
            if self.paths.contains(prefix) {
                return Some(prefix);
            }
            (prefix, _) = prefix.rsplit_once('/')?;
        }
        None
    }

    /// Refuses a change that would exceed a hard limit. As in ZooKeeper, the earlier operations of
    /// the same multi do not count yet.
    pub(crate) fn admit(&self, tree: &Tree, path: &str, change: Change) -> Result<(), ErrorCode> {
        let Some(quota) = self.governing(path) else { return Ok(()) };
        let limits = tree.get(&format!("{QUOTA_ROOT}{quota}/{LIMITS}"));
        let stats = tree.get(&format!("{QUOTA_ROOT}{quota}/{STATS}"));
        let Some(limits) = limits else { return Ok(()) };
        let limits = StatsTrack::of(limits).ok_or(ErrorCode::MARSHALLING_ERROR)?;
        let Some(stats) = stats else { return Ok(()) };
        let stats = StatsTrack::of(stats).ok_or(ErrorCode::MARSHALLING_ERROR)?;
        let exceeds = |delta: i64, hard_limit: &str, counter: &str| {
            let hard_limit = limits.value(hard_limit);
            delta != 0 && hard_limit > -1 && stats.value(counter).saturating_add(delta) > hard_limit
        };
        if exceeds(change.count, "countHardLimit", "count")
            || exceeds(change.bytes, "byteHardLimit", "bytes")
        {
            return Err(ErrorCode::QUOTA_EXCEEDED);
        }
        Ok(())
    }

    /// Counts deleted znodes. It changes each counter once for all consecutive znodes of a quota.
    pub(crate) fn count_deleted<'a>(
        &mut self,
        tree: &mut Tree,
        znodes: impl Iterator<Item = &'a Znode>,
    ) {
        if self.paths.is_empty() {
            return;
        }
        let mut pending: Option<(String, Change)> = None;
        for znode in znodes {
            if let Some(QuotaZnode::Limits(quota)) = QuotaZnode::at(&znode.path) {
                self.remove(quota);
            }
            let Some(quota) = self.governing(&znode.path) else { continue };
            let bytes = -(znode.data_length() as i64);
            match &mut pending {
                Some((path, change)) if path == quota => {
                    change.count -= 1;
                    change.bytes -= znode.data_length() as i64;
                }
                _ => {
                    let next = (quota.to_owned(), Change { count: -1, bytes });
                    if let Some((path, change)) = pending.replace(next) {
                        add(tree, &path, change);
                    }
                }
            }
        }
        if let Some((path, change)) = pending {
            add(tree, &path, change);
        }
    }

    /// Counts a change at `path`. Of the znode with the counters only the data changes.
    pub(crate) fn count(&self, tree: &mut Tree, path: &str, change: Change) {
        if let Some(quota) = self.governing(path) {
            add(tree, quota, change);
        }
    }

    /// Counts the znodes at and below `path` again and sets the counters of its quota.
    pub(crate) fn recount(tree: &mut Tree, path: &str) {
        let below = tree.below(path);
        let mut track = StatsTrack::default();
        track.set("count", below.znodes as i64);
        track.set("bytes", below.data_bytes as i64);
        let stats = format!("{QUOTA_ROOT}{path}/{STATS}");
        tree.update(&stats, |stats| stats.data = Some(track.to_data()));
    }

    /// The quotas on znodes right below the root, for monitoring: name, limits, counters.
    pub(crate) fn top_level(&self, tree: &Tree) -> Vec<(String, StatsTrack, StatsTrack)> {
        let track = |quota: &str, name: &str| {
            let znode = tree.get(&format!("{QUOTA_ROOT}{quota}/{name}"))?;
            StatsTrack::of(znode)
        };
        self.paths
            .iter()
            .filter(|path| path.rfind('/') == Some(0))
            .filter_map(|path| {
                Some((path[1..].to_owned(), track(path, LIMITS)?, track(path, STATS)?))
            })
            .collect()
    }
}

/// Adds a change to the counters of a quota.
fn add(tree: &mut Tree, quota: &str, change: Change) {
    tree.update(&format!("{QUOTA_ROOT}{quota}/{STATS}"), |stats| {
        // This server refuses counters that it cannot parse. If the files of another server contain
        // some, counting starts again.
        let mut track = StatsTrack::of(stats).unwrap_or_default();
        track.add("count", change.count);
        track.add("bytes", change.bytes);
        stats.data = Some(track.to_data());
    });
}

/// The difference that a change makes to the counters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change {
    pub(crate) count: i64,
    pub(crate) bytes: i64,
}

/// The data of a znode with limits or counters: `count=N,bytes=M`, and after an additional `=` more
/// values (`StatsTrack`).
///
/// ```
/// use zoolet_core::StatsTrack;
///
/// let mut limits = StatsTrack::parse(Some(&"count=3,bytes=-1".into())).expect("it is valid");
/// limits.set(StatsTrack::COUNT_HARD_LIMIT, 10);
/// assert_eq!(limits.to_string(), "count=3,bytes=-1=;countHardLimit=10");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatsTrack {
    values: BTreeMap<String, i64>,
}

impl StatsTrack {
    /// The key of the number of znodes: counted, or the limit whose excess is logged.
    pub const COUNT: &str = "count";
    /// The key of the bytes of data: counted, or the limit whose excess is logged.
    pub const BYTES: &str = "bytes";
    /// The key of the number of znodes beyond which a server that enforces quotas refuses writes.
    pub const COUNT_HARD_LIMIT: &str = "countHardLimit";
    /// The key of the bytes of data beyond which a server that enforces quotas refuses writes.
    pub const BYTE_HARD_LIMIT: &str = "byteHardLimit";

    /// Parses the data. `None` if ZooKeeper could not parse it.
    #[must_use]
    pub fn parse(text: Option<&Bytes>) -> Option<Self> {
        Self::parse_text(text.map(Bytes::as_ref))
    }

    /// Parses the data of a znode.
    fn of(znode: &Znode) -> Option<Self> {
        Self::parse_text(znode.data.as_deref())
    }

    /// The data for a znode.
    fn to_data(&self) -> Data {
        Data::copied(self.to_string().as_bytes())
    }

    /// [`StatsTrack::parse`] of borrowed bytes.
    pub(crate) fn parse_text(text: Option<&[u8]>) -> Option<Self> {
        let text = text.map_or("", |text| std::str::from_utf8(text).unwrap_or("not UTF-8"));
        let mut track = Self::default();
        let pairs = text.split([',', ';']).enumerate();
        // Consecutive separators count as one, except at the beginning. An empty text has no
        // values.
        for (_, pair) in
            pairs.filter(|(index, pair)| !pair.is_empty() || (*index == 0 && text.len() > 1))
        {
            let mut parts = pair.split('=');
            let key = parts.next()?;
            let value = parts.next()?;
            let value = if value.is_empty() { -1 } else { value.parse().ok()? };
            track.set(key, value);
        }
        Some(track)
    }

    /// The value of a key; -1 if it is not set.
    #[must_use]
    pub fn value(&self, key: &str) -> i64 {
        self.values.get(key).copied().unwrap_or(-1)
    }

    /// Sets the value of a key; -1 is none.
    pub fn set(&mut self, key: &str, value: i64) {
        self.values.insert(key.to_owned(), value);
    }

    fn add(&mut self, key: &str, delta: i64) {
        self.set(key, self.value(key).wrapping_add(delta));
    }
}

impl fmt::Display for StatsTrack {
    /// The data of the znode.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "count={},bytes={}", self.value(Self::COUNT), self.value(Self::BYTES))?;
        let others = self
            .values
            .iter()
            .filter(|(key, _)| ![Self::COUNT, Self::BYTES].contains(&key.as_str()));
        for (index, (key, value)) in others.enumerate() {
            // The additional `=` stops old parsers, which know only two values.
            write!(f, "{}{key}={value}", if index == 0 { "=;" } else { ";" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_data_is_parsed_as_by_zookeeper() {
        let parse =
            |text: &'static str| StatsTrack::parse(Some(&Bytes::from_static(text.as_bytes())));
        let track = parse("count=3,bytes=100=;byteHardLimit=7;countHardLimit=-1").unwrap();
        assert_eq!(track.value("bytes"), 100);
        assert_eq!(track.value("byteHardLimit"), 7);
        assert_eq!(track.value("other"), -1);
        assert_eq!(parse("").unwrap(), StatsTrack::default());
        assert_eq!(parse("count=,;bytes=2").unwrap().value("bytes"), 2);
        for bad in ["count", "count=x", "nonsense", ",count=1"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn old_parsers_can_read_the_data() {
        let mut track = StatsTrack::default();
        track.set("count", 1);
        track.set("countHardLimit", 5);
        track.set("byteHardLimit", 9);
        assert_eq!(track.to_string(), "count=1,bytes=-1=;byteHardLimit=9;countHardLimit=5");
    }

    #[test]
    fn the_path_of_a_quota_znode_tells_its_meaning() {
        assert_eq!(
            QuotaZnode::at("/zookeeper/quota/a/b/zookeeper_limits"),
            Some(QuotaZnode::Limits("/a/b"))
        );
        assert_eq!(QuotaZnode::at("/zookeeper/quota/zookeeper_stats"), Some(QuotaZnode::Stats("")));
        assert_eq!(QuotaZnode::at("/zookeeper/quota/a"), None);
        assert_eq!(QuotaZnode::at("/a/zookeeper_limits"), None);
    }
}
