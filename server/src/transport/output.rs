//! The bytes that wait to be written to a socket: small messages in one buffer, and long parts of
//! messages, which are shared instead of copied.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use zoolet_protocol::Parts;

use crate::engine::message::Message;

/// The parts that are written with one system call: a longer array takes longer to fill than the
/// system call.
pub(crate) const PARTS_PER_WRITE: usize = 64;

/// A part that is shared.
#[derive(Debug)]
enum Part {
    One(Bytes),
    /// Parts of which those before `next` were written, and the first bytes of that one.
    Many {
        parts: Arc<[Bytes]>,
        next: usize,
        written: usize,
    },
}

impl Part {
    /// The next bytes, and those behind them.
    fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        let (parts, written) = match self {
            Self::One(bytes) => (std::slice::from_ref(bytes), 0),
            Self::Many { parts, next, written } => (&parts[*next..], *written),
        };
        let (first, others) = parts.split_at(parts.len().min(1));
        let first = first.iter().map(move |part| &part[written..]);
        first.chain(others.iter().map(|part| &part[..])).filter(|chunk| !chunk.is_empty())
    }

    /// Advances by at most `count` bytes, and returns by how many. Fewer mean that it is at its end.
    fn advance(&mut self, count: usize) -> usize {
        match self {
            Self::One(bytes) => {
                let taken = count.min(bytes.len());
                bytes.advance(taken);
                taken
            }
            Self::Many { parts, next, written } => {
                let mut left = count;
                while left > 0
                    && let Some(part) = parts.get(*next)
                {
                    let taken = left.min(part.len() - *written);
                    left -= taken;
                    *written += taken;
                    if *written == part.len() {
                        (*next, *written) = (*next + 1, 0);
                    }
                }
                count - left
            }
        }
    }
}

/// Encoded bytes in their order.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// What comes before the buffer: long parts, and the buffers between them.
    parts: VecDeque<Part>,
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

    /// Appends a part behind what the buffer has.
    fn push(&mut self, part: Part, bytes: usize) {
        if !self.buffer.is_empty() {
            let before = self.buffer.split().freeze();
            self.parts_bytes += before.len();
            self.parts.push_back(Part::One(before));
        }
        self.parts_bytes += bytes;
        self.parts.push_back(part);
    }
}

impl Parts for Output {
    fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    fn share(&mut self, part: &Bytes) {
        self.push(Part::One(part.clone()), part.len());
    }

    fn share_all(&mut self, parts: &Arc<[Bytes]>, bytes: usize) {
        self.push(Part::Many { parts: Arc::clone(parts), next: 0, written: 0 }, bytes);
    }
}

impl Buf for Output {
    fn remaining(&self) -> usize {
        self.len()
    }

    fn chunk(&self) -> &[u8] {
        self.parts.iter().flat_map(Part::chunks).next().unwrap_or(&self.buffer)
    }

    fn chunks_vectored<'a>(&'a self, chunks: &mut [IoSlice<'a>]) -> usize {
        let parts = self.parts.iter().flat_map(Part::chunks);
        let buffer = std::iter::once(&self.buffer[..]).filter(|buffer| !buffer.is_empty());
        let all = parts.chain(buffer);
        chunks.iter_mut().zip(all).map(|(chunk, part)| *chunk = IoSlice::new(part)).count()
    }

    fn advance(&mut self, mut count: usize) {
        while count > 0 {
            let Some(front) = self.parts.front_mut() else { return self.buffer.advance(count) };
            let from_front = front.advance(count);
            if front.chunks().next().is_none() {
                self.parts.pop_front();
            }
            self.parts_bytes -= from_front;
            count -= from_front;
        }
    }
}

#[cfg(test)]
mod tests {
    use zoolet_protocol::{ErrorCode, Names, ReplyHeader, Response, Stat, Xid, Zxid};

    use super::*;

    #[test]
    fn long_data_is_written_from_where_it_is_and_in_its_place() {
        let header = ReplyHeader { xid: Xid(1), zxid: Zxid(1), err: ErrorCode::OK };
        let data = Bytes::from(vec![7; 1 << 20]);
        let data_reply = Response::Data(Some(data.clone()), Stat::default());
        let long = Message::Reply(header, Box::new(data_reply));
        let short = Message::Event(Bytes::from_static(b"event"));
        let mut output = Output::default();
        let mut expected = BytesMut::new();
        for message in [&short, &long, &short] {
            output.put(message);
            expected.put_i32(message.encoded_len() as i32);
            message.encode(&mut expected);
        }
        let has_shared =
            output.parts.iter().flat_map(Part::chunks).any(|part| part.as_ptr() == data.as_ptr());
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

    #[test]
    fn a_list_in_parts_is_written_as_one_with_few_system_calls() {
        let header = ReplyHeader { xid: Xid(1), zxid: Zxid(1), err: ErrorCode::OK };
        let name = |number: usize| format!("lock-{number:010}");
        let parts: Vec<Names> = (0..100)
            .map(|part| {
                let names: Vec<_> = (0..128).map(|place| name(part * 128 + place)).collect();
                names.iter().map(String::as_str).collect()
            })
            .collect();
        let list = Names::joined(parts.iter().chain([&Names::EMPTY]));
        let response = || Response::NamesStat(list.clone(), Stat::default());
        let reply = || Message::Reply(header, Box::new(response()));
        let short = Message::Event(Bytes::from_static(b"event"));
        let mut expected = BytesMut::new();
        let mut output = Output::default();
        for message in [&short, &reply(), &reply(), &short] {
            output.put(message);
            expected.put_i32(message.encoded_len() as i32);
            message.encode(&mut expected);
        }
        assert!(output.parts.len() < 6, "the parts of a list are one");
        assert_eq!(output.len(), expected.len());
        let (mut written, mut calls) = (BytesMut::new(), 0);
        while output.has_remaining() {
            let mut chunks = [IoSlice::new(&[]); PARTS_PER_WRITE];
            let count = output.chunks_vectored(&mut chunks);
            assert_eq!(&*chunks[0], output.chunk());
            let before = written.len();
            chunks[..count].iter().for_each(|chunk| written.put_slice(chunk));
            // The socket takes some of it, with an end anywhere.
            let taken = (written.len() - before).min(100_003);
            written.truncate(before + taken);
            output.advance(taken);
            calls += 1;
        }
        assert_eq!(written, expected);
        assert!(output.is_empty() && output.parts.is_empty());
        assert!(calls < 10, "{calls} system calls");
    }
}
