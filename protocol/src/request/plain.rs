//! The plainest requests, read where they are.

use super::{CreateFlags, CreateKind, RequestHeader};
use crate::acl::Permissions;
use crate::code::OpCode;
use crate::id::{Expect, Xid};

/// A `getData` that sets no watch. It borrows from its frame, where
/// [`decode_request`](crate::decode_request) shares the frame's memory.
///
/// ```
/// use zoolet_protocol::{Lookup, PlainGetData, Read, Request, Xid, encode_request};
///
/// let read = Read::Lookup(Lookup::GetData("/a".into()));
/// let frame = encode_request(Xid(7), &Request::Read(read));
/// assert_eq!(PlainGetData::decode(&frame), Some(PlainGetData { xid: Xid(7), path: b"/a" }));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainGetData<'a> {
    /// The xid of the request.
    pub xid: Xid,
    /// Its path, perhaps not in UTF-8. What has the same bytes as the path of a znode need not be checked.
    pub path: &'a [u8],
}

impl<'a> PlainGetData<'a> {
    /// Decodes the payload of a frame. `None` if it is another request, or none, or has a path that is null:
    /// [`decode_request`](crate::decode_request) tells.
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
        Some(Self { xid: Xid(i32::from_be_bytes(*xid)), path })
    }
}

/// A short `create`, `create2`, `delete` or `setData` that stands alone. It borrows from its frame.
///
/// The access control list of a create has one entry, for everyone, as almost every list.
///
/// ```
/// use zoolet_protocol::{
///     Delete, Expect, MultiOp, PlainChange, PlainWrite, Request, Write, Xid, encode_request,
/// };
///
/// let delete = MultiOp::Delete(Delete { path: "/a".into(), version: Expect::Any });
/// let payload = encode_request(Xid(7), &Request::Write(Write::Op(delete)));
/// assert!(PlainWrite::is_announced_by(&payload));
/// let write = PlainWrite::decode(&payload).unwrap();
/// assert_eq!(write.header.xid, Xid(7));
/// assert_eq!(write.change, PlainChange::Delete { path: b"/a", version: Expect::Any });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlainWrite<'a> {
    /// The header of the request.
    pub header: RequestHeader,
    /// The change.
    pub change: PlainChange<'a>,
}

/// What a [`PlainWrite`] does.
///
/// ```
/// use zoolet_protocol::{Expect, PlainChange};
///
/// let change = PlainChange::SetData { path: b"/a", data: None, version: Expect::Any };
/// assert_eq!(change.path(), b"/a");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainChange<'a> {
    /// `create` or `create2`.
    Create {
        /// The operation.
        kind: CreateKind,
        /// The path, without the number that a sequential znode gets. It is in UTF-8, since it becomes that of
        /// a znode.
        path: &'a str,
        /// The data; `None` for null.
        data: Option<&'a [u8]>,
        /// What everyone may do.
        of_everyone: Permissions,
        /// The mode.
        flags: CreateFlags,
    },
    /// `delete`.
    Delete {
        /// The path. It may be malformed UTF-8, as in [`PlainGetData`]; then no znode has it.
        path: &'a [u8],
        /// The expected version of the data.
        version: Expect,
    },
    /// `setData`.
    SetData {
        /// The path. It may be malformed UTF-8, as in [`PlainGetData`]; then no znode has it.
        path: &'a [u8],
        /// The new data; `None` for null.
        data: Option<&'a [u8]>,
        /// The expected version of the data.
        version: Expect,
    },
}

impl<'a> PlainChange<'a> {
    /// The bytes of the path.
    #[must_use]
    pub fn path(&self) -> &'a [u8] {
        match *self {
            Self::Create { path, .. } => path.as_bytes(),
            Self::Delete { path, .. } | Self::SetData { path, .. } => path,
        }
    }
}

/// The identity of everyone, with the lengths before its parts.
const EVERYONE: &[u8] = b"\0\0\0\x05world\0\0\0\x06anyone";

impl<'a> PlainWrite<'a> {
    /// The longest payload of one.
    pub const BYTES_MAX: usize = 1 << 10;

    /// Whether the payload of a frame is short enough and has the operation code of one, and a create
    /// everyone in its list.
    #[must_use]
    pub fn is_announced_by(payload: &[u8]) -> bool {
        let op = payload.get(4..).and_then(|rest| rest.first_chunk());
        payload.len() <= Self::BYTES_MAX
            && match op.map(|op| OpCode(i32::from_be_bytes(*op))) {
                // The flags follow the list.
                Some(OpCode::CREATE | OpCode::CREATE2) => payload
                    .split_last_chunk::<4>()
                    .is_some_and(|(list, _)| list.ends_with(EVERYONE)),
                op => matches!(op, Some(OpCode::DELETE | OpCode::SET_DATA)),
            }
    }

