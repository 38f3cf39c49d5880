//! Which of several instances is used next: Curator's strategies.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::instance::ServiceInstance;

/// Chooses one of several instances (`ProviderStrategy` of Curator).
///
/// ```
/// use std::sync::Arc;
/// use zoolet_recipes::discovery::{ProviderStrategy, ServiceInstance};
///
/// /// Always the first.
/// struct First;
///
/// impl<T> ProviderStrategy<T> for First {
///     fn choose(&self, instances: &[Arc<ServiceInstance<T>>]) -> Option<Arc<ServiceInstance<T>>> {
///         instances.first().cloned()
///     }
/// }
///
/// let instances = [Arc::new(ServiceInstance::<()>::new("orders", "1"))];
/// assert_eq!(First.choose(&instances).unwrap().id, "1");
/// ```
pub trait ProviderStrategy<T>: Send + Sync {
    /// One of these instances, which are in the order of their znodes' names; `None` if there is
    /// none. It must not block.
    fn choose(&self, instances: &[Arc<ServiceInstance<T>>]) -> Option<Arc<ServiceInstance<T>>>;
}

/// One instance after the other (`RoundRobinStrategy` of Curator).
///
/// ```
/// use std::sync::Arc;
/// use zoolet_recipes::discovery::{ProviderStrategy, RoundRobinStrategy, ServiceInstance};
///
/// let instances = ["a", "b"].map(|id| Arc::new(ServiceInstance::<()>::new("orders", id)));
/// let strategy = RoundRobinStrategy::default();
/// let chosen = [(); 3].map(|()| strategy.choose(&instances).unwrap().id.clone());
/// assert_eq!(chosen, ["a", "b", "a"]);
/// ```
#[derive(Debug, Default)]
pub struct RoundRobinStrategy {
    next: AtomicUsize,
}

impl<T> ProviderStrategy<T> for RoundRobinStrategy {
    fn choose(&self, instances: &[Arc<ServiceInstance<T>>]) -> Option<Arc<ServiceInstance<T>>> {
        if instances.is_empty() {
            return None;
        }
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        instances.get(next % instances.len()).cloned()
    }
}

/// An instance at random (`RandomStrategy` of Curator). For runs that repeat, give it a seed.
///
/// ```
/// use std::sync::Arc;
/// use zoolet_recipes::discovery::{ProviderStrategy, RandomStrategy, ServiceInstance};
///
/// let instances = ["a", "b"].map(|id| Arc::new(ServiceInstance::<()>::new("orders", id)));
/// assert!(RandomStrategy::with_seed(7).choose(&instances).is_some());
/// ```
#[derive(Debug, Default)]
pub struct RandomStrategy {
    /// Without a seed the numbers are those of the thread.
    seeded: Option<Mutex<fastrand::Rng>>,
}

impl RandomStrategy {
    /// The same choices for the same seed and the same instances.
    #[must_use]
    pub fn with_seed(seed: u64) -> Self {
        Self { seeded: Some(Mutex::new(fastrand::Rng::with_seed(seed))) }
    }

    fn below(&self, end: usize) -> usize {
        self.seeded.as_ref().map_or_else(|| fastrand::usize(..end), |rng| rng.lock().usize(..end))
    }
}

impl<T> ProviderStrategy<T> for RandomStrategy {
    fn choose(&self, instances: &[Arc<ServiceInstance<T>>]) -> Option<Arc<ServiceInstance<T>>> {
        if instances.is_empty() {
            return None;
        }
        instances.get(self.below(instances.len())).cloned()
    }
}

/// The same instance as long as it is there; then another strategy chooses the next one
/// (`StickyStrategy` of Curator).
///
/// An instance that was updated is the same instance, and its new data is returned. Curator chooses
/// again after every update.
///
/// ```
/// use std::sync::Arc;
/// use zoolet_recipes::discovery::{ProviderStrategy, RandomStrategy, ServiceInstance, StickyStrategy};
///
/// let instances = ["a", "b"].map(|id| Arc::new(ServiceInstance::<()>::new("orders", id)));
/// let strategy = StickyStrategy::new(RandomStrategy::default());
/// let first = strategy.choose(&instances).unwrap();
/// assert_eq!(strategy.choose(&instances), Some(first));
/// assert_eq!(strategy.instance_number(), Some(0));
/// ```
#[derive(Debug)]
pub struct StickyStrategy<S> {
    master: S,
    chosen: Mutex<Chosen>,
}

#[derive(Debug, Default)]
struct Chosen {
    /// The id, the registration time and the address of the instance. An instance that was registered
    /// again is another one. The address tells sequential instances with one id apart.
    instance: Option<(String, i64, Option<String>)>,
    /// How many instances were chosen so far.
    count: u64,
}

