//! What is known to differ between Apache ZooKeeper 3.8.0, the reference at hand, and the newest
//! version, which ours follows: one table, and the predicates by which the generator and the
//! comparison heed it.

use zoolet_protocol::{EventType, WatchedEvent};

/// One known difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Since which version it is otherwise.
    pub since: &'static str,
    /// What changed.
    pub what: &'static str,
    /// How it is kept out of the comparison.
    pub handling: &'static str,
}

/// All of them.
pub const KNOWN: &[Known] = &[
    Known {
        since: "3.9.0",
        what: "the header of an event has the zxid of its cause",
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
        what: "events are told only to those who may read the znode",
        handling: "events about closed names are not compared",
    },
    Known {
        since: "3.9.0",
        what: "one connection may watch one path in several modes at once",
        handling: "each path has one kind of watch that is used on it",
    },
    Known {
        since: "3.9.0",
        what: "checkWatches looks at one's own watches only",
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
        what: "a hard quota is compared with what was applied, not with what is on its way",
        handling: "a seed has quotas, or sends several requests in one piece, not both",
    },
    Known {
        since: "never",
        what: "the ephemerals of a session that ends go in the order of a hash set",
        handling: "events of that step are sorted where they follow one another",
    },
    Known {
        since: "ours",
        what: "a character beyond U+FFFF in a path that is only echoed leaves as UTF-8, not as two \
               surrogates",
        handling: "sync is asked of other paths",
    },
    Known {
        since: "ours",
        what: "deleteContainer is refused to clients, and a null path in a multi leaves no gap in \
               the zxids",
        handling: "neither is generated",
    },
];

/// The name of znodes that not everyone may read.
pub(super) const CLOSED_NAME: &str = "z";

/// Whether a znode at a path may have a list that does not let everyone read.
pub(super) fn is_closed(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.starts_with(CLOSED_NAME))
}

/// Whether old versions tell of an event to those who may not know of it.
pub(super) fn is_told_by_old_versions_only(event: &WatchedEvent) -> bool {
    event.event_type != EventType::NONE && event.path.text().is_some_and(is_closed)
}

/// The kind of watch that is used on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchKind {
    Standard,
    Persistent,
    Recursive,
}

/// Each path has one kind, so that old versions have no mode to displace.
pub(super) fn watch_kind(path: &str) -> WatchKind {
    if path == "/" {
        return WatchKind::Recursive;
    }
    let sum: u32 = path.bytes().map(u32::from).sum();
    match sum % 5 {
        0 => WatchKind::Persistent,
        1 => WatchKind::Recursive,
        _ => WatchKind::Standard,
    }
}
