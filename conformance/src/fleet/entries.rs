//! What the members of a fleet noted, and whether they may have been where they were.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs;
use std::io;
use std::path::Path;
use std::str::FromStr;

/// One hold: from a moment at which it was had to a moment at which it was still had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Who held.
    pub who: String,
    /// How much of the capacity; who has all of it is alone.
    pub weight: u32,
    /// The fencing token: the change that created the znode.
    pub token: i64,
    /// Nanoseconds of the clock that all processes of the machine share.
    pub start: u64,
    /// Likewise.
    pub end: u64,
}

/// What must not be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// There was more inside than may be.
    #[error("{weight} of {capacity} inside when this came: {entry:?}")]
    Crowded {
        /// How much.
        weight: u32,
        /// How much may be.
        capacity: u32,
        /// Who came last.
        entry: Entry,
    },
    /// One who was alone has a token that is not greater than all before, or somebody after has one
    /// that is smaller than that of one who was alone.
    #[error("a token {before} was seen before this came: {entry:?}")]
    Token {
        /// The greatest before.
        before: i64,
        /// Who came then.
        entry: Entry,
    },
}

impl Entry {
    /// Reads the lines of a file, each `WHO WEIGHT TOKEN START END`.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or a line is no entry.
    pub fn read_all(file: &Path) -> io::Result<Vec<Self>> {
        fs::read_to_string(file)?.lines().map(str::parse).collect()
    }
}

impl FromStr for Entry {
    type Err = io::Error;

    fn from_str(line: &str) -> io::Result<Self> {
        let wrong = || io::Error::other(format!("no entry: {line:?}"));
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

/// Whether there was never more inside than `capacity`, and whether tokens grew with everyone who
/// was alone; if so, how often each was inside.
///
/// # Errors
///
/// The first fault.
pub fn judge(mut entries: Vec<Entry>, capacity: u32) -> Result<BTreeMap<String, usize>, Fault> {
    entries.sort_by_key(|entry| entry.start);
    let mut counts = BTreeMap::new();
    let mut inside = BinaryHeap::new();
    let mut weight = 0;
    // The greatest token of all so far, and of those who were alone.
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
            return Err(Fault::Crowded { weight, capacity, entry });
        }
        let is_alone = entry.weight == capacity;
        // Who keeps a part of what it had alone keeps the token too.
        let has_grown =
            if is_alone { entry.token > greatest } else { entry.token >= greatest_alone };
        if !has_grown {
            let before = if is_alone { greatest } else { greatest_alone };
            return Err(Fault::Token { before, entry });
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
    fn who_is_alone_one_after_another_is_counted() {
        let counts = judge(entries(&["a 1 5 10 20", "b 1 6 20 30", "a 1 7 31 40"]), 1).unwrap();
        assert_eq!(counts, BTreeMap::from([("a".to_owned(), 2), ("b".to_owned(), 1)]));
    }

    #[test]
    fn two_at_once_are_found_in_whatever_order_they_noted_it() {
        let two = entries(&["b 1 6 19 30", "a 1 5 10 20"]);
        assert!(matches!(judge(two, 1), Err(Fault::Crowded { weight: 2, .. })));
    }

    #[test]
    fn readers_overlap_and_a_writer_among_them_is_found() {
        let readers = ["a 1 5 10 40", "b 1 6 20 30"];
        assert!(judge(entries(&readers), 9).is_ok());
        let beside_a_writer = entries(&[readers[0], readers[1], "c 9 7 35 50"]);
        assert!(matches!(judge(beside_a_writer, 9), Err(Fault::Crowded { weight: 10, .. })));
    }

    #[test]
    fn a_token_that_does_not_grow_is_found() {
        let same = entries(&["a 1 5 10 20", "b 1 5 20 30"]);
        assert!(matches!(judge(same, 1), Err(Fault::Token { before: 5, .. })));
        let older_than_the_writer_before = entries(&["a 9 5 10 20", "b 1 4 20 30"]);
        assert!(matches!(
            judge(older_than_the_writer_before, 9),
            Err(Fault::Token { before: 5, .. })
        ));
        let kept = entries(&["a 9 5 10 20", "a 1 5 20 30"]);
        assert!(judge(kept, 9).is_ok(), "a writer who goes on reading keeps its token");
    }
}
