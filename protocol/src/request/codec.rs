//! Encodes and decodes requests: the body that belongs to each operation code.

use bytes::{Bytes, BytesMut};

use super::{
    AddWatch, Auth, Check, CheckWatches, Create, CreateKind, Delete, Lookup, Read, Reconfig,
    RemoveWatches, Request, RequestHeader, SessionRequest, SetAcl, SetData, SetWatches, Watch,
    Write,
};
use crate::code::OpCode;
use crate::id::Xid;
use crate::jute::{Decode, DecodeError, Encode, Parsed};
use crate::multi::{self, MultiOp};
use crate::path::RawPath;

/// Makes a request of a decoded body.
fn map<'a, T>(parsed: Parsed<'a, T>, wrap: fn(T) -> Request) -> Parsed<'a, Request> {
    parsed.map(|(rest, value)| (rest, wrap(value)))
}

impl Lookup {
    /// Decodes a lookup. The last byte of its body tells whether it is a [`Watch`] or a [`Read`].
    fn decode_with<'a>(
        wrap: fn(RawPath) -> Self,
        frame: &Bytes,
        input: &'a [u8],
    ) -> Parsed<'a, Request> {
        let (input, path) = RawPath::decode(frame, input)?;
        let (input, watch) = bool::decode(frame, input)?;
        let lookup = wrap(path);
        let request = if watch {
            Request::Watch(Watch::Lookup(lookup))
        } else {
            Request::Read(Read::Lookup(lookup))
        };
        Ok((input, request))
    }
}

impl Request {
    fn decode_body<'a>(op: OpCode, frame: &Bytes, input: &'a [u8]) -> Parsed<'a, Self> {
        let path = || RawPath::decode(frame, input);
        match op {
            OpCode::EXISTS => Lookup::decode_with(Lookup::Exists, frame, input),
            OpCode::GET_DATA => Lookup::decode_with(Lookup::GetData, frame, input),
            OpCode::GET_CHILDREN => Lookup::decode_with(Lookup::GetChildren, frame, input),
            OpCode::GET_CHILDREN2 => Lookup::decode_with(Lookup::GetChildren2, frame, input),
            OpCode::GET_ACL => map(path(), |p| Self::Read(Read::GetAcl(p))),
            OpCode::SYNC => map(path(), |p| Self::Read(Read::Sync(p))),
            OpCode::GET_EPHEMERALS => map(path(), |p| Self::Read(Read::GetEphemerals(p))),
            OpCode::GET_ALL_CHILDREN_NUMBER => {
                map(path(), |p| Self::Read(Read::GetAllChildrenNumber(p)))
            }
            OpCode::CHECK_WATCHES => {
                map(CheckWatches::decode(frame, input), |c| Self::Read(Read::CheckWatches(c)))
            }
            OpCode::MULTI_READ => {
                map(multi::decode_reads(frame, input), |ops| Self::Read(Read::MultiRead(ops)))
            }
            OpCode::ADD_WATCH => {
                map(AddWatch::decode(frame, input), |a| Self::Watch(Watch::Add(a)))
            }
            OpCode::REMOVE_WATCHES => {
                map(RemoveWatches::decode(frame, input), |r| Self::Watch(Watch::Remove(r)))
            }
            OpCode::SET_WATCHES => {
                map(SetWatches::decode_short(frame, input), |s| Self::Watch(Watch::Set(s)))
            }
            OpCode::SET_WATCHES2 => {
                map(SetWatches::decode(frame, input), |s| Self::Watch(Watch::Set2(s)))
            }
            _ => Self::decode_write_or_session(op, frame, input),
        }
    }

    fn decode_write_or_session<'a>(op: OpCode, frame: &Bytes, input: &'a [u8]) -> Parsed<'a, Self> {
        let write = |write| Ok((input, Self::Write(write)));
        match op {
            OpCode::DELETE => {
                map(Delete::decode(frame, input), |d| Self::Write(Write::Op(MultiOp::Delete(d))))
            }
            OpCode::SET_DATA => {
                map(SetData::decode(frame, input), |s| Self::Write(Write::Op(MultiOp::SetData(s))))
            }
            OpCode::CHECK => {
                map(Check::decode(frame, input), |c| Self::Write(Write::Op(MultiOp::Check(c))))
            }
            OpCode::SET_ACL => map(SetAcl::decode(frame, input), |s| Self::Write(Write::SetAcl(s))),
            OpCode::DELETE_CONTAINER => {
                map(RawPath::decode(frame, input), |p| Self::Write(Write::DeleteContainer(p)))
            }
            OpCode::MULTI => {
                map(multi::decode_ops(frame, input), |ops| Self::Write(Write::Multi(ops)))
            }
            OpCode::RECONFIG => {
                map(Reconfig::decode(frame, input), |r| Self::Write(Write::Reconfig(r)))
            }
            OpCode::CLOSE_SESSION => write(Write::CloseSession),
            OpCode::PING => Ok((input, Self::Session(SessionRequest::Ping))),
            OpCode::WHO_AM_I => Ok((input, Self::Session(SessionRequest::WhoAmI))),
            OpCode::AUTH => {
                map(Auth::decode(frame, input), |a| Self::Session(SessionRequest::Auth(a)))
            }
            OpCode::SASL => map(Option::<Bytes>::decode(frame, input), |t| {
                Self::Session(SessionRequest::Sasl(t))
            }),
            _ => match CreateKind::from_op_code(op) {
                Some(kind) => map(Create::decode_as(kind, frame, input), |c| {
                    Self::Write(Write::Op(MultiOp::Create(c)))
                }),
                None => {
                    let body = if input.is_empty() { Bytes::new() } else { frame.slice_ref(input) };
                    Ok((&[], Self::Unknown { op, body }))
                }
            },
        }
    }
}

