//! What a turn has come to so far: the requests of one connection that are handled one after the other.
//!
//! A reply need not go through the outbox while that is empty: it is encoded into the buffer of the task that
//! handles the turn, which writes it before it takes anything from the outbox. See [`Outbox::is_passable`].
//!
//! [`Outbox::is_passable`]: super::outbox::Outbox::is_passable

use std::task::Waker;

use bytes::BytesMut;
use zoolet_protocol::{
    Encode as _, ErrorCode, PlainReply, ReplyHeader, Response, Xid, Zxid, put_reply,
};

use super::message::Message;
use super::outbox::Outgoing;
use super::registry::Peer;
use super::state::LockHeld;
use super::stats::TurnCounts;

/// The longest reply that is encoded under the engine's lock, in bytes: to move it would take as long. That to a plain
/// write is not longer than the write, but for a Stat and a number.
pub(super) const SHORT_BYTES_MAX: usize = 512;

/// What a turn has come to so far.
#[derive(Debug, Default)]
pub(crate) struct SoFar {
    pub(super) counts: TurnCounts,
    /// The buffer for the next reply, if it need not go through the outbox.
    pub(super) buffer: Option<BytesMut>,
    /// The last reply, if it is to follow what is in the buffer.
    pub(super) long_reply: Option<Message>,
}

/// How a reply leaves.
enum Passage {
    /// It is in the buffer.
    Encoded,
    /// It is to follow the buffer.
    Long,
    /// It must go through the outbox.
    Outbox,
}

impl SoFar {
    /// The buffer, if the next reply may be encoded into it.
    fn passage(&mut self, held: LockHeld<'_>, peer: &Peer, zxid: Zxid) -> Option<&mut BytesMut> {
        self.buffer.as_mut().filter(|_| peer.outbox.is_passable(held, zxid))
    }

    /// Encodes a short reply into the buffer. Takes a long one as the one that follows the buffer, or pushes
    /// the reply to the outbox if it must go through that. The caller wakes the returned waker when it has
    /// released the lock.
    pub(super) fn push_reply(
        &mut self,
        held: LockHeld<'_>,
        peer: &Peer,
        xid: Xid,
        zxid: Zxid,
        reply: &mut Result<Response, ErrorCode>,
    ) -> Option<Waker> {
        let err = reply.as_ref().err().copied().unwrap_or(ErrorCode::OK);
        let header = ReplyHeader { xid, zxid, err };
        match self.pass_reply(held, peer, &header, reply) {
            Passage::Encoded => None,
            Passage::Long => {
                self.long_reply = Some(take_message(header, reply));
                None
            }
            Passage::Outbox => {
                peer.push(held, Outgoing { after: zxid, message: take_message(header, reply) })
            }
        }
    }

    /// Encodes the reply to a plain write into the buffer, or pushes it to the outbox if it must go through that.
    /// The caller wakes the returned waker when it has released the lock.
    pub(super) fn push_plain_reply(
        &mut self,
        held: LockHeld<'_>,
        peer: &Peer,
        xid: Xid,
        zxid: Zxid,
        reply: &Result<PlainReply<'_>, ErrorCode>,
    ) -> Option<Waker> {
        let (err, reply) = match reply {
            Ok(reply) => (ErrorCode::OK, reply),
            Err(code) => (*code, &PlainReply::Empty),
        };
        let header = ReplyHeader { xid, zxid, err };
        if let Some(buffer) = self.passage(held, peer, zxid) {
            let bytes = reply.put(&header, buffer);
            self.counts.reply_sent(&peer.stats, xid, bytes);
            return None;
        }
        let message = Message::Reply(header, Box::new((*reply).into()));
        peer.push(held, Outgoing { after: zxid, message })
    }

    /// Encodes a short reply, unless it must go through the outbox, and counts what does not.
    fn pass_reply(
        &mut self,
        held: LockHeld<'_>,
        peer: &Peer,
        header: &ReplyHeader,
        reply: &Result<Response, ErrorCode>,
    ) -> Passage {
        if self.passage(held, peer, header.zxid).is_none() {
            return Passage::Outbox;
        }
        let response = reply.as_ref().unwrap_or(&Response::Empty);
        let bytes = header.encoded_len() + response.encoded_len();
        // A reply that is too long for a frame cuts the connection, which is up to the outbox.
        if i32::try_from(bytes).is_err() {
            return Passage::Outbox;
        }
        self.counts.reply_sent(&peer.stats, header.xid, bytes);
        match &mut self.buffer {
            Some(buffer) if bytes <= SHORT_BYTES_MAX => {
                put_reply(header, response, buffer);
                Passage::Encoded
            }
            _ => Passage::Long,
        }
    }
}

/// Takes a reply, as the outbox has it.
fn take_message(header: ReplyHeader, reply: &mut Result<Response, ErrorCode>) -> Message {
    let reply = std::mem::replace(reply, Ok(Response::Empty));
    Message::Reply(header, Box::new(reply.unwrap_or(Response::Empty)))
}
