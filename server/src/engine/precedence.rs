//! Who goes first: the client that a write has woken is served before the client that wrote. The next owner
//! of a lock is in more of a hurry than the client that released it.
//!
//! The task of the writer waits until the task that it has woken has had a turn, which wakes it again: both run
//! one after the other on one worker, and nothing comes in between. A task that yields goes on only after
//! the worker has looked for work, polled all sockets, and woken another worker. Then the client that
//! has just been told shares its processor, or is woken on another one, which takes longer.

use std::pin::Pin;
use std::sync::Weak;
use std::task::{Poll, Waker};

use parking_lot::Mutex;

use super::lock::Wakers;
use super::registry::Peer;

/// If a write wakes at most so many other clients they are served before the client that wrote gets
/// its reply. More would delay the reply too long.
const TOLD_FIRST_MAX: usize = 4;

/// The receivers that the writes of one connection have woken in its turn.
#[derive(Debug, Default)]
pub(super) struct Woken {
    count: usize,
    /// The first of them, if its connection has a task.
    first: Option<Receiver>,
}

/// The task of another connection, which was woken.
#[derive(Debug)]
pub(super) struct Receiver {
    /// Connections whose writes have woken each other must not keep each other in memory.
    pub(super) peer: Weak<Peer>,
    pub(super) waker: Waker,
}

/// The tasks that go on once the task of a connection has had its next turn.
#[derive(Debug, Default)]
pub(super) struct Followers {
    /// `None` if the connection has no task that takes turns.
    waiting: Mutex<Option<Wakers>>,
}

impl Woken {
    /// Counts those that one write has woken.
    pub(super) fn add(&mut self, count: usize, first: Option<Receiver>) {
        self.count += count;
        self.first = self.first.take().or(first);
    }

    /// Lets those go first that were woken, if they are few.
    pub(super) async fn go_first(self) {
        match self {
            Self { count: 1, first: Some(receiver) } => receiver.take_turn().await,
            Self { count: 1..=TOLD_FIRST_MAX, .. } => tokio::task::yield_now().await,
            Self { .. } => {}
        }
    }
}

impl Receiver {
    /// Waits until the task has had a turn. It writes then what its socket takes.
    async fn take_turn(self) {
        let mut has_waited = false;
        std::future::poll_fn(|context| {
            if std::mem::replace(&mut has_waited, true) {
                return Poll::Ready(());
            }
            let is_to_come = |peer: &Peer| peer.followers.add(context.waker());
            if !self.peer.upgrade().is_some_and(|peer| is_to_come(&peer)) {
                return Poll::Ready(());
            }
            // If it has had its turn meanwhile, it has another one.
            self.waker.wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

impl Followers {
    /// Has a task woken after the next turn. Returns whether there are any turns.
    fn add(&self, waker: &Waker) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.as_mut().map(|waiting| waiting.add(Some(waker.clone()))).is_some()
    }

    /// Runs the task of a connection: each poll is a turn. The caller has pinned it, so that the memory for it
    /// is there once.
    pub(super) async fn wake_after_turns<T>(&self, mut task: impl Future<Output = T> + Unpin) -> T {
        let _turns = Turns::begin(self);
        std::future::poll_fn(|context| {
            let polled = Pin::new(&mut task).poll(context);
            self.go_on();
            polled
        })
        .await
    }

    fn go_on(&self) {
        let mut waiting = self.waiting.lock();
        let woken = waiting.as_mut().filter(|waiting| waiting.len() > 0).map(std::mem::take);
        // They are woken without the lock.
        drop(waiting);
        drop(woken);
    }
}

/// While it is there, the task of a connection takes turns.
struct Turns<'a>(&'a Followers);

impl<'a> Turns<'a> {
    fn begin(followers: &'a Followers) -> Self {
        *followers.waiting.lock() = Some(Wakers::default());
        Self(followers)
    }
}

impl Drop for Turns<'_> {
    fn drop(&mut self) {
        let woken = self.0.waiting.lock().take();
        drop(woken);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::task::{Context, Wake};

    use super::*;

    /// Counts how often a task is woken.
    #[derive(Default)]
    struct Wakings(AtomicUsize);

    impl Wake for Wakings {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Wakings {
        fn count(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn a_follower_is_woken_after_the_next_turn_and_when_no_turn_follows() {
        let (followers, wakings) = (Followers::default(), Arc::new(Wakings::default()));
        let waker = Waker::from(Arc::clone(&wakings));
        assert!(!followers.add(&waker), "there is no task yet");

        let is_over = AtomicBool::new(false);
        let in_a_turn = std::cell::Cell::new(0);
        let task = std::future::poll_fn(|_| {
            in_a_turn.set(wakings.count());
            if is_over.load(Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending }
        });
        let mut task = Box::pin(followers.wake_after_turns(task));
        let context = &mut Context::from_waker(Waker::noop());
        assert!(task.as_mut().poll(context).is_pending());
        assert!(followers.add(&waker) && followers.add(&waker));
        assert!(task.as_mut().poll(context).is_pending());
        assert_eq!((in_a_turn.get(), wakings.count()), (0, 2), "both are woken after the turn");
        assert!(task.as_mut().poll(context).is_pending());
        assert_eq!(wakings.count(), 2, "each is woken once");

        assert!(followers.add(&waker));
        is_over.store(true, Ordering::Relaxed);
        assert!(task.as_mut().poll(context).is_ready());
        assert_eq!(wakings.count(), 3, "the last turn");
        assert!(!followers.add(&waker), "no turn follows");

        let mut task = Box::pin(followers.wake_after_turns(std::future::pending::<()>()));
        assert!(task.as_mut().poll(context).is_pending());
        assert!(followers.add(&waker));
        drop(task);
        assert_eq!(wakings.count(), 4, "the task is gone");
        assert!(!followers.add(&waker));
    }
}
