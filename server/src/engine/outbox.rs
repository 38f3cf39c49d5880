//! What waits for one client, in order.
//!
//! Invariant: a message is pushed under the lock of the engine under which it was produced, and
//! leaves once the zxid that it depends on is durable. So a client sees an event before anything
//! that shows the change, and nothing that a crash could undo.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::Mutex;
use zoolet_protocol::{
    ConnectResponse, Encode, Parts, ReplyHeader, Response, Zxid, encode_reply_in_parts,
};

use crate::faults::{Admitted, Gate, Stamp};
use crate::limits::{OUTBOX_BYTES_MAX, OUTBOX_MESSAGES_MAX, REQUESTS_PER_TURN};
use crate::storage::durable::Durable;

/// A message and the zxid that it depends on.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) after: Zxid,
    pub(crate) message: Message,
}

/// What is sent to a client.
#[derive(Debug)]
pub(crate) enum Message {
    /// The answer to the handshake.
    Connected(ConnectResponse),
    /// The answer to a request. Encoded when it leaves, outside the lock.
    Reply(ReplyHeader, Response),
    /// An event, encoded once for all who get it.
    Event(Bytes),
}

impl Message {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Connected(response) => response.encoded_len(),
            Self::Reply(header, response) => header.encoded_len() + response.encoded_len(),
            Self::Event(frame) => frame.len(),
        }
    }

    /// Appends the message without a length.
    pub(crate) fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Connected(response) => response.encode(out),
            Self::Reply(header, response) => zoolet_protocol::encode_reply(header, response, out),
            Self::Event(frame) => out.put_slice(frame),
        }
    }

    /// The message as the payload of a frame of its own.
    pub(crate) fn into_frame(self) -> Bytes {
        match self {
            Self::Event(frame) => frame,
            message => {
                let mut out = BytesMut::with_capacity(message.len());
                message.encode(&mut out);
                out.freeze()
            }
        }
    }

    /// Appends the message without a length, and shares what is long in it.
    pub(crate) fn encode_in_parts(&self, out: &mut impl Parts) {
        match self {
            Self::Connected(response) => response.encode(out.buffer()),
            Self::Reply(header, response) => encode_reply_in_parts(header, response, out),
            Self::Event(frame) => out.buffer().put_slice(frame),
        }
    }
}

/// How a conversation ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It goes on.
    Open,
    /// Once everything has left.
    Finishing,
    /// At once.
    Cut,
}

/// What waits for one client.
#[derive(Debug)]
pub(crate) struct Outbox {
    durable: Durable,
    gate: Gate,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    waiting: VecDeque<(Outgoing, Stamp)>,
    bytes: usize,
    end: End,
    /// Whoever takes the messages is to look for unread input.
    is_asked: bool,
    /// As long as this is not 0, nobody is woken.
    mutes: usize,
    /// Who takes the messages out, if it waits for one.
    taker: Option<Waker>,
}

/// What was taken out of an outbox.
#[derive(Debug)]
pub(crate) enum Taken {
    /// The next message.
    Message(Message),
    /// No message: input may be unread, and the session ends if there is none.
    Look,
    /// The conversation is over.
    Over,
}

impl Outbox {
    pub(crate) fn new(durable: Durable, gate: Gate) -> Self {
        let inner = Inner {
            waiting: VecDeque::new(),
            bytes: 0,
            end: End::Open,
            is_asked: false,
            mutes: 0,
            taker: None,
        };
        Self { durable, gate, inner: Mutex::new(inner) }
    }

    /// Where faults get hold of what passes.
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Adds a message. The caller wakes whoever is returned, once it holds no lock.
    ///
    /// Past the limits the conversation is cut instead, and [`Overflow`] tells so; nor is a message
    /// taken that is too long for a frame.
    pub(crate) fn push(&self, mut outgoing: Outgoing) -> Result<Option<Waker>, Overflow> {
        let mut inner = self.inner.lock();
        if inner.end != End::Open {
            return Ok(None);
        }
        let length = outgoing.message.len();
        let after = outgoing.after;
        let is_full = inner.waiting.len() >= OUTBOX_MESSAGES_MAX || inner.bytes >= OUTBOX_BYTES_MAX;
        if is_full || i32::try_from(length).is_err() {
            let (messages, bytes) = (inner.waiting.len() + 1, inner.bytes.saturating_add(length));
            inner.cut();
            return Err(Overflow { messages, bytes, taker: inner.take_taker() });
        }
        match self.gate.admit(&mut outgoing) {
            Admitted::Waits(stamp) => {
                // What a fault has falsified is shorter, and an encoded frame.
                let is_encoded = matches!(outgoing.message, Message::Event(_));
                inner.bytes += if is_encoded { outgoing.message.len() } else { length };
                inner.waiting.push_back((outgoing, stamp));
            }
            Admitted::Lost => return Ok(None),
            Admitted::Ends => {
                inner.end = End::Finishing;
                return Ok(inner.take_taker());
            }
        }
        match &inner.taker {
            _ if inner.mutes > 0 => Ok(None),
            // Woken when there is something to take.
            Some(taker) if self.durable.wait(after, taker) => Ok(None),
            _ => Ok(inner.taker.take()),
        }
    }

