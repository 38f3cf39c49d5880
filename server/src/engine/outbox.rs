//! The queue of messages for one client.
//!
//! Invariant: a message is pushed under the lock of the engine under which it was produced, and
//! leaves once the zxid that it depends on is durable. So a client receives an event before any
//! reply that shows the change, and nothing that a crash could undo. A reply before which nothing must
//! leave may pass the queue ([`Outbox::is_passable`]).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use parking_lot::Mutex;
use zoolet_core::ConnectionId;
use zoolet_protocol::{Received, Zxid};

use super::hooks::{Admission, Hooks};
use super::message::Message;
use super::state::LockHeld;
use crate::limits::{OUTBOX_BYTES_MAX, OUTBOX_MESSAGES_MAX, REQUESTS_PER_TURN};
use crate::storage::durable::Durable;

/// The capacity that an empty queue keeps: for the replies of a turn, and some events. A client that was
/// behind once would otherwise keep tens of megabytes.
const MESSAGES_KEPT: usize = 4 * REQUESTS_PER_TURN;

/// The longest message that is encoded under the lock of its outbox, in bytes.
const ENCODED_UNDER_LOCK_MAX: usize = 512;
/// The most messages that are encoded before the lock of the outbox is released.
const SHORT_MESSAGES_MAX: usize = 64;

/// A message and the zxid that it depends on: the last change that the message may show. It leaves
/// after that is durable.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) after: Zxid,
    pub(crate) message: Message,
}

impl Outgoing {
    /// A reply depends at least on the zxid that it shows to the client. Other messages are not
    /// checked: a handshake shows none, and an event is encoded already.
    fn assert_covers_its_message(&self) {
        if let Message::Reply(header, _) = &self.message {
            debug_assert!(
                header.zxid <= self.after,
                "a reply shows {} after {}",
                header.zxid,
                self.after
            );
        }
    }

    /// The message leaves the server, so nothing that it tells may be lost in a crash.
    fn leave(self, durable: &Durable) -> Message {
        debug_assert!(durable.covers(self.after), "{} leaves before it is durable", self.after);
        self.message
    }
}

/// Whether the connection is open, and how it ends otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It is open.
    Open,
    /// It ends when all messages have left.
    Finishing,
    /// It has ended, and the messages that waited are lost.
    Cut,
}

/// The queue of messages for one client.
#[derive(Debug)]
pub(crate) struct Outbox {
    connection: ConnectionId,
    durable: Durable,
    hooks: Option<Arc<dyn Hooks>>,
    /// Whether the connection is open, as `inner` says, to be read without its lock.
    is_open: AtomicBool,
    /// The bytes that wait, as `inner` says, to be read without its lock.
    waiting_bytes: AtomicUsize,
    /// Whether messages wake nobody: see [`Outbox::without_waking`].
    is_silent: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    waiting: VecDeque<Outgoing>,
    bytes: usize,
    /// How many messages have left: the number of the first that waits, as [`Hooks`] count.
    left: u64,
    end: End,
    /// Whether the receiver shall read its socket before it takes another message.
    must_read: bool,
    /// Wakes the receiver: the task, or in process the client, that takes the messages out.
    receiver: Option<Waker>,
}

/// What the receiver takes out of an outbox.
#[derive(Debug)]
pub(crate) enum Taken {
    /// The next message.
    Message(Message),
    /// No message: the session expires unless the receiver finds unread input in its socket.
    ReadInput,
    /// The connection has ended.
    Over,
}

impl Outbox {
    pub(crate) fn new(
        connection: ConnectionId,
        durable: Durable,
        hooks: Option<Arc<dyn Hooks>>,
    ) -> Self {
        let inner = Inner {
            waiting: VecDeque::new(),
            bytes: 0,
            left: 0,
            end: End::Open,
            must_read: false,
            receiver: None,
        };
        let (is_open, is_silent) = (AtomicBool::new(true), AtomicBool::new(false));
        let (waiting_bytes, inner) = (AtomicUsize::new(0), Mutex::new(inner));
        Self { connection, durable, hooks, is_open, waiting_bytes, is_silent, inner }
    }

