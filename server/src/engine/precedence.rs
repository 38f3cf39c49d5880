//! Who goes first: the client that a write has woken is served before the client that wrote. The next owner
//! of a lock is in more of a hurry than the client that released it.
//!
//! The task of the writer waits until the only task that it has woken has run, which wakes it again: mostly both run
//! one after the other on one worker, and nothing comes in between. (Three such tasks in a row are the most; then tokio
//! lets others run.) A task that yields goes on only after the worker has looked for work, polled all sockets, and woken
//! another worker. Then the client that has just been told shares its processor, or is woken on another one, which takes
//! longer.

use std::pin::Pin;
use std::sync::Weak;
use std::task::{Poll, Waker};

use parking_lot::Mutex;

use super::lock::Wakers;
use super::registry::Peer;

/// If the writes of a turn wake other clients at most so many times, they are served before the client that wrote gets
/// its replies. More would delay these too long. Who is woken later, once the disk has synced, is not counted.
const TOLD_FIRST_MAX: usize = 4;

/// The receivers that the writes of one connection have woken in its turn.
#[derive(Debug, Default)]
pub(super) struct Woken {
    count: usize,
    /// The first of them.
    first: Option<Receiver>,
}

/// Who sends the messages of another connection, and was woken.
#[derive(Debug)]
pub(super) struct Receiver {
    /// Connections whose writes have woken each other must not keep each other in memory.
    pub(super) peer: Weak<Peer>,
    pub(super) waker: Waker,
}

/// The tasks that go on once the task of a connection has run next.
#[derive(Debug, Default)]
pub(super) struct Followers {
    /// `None` if the server has no task for the connection: it is in process, or a stream that a task of the
    /// caller serves, which may not come to it for long.
    waiting: Mutex<Option<Wakers>>,
}

impl Woken {
    /// Counts those that one write has woken.
    pub(super) fn add(&mut self, count: usize, first: Option<Receiver>) {
        self.count += count;
        self.first = self.first.take().or(first);
    }

    /// Lets those go first that were woken, if they are few. `own` are the followers of the caller.
    pub(super) async fn go_first(self, own: &Followers) {
        let is_settled = match self.first {
            // The server's tasks run on one runtime. That of a stream's task may be another one.
            Some(only) if self.count == 1 && own.has_server_task() => only.run_first().await,
            _ => false,
        };
        if !is_settled && (1..=TOLD_FIRST_MAX).contains(&self.count) {
            tokio::task::yield_now().await;
        }
    }
}

impl Receiver {
    /// Waits at most until the task has run, which writes what its socket takes. Returns whether there is nothing
    /// more to wait for: false if the server has no task for the connection.
    async fn run_first(self) -> bool {
        let mut has_waited = false;
        std::future::poll_fn(|context| {
            if std::mem::replace(&mut has_waited, true) {
                return Poll::Ready(true);
            }
            let Some(peer) = self.peer.upgrade() else { return Poll::Ready(true) };
            if !peer.followers.has_server_task() {
                return Poll::Ready(false);
            }
            // If it has taken the event meanwhile, it may have begun with what takes long.
            if peer.outbox.waiting_bytes() == 0 || !peer.followers.add(context.waker()) {
                return Poll::Ready(true);
            }
            // If it has run meanwhile, it runs again.
            self.waker.wake_by_ref();
            Poll::Pending
        })
        .await
    }
}

impl Followers {
    /// Whether the server has a task for the connection.
    fn has_server_task(&self) -> bool {
        self.waiting.lock().is_some()
    }

    /// Has a task woken once that of the connection has run. Returns whether there is such a task.
    fn add(&self, waker: &Waker) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.as_mut().map(|waiting| waiting.add(Some(waker.clone()))).is_some()
    }

    /// Runs the task of a connection, and wakes those that wait for it after each poll. The caller has pinned it,
    /// so that the memory for it is there once.
    pub(super) async fn wake_after_polls<T>(&self, mut task: impl Future<Output = T> + Unpin) -> T {
        let _running = Running::begin(self);
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

/// While this is there, the server has a task for the connection.
struct Running<'a>(&'a Followers);

