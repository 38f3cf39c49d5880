//! The names that locks give their znodes: what tells the recipes apart that use a path.

/// What a znode in a lock's directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Marker {
    /// A place in the line of a mutex, or in that before a semaphore.
    Mutex,
    /// A place of one who reads.
    Read,
    /// A place of one who writes.
    Write,
    /// A permit of a semaphore.
    Permit,
    /// A place in the line of those who would lead.
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

    /// What a name is, and its number: a marker and a number behind it, whatever stands before.
    pub(crate) fn read(name: &str) -> Option<(Self, i64)> {
        Self::ALL.iter().find_map(|(marker, text)| {
            let (_, number) = name.rsplit_once(text)?;
            let digits = number.strip_prefix('-').unwrap_or(number);
            let is_number =
                number.len() >= NUMBER_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| Some((*marker, number.parse().ok()?)))?
        })
    }
}

/// The digits of a sequence number.
const NUMBER_DIGITS: usize = 10;

/// The child of a semaphore's path that has its permits.
pub(crate) const PERMITS: &str = "leases";

/// The child of a semaphore's path that has the line of those who wait.
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
