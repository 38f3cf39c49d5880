//! The znodes of a lock directory as a line: who stands in it, in which order.

use zoolet_protocol::Names;

/// One who stands in a line: the name of its znode, and the number that gives it its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Contender<'a> {
    pub(crate) number: i32,
    pub(crate) name: &'a str,
}

/// The digits of a sequence number.
pub(crate) const NUMBER_DIGITS: usize = 10;

/// The last number that is surely given once: from the greatest on, a server repeats itself.
const NUMBER_MAX: i32 = i32::MAX - 1;

/// The number of a name, if it is a marker followed by a number, whatever stands before it:
/// Curator puts an id there, and other clients something else.
pub(crate) fn number(name: &str, marker: &str) -> Option<i32> {
    let (_, digits) = name.rsplit_once(marker)?;
    let is_number = digits.len() >= NUMBER_DIGITS
        && digits.strip_prefix('-').unwrap_or(digits).bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok())?
}

/// Whether a number surely stands for one place.
pub(crate) fn is_certain(number: i32) -> bool {
    (0..=NUMBER_MAX).contains(&number)
}

/// Those of the names that stand in a line, in their order. Others are no part of it.
pub(crate) fn contenders<'a>(names: &'a Names, marker: &str) -> Vec<Contender<'a>> {
    let contender = |name: &'a str| Some(Contender { number: number(name, marker)?, name });
    let mut contenders: Vec<_> = names.iter().filter_map(contender).collect();
    contenders.sort_unstable();
    contenders
}

/// How a kind of place waits for others.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// What stands before the number in its names.
    pub(crate) marker: &'static str,
    /// The markers of those that it waits for when they came before it.
    pub(crate) waits_for: &'static [&'static str],
    /// The markers of those that stand in the same line and are not waited for.
    pub(crate) holds_beside: &'static [&'static str],
    /// Whether it is held alone.
    pub(crate) is_exclusive: bool,
    /// The markers of those whose owner may take another place beside the first, which is waited
    /// for when the first is gone.
    pub(crate) with_places_beside: &'static [&'static str],
}

impl Kind {
    /// Whether its end tells something even to those who know that it came first.
    pub(crate) fn must_tell_its_end(&self) -> bool {
        self.with_places_beside.contains(&self.marker)
    }
}

/// Where one stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Turn {
    /// In front.
    Mine,
    /// Behind this one.
    Behind {
        /// The name of its znode.
        ahead: String,
        /// Whether nobody else is waited for when it is gone.
        is_first: bool,
        /// Whether nobody stands between, of those who are not waited for either.
        is_next: bool,
    },
    /// Nowhere any more.
    Gone,
}

/// Where the place `name` of a kind stands.
pub(crate) fn turn(names: &Names, kind: &Kind, name: &str) -> Turn {
    let Some(own) = number(name, kind.marker).map(|number| Contender { number, name }) else {
        return Turn::Gone;
    };
    let mut ahead: Option<(Contender<'_>, &str)> = None;
    // Of all in the line.
    let mut last_ahead = None;
    let mut count = 0;
    let mut is_there = false;
    // One pass and no list: a line may be long, and this is done for each who comes to it.
    for name in names.iter() {
        is_there |= name == own.name;
        let of = |markers: &[&'static str]| {
            markers.iter().find_map(|&marker| Some((number(name, marker)?, marker)))
        };
        let waited_for = of(kind.waits_for);
        let Some((number, marker)) = waited_for.or_else(|| of(kind.holds_beside)) else { continue };
        let contender = Contender { number, name };
        if contender >= own {
            continue;
        }
        last_ahead = last_ahead.max(Some(contender));
        if waited_for.is_some() {
            count += 1;
            ahead = ahead.max(Some((contender, marker)));
        }
    }
    match ahead {
        _ if !is_there => Turn::Gone,
        None => Turn::Mine,
        Some((ahead, marker)) => Turn::Behind {
            ahead: ahead.name.to_owned(),
            is_first: count == 1 && !kind.with_places_beside.contains(&marker),
            is_next: last_ahead == Some(ahead),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MUTEX: Kind = Kind {
        marker: "lock-",
        waits_for: &["lock-"],
        holds_beside: &[],
        is_exclusive: true,
        with_places_beside: &[],
    };
    const READ: Kind = Kind {
        marker: "__READ__",
        waits_for: &["__WRIT__"],
        holds_beside: &["__READ__"],
        is_exclusive: false,
        with_places_beside: &[],
    };
    const WRITE: Kind = Kind {
        marker: "__WRIT__",
        waits_for: &["__READ__", "__WRIT__"],
        holds_beside: &[],
        is_exclusive: true,
        with_places_beside: &["__WRIT__"],
    };

    fn behind(ahead: &str, is_first: bool, is_next: bool) -> Turn {
        Turn::Behind { ahead: ahead.to_owned(), is_first, is_next }
    }

    #[test]
    fn the_line_is_ordered_by_number_and_others_are_no_part_of_it() {
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
        assert_eq!(turn(&names, &MUTEX, "_c_c-lock-0000000001"), Turn::Mine);
        let second = turn(&names, &MUTEX, "_c_b-lock-0000000002");
        assert_eq!(second, behind("_c_c-lock-0000000001", true, true));
        let third = turn(&names, &MUTEX, "_c_a-lock-0000000010");
        assert_eq!(third, behind("_c_b-lock-0000000002", false, true));
        assert_eq!(turn(&names, &MUTEX, "_c_d-lock-0000000003"), Turn::Gone);
    }

    #[test]
    fn a_reader_waits_for_the_last_writer_before_it_and_a_writer_for_whoever_is_before_it() {
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
        let read = |name| turn(&names, &READ, name);
        let write = |name| turn(&names, &WRITE, name);
        assert_eq!(read("_c_a-__READ__0000000001"), Turn::Mine);
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
    fn numbers_at_the_end_of_their_range_are_known_as_such() {
        assert_eq!(number("lock--2147483648", "lock-"), Some(i32::MIN));
        assert!(is_certain(0) && is_certain(NUMBER_MAX));
        assert!(!is_certain(i32::MAX) && !is_certain(-1));
    }
}