impl Encode for Request {
    /// The body, without the header.
    fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Read(Read::Lookup(lookup)) => {
                lookup.path().encode(out);
                false.encode(out);
            }
            Self::Watch(Watch::Lookup(lookup)) => {
                lookup.path().encode(out);
                true.encode(out);
            }
            Self::Read(
                Read::GetAcl(path)
                | Read::Sync(path)
                | Read::GetEphemerals(path)
                | Read::GetAllChildrenNumber(path),
            )
            | Self::Write(Write::DeleteContainer(path)) => path.encode(out),
            Self::Read(Read::CheckWatches(check)) => check.encode(out),
            Self::Read(Read::MultiRead(reads)) => multi::encode_reads(reads, out),
            Self::Watch(Watch::Add(add)) => add.encode(out),
            Self::Watch(Watch::Remove(remove)) => remove.encode(out),
            Self::Watch(Watch::Set(lists)) => lists.encode_short(out),
            Self::Watch(Watch::Set2(lists)) => lists.encode(out),
            Self::Write(Write::Op(op)) => op.encode_body(out),
            Self::Write(Write::SetAcl(set_acl)) => set_acl.encode(out),
            Self::Write(Write::Multi(ops)) => multi::encode_ops(ops, out),
            Self::Write(Write::Reconfig(reconfig)) => reconfig.encode(out),
            Self::Write(Write::CloseSession)
            | Self::Session(SessionRequest::Ping | SessionRequest::WhoAmI) => {}
            Self::Session(SessionRequest::Auth(auth)) => auth.encode(out),
            Self::Session(SessionRequest::Sasl(token)) => token.encode(out),
            Self::Unknown { body, .. } => out.extend_from_slice(body),
        }
    }

    fn encoded_len(&self) -> usize {
        match self {
            Self::Read(Read::Lookup(lookup)) | Self::Watch(Watch::Lookup(lookup)) => {
                lookup.path().encoded_len() + 1
            }
            Self::Read(
                Read::GetAcl(path)
                | Read::Sync(path)
                | Read::GetEphemerals(path)
                | Read::GetAllChildrenNumber(path),
            ) => path.encoded_len(),
            Self::Read(Read::CheckWatches(check)) => check.encoded_len(),
            Self::Read(Read::MultiRead(reads)) => multi::reads_len(reads),
            Self::Watch(Watch::Add(add)) => add.encoded_len(),
            Self::Watch(Watch::Remove(remove)) => remove.encoded_len(),
            Self::Watch(Watch::Set(lists)) => lists.short_len(),
            Self::Watch(Watch::Set2(lists)) => lists.encoded_len(),
            Self::Write(write) => write.encoded_len(),
            Self::Session(SessionRequest::Ping | SessionRequest::WhoAmI) => 0,
            Self::Session(SessionRequest::Auth(auth)) => auth.encoded_len(),
            Self::Session(SessionRequest::Sasl(token)) => token.encoded_len(),
            Self::Unknown { body, .. } => body.len(),
        }
    }
}