    /// Adds a message. The caller wakes the returned waker once it holds no lock. `sent` counts the
    /// message and the bytes of its frame before anyone can take it; the server's numbers of a transaction's
    /// events follow before the engine's lock is released.
    ///
    /// At the limits, or with a message that is too long for a frame, the connection is cut
    /// instead, and [`Overflow`] says why.
    pub(super) fn push(
        &self,
        _held: LockHeld<'_>,
        mut outgoing: Outgoing,
        sent: impl FnOnce(&Message, usize),
    ) -> Result<Option<Waker>, Overflow> {
        outgoing.assert_covers_its_message();
        let mut inner = self.inner.lock();
        if inner.end != End::Open {
            if let Some(hooks) = &self.hooks {
                hooks.discard(self.connection, &outgoing.message);
            }
            return Ok(None);
        }
        let mut length = outgoing.message.encoded_len();
        let after = outgoing.after;
        let is_full = inner.waiting.len() >= OUTBOX_MESSAGES_MAX || inner.bytes >= OUTBOX_BYTES_MAX;
        if is_full || i32::try_from(length).is_err() {
            let (messages, bytes) = (inner.waiting.len() + 1, inner.bytes.saturating_add(length));
            inner.cut();
            self.publish(&inner);
            return Err(Overflow { messages, bytes, receiver: self.receiver_of(&mut inner) });
        }
        if let Some(hooks) = &self.hooks {
            let number = inner.left + inner.waiting.len() as u64;
            match hooks.send(self.connection, number, &mut outgoing.message) {
                Admission::Queue => length = outgoing.message.encoded_len(),
                Admission::Last => {
                    length = outgoing.message.encoded_len();
                    inner.end = End::Finishing;
                    self.publish(&inner);
                }
                Admission::Drop => return Ok(None),
                Admission::End => {
                    inner.end = End::Finishing;
                    self.publish(&inner);
                    return Ok(self.receiver_of(&mut inner));
                }
            }
        }
        sent(&outgoing.message, length);
        inner.bytes += length;
        inner.waiting.push_back(outgoing);
        self.publish(&inner);
        match &inner.receiver {
            _ if self.is_silent() => Ok(None),
            // It waits for the disk, which wakes it when the message may leave.
            Some(receiver)
                if !self.durable.covers(after)
                    && self.may_wake()
                    && self.durable.wait(after, receiver) =>
            {
                Ok(None)
            }
            _ => Ok(self.receiver_of(&mut inner)),
        }
    }

    /// Ends the connection when all messages have left.
    pub(crate) fn finish(&self) {
        self.change(|inner| {
            if inner.end == End::Open {
                inner.end = End::Finishing;
            }
        });
    }

    /// Ends the connection at once; the messages that wait are lost.
    pub(crate) fn cut(&self) {
        self.change(Inner::cut);
    }

    /// As [`Outbox::cut`], of a caller that holds a lock: it wakes the receiver once it holds none.
    #[must_use]
    pub(super) fn cut_before_waking(&self) -> Option<Waker> {
        self.change_before_waking(Inner::cut)
    }

    /// Lets the receiver read its socket before it takes another message.
    pub(crate) fn request_read(&self) {
        self.change(|inner| inner.must_read = true);
    }

    /// Wakes the receiver.
    pub(crate) fn wake(&self) {
        self.change(|_| {});
    }

    /// Changes something, and wakes the receiver.
    fn change(&self, change: impl FnOnce(&mut Inner)) {
        if let Some(receiver) = self.change_before_waking(change) {
            receiver.wake();
        }
    }

    /// Changes something, and returns the receiver, which the caller wakes.
    fn change_before_waking(&self, change: impl FnOnce(&mut Inner)) -> Option<Waker> {
        let mut inner = self.inner.lock();
        change(&mut inner);
        self.publish(&inner);
        self.receiver_of(&mut inner)
    }

    /// Makes visible without the lock whether it is open, and what waits.
    fn publish(&self, inner: &Inner) {
        self.is_open.store(inner.end == End::Open, Ordering::Release);
        // After the end, so that nobody sees an open outbox without what its end has discarded.
        self.waiting_bytes.store(inner.bytes, Ordering::Release);
    }

    /// Whether a message that depends on this zxid may leave without entering the outbox: nothing waits
    /// that must leave before it. The caller has the lock of the connection and the engine's. Others push
    /// to this outbox with the engine's lock held exclusively, so nothing enters meanwhile. The caller
    /// writes the message before it takes another out of the outbox, and knows that there are no hooks.
    pub(super) fn is_passable(&self, _held: LockHeld<'_>, after: Zxid) -> bool {
        debug_assert!(self.hooks.is_none(), "hooks see each message");
        // In this order: see `publish`.
        self.waiting_bytes.load(Ordering::Acquire) == 0
            && self.is_open()
            && self.durable.covers(after)
    }