impl<S> StickyStrategy<S> {
    /// A strategy that lets this one choose the next instance.
    pub fn new(master: S) -> Self {
        Self { master, chosen: Mutex::new(Chosen::default()) }
    }

    /// The number of the present instance, from 0: it grows whenever another one is chosen. `None`
    /// before the first.
    #[must_use]
    pub fn instance_number(&self) -> Option<u64> {
        self.chosen.lock().count.checked_sub(1)
    }
}

impl<T, S: ProviderStrategy<T>> ProviderStrategy<T> for StickyStrategy<S> {
    fn choose(&self, instances: &[Arc<ServiceInstance<T>>]) -> Option<Arc<ServiceInstance<T>>> {
        let mut chosen = self.chosen.lock();
        let is_chosen = |instance: &&Arc<ServiceInstance<T>>| {
            chosen.instance.as_ref().is_some_and(|(id, registered, address)| {
                (id, *registered) == (&instance.id, instance.registration_time_utc)
                    && *address == instance.address
            })
        };
        if let Some(instance) = instances.iter().find(is_chosen) {
            return Some(Arc::clone(instance));
        }
        let next = self.master.choose(instances);
        chosen.instance = next
            .as_ref()
            .map(|next| (next.id.clone(), next.registration_time_utc, next.address.clone()));
        chosen.count += u64::from(next.is_some());
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Instances = Vec<Arc<ServiceInstance>>;

    fn instances(ids: &[&str]) -> Instances {
        ids.iter().map(|id| Arc::new(ServiceInstance::new("service", *id))).collect()
    }

    fn chosen(strategy: &impl ProviderStrategy<()>, among: &Instances) -> String {
        strategy.choose(among).map(|it| it.id.clone()).unwrap_or_default()
    }

    /// `TestStrategies.testRoundRobin` of Curator.
    #[test]
    fn round_robin_goes_on_when_instances_come_and_go() {
        let strategy = RoundRobinStrategy::default();
        let three = instances(&["0", "1", "2"]);
        let round: Vec<_> = (0..4).map(|_| chosen(&strategy, &three)).collect();
        assert_eq!(round, ["0", "1", "2", "0"]);
        assert_eq!(chosen(&strategy, &instances(&["0", "1", "2", "3", "4"])), "4");
        assert_eq!(chosen(&strategy, &instances(&["7"])), "7");
        assert_eq!(chosen(&strategy, &instances(&[])), "");
    }

    #[test]
    fn round_robin_survives_the_greatest_index() {
        let strategy = RoundRobinStrategy { next: AtomicUsize::new(usize::MAX) };
        let two = instances(&["0", "1"]);
        assert_eq!([chosen(&strategy, &two), chosen(&strategy, &two)], ["1", "0"]);
    }

    /// `TestStrategies.testRandom` of Curator.
    #[test]
    fn random_chooses_each_instance_about_as_often() {
        const CHOICES: u32 = 10_000;
        let strategy = RandomStrategy::with_seed(1);
        let four = instances(&["0", "1", "2", "3"]);
        let mut counts = [0_u32; 4];
        for _ in 0..CHOICES {
            counts[chosen(&strategy, &four).parse::<usize>().unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (2_300..2_700).contains(count)), "{counts:?}");
    }

    /// `TestStrategies.testSticky` of Curator.
    #[test]
    fn sticky_keeps_an_instance_while_it_is_there() {
        let strategy = StickyStrategy::new(RandomStrategy::with_seed(2));
        assert_eq!(strategy.instance_number(), None);
        assert_eq!(chosen(&strategy, &instances(&[])), "");
        assert_eq!(strategy.instance_number(), None);
        let mut there = instances(&["0", "1", "2", "3"]);
        let first = chosen(&strategy, &there);
        assert!((0..100).all(|_| chosen(&strategy, &there) == first));
        assert_eq!(strategy.instance_number(), Some(0));
        there.retain(|instance| instance.id != first);
        let second = chosen(&strategy, &there);
        assert_ne!(second, first);
        assert!((0..100).all(|_| chosen(&strategy, &there) == second));
        assert_eq!(strategy.instance_number(), Some(1));
    }

    #[test]
    fn sticky_returns_the_new_data_of_an_instance() {
        let strategy = StickyStrategy::new(RoundRobinStrategy::default());
        let mut there = instances(&["0", "1"]);
        assert_eq!(chosen(&strategy, &there), "0");
        there[0] = Arc::new(ServiceInstance::new("service", "0").port(9));
        assert_eq!(strategy.choose(&there).unwrap().port, Some(9));
        there[0] = Arc::new(ServiceInstance::new("service", "0").registration_time_utc(1));
        assert_eq!(chosen(&strategy, &there), "1", "registered again: it may be chosen or not");
    }
}
