//! Instances that failed are left out for a while: Curator's down-instance policy.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::instance::ServiceInstance;
use super::limits::DOWN_INSTANCES_MAX;

/// When an instance counts as down (`DownInstancePolicy` of Curator): after `errors` noted errors
/// within `window`, until the window is over. The window begins with the first error.
///
/// ```
/// use std::time::Duration;
/// use zoolet_recipes::discovery::DownInstancePolicy;
///
/// let policy = DownInstancePolicy::default();
/// assert_eq!((policy.window, policy.errors), (Duration::from_secs(30), 2));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DownInstancePolicy {
    /// How long errors count after the first of them.
    pub window: Duration,
    /// How many errors make the instance down.
    pub errors: u32,
}

impl Default for DownInstancePolicy {
    /// Curator's: two errors within thirty seconds.
    fn default() -> Self {
        Self { window: Duration::from_secs(30), errors: 2 }
    }
}

/// The errors that were noted of instances.
#[derive(Debug)]
pub(super) struct DownInstances {
    policy: DownInstancePolicy,
    noted: Mutex<HashMap<Key, Noted>>,
}

/// What tells an instance from others.
type Key = (String, i64, Option<String>, Option<i32>, Option<i32>);

#[derive(Debug)]
struct Noted {
    first: Instant,
    errors: u32,
}

impl DownInstances {
    pub(super) fn new(policy: DownInstancePolicy) -> Self {
        Self { policy, noted: Mutex::new(HashMap::new()) }
    }

    /// Notes an error of an instance.
    pub(super) fn note_error<T>(&self, instance: &ServiceInstance<T>, now: Instant) {
        let mut noted = self.noted.lock();
        let is_over = |noted: &Noted| now.duration_since(noted.first) >= self.policy.window;
        noted.retain(|_, noted| !is_over(noted));
        let key = key(instance);
        // An error that cannot be noted leaves the instance up: it is tried once more.
        if noted.len() < DOWN_INSTANCES_MAX || noted.contains_key(&key) {
            let of_instance = noted.entry(key).or_insert(Noted { first: now, errors: 0 });
            of_instance.errors = of_instance.errors.saturating_add(1);
        }
    }

    /// Whether any instance may be down. Most of the time none is.
    pub(super) fn are_any(&self, now: Instant) -> bool {
        let mut noted = self.noted.lock();
        noted.retain(|_, noted| now.duration_since(noted.first) < self.policy.window);
        !noted.is_empty() || self.policy.errors == 0
    }

    /// Whether an instance is down.
    pub(super) fn is_down<T>(&self, instance: &ServiceInstance<T>, now: Instant) -> bool {
        let noted = self.noted.lock();
        let errors = noted
            .get(&key(instance))
            .filter(|noted| now.duration_since(noted.first) < self.policy.window)
            .map_or(0, |noted| noted.errors);
        errors >= self.policy.errors
    }
}

/// An instance that was registered again begins without errors. Sequential instances may have one id
/// and one time: where they are reached tells them apart.
fn key<T>(instance: &ServiceInstance<T>) -> Key {
    let ServiceInstance { id, address, port, ssl_port, registration_time_utc, .. } = instance;
    (id.clone(), *registration_time_utc, address.clone(), *port, *ssl_port)
}

#[cfg(test)]
mod tests {
    use zoolet_client::recipe::now;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn instances() -> [ServiceInstance; 2] {
        ["hey", "you"].map(|id| ServiceInstance::new("service", id))
    }

    /// `TestDownInstanceManager.testBasic` of Curator.
    #[tokio::test(start_paused = true)]
    async fn one_error_is_enough_with_a_threshold_of_one() {
        let down = DownInstances::new(DownInstancePolicy { window: 10 * SECOND, errors: 1 });
        let [one, other] = instances();
        assert!(!down.is_down(&one, now()) && !down.is_down(&other, now()));
        down.note_error(&one, now());
        assert!(down.is_down(&one, now()) && !down.is_down(&other, now()));
    }

    /// `TestDownInstanceManager.testThreshold` of Curator.
    #[tokio::test(start_paused = true)]
    async fn an_instance_is_down_from_the_threshold_on() {
        let down = DownInstances::new(DownInstancePolicy { window: 10 * SECOND, errors: 2 });
        let [one, other] = instances();
        down.note_error(&one, now());
        assert!(!down.is_down(&one, now()));
        down.note_error(&one, now());
        assert!(down.is_down(&one, now()) && !down.is_down(&other, now()));
    }

    #[tokio::test(start_paused = true)]
    async fn instances_with_one_id_are_told_apart_by_their_addresses() {
        let down = DownInstances::new(DownInstancePolicy { window: SECOND, errors: 1 });
        let [one, other] =
            [1, 2].map(|port| ServiceInstance::<()>::new("service", "node-").port(port));
        down.note_error(&one, now());
        assert!(down.is_down(&one, now()) && !down.is_down(&other, now()));
    }

    /// `TestDownInstanceManager.testExpiration` of Curator, to the millisecond.
    #[tokio::test(start_paused = true)]
    async fn an_instance_is_up_when_the_window_is_over() {
        let down = DownInstances::new(DownInstancePolicy { window: SECOND, errors: 1 });
        let [one, _] = instances();
        let first = now();
        down.note_error(&one, first);
        down.note_error(&one, first + SECOND / 2);
        assert!(down.is_down(&one, first + SECOND - Duration::from_millis(1)));
        assert!(!down.is_down(&one, first + SECOND));
        down.note_error(&one, first + SECOND);
        assert!(down.is_down(&one, first + SECOND), "a new window begins");
        assert!(!down.is_down(&one.registration_time_utc(1), first + SECOND), "registered again");
    }
}