/// Decodes a request: its header, and its body or what is wrong with the body. ZooKeeper closes the
/// connection if there is no header, and replies to a malformed body with
/// [`ErrorCode::MARSHALLING_ERROR`](crate::ErrorCode::MARSHALLING_ERROR).
///
/// # Errors
///
/// [`DecodeError`] if the frame is too short for a header.
pub fn decode_request(
    frame: &Bytes,
) -> Result<(RequestHeader, Result<Request, DecodeError>), DecodeError> {
    let (body, header) = RequestHeader::decode(frame, frame)?;
    let request = Request::decode_body(header.op, frame, body);
    Ok((header, request.map(|(_, request)| request)))
}

/// Encodes a request as the payload of a frame.
///
/// ```
/// use zoolet_protocol::{Request, SessionRequest, Xid, encode_request};
///
/// let frame = encode_request(Xid::PING, &Request::Session(SessionRequest::Ping));
/// assert_eq!(&frame[..], [255, 255, 255, 254, 0, 0, 0, 11]);
/// ```
#[must_use]
pub fn encode_request(xid: Xid, request: &Request) -> Bytes {
    let header = RequestHeader { xid, op: request.op_code() };
    let mut out = BytesMut::with_capacity(header.encoded_len() + request.encoded_len());
    header.encode(&mut out);
    request.encode(&mut out);
    out.freeze()
}

/// Frames of requests one after the other that share memory: a short one mostly costs no allocation.
///
/// A frame keeps the memory of those that share it, a few hundred bytes.
///
/// ```
/// use zoolet_protocol::{Request, RequestEncoder, SessionRequest, Xid, encode_request};
///
/// let ping = Request::Session(SessionRequest::Ping);
/// let mut encoder = RequestEncoder::default();
/// assert_eq!(encoder.encode(Xid::PING, &ping), encode_request(Xid::PING, &ping));
/// ```
#[derive(Debug, Default)]
pub struct RequestEncoder(BytesMut);

/// The memory that frames share, and the longest frame that is put there.
const SHARED_BYTES: usize = 512;
const SHARED_FRAME_BYTES_MAX: usize = 256;

impl RequestEncoder {
    /// As [`encode_request`].
    #[must_use]
    pub fn encode(&mut self, xid: Xid, request: &Request) -> Bytes {
        let header = RequestHeader { xid, op: request.op_code() };
        let bytes = header.encoded_len() + request.encoded_len();
        if bytes > SHARED_FRAME_BYTES_MAX {
            return encode_request(xid, request);
        }
        if self.0.capacity() < bytes {
            // The same memory again if no frame is left.
            self.0.reserve(SHARED_BYTES);
        }
        header.encode(&mut self.0);
        request.encode(&mut self.0);
        self.0.split().freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_share_memory_are_those_of_their_requests() {
        let mut encoder = RequestEncoder::default();
        let reads = (0..200).map(|number| {
            let path = format!("/{}", "x".repeat(number * 7 % 400));
            Request::Read(Read::Sync(path.into()))
        });
        // All are kept meanwhile.
        let frames: Vec<_> = reads.map(|read| (encoder.encode(Xid(7), &read), read)).collect();
        for (frame, read) in frames {
            assert_eq!(frame, encode_request(Xid(7), &read));
        }
    }
}
