//! What the server sends to a client.

use bytes::{BufMut, Bytes, BytesMut};
use zoolet_protocol::{
    ConnectResponse, Encode, Parts, ReplyHeader, Response, encode_reply, encode_reply_in_parts,
};

/// What the server sends to a client.
///
/// ```
/// use bytes::Bytes;
/// use zoolet_server::hooks::Message;
///
/// assert_eq!(Message::Event(Bytes::from_static(b"event")).encoded_len(), 5);
/// ```
#[derive(Debug)]
pub enum Message {
    /// The response to the handshake.
    Connected(Box<ConnectResponse>),
    /// The reply to a request. It is encoded when it leaves, outside the engine's lock.
    Reply(ReplyHeader, Box<Response>),
    /// A watch event, encoded once for all connections that receive it.
    Event(Bytes),
}

// The queue moves each message several times, and most are events: the others have memory of their own.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Message>() <= size_of::<Bytes>() + size_of::<usize>());

impl Message {
    /// The bytes of its frame, without the length before them.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        match self {
            Self::Connected(response) => response.encoded_len(),
            Self::Reply(header, response) => header.encoded_len() + response.encoded_len(),
            Self::Event(frame) => frame.len(),
        }
    }

    /// Appends the payload of its frame.
    pub(crate) fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Connected(response) => response.encode(out),
            Self::Reply(header, response) => encode_reply(header, response, out),
            Self::Event(frame) => out.put_slice(frame),
        }
    }

    /// Encodes it as the payload of a frame of its own.
    #[must_use]
    pub fn into_frame(self) -> Bytes {
        match self {
            Self::Event(frame) => frame,
            message => {
                let mut out = BytesMut::with_capacity(message.encoded_len());
                message.encode(&mut out);
                out.freeze()
            }
        }
    }

    /// Appends the payload of its frame, and shares long data instead of copying it.
    pub(crate) fn encode_in_parts(&self, out: &mut impl Parts) {
        match self {
            Self::Connected(response) => response.encode(out.buffer()),
            Self::Reply(header, response) => encode_reply_in_parts(header, response, out),
            Self::Event(frame) => out.buffer().put_slice(frame),
        }
    }
}