    /// Decodes the payload of a frame. `None` if it is another request, or none, or longer than
    /// [`PlainWrite::BYTES_MAX`], or has a path that is null, or is a create with a path that is not in UTF-8,
    /// with another list than one entry for everyone, or with bytes after its flags:
    /// [`decode_request`](crate::decode_request) tells.
    #[must_use]
    #[inline]
    pub fn decode(payload: &'a [u8]) -> Option<Self> {
        if payload.len() > Self::BYTES_MAX {
            return None;
        }
        let mut rest = payload;
        let (xid, op) = (Xid(int(&mut rest)?), OpCode(int(&mut rest)?));
        let path = buffer(&mut rest)??;
        let change = match op {
            OpCode::CREATE | OpCode::CREATE2 => {
                let kind = CreateKind::from_op_code(op)?;
                let path = std::str::from_utf8(path).ok()?;
                let data = buffer(&mut rest)?;
                let is_single = int(&mut rest)? == 1;
                let of_everyone = Permissions(int(&mut rest)?);
                rest = rest.strip_prefix(EVERYONE).filter(|_| is_single)?;
                let flags = CreateFlags(int(&mut rest)?);
                if !rest.is_empty() {
                    return None;
                }
                PlainChange::Create { kind, path, data, of_everyone, flags }
            }
            OpCode::DELETE => PlainChange::Delete { path, version: int(&mut rest)?.into() },
            OpCode::SET_DATA => {
                let data = buffer(&mut rest)?;
                PlainChange::SetData { path, data, version: int(&mut rest)?.into() }
            }
            _ => return None,
        };
        // As in every request, bytes after the last field of the others are ignored.
        Some(Self { header: RequestHeader { xid, op }, change })
    }
}