    /// Whether the next message waits for the disk.
    pub(crate) fn waits_for_disk(&self) -> bool {
        let inner = self.inner.lock();
        inner.waiting.front().is_some_and(|first| !self.durable.covers(first.after))
    }

    /// Whether the connection is open.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Whether a hook holds the connection: nothing is read from it, and it does not end.
    pub(crate) fn is_frozen(&self) -> bool {
        self.hooks.as_ref().is_some_and(|hooks| hooks.is_frozen(self.connection))
    }

    /// Waits until no hook holds the connection.
    pub(crate) async fn thawed(&self) {
        let Some(hooks) = &self.hooks else { return };
        loop {
            let changed = hooks.changed().notified();
            if !hooks.is_frozen(self.connection) {
                return;
            }
            changed.await;
        }
    }

    /// The bytes that wait.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes.load(Ordering::Acquire)
    }

    /// The messages that wait.
    pub(crate) fn waiting_messages(&self) -> usize {
        self.inner.lock().waiting.len()
    }

    /// Takes the next message that may leave. Only the last caller is woken.
    pub(crate) fn poll_take(&self, context: &Context<'_>) -> Poll<Taken> {
        let mut inner = self.inner.lock();
        if std::mem::take(&mut inner.must_read) {
            return Poll::Ready(Taken::ReadInput);
        }
        loop {
            if let Some(taken) = self.take(&mut inner) {
                return Poll::Ready(taken);
            }
            inner.wake_at_next(context);
            match inner.waiting.front() {
                // The hook wakes the receiver when it may leave.
                Some(_) if !self.may_leave(&inner) => return Poll::Pending,
                // It has become durable in between.
                Some(first) if !self.durable.wait(first.after, context.waker()) => {}
                _ => return Poll::Pending,
            }
        }
    }

    /// Takes the short messages that may leave and are next, as frames, so that the receiver locks once
    /// for all of them. `None` if there is none. After [`Received::All`] the receiver is woken for the
    /// next, as after [`Outbox::poll_take`].
    ///
    /// A long message is not encoded under the lock: [`Outbox::poll_take`] has it.
    pub(crate) fn take_short(
        &self,
        context: &Context<'_>,
        frames: &mut VecDeque<Bytes>,
    ) -> Option<Received> {
        let before = frames.len();
        let mut inner = self.inner.lock();
        let is_short = |first: &Outgoing| first.message.encoded_len() <= ENCODED_UNDER_LOCK_MAX;
        while frames.len() - before < SHORT_MESSAGES_MAX
            && inner.waiting.front().is_some_and(is_short)
            && let Some(Taken::Message(message)) = self.take(&mut inner)
        {
            frames.push_back(message.into_frame());
        }
        if frames.len() == before {
            return None;
        }
        if !inner.waiting.is_empty() || inner.end != End::Open {
            return Some(Received::Some);
        }
        inner.wake_at_next(context);
        Some(Received::All)
    }

    /// Ready when the connection has ended, whatever still waits, or its socket shall be read. Only
    /// the last caller is woken.
    pub(crate) fn poll_end(&self, context: &Context<'_>) -> Poll<Taken> {
        let mut inner = self.inner.lock();
        if inner.end != End::Open {
            return Poll::Ready(Taken::Over);
        }
        if std::mem::take(&mut inner.must_read) {
            return Poll::Ready(Taken::ReadInput);
        }
        inner.receiver = Some(context.waker().clone());
        Poll::Pending
    }

    /// Has nobody woken until the receiver next waits for a message.
    pub(crate) fn forget_receiver(&self) {
        self.inner.lock().receiver = None;
    }

    /// Calls a function while messages, and the end of the connection, wake nobody. The caller must look for
    /// messages afterwards. It finds each one that woke nobody: a push reads the flag with the outbox
    /// locked, and a push that locks after that look sees that the flag is cleared.
    pub(crate) fn without_waking<T>(&self, act: impl FnOnce() -> T) -> T {
        self.is_silent.store(true, Ordering::Release);
        let result = act();
        self.is_silent.store(false, Ordering::Release);
        result
    }

    fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Acquire)
    }

    /// Takes the messages that may leave, up to about `bytes_max`, so that the caller encodes them
    /// outside the lock. Also returns whether the connection goes on.
    pub(crate) fn take_all(&self, bytes_max: usize) -> (Vec<Message>, bool) {
        let mut inner = self.inner.lock();
        let mut taken = Vec::with_capacity(inner.waiting.len().min(REQUESTS_PER_TURN));
        let mut room = bytes_max;
        while room > 0 {
            let waiting = inner.bytes;
            match self.take(&mut inner) {
                Some(Taken::Message(message)) => taken.push(message),
                Some(Taken::Over) => return (taken, false),
                Some(Taken::ReadInput) | None => break,
            }
            room = room.saturating_sub(waiting - inner.bytes);
        }
        (taken, true)
    }

    fn take(&self, inner: &mut Inner) -> Option<Taken> {
        match inner.waiting.front() {
            Some(first) if self.durable.covers(first.after) && self.may_leave(inner) => {
                let outgoing = inner.waiting.pop_front()?;
                inner.left += 1;
                inner.bytes -= outgoing.message.encoded_len();
                self.publish(inner);
                if inner.waiting.is_empty() && inner.waiting.capacity() > MESSAGES_KEPT {
                    inner.waiting = VecDeque::new();
                }
                Some(Taken::Message(outgoing.leave(&self.durable)))
            }
            None if inner.end == End::Cut => Some(Taken::Over),
            None if inner.end == End::Finishing && !self.is_frozen() => Some(Taken::Over),
            _ => None,
        }
    }

    /// Whether hooks let the first message leave.
    fn may_leave(&self, inner: &Inner) -> bool {
        self.hooks.as_ref().is_none_or(|hooks| hooks.may_leave(self.connection, inner.left))
    }

    fn may_wake(&self) -> bool {
        self.hooks.as_ref().is_none_or(|hooks| hooks.may_wake(self.connection))
    }

    /// The receiver's waker, for the caller to wake.
    fn receiver_of(&self, inner: &mut Inner) -> Option<Waker> {
        if self.may_wake() && !self.is_silent() { inner.receiver.take() } else { None }
    }
}

