//! The plainest reads, many at once: a `getData` without a watch, of a znode with short data.
//!
//! They are answered as all requests are, but from where they were read, with the lock taken once for those
//! that follow one another. Whatever is not as plain as that takes the general way (`connection.rs`), which
//! finds the same.

use bytes::BytesMut;
use zoolet_core::Requester;
use zoolet_protocol::{
    ErrorCode, FrameCodec, OpCode, PlainGetData, ReplyHeader, Xid, Zxid, put_data_reply,
};

use super::lock::{Engine, check_session};
use super::registry::Peer;
use super::stats::TurnCounts;
use super::turn::SHORT_BYTES_MAX;
use crate::limits::BUFFER_BYTES_KEPT;

/// How many are answered while the lock is held shared, so that a writer does not wait for longer than for
/// a long list: some microseconds.
const READS_AT_ONCE: usize = 16;

/// What was answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answered {
    pub(super) requests: usize,
    /// The bytes of their frames, with the lengths before them.
    pub(super) bytes: usize,
    /// The xid and the zxid of the last reply.
    pub(super) xid: Xid,
    pub(super) zxid: Zxid,
}

/// The frames that came in, not yet handled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unread<'a> {
    pub(crate) codec: &'a FrameCodec,
    pub(crate) stream: &'a [u8],
    /// How many requests may be handled.
    pub(crate) most: usize,
}

impl<'a> Unread<'a> {
    /// The next plain read behind so many bytes, and the bytes of its payload.
    fn next_after(&self, bytes: usize) -> Option<(PlainGetData<'a>, usize)> {
        let payload = self.codec.peek(self.stream.get(bytes..)?)?;
        // The memory of a longer frame is freed behind it, as that of every other request.
        if payload.len() > BUFFER_BYTES_KEPT {
            return None;
        }
        Some((PlainGetData::decode(payload)?, payload.len()))
    }
}

impl Engine {
    /// Answers the plain reads that come first, into `replies`. `None` if there is none, or the outbox must
    /// have the replies. Calls `heard` once there is one, whatever becomes of it.
    pub(super) fn answer_plain_reads(
        &self,
        peer: &Peer,
        requester: &Requester,
        unread: Unread<'_>,
        heard: impl FnOnce(),
        counts: &mut TurnCounts,
        replies: &mut BytesMut,
    ) -> Option<Answered> {
        let mut next = Some(unread.next_after(0)?);
        // Before the lock is taken: an expiry that waits for it looks once more whether the session is due.
        heard();
        let state = self.state.read();
        check_session(&state.core, requester).ok()?;
        let zxid = state.core.last_zxid();
        if !peer.outbox.is_passable(state.lock_held(), zxid) {
            return None;
        }
        let reader = state.core.plain_reader(requester);
        let mut answered = Answered { requests: 0, bytes: 0, xid: Xid(0), zxid };
        while answered.requests < READS_AT_ONCE.min(unread.most)
            && let Some((PlainGetData { xid, path }, payload_bytes)) = next
        {
            let Some((path, data, stat)) = reader.data(path) else { break };
            let data = data.map(|data| &**data);
            let data_bytes = data.map_or(0, <[u8]>::len);
            if data_bytes > SHORT_BYTES_MAX {
                break;
            }
            let header = ReplyHeader { xid, zxid, err: ErrorCode::OK };
            let reply_bytes = put_data_reply(&header, data, &stat, replies);
            counts.reply_sent(&peer.stats, xid, reply_bytes);
            self.stats.namespaces.looked_up(&mut counts.namespace, path, data_bytes);
            answered.requests += 1;
            answered.bytes += 4 + payload_bytes;
            answered.xid = xid;
            next = unread.next_after(answered.bytes);
        }
        if answered.requests == 0 {
            return None;
        }
        counts.frames_received(answered.requests, answered.bytes);
        counts.requests_began(&peer.stats, OpCode::GET_DATA, answered.requests);
        Some(answered)
    }
}

#[cfg(test)]
mod tests {
    use zoolet_protocol::{Lookup, Read, Request, encode_request};

    use super::*;

    #[test]
    fn a_frame_whose_memory_is_to_be_freed_is_no_plain_read() {
        let codec = FrameCodec::default();
        let is_plain = |ignored: usize| {
            let read = Read::Lookup(Lookup::GetData("/a".into()));
            let mut frame = encode_request(Xid(1), &Request::Read(read)).to_vec();
            // Bytes after the last field.
            frame.resize(frame.len() + ignored, 0);
            let mut stream = BytesMut::new();
            FrameCodec::put(&frame.into(), &mut stream);
            let unread = Unread { codec: &codec, stream: &stream, most: 1 };
            unread.next_after(0).is_some()
        };
        assert_eq!([0, 100, BUFFER_BYTES_KEPT].map(is_plain), [true, true, false]);
    }
}
