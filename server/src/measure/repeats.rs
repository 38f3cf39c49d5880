//! Values that come again and again.

/// Counts how often one value comes in a row, so that it is recorded once for all of them.
#[derive(Debug, Default)]
pub(crate) struct Repeats<T> {
    value: T,
    times: u64,
}

impl<T: Copy + PartialEq> Repeats<T> {
    /// Counts a value that came so many times. Returns the one before and how often it came, if this is
    /// another.
    #[inline]
    pub(crate) fn add(&mut self, value: T, times: u64) -> Option<(T, u64)> {
        if self.value == value {
            self.times += times;
            return None;
        }
        let before = self.take();
        (self.value, self.times) = (value, times);
        before
    }

    /// Takes the last value, and how often it came.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<(T, u64)> {
        let times = std::mem::take(&mut self.times);
        (times > 0).then_some((self.value, times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_told_as_often_as_it_came() {
        let mut repeats = Repeats::<u8>::default();
        let values = [0, 0, 1, 0, 2, 2, 2];
        let mut told: Vec<_> = values.iter().filter_map(|value| repeats.add(*value, 1)).collect();
        told.extend(repeats.take());
        assert_eq!(told, [(0, 2), (1, 1), (0, 1), (2, 3)]);
        assert_eq!(repeats.take(), None);
        assert_eq!(repeats.add(2, 3), None, "it is counted from nothing");
        assert_eq!(repeats.take(), Some((2, 3)));
    }
}