impl Inner {
    /// Has the receiver woken when the next message comes, or the connection ends.
    fn wake_at_next(&mut self, context: &Context<'_>) {
        if !self.receiver.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
            self.receiver = Some(context.waker().clone());
        }
    }

    fn cut(&mut self) {
        self.end = End::Cut;
        self.waiting = VecDeque::new();
        self.bytes = 0;
    }
}

/// More messages wait for a client than the limits allow.
#[derive(Debug, thiserror::Error)]
#[error(
    "{messages} messages of {bytes} bytes wait for a client that does not read; the limits are \
     {OUTBOX_MESSAGES_MAX} messages and {OUTBOX_BYTES_MAX} bytes (OUTBOX_MESSAGES_MAX and \
     OUTBOX_BYTES_MAX in limits.rs)"
)]
pub(crate) struct Overflow {
    messages: usize,
    bytes: usize,
    /// The receiver, for the caller to wake once it holds no lock.
    pub(crate) receiver: Option<Waker>,
}

#[cfg(test)]
impl Outbox {
    /// The zxid on which the next message depends.
    pub(super) fn next_after(&self) -> Option<Zxid> {
        self.inner.lock().waiting.front().map(|next| next.after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Outbox {
        Outbox::new(ConnectionId(1), Durable::always(), None)
    }

    fn push_event(outbox: &Outbox) -> Result<Option<Waker>, Overflow> {
        push_frame(outbox, Bytes::from_static(b"event"))
    }

    fn push_frame(outbox: &Outbox, frame: Bytes) -> Result<Option<Waker>, Overflow> {
        let outgoing = Outgoing { after: Zxid(1), message: Message::Event(frame) };
        outbox.push(LockHeld::NO_ENGINE, outgoing, |_, _| {})
    }

    #[test]
    fn a_connection_is_cut_when_its_client_never_reads() {
        let outbox = empty();
        for _ in 0..OUTBOX_MESSAGES_MAX {
            assert!(push_event(&outbox).is_ok());
        }
        let overflow = push_event(&outbox).unwrap_err();
        assert_eq!(overflow.messages, OUTBOX_MESSAGES_MAX + 1);
        assert!(!outbox.is_open());
        assert_eq!(outbox.waiting_messages(), 0);
    }

    #[test]
    fn waiting_messages_leave_before_the_end_unless_the_connection_is_cut() {
        let outbox = empty();
        assert!(push_event(&outbox).is_ok());
        outbox.finish();
        let (taken, goes_on) = outbox.take_all(1_000);
        assert_eq!((taken.len(), goes_on), (1, false));

        let outbox = empty();
        assert!(push_event(&outbox).is_ok());
        outbox.cut();
        let (taken, goes_on) = outbox.take_all(1_000);
        assert_eq!((taken.len(), goes_on), (0, false));
    }

    #[test]
    fn a_client_that_has_caught_up_keeps_little_memory() {
        let outbox = empty();
        for _ in 0..100 * MESSAGES_KEPT {
            assert!(push_event(&outbox).is_ok());
        }
        while outbox.waiting_messages() > 0 {
            assert!(outbox.take_all(1_000).1);
        }
        let capacity = || outbox.inner.lock().waiting.capacity();
        assert!(capacity() <= MESSAGES_KEPT, "room for {} messages", capacity());

        // What a turn brings needs no new memory each time.
        for _ in 0..REQUESTS_PER_TURN {
            assert!(push_event(&outbox).is_ok());
        }
        assert!(outbox.take_all(usize::MAX).1 && capacity() >= REQUESTS_PER_TURN);

        assert!(push_event(&outbox).is_ok());
        outbox.cut();
        assert_eq!(capacity(), 0);
    }

    #[test]
    fn a_message_passes_only_an_open_outbox_in_which_nothing_waits() {
        let is_passable = |outbox: &Outbox| outbox.is_passable(LockHeld::NO_ENGINE, Zxid(1));
        let outbox = empty();
        assert!(is_passable(&outbox));
        assert!(push_event(&outbox).is_ok());
        assert!(!is_passable(&outbox), "an event waits");
        assert!(outbox.take_all(1_000).1 && is_passable(&outbox));
        assert!(push_event(&outbox).is_ok());
        outbox.cut();
        assert!(!is_passable(&outbox), "an event is lost");
        let outbox = empty();
        outbox.finish();
        assert!(!is_passable(&outbox));

        let durable = Durable::from(Zxid(0));
        let outbox = Outbox::new(ConnectionId(1), durable.clone(), None);
        assert!(!is_passable(&outbox), "the disk does not have it yet");
        durable.reach(Zxid(1));
        assert!(is_passable(&outbox));
    }

    #[test]
    fn taking_stops_when_the_room_is_used_up() {
        let outbox = empty();
        for _ in 0..3 {
            assert!(push_event(&outbox).is_ok());
        }
        assert_eq!(outbox.take_all(0).0.len(), 0);
        let (taken, goes_on) = outbox.take_all(6);
        assert_eq!((taken.len(), goes_on), (2, true), "the last may be longer than the room");
        assert_eq!(outbox.waiting_messages(), 1);
    }

    #[test]
    fn who_looks_for_messages_itself_is_not_woken_and_is_again_afterwards() {
        let (outbox, context) = (empty(), Context::from_waker(Waker::noop()));
        let is_woken = || push_event(&outbox).is_ok_and(|receiver| receiver.is_some());
        assert!(outbox.poll_take(&context).is_pending());
        assert!(!outbox.without_waking(is_woken), "the caller looks itself");
        assert!(is_woken(), "the receiver is still known");
        assert!(!is_woken(), "it was woken once");
        assert_eq!(outbox.waiting_messages(), 3);
    }

    #[test]
    fn short_messages_are_taken_together_and_the_receiver_is_woken_for_the_next() {
        let (outbox, context) = (empty(), Context::from_waker(Waker::noop()));
        let mut frames = VecDeque::from([Bytes::from_static(b"of the caller")]);
        assert_eq!(outbox.take_short(&context, &mut frames), None);
        assert!(push_event(&outbox).is_ok());
        assert!(push_event(&outbox).is_ok());
        assert!(push_frame(&outbox, vec![0; ENCODED_UNDER_LOCK_MAX + 1].into()).is_ok());
        assert_eq!(outbox.take_short(&context, &mut frames), Some(Received::Some));
        assert_eq!(frames.len(), 3, "the long one is left");
        assert_eq!(outbox.take_short(&context, &mut frames), None);
        assert!(outbox.poll_take(&context).is_ready());
        assert!(push_event(&outbox).is_ok_and(|receiver| receiver.is_none()), "nobody waits");
        assert_eq!(outbox.take_short(&context, &mut frames), Some(Received::All));
        assert!(push_event(&outbox).is_ok_and(|receiver| receiver.is_some()));
        outbox.finish();
        assert_eq!(outbox.take_short(&context, &mut frames), Some(Received::Some), "it ends");
        assert_eq!(frames.len(), 5);
    }
}
