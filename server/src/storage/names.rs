//! Names of files that belong to the data directory and not to ZooKeeper.

/// The file with the durable mark. ZooKeeper and its purge ignore it.
pub(super) const DURABLE_MARK: &str = "zoolet.durable";
