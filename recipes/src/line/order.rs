//! The order of a line: which znodes of a directory are in it, and which one a place waits for.

use zoolet_protocol::{Names, sequence_number};

/// A znode in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Contender<'a> {
    /// The sequence number, which orders the line.
    pub(crate) number: i32,
    /// The name of the znode.
    pub(crate) name: &'a str,
}

/// The greatest number that a server gives only once: after `i32::MAX` its counter overflows.
const NUMBER_MAX: i32 = i32::MAX - 1;

/// Whether the server gives this number only once.
pub(crate) fn is_unique(number: i32) -> bool {
    (0..=NUMBER_MAX).contains(&number)
}

/// The znodes with this marker, ordered by number. Other names are not part of the line.
pub(crate) fn contenders<'a>(names: &'a Names, marker: &str) -> Vec<Contender<'a>> {
    let contender =
        |name: &'a str| Some(Contender { number: sequence_number(name, marker)?, name });
    let mut contenders: Vec<_> = names.iter().filter_map(contender).collect();
    contenders.sort_unstable();
    contenders
}

/// A kind of place: how its znodes are named, and for which other places it waits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PlaceKind {
    /// The text before the number in the name of the znode.
    pub(crate) marker: &'static str,
    /// The markers of the places that this kind waits for when their number is lower.
    pub(crate) waits_for: &'static [&'static str],
    /// The markers of the places in the same line that this kind does not wait for.
    pub(crate) ignores: &'static [&'static str],
    /// Whether a place of this kind that is in front excludes all others and says so: it may
    /// announce its release, and an owner that has one would wait for itself in the same line. A
    /// leader's place excludes the others as well, but announces nothing.
    pub(crate) is_exclusive: bool,
    /// The markers of the places whose owner may take a second place with the same number, where
    /// this kind waits for both: a writer waits for a writer that also reads. A reader waits for
    /// the write place alone.
    pub(crate) may_have_second_place: &'static [&'static str],
}

impl PlaceKind {
    /// Whether a place of this kind announces its release even if it did not wait. The places
    /// behind it then know that it was first, but not that it had no second place.
    pub(crate) fn always_announces_release(&self) -> bool {
        self.may_have_second_place.contains(&self.marker)
    }
}

/// The position of a place in its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Position {
    /// In front: there is no place to wait for.
    Front,
    /// Behind another place, the last one of those that this one waits for.
    Behind {
        /// The name of that place's znode.
        ahead: String,
        /// Whether this place is in front when that znode is gone: it waits for no other place.
        is_only: bool,
        /// Whether no other place of the line is between the two, including those that this one
        /// ignores.
        is_adjacent: bool,
    },
    /// The place's own znode is not in the list: someone has deleted it, or its session has ended.
    Missing,
}

