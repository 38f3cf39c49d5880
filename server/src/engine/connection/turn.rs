//! A turn: requests of one connection that are handled one after the other.

use bytes::{Buf as _, Bytes, BytesMut};
use parking_lot::MutexGuard;

use zoolet_protocol::{FrameCodec, OpCode, RequestHeader};

use super::{Attached, Connection, Treatment};
use crate::config::EnforceAuth;
use crate::engine::hooks::Closed;
use crate::engine::message::Message;
use crate::engine::plain_reads::{Answered, Unread};
use crate::engine::plain_writes::{self, CarriedOut};

/// A turn of a connection. Its requests share the connection's lock, one read of the clock between two of
/// them, and what they add to numbers that all connections share. Reports show that when this is dropped,
/// so it is dropped before the replies leave.
pub(crate) struct Turn<'a> {
    connection: &'a Connection,
    attached: MutexGuard<'a, Option<Attached>>,
    /// When the last request was carried out, in milliseconds of the server's clock; at first, when the
    /// turn began.
    now_ms: u64,
}

impl Connection {
    /// Begins a turn at this time, in milliseconds of the server's clock. There are no hooks, which may
    /// hold frames back.
    pub(crate) fn begin_turn(&self, now_ms: u64) -> Turn<'_> {
        debug_assert!(self.engine.hooks.is_none(), "hooks handle frames");
        Turn { connection: self, attached: self.attached.lock(), now_ms }
    }
}

impl Turn<'_> {
    /// Handles the payload of a frame, as [`Connection::handle`] does. With a `buffer` the reply may be
    /// appended to it, with its length before it, or returned to be appended by the caller, who writes the
    /// buffer before it takes anything from the outbox.
    pub(crate) fn handle(
        &mut self,
        frame: &Bytes,
        treatment: Treatment,
        mut buffer: Option<&mut BytesMut>,
    ) -> Result<Option<Message>, Closed> {
        let connection = self.connection;
        if !connection.peer.outbox.is_open() {
            return Err(Closed);
        }
        match &mut *self.attached {
            Some(attached) => {
                attached.so_far.buffer = buffer.as_deref_mut().map(std::mem::take);
                attached.so_far.counts.frame_received(frame.len());
            }
            None => {
                connection.engine.stats.frame_received(frame.len());
                connection.peer.stats.received.add(1);
            }
        }
        let (attached, received_ms) = (&mut *self.attached, self.now_ms);
        let handled = connection.handle_locked(attached, frame, treatment, received_ms);
        let so_far = attached.as_mut().map(|attached| &mut attached.so_far);
        if let (Some(buffer), Some(so_far)) = (buffer, so_far)
            && let Some(filled) = so_far.buffer.take()
        {
            *buffer = filled;
        }
        self.now_ms = handled?;
        Ok(attached.as_mut().and_then(|attached| attached.so_far.long_reply.take()))
    }

    /// Answers the plain reads that come first, into `buffer` as [`Turn::handle`] does. Returns how many there
    /// were, and their bytes; `None` if the first is to be handled as any other request.
    pub(crate) fn answer_plain_reads(
        &mut self,
        unread: Unread<'_>,
        buffer: &mut BytesMut,
    ) -> Option<(usize, usize)> {
        let Connection { engine, peer, .. } = self.connection;
        let Attached { liveness, requester, so_far } = self.attached.as_mut()?;
        if !peer.outbox.is_open() || engine.config.enforce_auth != EnforceAuth::Off {
            return None;
        }
        let received_ms = self.now_ms;
        let counts = &mut so_far.counts;
        let heard = || liveness.touch(received_ms);
        let answered = engine.answer_plain_reads(peer, requester, unread, heard, counts, buffer)?;
        let Answered { requests, bytes, xid, zxid } = answered;
        let last = (RequestHeader { xid, op: OpCode::GET_DATA }, zxid);
        self.now_ms = self.connection.count_replies(counts, last, received_ms, requests);
        Some((requests, bytes))
    }

    /// Carries out the plain writes that come first, and takes them off the `input`. Their replies are
    /// appended to `buffer` as [`Turn::handle`] does. Returns how many there were; `None` if the first is to be
    /// handled as any other request.
    pub(crate) fn carry_out_plain_writes(
        &mut self,
        codec: &FrameCodec,
        input: &mut BytesMut,
        most: usize,
        buffer: &mut BytesMut,
    ) -> Option<usize> {
        let Connection { engine, peer, .. } = self.connection;
        let Attached { liveness, requester, so_far } = self.attached.as_mut()?;
        let config = &engine.config;
        let is_plain = config.enforce_auth == EnforceAuth::Off
            && !config.settings.enforce_quota
            && engine.audit.is_none();
        if !is_plain || !plain_writes::comes_first(codec, input) || !peer.outbox.is_open() {
            return None;
        }
        peer.stats.request_began(self.now_ms);
        liveness.touch(self.now_ms);
        so_far.buffer = Some(std::mem::take(buffer));
        let coming = (codec, &input[..], most);
        let carried_out = engine.carry_out_plain_writes(peer, requester, coming, so_far);
        *buffer = so_far.buffer.take().unwrap_or_default();
        let CarriedOut { requests, bytes, header, zxid } = carried_out?;
        input.advance(bytes);
        let (connection, counts, last) = (self.connection, &mut so_far.counts, (header, zxid));
        self.now_ms = connection.count_replies(counts, last, self.now_ms, requests);
        Some(requests)
    }

    /// When the last request was carried out, in milliseconds of the server's clock.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(attached) = &mut *self.attached {
            attached.so_far.counts.tell(&self.connection.peer.stats);
        }
    }
}
