//! The names of lock znodes, by which the recipes that use a path are told apart.

use zoolet_protocol::sequence_number;

/// The kind of a znode in a lock's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Marker {
    /// The znode of an `InterProcessMutex`, or of the lock in front of a semaphore.
    Mutex,
    /// The znode of a read lock.
    Read,
    /// The znode of a write lock.
    Write,
    /// A permit of a semaphore.
    Permit,
    /// The znode of a candidate of a `LeaderLatch`.
    Latch,
}

impl Marker {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Mutex, "lock-"),
        (Self::Read, "__READ__"),
        (Self::Write, "__WRIT__"),
        (Self::Permit, "lease-"),
        (Self::Latch, "latch-"),
    ];

    /// Parses a name: a marker and a sequence number behind it, whatever precedes them.
    pub(crate) fn read(name: &str) -> Option<(Self, i64)> {
        Self::ALL
            .iter()
            .find_map(|(marker, text)| Some((*marker, sequence_number(name, text)?.into())))
    }
}

/// The child of a semaphore's path whose children are its permits.
pub(crate) const PERMITS: &str = "leases";

/// The child of a semaphore's path whose children wait for permits.
pub(crate) const WAITING_FOR_PERMITS: &str = "locks";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_by_their_markers_and_others_are_none() {
        let cases = [
            ("_c_11-lock-0000000007", Some((Marker::Mutex, 7))),
            ("_c_11-__READ__0000000012", Some((Marker::Read, 12))),
            ("__WRIT__-2147483648", Some((Marker::Write, -2_147_483_648))),
            ("_c_11-lease-0000000000", Some((Marker::Permit, 0))),
            ("_c_11-latch-0000000003", Some((Marker::Latch, 3))),
            ("lock-7", None),
            ("lock-00000000x7", None),
            ("leases", None),
            ("0000000007", None),
        ];
        for (name, expected) in cases {
            assert_eq!(Marker::read(name), expected, "{name}");
        }
    }
}