impl<'a> Running<'a> {
    fn begin(followers: &'a Followers) -> Self {
        *followers.waiting.lock() = Some(Wakers::default());
        Self(followers)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let woken = self.0.waiting.lock().take();
        drop(woken);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::task::{Context, Wake};

    use bytes::Bytes;
    use zoolet_core::ConnectionId;
    use zoolet_protocol::Zxid;

    use super::super::message::Message;
    use super::super::outbox::{Outbox, Outgoing};
    use super::super::registry::Entrance;
    use super::super::state::LockHeld;
    use super::super::stats::ConnectionStats;
    use super::*;
    use crate::storage::durable::Durable;

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
    fn a_follower_is_woken_after_the_next_poll_and_when_no_poll_follows() {
        let (followers, wakings) = (Followers::default(), Arc::new(Wakings::default()));
        let waker = Waker::from(Arc::clone(&wakings));
        assert!(!followers.add(&waker), "there is no task yet");

        let is_over = AtomicBool::new(false);
        let while_polled = std::cell::Cell::new(0);
        let task = std::future::poll_fn(|_| {
            while_polled.set(wakings.count());
            if is_over.load(Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending }
        });
        let mut task = Box::pin(followers.wake_after_polls(task));
        let context = &mut Context::from_waker(Waker::noop());
        assert!(task.as_mut().poll(context).is_pending());
        assert!(followers.add(&waker) && followers.add(&waker));
        assert!(task.as_mut().poll(context).is_pending());
        assert_eq!((while_polled.get(), wakings.count()), (0, 2), "both are woken after the poll");
        assert!(task.as_mut().poll(context).is_pending());
        assert_eq!(wakings.count(), 2, "each is woken once");

        assert!(followers.add(&waker));
        is_over.store(true, Ordering::Relaxed);
        assert!(task.as_mut().poll(context).is_ready());
        assert_eq!(wakings.count(), 3, "the last poll");
        assert!(!followers.add(&waker), "no poll follows");

        let mut task = Box::pin(followers.wake_after_polls(std::future::pending::<()>()));
        assert!(task.as_mut().poll(context).is_pending());
        assert!(followers.add(&waker));
        drop(task);
        assert_eq!(wakings.count(), 4, "the task is gone");
        assert!(!followers.add(&waker));
    }

    /// A connection with an event that waits in its outbox, and its task as a write has woken it.
    fn told() -> (Arc<Peer>, Receiver) {
        let address = Some(([127, 0, 0, 1], 7).into());
        let outbox = Outbox::new(ConnectionId(1), Durable::always(), None);
        let message = Message::Event(Bytes::from_static(b"event"));
        let event = Outgoing { after: Zxid(1), message };
        assert!(outbox.push(LockHeld::NO_ENGINE, event, |_, _| {}).is_ok());
        let stats = ConnectionStats::new(Arc::default(), 0);
        let entrance = Entrance { address, is_secure: false };
        let peer = Arc::new(Peer::new(ConnectionId(1), entrance, outbox, stats));
        let receiver = Receiver { peer: Arc::downgrade(&peer), waker: Waker::noop().clone() };
        (peer, receiver)
    }

    #[test]
    fn a_writer_waits_only_for_a_task_that_has_its_event_still_to_send() {
        let context = &mut Context::from_waker(Waker::noop());
        let (peer, receiver) = told();
        assert_eq!(pin!(receiver.run_first()).poll(context), Poll::Ready(false), "it has no task");

        let task = peer.run_task(std::future::pending::<()>());
        let mut task = pin!(task);
        assert!(task.as_mut().poll(context).is_pending());
        let (_, receiver) = told();
        assert_eq!(pin!(receiver.run_first()).poll(context), Poll::Ready(true), "it is gone");

        let told_again = || Receiver { peer: Arc::downgrade(&peer), waker: Waker::noop().clone() };
        let (wakings, mut waiting) = (Arc::new(Wakings::default()), pin!(told_again().run_first()));
        let waker = Waker::from(Arc::clone(&wakings));
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert!(task.as_mut().poll(context).is_pending());
        assert_eq!(wakings.count(), 1, "the task has run");
        assert_eq!(waiting.as_mut().poll(context), Poll::Ready(true));

        assert!(peer.outbox.take_all(usize::MAX).1);
        assert_eq!(pin!(told_again().run_first()).poll(context), Poll::Ready(true), "it is told");
    }
}