/// Takes a number off the front.
fn int(rest: &mut &[u8]) -> Option<i32> {
    let (number, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(i32::from_be_bytes(*number))
}

/// Takes a string or buffer off the front; `Some(None)` for null.
fn buffer<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let length = int(rest)?;
    if length == -1 {
        return Some(None);
    }
    let (bytes, after) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    *rest = after;
    Some(Some(bytes))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::acl::{Acl, Id};
    use crate::jute::repaired;
    use crate::multi::MultiOp;
    use crate::path::RawPath;
    use crate::request::{Create, Delete, Lookup, Read, Request, SetData, Write};
    use crate::{decode_request, encode_request};

    /// A change of a frame: one or several make another request of it, or none.
    #[derive(Debug, Clone)]
    enum Damage {
        Byte(usize, u8),
        /// Of a length, a count, an operation code or whatever is there.
        Number(usize, i32),
        Inserted(usize, Vec<u8>),
        Cut(usize, usize),
        Tail(Vec<u8>),
    }

    impl Damage {
        fn to(&self, frame: &mut Vec<u8>) {
            let within = |at: usize| at.min(frame.len());
            match self {
                Self::Byte(at, byte) => {
                    if let Some(damaged) = frame.get_mut(*at) {
                        *damaged = *byte;
                    }
                }
                Self::Number(at, number) => {
                    if let Some(damaged) = frame.get_mut(*at..at + 4) {
                        damaged.copy_from_slice(&number.to_be_bytes());
                    }
                }
                Self::Inserted(at, bytes) => {
                    let at = within(*at);
                    frame.splice(at..at, bytes.iter().copied());
                }
                Self::Cut(at, bytes) => drop(frame.drain(within(*at)..within(at + bytes))),
                Self::Tail(bytes) => frame.extend_from_slice(bytes),
            }
        }
    }

    fn any_damage() -> impl Strategy<Value = Damage> {
        // Among them the lengths of the parts of a list, null, and the operation codes.
        let numbers = [i32::MIN, -2, -1, 0, 1, 2, 4, 5, 6, 15, 19, 21, i32::MAX];
        let number = prop_oneof![prop::sample::select(numbers.to_vec()), 0..80, any::<i32>()];
        let byte = prop::sample::select(vec![0, 1, 5, 0xff, b'/', 0xc3]);
        let few = prop::collection::vec(byte, 0..9);
        let inserted = prop_oneof![few.clone(), Just(EVERYONE.to_vec())];
        prop_oneof![
            1 => (0_usize..80, any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
            3 => (0_usize..80, number).prop_map(|(at, number)| Damage::Number(at, number)),
            1 => (0_usize..80, inserted).prop_map(|(at, bytes)| Damage::Inserted(at, bytes)),
            1 => (0_usize..80, 0_usize..24).prop_map(|(at, bytes)| Damage::Cut(at, bytes)),
            1 => few.prop_map(Damage::Tail),
        ]
    }

    fn any_damages() -> impl Strategy<Value = Vec<Damage>> {
        prop::collection::vec(any_damage(), 0..5)
    }

    fn damaged(request: &Request, damages: &[Damage]) -> Bytes {
        let mut frame = encode_request(Xid(7), request).to_vec();
        damages.iter().for_each(|damage| damage.to(&mut frame));
        frame.into()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        /// It decodes the same as the general way, of whole frames and of damaged ones.
        #[test]
        fn it_is_the_request_that_all_requests_are_decoded_to(
            path in "[/a-z\u{e4}]{0,12}",
            damages in any_damages(),
        ) {
            let read = Request::Read(Read::Lookup(Lookup::GetData(path.as_str().into())));
            let frame = damaged(&read, &damages);
            let found = PlainGetData::decode(&frame);
            if let Some(PlainGetData { xid, path }) = found {
                let (header, request) = decode_request(&frame).unwrap();
                prop_assert_eq!(header, RequestHeader { xid, op: OpCode::GET_DATA });
                let path = repaired(path);
                let read = Request::Read(Read::Lookup(Lookup::GetData(path.as_str().into())));
                prop_assert_eq!(request, Ok(read));
            }
            if damages.is_empty() {
                let path = path.as_bytes();
                prop_assert_eq!(found, Some(PlainGetData { xid: Xid(7), path }));
            }
        }

        /// The same of writes.
        #[test]
        fn it_is_the_write_that_all_requests_are_decoded_to(
            op in any_op(),
            damages in any_damages(),
        ) {
            let is_plain = match &op {
                MultiOp::Create(create) => matches!(
                    (create.acl.as_deref(), create.kind),
                    (Some([one]), CreateKind::Create | CreateKind::Create2) if one.id.is("world", "anyone")
                ),
                _ => true,
            };
            let frame = damaged(&Request::Write(Write::Op(op.clone())), &damages);
            let found = PlainWrite::decode(&frame);
            prop_assert!(found.is_none() || PlainWrite::is_announced_by(&frame));
            if let Some(found) = &found {
                let (header, request) = decode_request(&frame).unwrap();
                prop_assert_eq!(header, found.header);
                prop_assert_eq!(request, Ok(Request::Write(Write::Op(general(found)))));
            }
            if damages.is_empty() {
                prop_assert_eq!(found.as_ref().map(general), is_plain.then_some(op));
            }
        }
    }

    #[test]
    fn a_long_write_is_not_plain() {
        let set = |bytes| {
            let data = Some(vec![7; bytes].into());
            let set = MultiOp::SetData(SetData { path: "/a".into(), data, version: Expect::Any });
            encode_request(Xid(1), &Request::Write(Write::Op(set)))
        };
        let beside = set(0).len();
        for (bytes, is_plain) in [(PlainWrite::BYTES_MAX, true), (PlainWrite::BYTES_MAX + 1, false)]
        {
            let frame = set(bytes - beside);
            assert_eq!(PlainWrite::decode(&frame).is_some(), is_plain);
            assert_eq!(PlainWrite::is_announced_by(&frame), is_plain);
        }
    }

    /// A write as all requests are decoded.
    fn general(write: &PlainWrite<'_>) -> MultiOp {
        let text = |path| RawPath::from(repaired(path));
        let shared = |data: Option<&[u8]>| data.map(Bytes::copy_from_slice);
        match write.change {
            PlainChange::Create { kind, path, data, of_everyone, flags } => {
                let acl = Some(vec![Acl::open().with_permissions(of_everyone)]);
                let (path, data) = (path.into(), shared(data));
                MultiOp::Create(Create { kind, path, data, acl, flags })
            }
            PlainChange::Delete { path, version } => {
                MultiOp::Delete(Delete { path: text(path), version })
            }
            PlainChange::SetData { path, data, version } => {
                MultiOp::SetData(SetData { path: text(path), data: shared(data), version })
            }
        }
    }

    fn any_op() -> impl Strategy<Value = MultiOp> {
        let path = "[/a-z\u{e4}]{0,12}".prop_map(|path: String| path.as_str().into());
        let data = prop::option::of(prop::collection::vec(any::<u8>(), 0..20));
        let data = data.prop_map(|data| data.map(Bytes::from));
        let ids =
            [("world", "anyone"), ("world", "ann"), ("digest", "anyone"), ("ip", "127.0.0.1")];
        let entry = (prop::sample::select(ids.to_vec()), any::<i32>());
        let entry = entry.prop_map(|((scheme, id), bits)| Acl {
            permissions: Permissions(bits),
            id: Id::new(scheme, id),
        });
        let open = Just(Some(vec![Acl::open()]));
        let acl = prop_oneof![open, prop::option::of(prop::collection::vec(entry, 0..3))];
        let kinds = [CreateKind::Create, CreateKind::Create2, CreateKind::Container];
        let kind = prop::sample::select(kinds.to_vec());
        let version = any::<i32>().prop_map(Expect::from);
        prop_oneof![
            2 => (kind, path.clone(), data.clone(), acl, any::<i32>()).prop_map(
                |(kind, path, data, acl, flags)| {
                    MultiOp::Create(Create { kind, path, data, acl, flags: CreateFlags(flags) })
                }
            ),
            1 => (path.clone(), version.clone())
                .prop_map(|(path, version)| MultiOp::Delete(Delete { path, version })),
            1 => (path, data, version)
                .prop_map(|(path, data, version)| MultiOp::SetData(SetData { path, data, version })),
        ]
    }
}
