//! Random numbers: ids that no other client draws, and numbers for which chance is enough; or all from a
//! seed.

use std::hash::{BuildHasher, RandomState};

use fastrand::Rng;
use parking_lot::Mutex;

/// The random numbers of a client.
#[derive(Debug)]
pub(crate) enum Random {
    /// From a seed: the same calls give the same numbers.
    Seeded(Mutex<Rng>),
    /// From the generator of the thread, ids too: for a simulation, which seeds it.
    OfThread,
    /// Ids from these two generators, each of which gives one half, and all else from that of the thread. The
    /// seed of the latter is the time since the machine was started: two processes that start at the same
    /// moment draw the same numbers from it. The seeds of these come from the operating system.
    OwnIds(Mutex<[Rng; 2]>),
}

impl Random {
    /// From this seed.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self::Seeded(Mutex::new(Rng::with_seed(seed)))
    }

    /// With ids that no other client has. The seeds come from the keys that the operating system draws for
    /// the hash tables of each process: it does so too where there is no `/dev/urandom`, as in a root file
    /// system with a static program and nothing else.
    pub(crate) fn with_own_ids() -> Self {
        let keys = RandomState::new();
        Self::OwnIds(Mutex::new([0, 1].map(|which: u64| Rng::with_seed(keys.hash_one(which)))))
    }

    /// The number of one of `count` things.
    pub(crate) fn index(&self, count: usize) -> usize {
        match self {
            Self::Seeded(rng) => rng.lock().usize(..count),
            Self::OfThread | Self::OwnIds(_) => fastrand::usize(..count),
        }
    }

    /// From 1 up to, and not including, `end`.
    pub(crate) fn factor(&self, end: u32) -> u32 {
        match self {
            Self::Seeded(rng) => rng.lock().u32(1..end),
            Self::OfThread | Self::OwnIds(_) => fastrand::u32(1..end),
        }
    }

    /// From 0 up to, and not including, 1.
    pub(crate) fn fraction(&self) -> f64 {
        match self {
            Self::Seeded(rng) => rng.lock().f64(),
            Self::OfThread | Self::OwnIds(_) => fastrand::f64(),
        }
    }

    /// The bytes of a random UUID.
    pub(crate) fn id(&self) -> [u8; 16] {
        let number = match self {
            Self::Seeded(rng) => rng.lock().u128(..),
            Self::OfThread => fastrand::u128(..),
            Self::OwnIds(rngs) => {
                let [high, low] = &mut *rngs.lock();
                (u128::from(high.u64(..)) << u64::BITS) | u128::from(low.u64(..))
            }
        };
        number.to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ids that follow from a state of the thread's generator.
    fn ids(random: &Random) -> [[u8; 16]; 2] {
        fastrand::seed(17);
        [random.id(), random.id()]
    }

    #[test]
    fn ids_repeat_with_a_seed_and_in_a_simulation() {
        assert_eq!(ids(&Random::seeded(7)), ids(&Random::seeded(7)));
        assert_ne!(ids(&Random::seeded(7)), ids(&Random::seeded(8)));
        assert_eq!(ids(&Random::OfThread), ids(&Random::OfThread));
    }

    #[test]
    fn ids_of_the_system_do_not_depend_on_the_generator_of_the_thread() {
        let random = Random::with_own_ids();
        let [[first, second], [third, fourth]] = [ids(&random), ids(&Random::with_own_ids())];
        let all = std::collections::BTreeSet::from([first, second, third, fourth]);
        assert_eq!(all.len(), 4);
    }
}