/// The position of the place `name`, which is of this kind, among the children of the directory.
pub(crate) fn position(names: &Names, kind: &PlaceKind, name: &str) -> Position {
    let Some(own) = sequence_number(name, kind.marker).map(|number| Contender { number, name })
    else {
        return Position::Missing;
    };
    let mut ahead: Option<(Contender<'_>, &str)> = None;
    // The last place before this one, whether this one waits for it or not.
    let mut last_before = None;
    let mut count = 0;
    let mut is_there = false;
    // One pass without a sorted list: a line may be long, and each entering place does this.
    for name in names.iter() {
        is_there |= name == own.name;
        let of = |markers: &[&'static str]| {
            markers.iter().find_map(|&marker| Some((sequence_number(name, marker)?, marker)))
        };
        let waited_for = of(kind.waits_for);
        let Some((number, marker)) = waited_for.or_else(|| of(kind.ignores)) else { continue };
        let contender = Contender { number, name };
        if contender >= own {
            continue;
        }
        last_before = last_before.max(Some(contender));
        if waited_for.is_some() {
            count += 1;
            ahead = ahead.max(Some((contender, marker)));
        }
    }
    match ahead {
        _ if !is_there => Position::Missing,
        None => Position::Front,
        Some((ahead, marker)) => Position::Behind {
            ahead: ahead.name.to_owned(),
            is_only: count == 1 && !kind.may_have_second_place.contains(&marker),
            is_adjacent: last_before == Some(ahead),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MUTEX: PlaceKind = PlaceKind {
        marker: "lock-",
        waits_for: &["lock-"],
        ignores: &[],
        is_exclusive: true,
        may_have_second_place: &[],
    };
    const READ: PlaceKind = PlaceKind {
        marker: "__READ__",
        waits_for: &["__WRIT__"],
        ignores: &["__READ__"],
        is_exclusive: false,
        may_have_second_place: &[],
    };
    const WRITE: PlaceKind = PlaceKind {
        marker: "__WRIT__",
        waits_for: &["__READ__", "__WRIT__"],
        ignores: &[],
        is_exclusive: true,
        may_have_second_place: &["__WRIT__"],
    };

    fn behind(ahead: &str, is_only: bool, is_adjacent: bool) -> Position {
        Position::Behind { ahead: ahead.to_owned(), is_only, is_adjacent }
    }

    #[test]
    fn a_line_is_ordered_by_number_and_ignores_other_znodes() {
        let names: Names = [
            "_c_b-lock-0000000002",
            "zzz",
            "_c_c-lock-0000000001",
            "0",
            "_c_a-lock-0000000010",
            "_c_a-lock-5",
            "x-0000000000",
        ]
        .into_iter()
        .collect();
        let numbers: Vec<_> = contenders(&names, "lock-").iter().map(|c| c.number).collect();
        assert_eq!(numbers, [1, 2, 10]);
        assert_eq!(position(&names, &MUTEX, "_c_c-lock-0000000001"), Position::Front);
        let second = position(&names, &MUTEX, "_c_b-lock-0000000002");
        assert_eq!(second, behind("_c_c-lock-0000000001", true, true));
        let third = position(&names, &MUTEX, "_c_a-lock-0000000010");
        assert_eq!(third, behind("_c_b-lock-0000000002", false, true));
        assert_eq!(position(&names, &MUTEX, "_c_d-lock-0000000003"), Position::Missing);
    }

    #[test]
    fn a_line_with_two_markers_has_one_order() {
        let kazoo = PlaceKind { marker: "__lock__", waits_for: &["lock-", "__lock__"], ..MUTEX };
        let curator = PlaceKind { waits_for: &["lock-", "__lock__"], ..MUTEX };
        let names: Names = [
            "_c_b-lock-0000000002",
            "00112233445566778899aabbccddeeff__lock__0000000001",
            "_c_c-__lock__0000000003",
            "lease_holder",
        ]
        .into_iter()
        .collect();
        let first = position(&names, &kazoo, "00112233445566778899aabbccddeeff__lock__0000000001");
        assert_eq!(first, Position::Front);
        let second = position(&names, &curator, "_c_b-lock-0000000002");
        let ahead = "00112233445566778899aabbccddeeff__lock__0000000001";
        assert_eq!(second, behind(ahead, true, true));
        let third = position(&names, &kazoo, "_c_c-__lock__0000000003");
        assert_eq!(third, behind("_c_b-lock-0000000002", false, true));
    }

    #[test]
    fn a_reader_waits_for_the_last_writer_before_it_and_a_writer_for_the_last_place_before_it() {
        let names: Names = [
            "_c_a-__READ__0000000001",
            "_c_b-__WRIT__0000000002",
            "_c_c-__READ__0000000003",
            "_c_d-__WRIT__0000000004",
            "_c_e-__READ__0000000005",
            "_c_f-__READ__0000000006",
            "_c_g-__WRIT__0000000007",
        ]
        .into_iter()
        .collect();
        let read = |name| position(&names, &READ, name);
        let write = |name| position(&names, &WRITE, name);
        assert_eq!(read("_c_a-__READ__0000000001"), Position::Front);
        assert_eq!(write("_c_b-__WRIT__0000000002"), behind("_c_a-__READ__0000000001", true, true));
        assert_eq!(read("_c_c-__READ__0000000003"), behind("_c_b-__WRIT__0000000002", true, true));
        assert_eq!(
            read("_c_f-__READ__0000000006"),
            behind("_c_d-__WRIT__0000000004", false, false)
        );
        assert_eq!(read("_c_e-__READ__0000000005"), behind("_c_d-__WRIT__0000000004", false, true));
        assert_eq!(
            write("_c_g-__WRIT__0000000007"),
            behind("_c_f-__READ__0000000006", false, true)
        );
    }

    #[test]
    fn numbers_after_an_overflow_are_not_unique() {
        assert_eq!(sequence_number("lock--2147483648", "lock-"), Some(i32::MIN));
        assert!(is_unique(0) && is_unique(NUMBER_MAX));
        assert!(!is_unique(i32::MAX) && !is_unique(-1));
    }
}
