//! Replies that are put together where they are sent, and the plainest ones, which borrow what they tell.

use bytes::BytesMut;

use super::{ReplyHeader, Response};
use crate::jute::Encode as _;
use crate::limits::REPLY_HEADER_BYTES;
use crate::path::ZPath;
use crate::stat::{STAT_BYTES, Stat};

/// The body of the reply to a single create, delete, `setData` or check, as to a
/// [`PlainWrite`](crate::PlainWrite). It borrows what a [`Response`] owns.
///
/// ```
/// use bytes::BytesMut;
/// use zoolet_protocol::{
///     ErrorCode, PlainReply, ReplyHeader, Response, Stat, Xid, ZPath, Zxid, put_reply,
/// };
///
/// let header = ReplyHeader { xid: Xid(1), zxid: Zxid(7), err: ErrorCode::OK };
/// let (path, stat) = (ZPath::parse("/a").unwrap(), Stat::default());
/// let all = [
///     PlainReply::Empty,
///     PlainReply::Path(&path),
///     PlainReply::PathStat(&path, stat),
///     PlainReply::Stat(stat),
/// ];
/// for reply in all {
///     let (mut plain, mut same) = (BytesMut::new(), BytesMut::new());
///     let bytes = reply.put(&header, &mut plain);
///     put_reply(&header, &Response::from(reply), &mut same);
///     assert_eq!(plain, same);
///     assert_eq!(bytes, same.len() - 4);
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainReply<'a> {
    /// Of `delete`, and of a refused request.
    Empty,
    /// Of `create`.
    Path(&'a ZPath),
    /// Of `create2`, `createContainer` and `createTTL`.
    PathStat(&'a ZPath, Stat),
    /// Of `setData`.
    Stat(Stat),
}

impl PlainReply<'_> {
    /// Appends the reply with its length before it, as a frame is sent. Returns the bytes of the payload.
    ///
    /// # Panics
    ///
    /// If the reply is longer than 2 GiB.
    pub fn put(&self, header: &ReplyHeader, out: &mut BytesMut) -> usize {
        match self {
            Self::Empty => {
                out.extend_from_slice(&header.begin_frame(REPLY_HEADER_BYTES));
                REPLY_HEADER_BYTES
            }
            Self::Path(path) => put_field(header, Some(path.as_bytes()), 0, out),
            Self::PathStat(path, stat) => put_data_reply(header, Some(path.as_bytes()), stat, out),
            Self::Stat(stat) => put_stat(header, stat, out),
        }
    }
}

impl From<PlainReply<'_>> for Response {
    fn from(reply: PlainReply<'_>) -> Self {
        match reply {
            PlainReply::Empty => Self::Empty,
            PlainReply::Path(path) => Self::Path(path.into()),
            PlainReply::PathStat(path, stat) => Self::PathStat(path.as_str().into(), stat),
            PlainReply::Stat(stat) => Self::Stat(stat),
        }
    }
}

/// Appends a reply with its length before it, as a frame is sent: what
/// [`encode_reply`](super::encode_reply) appends, in fewer pieces.
///
/// # Panics
///
/// If the reply is longer than 2 GiB.
///
/// ```
/// use bytes::BytesMut;
/// use zoolet_protocol::{
///     ErrorCode, FrameCodec, ReplyHeader, Response, Stat, Xid, Zxid, encode_reply, put_reply,
/// };
///
/// let header = ReplyHeader { xid: Xid(1), zxid: Zxid(7), err: ErrorCode::OK };
/// for response in [Response::Stat(Stat::default()), Response::Empty, Response::Path("/a".into())] {
///     let (mut frame, mut payload) = (BytesMut::new(), BytesMut::new());
///     put_reply(&header, &response, &mut frame);
///     encode_reply(&header, &response, &mut payload);
///     assert_eq!(FrameCodec::default().next_frame(&mut frame), Ok(Some(payload.freeze())));
/// }
/// ```
pub fn put_reply(header: &ReplyHeader, response: &Response, out: &mut BytesMut) {
    if let Response::Stat(stat) = response {
        put_stat(header, stat, out);
        return;
    }
    let bytes = REPLY_HEADER_BYTES + response.encoded_len();
    out.reserve(4 + bytes);
    out.extend_from_slice(&header.begin_frame(bytes));
    response.encode(out);
}

