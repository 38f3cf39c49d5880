//! The plainest request, read where it is.

use crate::code::OpCode;
use crate::id::Xid;

/// A `getData` that sets no watch. It borrows from its frame, where
/// [`decode_request`](crate::decode_request) shares the frame's memory.
///
/// ```
/// use zoolet_protocol::{Lookup, PlainGetData, Read, Request, Xid, encode_request};
///
/// let read = Read::Lookup(Lookup::GetData("/a".into()));
/// let frame = encode_request(Xid(7), &Request::Read(read));
/// assert_eq!(PlainGetData::decode(&frame), Some(PlainGetData { xid: Xid(7), path: "/a" }));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainGetData<'a> {
    /// The xid of the request.
    pub xid: Xid,
    /// Its path.
    pub path: &'a str,
}

impl<'a> PlainGetData<'a> {
    /// Decodes the payload of a frame. `None` if it is another request, or none, or has a path that is null
    /// or not in UTF-8: [`decode_request`](crate::decode_request) tells.
    #[must_use]
    pub fn decode(payload: &'a [u8]) -> Option<Self> {
        let (xid, rest) = payload.split_first_chunk()?;
        let (op, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        if OpCode(i32::from_be_bytes(*op)) != OpCode::GET_DATA {
            return None;
        }
        let length = usize::try_from(i32::from_be_bytes(*length)).ok()?;
        let (path, rest) = rest.split_at_checked(length)?;
        // Whether it sets a watch. As in every request, bytes after the last field are ignored.
        if *rest.first()? != 0 {
            return None;
        }
        let path = std::str::from_utf8(path).ok()?;
        Some(Self { xid: Xid(i32::from_be_bytes(*xid)), path })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::request::{Lookup, Read, Request};
    use crate::{decode_request, encode_request};

    /// What the general way makes of a frame, if it is such a request.
    fn decoded(frame: &Bytes) -> Option<(Xid, String)> {
        let (header, request) = decode_request(frame).ok()?;
        match request.ok()? {
            Request::Read(Read::Lookup(Lookup::GetData(path))) => {
                Some((header.xid, path.text()?.to_owned()))
            }
            _ => None,
        }
    }

    proptest! {
        /// It decodes the same as the general way, of whole frames and of damaged ones.
        #[test]
        fn it_is_the_request_that_all_requests_are_decoded_to(
            xid: i32,
            path in "[/a-z\u{e4}]{0,12}",
            damaged in prop::option::of((0_usize..40, any::<u8>())),
            cut in 0_usize..30,
        ) {
            let read = Read::Lookup(Lookup::GetData(path.as_str().into()));
            let mut frame = encode_request(Xid(xid), &Request::Read(read)).to_vec();
            if let Some((at, byte)) = damaged {
                if let Some(damaged) = frame.get_mut(at) {
                    *damaged = byte;
                }
                frame.truncate(frame.len() - cut.min(frame.len()) / 10);
            }
            let frame = Bytes::from(frame);
            let found = PlainGetData::decode(&frame);
            if let Some(found) = found {
                prop_assert_eq!(decoded(&frame), Some((found.xid, found.path.to_owned())));
            }
            if damaged.is_none() {
                prop_assert_eq!(found, Some(PlainGetData { xid: Xid(xid), path: &path }));
            }
        }
    }
}
