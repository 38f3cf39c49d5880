//! Encodes replies without copying their long parts.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use crate::jute::Encode as _;
use crate::limits::SHARED_BYTES_MIN;
use crate::response::{ReplyHeader, Response};
use crate::stat::Stat;

/// A destination for encoded replies. Short parts are copied into its buffer, long parts are
/// shared.
///
/// ```
/// use bytes::{Bytes, BytesMut};
/// use zoolet_protocol::{
///     Encode, ErrorCode, Parts, ReplyHeader, Response, Stat, Xid, Zxid, encode_reply_in_parts,
/// };
///
/// #[derive(Default)]
/// struct Counting { buffer: BytesMut, shared: usize }
///
/// impl Parts for Counting {
///     fn buffer(&mut self) -> &mut BytesMut { &mut self.buffer }
///     fn share(&mut self, part: &Bytes) { self.shared += part.len() }
/// }
///
/// let header = ReplyHeader { xid: Xid(1), zxid: Zxid(1), err: ErrorCode::OK };
/// let response = Response::Data(Some(vec![7; 1 << 20].into()), Stat::default());
/// let mut parts = Counting::default();
/// encode_reply_in_parts(&header, &response, &mut parts);
/// assert_eq!(parts.shared, 1 << 20);
/// assert_eq!(parts.buffer.len() + parts.shared, header.encoded_len() + response.encoded_len());
/// ```
pub trait Parts {
    /// The buffer to which short parts are appended.
    fn buffer(&mut self) -> &mut BytesMut;

    /// Appends a long part after everything that the buffer contains now.
    fn share(&mut self, part: &Bytes);

    /// Appends several parts, which have this many bytes together, after everything that the buffer
    /// contains now. A destination that keeps `parts` itself need not touch each of them.
    fn share_all(&mut self, parts: &Arc<[Bytes]>, _bytes: usize) {
        parts.iter().for_each(|part| self.share(part));
    }
}

/// Appends a reply as the payload of a frame. Long data and long lists of names are shared.
pub fn encode_reply_in_parts(header: &ReplyHeader, response: &Response, out: &mut impl Parts) {
    header.encode_at_once(out.buffer());
    match response {
        Response::Names(names) if names.is_long() => names.encode_in_parts(out),
        Response::NamesStat(names, stat) if names.is_long() => {
            names.encode_in_parts(out);
            stat.encode(out.buffer());
        }
        Response::Data(Some(data), stat) if data.len() >= SHARED_BYTES_MIN => {
            encode_data_in_parts(data, stat, out);
        }
        Response::Multi(results) => crate::multi::encode_results_in_parts(results, out),
        short => short.encode(out.buffer()),
    }
}

pub(crate) fn encode_data_in_parts(data: &Bytes, stat: &Stat, out: &mut impl Parts) {
    out.buffer().put_i32(i32::try_from(data.len()).expect("data fits a frame"));
    out.share(data);
    stat.encode(out.buffer());
}