/// Appends a reply to a `getData` with its length before it, as a frame is sent. Returns the bytes of the
/// payload. It is [`encode_reply`](super::encode_reply) for data that need not be kept for the reply.
///
/// # Panics
///
/// If the reply is longer than 2 GiB.
///
/// ```
/// use bytes::{Bytes, BytesMut};
/// use zoolet_protocol::{
///     ErrorCode, FrameCodec, ReplyHeader, Response, Stat, Xid, Zxid, encode_reply, put_data_reply,
/// };
///
/// let header = ReplyHeader { xid: Xid(1), zxid: Zxid(7), err: ErrorCode::OK };
/// for data in [Some(&b"data"[..]), Some(b""), None] {
///     let (mut frame, mut payload) = (BytesMut::new(), BytesMut::new());
///     let bytes = put_data_reply(&header, data, &Stat::default(), &mut frame);
///     let response = Response::Data(data.map(Bytes::from_static), Stat::default());
///     encode_reply(&header, &response, &mut payload);
///     assert_eq!(bytes, payload.len());
///     assert_eq!(FrameCodec::default().next_frame(&mut frame), Ok(Some(payload.freeze())));
/// }
/// ```
pub fn put_data_reply(
    header: &ReplyHeader,
    data: Option<&[u8]>,
    stat: &Stat,
    out: &mut BytesMut,
) -> usize {
    let bytes = put_field(header, data, STAT_BYTES, out);
    out.extend_from_slice(&stat.to_bytes());
    bytes
}

/// Appends a reply whose body is a Stat. Returns the bytes of the payload.
fn put_stat(header: &ReplyHeader, stat: &Stat, out: &mut BytesMut) -> usize {
    let mut frame = [0; FRAME_BEGINNING_BYTES + STAT_BYTES];
    let (beginning, rest) = frame.split_at_mut(FRAME_BEGINNING_BYTES);
    beginning.copy_from_slice(&header.begin_frame(REPLY_HEADER_BYTES + STAT_BYTES));
    rest.copy_from_slice(&stat.to_bytes());
    out.extend_from_slice(&frame);
    REPLY_HEADER_BYTES + STAT_BYTES
}

/// Appends a reply whose body begins with a buffer or a text, and makes room for the `more` bytes behind that.
/// Returns the bytes of the payload.
#[inline]
fn put_field(header: &ReplyHeader, field: Option<&[u8]>, more: usize, out: &mut BytesMut) -> usize {
    let field_bytes = field.map_or(0, <[u8]>::len);
    let bytes = REPLY_HEADER_BYTES + 4 + field_bytes + more;
    let mut beginning = [0; FRAME_BEGINNING_BYTES + 4];
    let (frame, length) = beginning.split_at_mut(FRAME_BEGINNING_BYTES);
    frame.copy_from_slice(&header.begin_frame(bytes));
    // The whole frame is shorter than 2 GiB.
    let length_or_null = field.map_or(-1, |_| field_bytes as i32);
    length.copy_from_slice(&length_or_null.to_be_bytes());
    out.reserve(4 + bytes);
    out.extend_from_slice(&beginning);
    out.extend_from_slice(field.unwrap_or_default());
    bytes
}

impl ReplyHeader {
    /// What a frame begins with: the length of its payload, and this.
    #[inline]
    fn begin_frame(self, payload_bytes: usize) -> [u8; FRAME_BEGINNING_BYTES] {
        let length = i32::try_from(payload_bytes).expect("a frame is shorter than 2 GiB");
        let mut bytes = [0; FRAME_BEGINNING_BYTES];
        let (before, header) = bytes.split_at_mut(4);
        before.copy_from_slice(&length.to_be_bytes());
        header.copy_from_slice(&self.to_bytes());
        bytes
    }
}

/// The bytes of the length and of the header of a reply.
const FRAME_BEGINNING_BYTES: usize = 4 + REPLY_HEADER_BYTES;
