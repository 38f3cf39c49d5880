//! The last holds of a lock, for the timeline.

use std::collections::VecDeque;

/// The last ones that are kept; all of them are counted.
const RECENT_KEPT: usize = 200;

/// Where there is no room left it is made for so many more, and not for twice as many as there are.
const STEP: usize = 25;

/// What has a name.
pub(super) trait Named {
    /// The rest of it.
    type Rest: Copy;

    fn apart(self) -> (String, Self::Rest);

    fn whole(name: String, rest: Self::Rest) -> Self;
}

/// The last ones that were added.
///
/// With many locks the older ones are in no cache. So nothing of one that goes is read but its length: what is new
/// is written over it. A name of its own would have to be freed.
#[derive(Debug, Clone)]
pub(super) struct Recent<T: Named> {
    rows: VecDeque<T::Rest>,
    /// The names of all, one behind the other, and their lengths.
    names: VecDeque<u8>,
    lengths: VecDeque<u32>,
}

impl<T: Named> Default for Recent<T> {
    fn default() -> Self {
        let (rows, names, lengths) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        Self { rows, names, lengths }
    }
}

impl<T: Named> Recent<T> {
    /// Adds one, in place of the oldest if there are enough.
    pub(super) fn push(&mut self, new: T) {
        if self.lengths.len() == RECENT_KEPT
            && let Some(length) = self.lengths.pop_front()
        {
            self.names.drain(..length as usize);
            self.rows.pop_front();
        }
        let (name, rest) = new.apart();
        if self.rows.len() == self.rows.capacity() {
            self.rows.reserve_exact(STEP);
        }
        if self.names.capacity() - self.names.len() < name.len() {
            self.names.reserve_exact(STEP * name.len());
        }
        self.names.extend(name.as_bytes());
        self.lengths.push_back(u32::try_from(name.len()).expect("a path is shorter than 2 GiB"));
        self.rows.push_back(rest);
    }

    /// All of them, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = T> {
        let mut names = self.names.iter().copied();
        self.rows.iter().zip(&self.lengths).map(move |(rest, length)| {
            let name = names.by_ref().take(*length as usize).collect();
            T::whole(String::from_utf8(name).expect("the bytes are those of a name"), *rest)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq, Eq)]
    struct Row(String, usize);

    impl Named for Row {
        type Rest = usize;

        fn apart(self) -> (String, usize) {
            (self.0, self.1)
        }

        fn whole(name: String, rest: usize) -> Self {
            Self(name, rest)
        }
    }

    #[test]
    fn the_last_ones_have_their_own_names() {
        let row = |index: usize| {
            Row(["", "a", "/\u{e4}/lock-0000000001", "ready"][index % 4].repeat(index % 3), index)
        };
        let mut recent = Recent::default();
        for count in 0..3 * RECENT_KEPT {
            let kept: Vec<Row> = recent.iter().collect();
            let expected = count.saturating_sub(RECENT_KEPT)..count;
            assert_eq!(kept, expected.map(row).collect::<Vec<_>>());
            recent.push(row(count));
        }
    }
}
