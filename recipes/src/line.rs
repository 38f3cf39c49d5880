//! The znodes of a lock directory as a line: who stands in it, in which order.

use zoolet_protocol::Names;

/// One who stands in a line: the name of its znode, and the number that gives it its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Contender<'a> {
    pub(crate) number: i32,
    pub(crate) name: &'a str,
}

/// The digits of a sequence number.
const NUMBER_DIGITS: usize = 10;

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

/// Where one stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Turn {
    /// In front.
    Mine,
    /// Behind this one, who is in front or not.
    Behind {
        /// The name of its znode.
        ahead: String,
        /// Whether nobody stands before it.
        is_first: bool,
    },
    /// Nowhere any more.
    Gone,
}

/// Where `name` stands in a line that takes `places` at a time.
pub(crate) fn turn(names: &Names, marker: &str, name: &str) -> Turn {
    let Some(own) = number(name, marker).map(|number| Contender { number, name }) else {
        return Turn::Gone;
    };
    let mut ahead: Option<Contender<'_>> = None;
    let mut count = 0;
    let mut is_there = false;
    // One pass and no list: a line may be long, and this is done for each who comes to it.
    for name in names.iter() {
        let Some(number) = number(name, marker) else { continue };
        let contender = Contender { number, name };
        is_there |= contender == own;
        if contender < own {
            count += 1;
            ahead = ahead.max(Some(contender));
        }
    }
    match ahead {
        _ if !is_there => Turn::Gone,
        None => Turn::Mine,
        Some(ahead) => Turn::Behind { ahead: ahead.name.to_owned(), is_first: count == 1 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKER: &str = "lock-";

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
        let numbers: Vec<_> = contenders(&names, MARKER).iter().map(|c| c.number).collect();
        assert_eq!(numbers, [1, 2, 10]);
        assert_eq!(turn(&names, MARKER, "_c_c-lock-0000000001"), Turn::Mine);
        let behind = |name: &str, is_first| Turn::Behind { ahead: name.to_owned(), is_first };
        let second = turn(&names, MARKER, "_c_b-lock-0000000002");
        assert_eq!(second, behind("_c_c-lock-0000000001", true));
        let third = turn(&names, MARKER, "_c_a-lock-0000000010");
        assert_eq!(third, behind("_c_b-lock-0000000002", false));
        assert_eq!(turn(&names, MARKER, "_c_d-lock-0000000003"), Turn::Gone);
    }

    #[test]
    fn numbers_at_the_end_of_their_range_are_known_as_such() {
        assert_eq!(number("lock--2147483648", MARKER), Some(i32::MIN));
        assert!(is_certain(0) && is_certain(NUMBER_MAX));
        assert!(!is_certain(i32::MAX) && !is_certain(-1));
    }
}
