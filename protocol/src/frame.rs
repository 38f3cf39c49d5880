//! Frames: in both directions, each message is sent as its length in four bytes and its payload.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::limits::FRAME_BYTES_MAX_DEFAULT;

/// Cuts a stream of bytes into frames. It checks each length before it allocates memory for the
/// frame.
///
/// ```
/// use bytes::{Bytes, BytesMut};
/// use zoolet_protocol::FrameCodec;
///
/// let codec = FrameCodec::default();
/// let mut stream = BytesMut::new();
/// FrameCodec::put(&Bytes::from_static(b"payload"), &mut stream);
/// assert_eq!(codec.next_frame(&mut stream), Ok(Some(Bytes::from_static(b"payload"))));
/// assert_eq!(codec.next_frame(&mut stream), Ok(None));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct FrameCodec {
    frame_bytes_max: usize,
}

/// The bytes of a frame's length.
const LENGTH_BYTES: usize = 4;

impl Default for FrameCodec {
    fn default() -> Self {
        Self::new(FRAME_BYTES_MAX_DEFAULT)
    }
}

impl FrameCodec {
    /// A codec that accepts payloads of at most `frame_bytes_max` bytes: `jute.maxbuffer`.
    #[must_use]
    pub fn new(frame_bytes_max: usize) -> Self {
        Self { frame_bytes_max }
    }

    /// Takes the next frame off the front of `stream` and returns its payload. `None` if the frame
    /// is not complete yet.
    ///
    /// # Errors
    ///
    /// [`FrameError`] if the length is negative or greater than the limit. ZooKeeper closes such a
    /// connection without a reply.
    pub fn next_frame(&self, stream: &mut BytesMut) -> Result<Option<Bytes>, FrameError> {
        let Some((length, _)) = stream.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = self.check(i32::from_be_bytes(*length))?;
        if stream.len() < LENGTH_BYTES + length {
            return Ok(None);
        }
        stream.advance(LENGTH_BYTES);
        Ok(Some(stream.split_to(length).freeze()))
    }

    /// The payload of the frame at the front of `stream`, which stays there. `None` if it is not complete,
    /// or has a length for which [`FrameCodec::next_frame`] returns an error.
    ///
    /// ```
    /// use zoolet_protocol::FrameCodec;
    ///
    /// assert_eq!(FrameCodec::default().peek(&[0, 0, 0, 1, 7, 8]), Some(&[7][..]));
    /// assert_eq!(FrameCodec::default().peek(&[0, 0, 0, 2, 7]), None);
    /// assert_eq!(FrameCodec::new(1).peek(&[0, 0, 0, 2, 7, 8]), None);
    /// ```
    #[must_use]
    pub fn peek<'a>(&self, stream: &'a [u8]) -> Option<&'a [u8]> {
        let (length, rest) = stream.split_first_chunk::<LENGTH_BYTES>()?;
        rest.get(..self.check(i32::from_be_bytes(*length)).ok()?)
    }

    /// Checks the length of a payload that does not come from a stream.
    ///
    /// # Errors
    ///
    /// [`FrameError`] if it is longer than the limit.
    pub fn check_frame(&self, payload: &Bytes) -> Result<(), FrameError> {
        self.check(i32::try_from(payload.len()).unwrap_or(i32::MAX)).map(drop)
    }

    /// The length of a frame, if it is within the limit.
    fn check(&self, length: i32) -> Result<usize, FrameError> {
        match usize::try_from(length) {
            Ok(bytes) if bytes <= self.frame_bytes_max => Ok(bytes),
            _ => Err(FrameError { length, limit: self.frame_bytes_max }),
        }
    }

    /// Appends a payload after its length.
    pub fn put(payload: &Bytes, stream: &mut BytesMut) {
        stream.reserve(LENGTH_BYTES + payload.len());
        crate::jute::put_count(payload.len(), stream);
        stream.put_slice(payload);
    }
}

/// The length of a frame is outside the limits.
///
/// ```
/// use bytes::BytesMut;
/// use zoolet_protocol::FrameCodec;
///
/// let mut stream = BytesMut::from(&[0x7f, 0, 0, 0][..]);
/// let error = FrameCodec::new(1_000).next_frame(&mut stream).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "a frame has 2130706432 bytes, the limit is 1000: raise jute.maxbuffer, or send less data",
/// );
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a frame has {length} bytes, the limit is {limit}: raise jute.maxbuffer, or send less data"
)]
pub struct FrameError {
    /// The length that the peer sent. It may be negative.
    pub length: i32,
    /// The greatest length that is accepted.
    pub limit: usize,
}
