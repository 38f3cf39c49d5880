//! What a turn has come to so far: the requests of one connection that are handled one after the other.
//!
//! A reply need not go through the outbox while that is empty: it is encoded into the buffer of whom handles
//! the turn, who writes that before it takes anything from the outbox. See [`Outbox::is_passable`].
//!
//! [`Outbox::is_passable`]: super::outbox::Outbox::is_passable

use std::task::Waker;

use bytes::BytesMut;
use zoolet_protocol::{Encode as _, ErrorCode, ReplyHeader, Response, Xid, Zxid, put_reply};

use super::message::Message;
use super::outbox::Outgoing;
use super::registry::Peer;
use super::state::LockHeld;
use super::stats::TurnCounts;

/// The longest reply that is encoded under the engine's lock, in bytes: to move it would take as long.
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

impl SoFar {
    /// Whether the next reply may be encoded into the buffer.
    fn has_passage(&self, held: LockHeld<'_>, peer: &Peer, zxid: Zxid) -> bool {
        self.buffer.is_some() && peer.outbox.is_passable(held, zxid)
    }

    /// Encodes the reply to a request, or pushes it to the outbox. The caller wakes the returned waker when
    /// it has released the lock.
    pub(super) fn push_reply(
        &mut self,
        held: LockHeld<'_>,
        peer: &Peer,
        xid: Xid,
        zxid: Zxid,
        reply: Result<Response, ErrorCode>,
    ) -> Option<Waker> {
        let err = reply.as_ref().err().copied().unwrap_or(ErrorCode::OK);
        let header = ReplyHeader { xid, zxid, err };
        let short = reply.as_ref().unwrap_or(&Response::Empty);
        if self.has_passage(held, peer, zxid) {
            let bytes = header.encoded_len() + short.encoded_len();
            // A reply that is too long for a frame cuts the connection, which is up to the outbox.
            if i32::try_from(bytes).is_ok() {
                self.counts.reply_sent(&peer.stats, xid, bytes);
                match &mut self.buffer {
                    Some(buffer) if bytes <= SHORT_BYTES_MAX => {
                        put_reply(&header, short, buffer);
                    }
                    _ => self.long_reply = Some(message(header, reply)),
                }
                return None;
            }
        }
        peer.push(held, Outgoing { after: zxid, message: message(header, reply) })
    }
}

/// A reply as the outbox has it.
fn message(header: ReplyHeader, reply: Result<Response, ErrorCode>) -> Message {
    Message::Reply(header, Box::new(reply.unwrap_or(Response::Empty)))
}