    /// Ends the conversation once everything has left.
    pub(crate) fn finish(&self) {
        self.end(|inner| {
            if inner.end == End::Open {
                inner.end = End::Finishing;
            }
        });
    }

    /// Ends the conversation at once; what waits is lost.
    pub(crate) fn cut(&self) {
        self.end(Inner::cut);
    }

    fn end(&self, end: impl FnOnce(&mut Inner)) {
        let mut inner = self.inner.lock();
        end(&mut inner);
        let taker = inner.take_taker();
        drop(inner);
        if let Some(taker) = taker {
            taker.wake();
        }
    }

    /// Has whoever takes the messages look for unread input, before any more of them.
    pub(crate) fn ask(&self) {
        self.end(|inner| inner.is_asked = true);
    }

    /// Whether what is next waits for the disk.
    pub(crate) fn waits_for_disk(&self) -> bool {
        let inner = self.inner.lock();
        inner.waiting.front().is_some_and(|(first, _)| !self.durable.covers(first.after))
    }

    /// Wakes whoever takes the messages, to look again.
    #[cfg(feature = "testing")]
    pub(crate) fn wake(&self) {
        self.end(|_| {});
    }

    /// Lets what was delayed leave at once.
    #[cfg(feature = "testing")]
    pub(crate) fn hurry(&self) {
        for (_, stamp) in &mut self.inner.lock().waiting {
            *stamp = Stamp::default();
        }
    }

    /// Wakes nobody until [`Outbox::unmute`].
    #[cfg(feature = "testing")]
    pub(crate) fn mute(&self) {
        self.inner.lock().mutes += 1;
    }

    /// Wakes whoever would have been woken since [`Outbox::mute`].
    #[cfg(feature = "testing")]
    pub(crate) fn unmute(&self) {
        self.end(|inner| inner.mutes -= 1);
    }

    /// Whether the conversation goes on.
    pub(crate) fn is_open(&self) -> bool {
        self.inner.lock().end == End::Open
    }

    /// The bytes that wait.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.inner.lock().bytes
    }

    /// The messages that wait.
    pub(crate) fn waiting_messages(&self) -> usize {
        self.inner.lock().waiting.len()
    }

    /// Takes the next message that may leave. Only the last caller is woken.
    pub(crate) fn poll_take(&self, context: &Context<'_>) -> Poll<Taken> {
        let mut inner = self.inner.lock();
        if std::mem::take(&mut inner.is_asked) {
            return Poll::Ready(Taken::Look);
        }
        loop {
            if let Some(taken) = inner.take(&self.durable, &self.gate) {
                return Poll::Ready(taken);
            }
            if !inner.taker.as_ref().is_some_and(|taker| taker.will_wake(context.waker())) {
                inner.taker = Some(context.waker().clone());
            }
            match inner.waiting.front() {
                // It leaves when a fault is lifted.
                Some((_, stamp)) if !self.gate.lets_out(stamp) => return Poll::Pending,
                // It has become durable in between.
                Some((first, _)) if !self.durable.wait(first.after, context.waker()) => {}
                _ => return Poll::Pending,
            }
        }
    }

    /// Ready when the conversation is over, whatever still waits, or input is to be looked for. Only
    /// the last caller is woken.
    pub(crate) fn poll_end(&self, context: &Context<'_>) -> Poll<Taken> {
        let mut inner = self.inner.lock();
        if inner.end != End::Open {
            return Poll::Ready(Taken::Over);
        }
        if std::mem::take(&mut inner.is_asked) {
            return Poll::Ready(Taken::Look);
        }
        inner.taker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Takes away who would be woken, until [`Outbox::return_taker`] or the next time someone waits
    /// for a message.
    pub(crate) fn lend_taker(&self) -> Option<Waker> {
        self.inner.lock().taker.take()
    }

    /// Puts back who is to be woken, unless someone else waits by now.
    pub(crate) fn return_taker(&self, taker: Option<Waker>) {
        let mut inner = self.inner.lock();
        if inner.taker.is_none() {
            inner.taker = taker;
        }
    }

    /// Takes what may leave, up to about so many bytes, to be encoded outside the lock, and tells
    /// whether the conversation goes on.
    pub(crate) fn take_all(&self, bytes_max: usize) -> (Vec<Message>, bool) {
        let mut inner = self.inner.lock();
        let mut taken = Vec::with_capacity(inner.waiting.len().min(REQUESTS_PER_TURN));
        let mut room = bytes_max;
        while room > 0 {
            let waiting = inner.bytes;
            match inner.take(&self.durable, &self.gate) {
                Some(Taken::Message(message)) => taken.push(message),
                Some(Taken::Over) => return (taken, false),
                Some(Taken::Look) | None => break,
            }
            room = room.saturating_sub(waiting - inner.bytes);
        }
        (taken, true)
    }
}

