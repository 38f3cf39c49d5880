//! Random numbers where they decide: of the thread's generator, or from a seed.

use fastrand::Rng;
use parking_lot::Mutex;

/// The random numbers of a server. With a seed the same calls give the same numbers.
#[derive(Debug)]
pub(crate) struct Random(Option<Mutex<Rng>>);

impl Random {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self(seed.map(|seed| Mutex::new(Rng::with_seed(seed))))
    }

    /// From 0 up to, and not including, 1.
    pub(crate) fn fraction(&self) -> f64 {
        self.0.as_ref().map_or_else(fastrand::f64, |rng| rng.lock().f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_the_numbers() {
        let numbers = |seed| {
            let random = Random::new(seed);
            std::iter::repeat_with(|| random.fraction().to_bits()).take(8).collect::<Vec<_>>()
        };
        assert_eq!(numbers(Some(7)), numbers(Some(7)));
        assert_ne!(numbers(Some(7)), numbers(Some(8)));
        assert_ne!(numbers(None), numbers(None));
    }
}
