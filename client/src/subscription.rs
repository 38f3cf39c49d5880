//! A value that changes, and the tasks that wait for its changes.
//!
//! It is what a `tokio::sync::watch` channel is, except that it wakes the tasks that wait in the order
//! in which they began to wait. A `watch` channel spreads them over several lists, by random numbers
//! that no seed of a simulation determines: with two tasks on one client a run would not repeat.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{RwLock, RwLockReadGuard};
use tokio::sync::Notify;

#[derive(Debug)]
struct Shared<T> {
    value: RwLock<T>,
    /// Changes with the value, under its lock.
    version: AtomicU64,
    has_ended: AtomicBool,
    changed: Notify,
}

impl<T> Shared<T> {
    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Whether there will be no further change. A version that is read after this is the last.
    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Waits until the version is not the one that was seen.
    async fn next_version(&self, seen: &mut u64) -> Result<(), SubscriptionEnded> {
        loop {
            // From here on each change completes it. `Notify` promises no order of those who wait: the
            // tests below check that it is the one in which they began.
            let changed = self.changed.notified();
            let has_ended = self.has_ended();
            let version = self.version();
            if version != *seen {
                *seen = version;
                return Ok(());
            }
            if has_ended {
                return Err(SubscriptionEnded);
            }
            changed.await;
        }
    }
}

/// A value whose changes are published.
///
/// The names of its methods are those of `tokio::sync::watch::Sender`. Unlike that, it wakes the tasks
/// that wait in the order in which they began to wait, so that a recipe repeats in a simulation however
/// many tasks use it.
///
/// ```
/// use zoolet_client::recipe::Publisher;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let publisher = Publisher::new(1);
/// let mut values = publisher.subscribe();
/// publisher.send_modify(|value| *value += 1);
/// assert_eq!(values.changed().await, Ok(()));
/// assert_eq!(*values.borrow(), 2);
/// # }
/// ```
#[derive(Debug)]
pub struct Publisher<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Publisher<T> {
    /// Publishes a value.
    #[must_use]
    pub fn new(value: T) -> Self {
        let shared = Shared {
            value: RwLock::new(value),
            version: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
            changed: Notify::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The value, and its changes from now on.
    #[must_use]
    pub fn subscribe(&self) -> Subscription<T> {
        let seen = self.shared.version();
        Subscription { shared: Arc::clone(&self.shared), seen }
    }

    /// The present value. It does not change until the result is dropped.
    #[must_use]
    pub fn borrow(&self) -> ValueRef<'_, T> {
        ValueRef(self.shared.value.read())
    }

    /// Replaces the value, and returns the one before. This counts as a change also if they are equal.
    pub fn send_replace(&self, mut value: T) -> T {
        self.send_modify(|before| std::mem::swap(before, &mut value));
        value
    }

    /// Replaces the value, and wakes nobody: for a caller that holds a lock. [`Publisher::wake`] must
    /// follow.
    pub(crate) fn replace(&self, value: T) {
        let mut present = self.shared.value.write();
        *present = value;
        self.shared.version.fetch_add(1, Ordering::Release);
    }

    /// Wakes those who wait for the changes that were made.
    pub(crate) fn wake(&self) {
        self.shared.changed.notify_waiters();
    }

    /// Changes the value.
    pub fn send_modify(&self, modify: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            modify(value);
            true
        });
    }

    /// Changes the value, and wakes those who wait if `modify` returns `true`. Returns the same.
    pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        let mut value = self.shared.value.write();
        let is_modified = modify(&mut value);
        if is_modified {
            self.shared.version.fetch_add(1, Ordering::Release);
        }
        drop(value);
        if is_modified {
            self.wake();
        }
        is_modified
    }
}

impl<T> Drop for Publisher<T> {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::Release);
        self.shared.changed.notify_waiters();
    }
}

/// A value that changes, to be read and awaited: of [`Client::state`](crate::Client::state), and of
/// recipes.
///
/// Only the present value is kept: one that was replaced before anyone looked is not seen. Each clone
/// remembers for itself which change it has seen. Tasks that wait for one change are woken in the order
/// in which they began to wait.
///
/// ```no_run
/// use zoolet_client::{Client, ConnectionState};
///
/// # async fn example(client: Client) -> Result<(), zoolet_client::SubscriptionEnded> {
/// let mut states = client.state();
/// states.wait_for(|state| state.is_some_and(ConnectionState::is_connected)).await?;
/// loop {
///     println!("{:?}", *states.borrow_and_update());
///     states.changed().await?;
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Subscription<T> {
    shared: Arc<Shared<T>>,
    /// The version that was seen.
    seen: u64,
}

