//! Names of files that belong to the data directory and not to ZooKeeper.

/// The file with the durable mark. ZooKeeper and its purge ignore it.
pub(super) const DURABLE_MARK: &str = "zoolet.durable";

/// The file beside the snapshots that names the directory of the logs. ZooKeeper ignores it too.
pub(super) const LOGS_NOTE: &str = "zoolet.logs-in";
