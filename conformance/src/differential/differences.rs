//! The known differences between Apache ZooKeeper 3.8.0, the reference, and the newest version,
//! which zoolet follows: one table, and the predicates with which the generator and the comparison
//! respect it.

use zoolet_protocol::{EventType, WatchedEvent};

/// One known difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The version in which ZooKeeper changed. `never` if all versions do this, `ours` if only
    /// zoolet does.
    pub since: &'static str,
    /// The difference.
    pub what: &'static str,
    /// How it is kept out of the comparison.
    pub handling: &'static str,
}

/// All known differences.
pub const KNOWN: &[Known] = &[
    Known {
        since: "3.9.0",
        what: "the header of an event has the zxid of the transaction that fired it",
        handling: "zxids of events are not compared",
    },
    Known {
        since: "3.8.4",
        what: "exists needs READ",
        handling: "lists without READ for everyone are set on closed names only, and exists is not \
                   asked of those",
    },
    Known {
        since: "3.8.4",
        what: "events are sent only to clients that may read the znode",
        handling: "events about closed names are not compared",
    },
    Known {
        since: "3.9.0",
        what: "one connection may watch one path in several modes at once",
        handling: "each path is watched in one mode only",
    },
    Known {
        since: "3.9.0",
        what: "checkWatches checks the watches of the connection only",
        handling: "checkWatches is not generated",
    },
    Known {
        since: "3.9.0",
        what: "removeWatches has types for persistent and recursive watches, and the types of \
               one-shot watches leave those",
        handling: "the type is any, or one of a one-shot watch on a path that has no others",
    },
    Known {
        since: "3.9.0",
        what: "create2 and createContainer keep their kind in a multi",
        handling: "neither is generated there; a container is a create with its flags",
    },
    Known {
        since: "3.9.0",
        what: "flags of no mode and a null list make a multi unreadable",
        handling: "neither is generated in a multi",
    },
    Known {
        since: "3.9.0",
        what: "a write whose body cannot be read takes no zxid",
        handling: "all bodies can be read",
    },
    Known {
        since: "3.9.3",
        what: "a check outside a multi is an unknown operation",
        handling: "check is generated in a multi only",
    },
    Known {
        since: "never",
        what: "requests that overtake the application of a setACL are checked against the old list \
               (PrepRequestProcessor copies the change record without the new one); ours are not",
        handling: "setACL is sent alone",
    },
    Known {
        since: "never",
        what: "a hard quota is compared with applied writes, not with writes in the queue",
        handling: "a seed has quotas, or sends several requests in one piece, not both",
    },
    Known {
        since: "never",
        what: "the ephemerals of a session that ends are deleted in the order of a hash set",
        handling: "consecutive events of that step are sorted",
    },
    Known {
        since: "ours",
        what: "a character beyond U+FFFF in the reply to sync is UTF-8 and not two surrogates",
        handling: "sync is sent with other paths",
    },
    Known {
        since: "ours",
        what: "deleteContainer is refused to clients, and a null path in a multi leaves no gap in \
               the zxids",
        handling: "neither is generated",
    },
];

/// The name of znodes that perhaps not everyone may read.
pub(super) const CLOSED_NAME: &str = "z";

/// Whether a znode at this path may have an access control list that does not permit everyone to
/// read.
pub(super) fn is_closed(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.starts_with(CLOSED_NAME))
}

/// Whether old versions send this event to clients that may not read the znode.
pub(super) fn is_sent_by_old_versions_only(event: &WatchedEvent) -> bool {
    event.event_type != EventType::NONE && event.path.text().is_some_and(is_closed)
}

/// The mode in which a path is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathWatchMode {
    Standard,
    Persistent,
    Recursive,
}

/// The mode for a path. Each path has one only, because old versions let one mode replace another.
pub(super) fn watch_mode_of(path: &str) -> PathWatchMode {
    if path == "/" {
        return PathWatchMode::Recursive;
    }
    let sum: u32 = path.bytes().map(u32::from).sum();
    match sum % 5 {
        0 => PathWatchMode::Persistent,
        1 => PathWatchMode::Recursive,
        _ => PathWatchMode::Standard,
    }
}