impl<T> Subscription<T> {
    /// The present value, which does not count as seen by this. It does not change until the result is
    /// dropped: do not keep that for long, nor borrow the value twice at a time.
    #[must_use]
    pub fn borrow(&self) -> ValueRef<'_, T> {
        ValueRef(self.shared.value.read())
    }

    /// The present value, which counts as seen from now on. Else as [`Subscription::borrow`].
    pub fn borrow_and_update(&mut self) -> ValueRef<'_, T> {
        let value = self.shared.value.read();
        self.seen = self.shared.version();
        ValueRef(value)
    }

    /// Whether the value has changed since it was seen.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.shared.version() != self.seen
    }

    /// Lets the present value count as a change that was not seen.
    pub fn mark_changed(&mut self) {
        self.seen = self.shared.version().wrapping_sub(1);
    }

    /// Lets the present value count as seen.
    pub fn mark_unchanged(&mut self) {
        self.seen = self.shared.version();
    }

    /// Waits until the value changes, unless it has since it was seen. Then it counts as seen.
    ///
    /// # Errors
    ///
    /// [`SubscriptionEnded`] if it cannot change any more, after the last change was returned.
    ///
    /// # Cancellation
    ///
    /// Safe: no change is lost.
    pub async fn changed(&mut self) -> Result<(), SubscriptionEnded> {
        self.shared.next_version(&mut self.seen).await
    }

    /// Waits until a value is there that is wanted, and returns it; the present one too. It counts as
    /// seen.
    ///
    /// # Errors
    ///
    /// [`SubscriptionEnded`] if the last value is not wanted.
    ///
    /// # Cancellation
    ///
    /// Safe: the values that count as seen were not wanted.
    pub async fn wait_for(
        &mut self,
        mut is_wanted: impl FnMut(&T) -> bool,
    ) -> Result<ValueRef<'_, T>, SubscriptionEnded> {
        let (shared, seen) = (&*self.shared, &mut self.seen);
        loop {
            let has_ended = shared.has_ended();
            {
                let value = shared.value.read();
                *seen = shared.version();
                if is_wanted(&value) {
                    return Ok(ValueRef(value));
                }
            }
            if has_ended {
                return Err(SubscriptionEnded);
            }
            // What came last is looked at before the end is returned.
            let _ = shared.next_version(seen).await;
        }
    }
}

impl<T> Clone for Subscription<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), seen: self.seen }
    }
}

/// A borrowed value of a [`Subscription`]. It does not change until this is dropped.
///
/// ```no_run
/// # fn example(client: zoolet_client::Client) {
/// let states = client.state();
/// let state: zoolet_client::ValueRef<'_, _> = states.borrow();
/// println!("{:?}", *state);
/// # }
/// ```
#[derive(Debug)]
pub struct ValueRef<'a, T>(RwLockReadGuard<'a, T>);

