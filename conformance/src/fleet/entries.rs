//! The holds of the members of a fleet, and the check that they do not violate exclusion.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs;
use std::io;
use std::path::Path;
use std::str::FromStr;

/// One hold of a lock. The member measured both times while it held the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name of the member.
    pub who: String,
    /// The part of the capacity. A hold with the whole capacity is exclusive.
    pub weight: u32,
    /// The fencing token: the zxid that created the znode.
    pub token: i64,
    /// The start, in nanoseconds of the monotonic clock that all processes of the machine share.
    pub start: u64,
    /// The end, likewise.
    pub end: u64,
}

/// A violation of exclusion.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The holds at one time exceeded the capacity.
    #[error(
        "the holds have a weight of {weight}, the capacity is {capacity}, at the start of {entry:?}"
    )]
    Crowded {
        /// The sum of the weights.
        weight: u32,
        /// The capacity.
        capacity: u32,
        /// The hold that started last.
        entry: Entry,
    },
    /// An exclusive hold has a token that is not greater than all earlier ones, or a later hold has
    /// a token that is less than that of an exclusive one.
    #[error(
        "an earlier hold has the fencing token {before}, which is not less than that of {entry:?}"
    )]
    Token {
        /// The greatest earlier token.
        before: i64,
        /// The hold.
        entry: Entry,
    },
}

impl Entry {
    /// Reads the lines of a file. Each has the form `WHO WEIGHT TOKEN START END`.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or a line has another form.
    pub fn read_all(file: &Path) -> io::Result<Vec<Self>> {
        fs::read_to_string(file)?.lines().map(str::parse).collect()
    }
}

impl FromStr for Entry {
    type Err = io::Error;

    fn from_str(line: &str) -> io::Result<Self> {
        let wrong =
            || io::Error::other(format!("a line is not WHO WEIGHT TOKEN START END: {line:?}"));
        let mut fields = line.split(' ');
        let mut field = || fields.next().ok_or_else(wrong);
        let (who, weight, token, start, end) = (field()?, field()?, field()?, field()?, field()?);
        Ok(Self {
            who: who.to_owned(),
            weight: weight.parse().map_err(|_| wrong())?,
            token: token.parse().map_err(|_| wrong())?,
            start: start.parse().map_err(|_| wrong())?,
            end: end.parse().map_err(|_| wrong())?,
        })
    }
}

/// Checks that the holds never exceeded `capacity` at one time, and that tokens grew with each
/// exclusive hold. Returns the number of holds of each member.
///
/// # Errors
///
/// The first [`Violation`].
pub fn check(mut entries: Vec<Entry>, capacity: u32) -> Result<BTreeMap<String, usize>, Violation> {
    entries.sort_by_key(|entry| entry.start);
    let mut counts = BTreeMap::new();
    let mut inside = BinaryHeap::new();
    let mut weight = 0;
    // The greatest token of all holds so far, and of the exclusive ones.
    let (mut greatest, mut greatest_alone) = (0, 0);
    for entry in entries {
        while let Some(&Reverse((end, gone))) = inside.peek()
            && end <= entry.start
        {
            inside.pop();
            weight -= gone;
        }
        weight += entry.weight;
        inside.push(Reverse((entry.end, entry.weight)));
        if weight > capacity {
            return Err(Violation::Crowded { weight, capacity, entry });
        }
        let is_alone = entry.weight == capacity;
        // A writer that keeps the lock to read keeps its token too.
        let has_grown =
            if is_alone { entry.token > greatest } else { entry.token >= greatest_alone };
        if !has_grown {
            let before = if is_alone { greatest } else { greatest_alone };
            return Err(Violation::Token { before, entry });
        }
        greatest = greatest.max(entry.token);
        if is_alone {
            greatest_alone = greatest;
        }
        *counts.entry(entry.who).or_default() += 1;
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(lines: &[&str]) -> Vec<Entry> {
        lines.iter().map(|line| line.parse().unwrap()).collect()
    }

    #[test]
    fn consecutive_exclusive_holds_are_counted() {
        let counts = check(entries(&["a 1 5 10 20", "b 1 6 20 30", "a 1 7 31 40"]), 1).unwrap();
        assert_eq!(counts, BTreeMap::from([("a".to_owned(), 2), ("b".to_owned(), 1)]));
    }

    #[test]
    fn overlapping_exclusive_holds_are_found() {
        let two = entries(&["b 1 6 19 30", "a 1 5 10 20"]);
        assert!(matches!(check(two, 1), Err(Violation::Crowded { weight: 2, .. })));
    }

    #[test]
    fn a_writer_among_readers_is_found() {
        let readers = ["a 1 5 10 40", "b 1 6 20 30"];
        assert!(check(entries(&readers), 9).is_ok());
        let beside_a_writer = entries(&[readers[0], readers[1], "c 9 7 35 50"]);
        assert!(matches!(check(beside_a_writer, 9), Err(Violation::Crowded { weight: 10, .. })));
    }

    #[test]
    fn a_token_that_does_not_grow_is_found() {
        let same = entries(&["a 1 5 10 20", "b 1 5 20 30"]);
        assert!(matches!(check(same, 1), Err(Violation::Token { before: 5, .. })));
        let older_than_the_writer_before = entries(&["a 9 5 10 20", "b 1 4 20 30"]);
        assert!(matches!(
            check(older_than_the_writer_before, 9),
            Err(Violation::Token { before: 5, .. })
        ));
        let kept = entries(&["a 9 5 10 20", "a 1 5 20 30"]);
        assert!(check(kept, 9).is_ok(), "a writer who goes on reading keeps its token");
    }
}