impl Inner {
    fn take(&mut self, durable: &Durable, gate: &Gate) -> Option<Taken> {
        match self.waiting.front() {
            Some((first, stamp)) if durable.covers(first.after) && gate.lets_out(stamp) => {
                let (outgoing, _) = self.waiting.pop_front()?;
                self.bytes -= outgoing.message.len();
                Some(Taken::Message(outgoing.message))
            }
            None if self.end == End::Cut => Some(Taken::Over),
            None if self.end == End::Finishing && !gate.is_frozen() => Some(Taken::Over),
            _ => None,
        }
    }

    /// Who is to be woken.
    fn take_taker(&mut self) -> Option<Waker> {
        if self.mutes == 0 { self.taker.take() } else { None }
    }

    fn cut(&mut self) {
        self.end = End::Cut;
        self.waiting.clear();
        self.bytes = 0;
    }
}

/// More waited for a client than may.
#[derive(Debug, thiserror::Error)]
#[error(
    "{messages} messages of {bytes} bytes wait for a client that does not read; the limits are \
     {OUTBOX_MESSAGES_MAX} messages and {OUTBOX_BYTES_MAX} bytes (OUTBOX_MESSAGES_MAX and \
     OUTBOX_BYTES_MAX in limits.rs)"
)]
pub(crate) struct Overflow {
    messages: usize,
    bytes: usize,
    /// Who is to be woken, once no lock is held.
    pub(crate) taker: Option<Waker>,
}

#[cfg(test)]
mod tests {
    use zoolet_core::ConnectionId;

    use super::*;
    use crate::faults::Faults;

    fn empty() -> Outbox {
        Outbox::new(Durable::always(), Gate::new(&Faults::default(), ConnectionId(1)))
    }

    fn event() -> Outgoing {
        Outgoing { after: Zxid(1), message: Message::Event(Bytes::from_static(b"event")) }
    }

    #[test]
    fn a_client_that_never_reads_is_cut_off_at_the_limit() {
        let outbox = empty();
        for _ in 0..OUTBOX_MESSAGES_MAX {
            assert!(outbox.push(event()).is_ok());
        }
        let overflow = outbox.push(event()).unwrap_err();
        assert_eq!(overflow.messages, OUTBOX_MESSAGES_MAX + 1);
        assert!(!outbox.is_open());
        assert_eq!(outbox.waiting_messages(), 0);
    }

    #[test]
    fn what_waits_leaves_before_the_end_unless_it_is_cut() {
        let outbox = empty();
        assert!(outbox.push(event()).is_ok());
        outbox.finish();
        let (taken, goes_on) = outbox.take_all(1_000);
        assert_eq!((taken.len(), goes_on), (1, false));

        let outbox = empty();
        assert!(outbox.push(event()).is_ok());
        outbox.cut();
        let (taken, goes_on) = outbox.take_all(1_000);
        assert_eq!((taken.len(), goes_on), (0, false));
    }

    #[test]
    fn no_more_is_taken_than_there_is_room_for() {
        let outbox = empty();
        for _ in 0..3 {
            assert!(outbox.push(event()).is_ok());
        }
        assert_eq!(outbox.take_all(0).0.len(), 0);
        let (taken, goes_on) = outbox.take_all(6);
        assert_eq!((taken.len(), goes_on), (2, true), "the last may be longer than the room");
        assert_eq!(outbox.waiting_messages(), 1);
    }
}