impl<T> Deref for ValueRef<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// The value of a [`Subscription`] does not change any more: its client or its recipe has ended.
///
/// ```
/// use zoolet_client::SubscriptionEnded;
///
/// assert_eq!(SubscriptionEnded.to_string(), "the value does not change any more");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the value does not change any more")]
pub struct SubscriptionEnded;

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};
    use std::time::Duration;

    use parking_lot::Mutex;

    use super::*;

    /// Whether a future is ready when it is polled once.
    fn is_ready<F: Future>(future: F) -> bool {
        pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    /// In which order tasks run that wait for one change.
    async fn order_of_waking(tasks: usize) -> Vec<usize> {
        let (publisher, woken) = (Publisher::new(0), Arc::new(Mutex::new(Vec::new())));
        let waiting = (0..tasks).map(|task| {
            let (mut values, woken) = (publisher.subscribe(), Arc::clone(&woken));
            tokio::spawn(async move {
                assert_eq!(values.changed().await, Ok(()));
                woken.lock().push(task);
            })
        });
        let waiting: Vec<_> = waiting.collect();
        // Until all wait.
        tokio::time::sleep(Duration::from_millis(1)).await;
        publisher.send_replace(1);
        for task in waiting {
            task.await.expect("it does not panic");
        }
        std::mem::take(&mut *woken.lock())
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_are_woken_in_the_order_in_which_they_began_to_wait() {
        // Also more than are woken at once.
        for tasks in [2, 8, 100] {
            for _ in 0..20 {
                assert_eq!(order_of_waking(tasks).await, Vec::from_iter(0..tasks));
            }
        }
    }

    #[test]
    fn a_change_is_seen_whenever_it_came_and_once() {
        let publisher = Publisher::new(0);
        let mut values = publisher.subscribe();
        assert!(!is_ready(values.changed()), "the value at the beginning is no change");
        publisher.send_replace(1);
        assert!(values.has_changed() && is_ready(values.changed()));
        assert!(!values.has_changed() && !is_ready(values.changed()));

        // Between the call and the first poll, and after a poll.
        for polled in [false, true] {
            let mut context = Context::from_waker(Waker::noop());
            let mut changed = pin!(values.changed());
            assert!(!polled || changed.as_mut().poll(&mut context).is_pending());
            publisher.send_replace(2);
            assert!(changed.poll(&mut context).is_ready());
        }
        assert!(!publisher.send_if_modified(|_| false) && !values.has_changed());
        values.mark_changed();
        assert!(is_ready(values.changed()));
        publisher.send_replace(3);
        assert_eq!(*values.borrow(), 3);
        assert!(values.has_changed(), "to borrow is not to see");
        assert_eq!(*values.borrow_and_update(), 3);
        assert!(!values.has_changed());
    }

    #[test]
    fn a_wait_that_is_dropped_takes_no_change() {
        let publisher = Publisher::new(0);
        let mut values = publisher.subscribe();
        {
            let mut context = Context::from_waker(Waker::noop());
            let mut changed = pin!(values.changed());
            assert!(changed.as_mut().poll(&mut context).is_pending());
            publisher.send_replace(1);
            // It was woken, and is dropped before it is polled.
        }
        assert!(is_ready(values.changed()));
    }

    #[test]
    fn each_subscription_has_seen_its_own_changes() {
        let publisher = Publisher::new(0);
        let mut one = publisher.subscribe();
        publisher.send_replace(1);
        let mut other = one.clone();
        assert!(is_ready(one.changed()) && other.has_changed());
        other.mark_unchanged();
        assert!(!is_ready(other.changed()) && !is_ready(publisher.subscribe().changed()));
    }

    #[tokio::test]
    async fn the_last_value_is_seen_before_the_end() {
        let publisher = Publisher::new(0);
        let (mut changes, mut values) = (publisher.subscribe(), publisher.subscribe());
        let waiting =
            tokio::spawn(async move { values.wait_for(|value| *value == 2).await.is_ok() });
        tokio::task::yield_now().await;
        publisher.send_replace(2);
        drop(publisher);
        assert!(waiting.await.expect("it does not panic"));
        assert_eq!(changes.changed().await, Ok(()));
        assert_eq!(changes.changed().await, Err(SubscriptionEnded));
        assert_eq!(
            changes.wait_for(|value| *value == 3).await.map(|value| *value),
            Err(SubscriptionEnded)
        );
        assert_eq!(changes.wait_for(|value| *value == 2).await.map(|value| *value), Ok(2));
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_wakes_those_who_wait() {
        let publisher = Publisher::new(0);
        let mut values = publisher.subscribe();
        let waiting = tokio::spawn(async move { values.changed().await });
        tokio::time::sleep(Duration::from_millis(1)).await;
        drop(publisher);
        assert_eq!(waiting.await.expect("it does not panic"), Err(SubscriptionEnded));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_change_is_missed_between_threads() {
        const LAST: u64 = 20_000;
        let publisher = Publisher::new(0);
        let tasks = (0..4).map(|_| {
            let mut values = publisher.subscribe();
            tokio::spawn(async move {
                let mut last = 0;
                while values.changed().await.is_ok() {
                    let value = *values.borrow_and_update();
                    assert!(value >= last, "{value} came after {last}");
                    last = value;
                }
                last
            })
        });
        let tasks: Vec<_> = tasks.collect();
        let publishing = tokio::task::spawn_blocking(move || {
            for value in 1..=LAST {
                publisher.send_replace(value);
            }
        });
        publishing.await.expect("it does not panic");
        for task in tasks {
            assert_eq!(task.await.expect("it does not panic"), LAST);
        }
    }
}
