//! Random numbers: of the thread's generator, or from a seed.

use fastrand::Rng;
use parking_lot::Mutex;

/// The random numbers of a client. With a seed the same calls give the same numbers.
#[derive(Debug)]
pub(crate) struct Random(Option<Mutex<Rng>>);

impl Random {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self(seed.map(|seed| Mutex::new(Rng::with_seed(seed))))
    }

    /// The number of one of `count` things.
    pub(crate) fn index(&self, count: usize) -> usize {
        self.0.as_ref().map_or_else(|| fastrand::usize(..count), |rng| rng.lock().usize(..count))
    }

    /// From 1 up to, and not including, `end`.
    pub(crate) fn factor(&self, end: u32) -> u32 {
        self.0.as_ref().map_or_else(|| fastrand::u32(1..end), |rng| rng.lock().u32(1..end))
    }

    /// From 0 up to, and not including, 1.
    pub(crate) fn fraction(&self) -> f64 {
        self.0.as_ref().map_or_else(fastrand::f64, |rng| rng.lock().f64())
    }

    /// The bytes of a random UUID.
    pub(crate) fn id(&self) -> [u8; 16] {
        let number = self.0.as_ref().map_or_else(|| fastrand::u128(..), |rng| rng.lock().u128(..));
        number.to_be_bytes()
    }
}
