//! The bytes that wait to be written to a socket: small messages in one buffer, and long parts of
//! messages, which are shared instead of copied.

use std::collections::VecDeque;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use zoolet_protocol::Parts;

use crate::engine::message::Message;

/// Encoded bytes in their order.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// What comes before the buffer: long parts, and the buffers between them.
    parts: VecDeque<Bytes>,
    parts_bytes: usize,
    buffer: BytesMut,
}

impl Output {
    /// Appends a message, with its length before it.
    pub(crate) fn put(&mut self, message: &Message) {
        let length = message.encoded_len();
        let prefix = i32::try_from(length).expect("a longer message is not pushed");
        self.buffer.put_i32(prefix);
        message.encode_in_parts(self);
    }

    pub(crate) fn len(&self) -> usize {
        self.parts_bytes + self.buffer.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn push(&mut self, part: Bytes) {
        self.parts_bytes += part.len();
        self.parts.push_back(part);
    }
}

impl Parts for Output {
    fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    fn share(&mut self, part: &Bytes) {
        if !self.buffer.is_empty() {
            let before = self.buffer.split().freeze();
            self.push(before);
        }
        self.push(part.clone());
    }
}

impl Buf for Output {
    fn remaining(&self) -> usize {
        self.len()
    }

    fn chunk(&self) -> &[u8] {
        self.parts.front().map_or(&self.buffer, |part| part)
    }

    fn advance(&mut self, mut count: usize) {
        while count > 0 {
            let Some(front) = self.parts.front_mut() else { return self.buffer.advance(count) };
            let from_front = count.min(front.len());
            front.advance(from_front);
            if front.is_empty() {
                self.parts.pop_front();
            }
            self.parts_bytes -= from_front;
            count -= from_front;
        }
    }
}

#[cfg(test)]
mod tests {
    use zoolet_protocol::{ErrorCode, ReplyHeader, Response, Stat, Xid, Zxid};

    use super::*;

    #[test]
    fn long_data_is_written_from_where_it_is_and_in_its_place() {
        let header = ReplyHeader { xid: Xid(1), zxid: Zxid(1), err: ErrorCode::OK };
        let data = Bytes::from(vec![7; 1 << 20]);
        let long = Message::Reply(header, Response::Data(Some(data.clone()), Stat::default()));
        let short = Message::Event(Bytes::from_static(b"event"));
        let mut output = Output::default();
        let mut expected = BytesMut::new();
        for message in [&short, &long, &short] {
            output.put(message);
            expected.put_i32(message.encoded_len() as i32);
            message.encode(&mut expected);
        }
        let has_shared = output.parts.iter().any(|part| part.as_ptr() == data.as_ptr());
        assert!(has_shared);
        assert_eq!(output.len(), expected.len());
        let mut written = BytesMut::new();
        while output.has_remaining() {
            let some = output.chunk().len().min(100_000);
            written.put_slice(&output.chunk()[..some]);
            output.advance(some);
        }
        assert_eq!(written, expected);
        assert!(output.is_empty());
    }
}
