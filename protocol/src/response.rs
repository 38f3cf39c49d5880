//! Replies and events: how a server encodes them and a client decodes them.

mod plain;

use bytes::{Buf, BufMut as _, Bytes, BytesMut};
use bytestring::ByteString;

pub use self::plain::{PlainReply, put_data_reply, put_reply};
use crate::acl::Acl;
use crate::code::{ErrorCode, OpCode};
use crate::id::{Xid, Zxid};
use crate::jute::{Decode, DecodeError, Encode, Parsed};
use crate::limits::REPLY_HEADER_BYTES;
use crate::multi::{self, MultiResult};
use crate::names::Names;
use crate::path::RawPath;
use crate::record;
use crate::stat::Stat;
use crate::watch::{EventType, KeeperState, WatchedEvent};

record! {
    /// The header of every reply and event.
    ///
    /// ```
    /// use zoolet_protocol::{Encode, ErrorCode, ReplyHeader, Xid, Zxid, limits};
    ///
    /// let header = ReplyHeader { xid: Xid(1), zxid: Zxid(7), err: ErrorCode::OK };
    /// assert_eq!(header.encoded_len(), limits::REPLY_HEADER_BYTES);
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ReplyHeader {
        /// The xid of the request, or one of the special xids of [`Xid`].
        pub xid: Xid,
        /// The zxid of the last transaction that the reply may reflect.
        pub zxid: Zxid,
        /// The error of the request, or [`ErrorCode::OK`].
        pub err: ErrorCode,
    }
}

record! {
    /// An identity of a connection, as `whoAmI` lists it.
    #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct ClientInfo {
        /// The scheme.
        pub scheme: Option<ByteString>,
        /// The user, without the hash of the password.
        pub user: Option<ByteString>,
    }
}

impl ReplyHeader {
    /// Its fields one after the other, in one piece: every reply has one.
    #[inline]
    fn to_bytes(self) -> [u8; REPLY_HEADER_BYTES] {
        let mut bytes = [0; REPLY_HEADER_BYTES];
        let mut rest = &mut bytes[..];
        rest.put_i32(self.xid.0);
        rest.put_i64(self.zxid.0);
        rest.put_i32(self.err.0);
        bytes
    }

    pub(crate) fn encode_at_once(self, out: &mut BytesMut) {
        out.put_slice(&self.to_bytes());
    }
}

/// The body of a reply. [`Response::decode`] knows which body belongs to which operation.
///
/// ```
/// use zoolet_protocol::{OpCode, Response};
///
/// let body = Response::Number(3).to_bytes();
/// assert_eq!(Response::decode(OpCode::GET_ALL_CHILDREN_NUMBER, &body), Ok(Response::Number(3)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// An empty body: of `delete`, `ping`, `auth`, `setWatches`, `closeSession`, `checkWatches`,
    /// `removeWatches`, and of nearly every refused request.
    Empty,
    /// Of `create` and `sync`.
    Path(RawPath),
    /// Of `create2`, `createContainer` and `createTTL`.
    PathStat(ByteString, Stat),
    /// Of `exists`, `setData` and `setACL`.
    Stat(Stat),
    /// Of `getData` and `reconfig`.
    Data(Option<Bytes>, Stat),
    /// Of `getACL`.
    Acl(Option<Vec<Acl>>, Stat),
    /// Of `getChildren` and `getEphemerals`.
    Names(Names),
    /// Of `getChildren2`.
    NamesStat(Names, Stat),
    /// Of `multi` and `multiRead`.
    Multi(Vec<MultiResult>),
    /// Of `getAllChildrenNumber`, and of `addWatch`, where it is always 0.
    Number(i32),
    /// Of `whoAmI`.
    WhoAmI(Vec<ClientInfo>),
    /// Of `sasl`.
    Token(Option<Bytes>),
    /// Of an unknown operation: the undecoded body.
    Raw(Bytes),
}

impl Response {
    /// Decodes the body of a reply to `op`. A reply whose header has an error mostly has no body:
    /// decode it with [`Response::decode_error`].
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the body is not that of a reply to `op`.
    pub fn decode(op: OpCode, body: &Bytes) -> Result<Self, DecodeError> {
        Self::parse(op, body, body).map(|(_, response)| response)
    }

    /// Decodes the body of a reply with an error. It is [`Response::Empty`] if there is no body.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if there is a body that is not that of a reply to `op`.
    pub fn decode_error(op: OpCode, body: &Bytes) -> Result<Self, DecodeError> {
        if body.is_empty() { Ok(Self::Empty) } else { Self::decode(op, body) }
    }

    fn parse<'a>(op: OpCode, frame: &Bytes, input: &'a [u8]) -> Parsed<'a, Self> {
        fn map<'a, T>(parsed: Parsed<'a, T>, wrap: fn(T) -> Response) -> Parsed<'a, Response> {
            parsed.map(|(rest, value)| (rest, wrap(value)))
        }
        match op {
            OpCode::DELETE
            | OpCode::DELETE_CONTAINER
            | OpCode::CHECK
            | OpCode::PING
            | OpCode::AUTH
            | OpCode::SET_WATCHES
            | OpCode::SET_WATCHES2
            | OpCode::CHECK_WATCHES
            | OpCode::REMOVE_WATCHES
            | OpCode::CLOSE_SESSION => Ok((input, Self::Empty)),
            OpCode::CREATE | OpCode::SYNC => map(RawPath::decode(frame, input), Self::Path),
            OpCode::CREATE2 | OpCode::CREATE_CONTAINER | OpCode::CREATE_TTL => {
                let (input, path) = ByteString::decode(frame, input)?;
                let (input, stat) = Stat::decode(frame, input)?;
                Ok((input, Self::PathStat(path, stat)))
            }
            OpCode::EXISTS | OpCode::SET_DATA | OpCode::SET_ACL => {
                map(Stat::decode(frame, input), Self::Stat)
            }
            OpCode::GET_DATA | OpCode::RECONFIG => {
                let (input, data) = Option::<Bytes>::decode(frame, input)?;
                let (input, stat) = Stat::decode(frame, input)?;
                Ok((input, Self::Data(data, stat)))
            }
            OpCode::GET_ACL => {
                let (input, acl) = Option::<Vec<Acl>>::decode(frame, input)?;
                let (input, stat) = Stat::decode(frame, input)?;
                Ok((input, Self::Acl(acl, stat)))
            }
            OpCode::GET_CHILDREN | OpCode::GET_EPHEMERALS => {
                map(Names::decode(frame, input), Self::Names)
            }
            OpCode::GET_CHILDREN2 => {
                let (input, names) = Names::decode(frame, input)?;
                let (input, stat) = Stat::decode(frame, input)?;
                Ok((input, Self::NamesStat(names, stat)))
            }
            OpCode::MULTI | OpCode::MULTI_READ => {
                map(multi::decode_results(frame, input), Self::Multi)
            }
            OpCode::ADD_WATCH | OpCode::GET_ALL_CHILDREN_NUMBER => {
                map(i32::decode(frame, input), Self::Number)
            }
            OpCode::WHO_AM_I => map(Vec::<ClientInfo>::decode(frame, input), Self::WhoAmI),
            OpCode::SASL => map(Option::<Bytes>::decode(frame, input), Self::Token),
            _ => {
                let body = if input.is_empty() { Bytes::new() } else { frame.slice_ref(input) };
                Ok((&[], Self::Raw(body)))
            }
        }
    }

    /// The encoded body.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.encoded_len());
        self.encode(&mut out);
        out.freeze()
    }
}

impl Encode for Response {
    fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Empty => {}
            Self::Path(path) => path.encode(out),
            Self::PathStat(path, stat) => {
                path.encode(out);
                stat.encode(out);
            }
            Self::Stat(stat) => stat.encode(out),
            Self::Data(data, stat) => {
                data.encode(out);
                stat.encode(out);
            }
            Self::Acl(acl, stat) => {
                acl.encode(out);
                stat.encode(out);
            }
            Self::Names(names) => names.encode(out),
            Self::NamesStat(names, stat) => {
                names.encode(out);
                stat.encode(out);
            }
            Self::Multi(results) => multi::encode_results(results, out),
            Self::Number(number) => number.encode(out),
            Self::WhoAmI(infos) => infos.encode(out),
            Self::Token(token) => token.encode(out),
            Self::Raw(body) => out.extend_from_slice(body),
        }
    }

    fn encoded_len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::Path(path) => path.encoded_len(),
            Self::PathStat(path, stat) => path.encoded_len() + stat.encoded_len(),
            Self::Stat(stat) => stat.encoded_len(),
            Self::Data(data, stat) => data.encoded_len() + stat.encoded_len(),
            Self::Acl(acl, stat) => acl.encoded_len() + stat.encoded_len(),
            Self::Names(names) => names.encoded_len(),
            Self::NamesStat(names, stat) => names.encoded_len() + stat.encoded_len(),
            Self::Multi(results) => multi::results_len(results),
            Self::Number(number) => number.encoded_len(),
            Self::WhoAmI(infos) => infos.encoded_len(),
            Self::Token(token) => token.encoded_len(),
            Self::Raw(body) => body.len(),
        }
    }
}

/// Appends a reply as the payload of a frame.
pub fn encode_reply(header: &ReplyHeader, response: &Response, out: &mut BytesMut) {
    header.encode_at_once(out);
    response.encode(out);
}

/// Encodes an event as the payload of a frame.
///
/// `zxid` is that of the transaction that fired the event, as in ZooKeeper since 3.9.
///
/// ```
/// use zoolet_protocol::{EventType, Incoming, WatchedEvent, Zxid, decode_incoming, encode_event};
///
/// let event = WatchedEvent::new(EventType::NODE_CREATED, "/a");
/// let frame = encode_event(Zxid(4), &event);
/// assert_eq!(decode_incoming(&frame), Ok(Incoming::Event { zxid: Zxid(4), event }));
/// ```
#[must_use]
pub fn encode_event(zxid: Zxid, event: &WatchedEvent) -> Bytes {
    let header = ReplyHeader { xid: Xid::EVENT, zxid, err: ErrorCode::OK };
    let mut out = BytesMut::with_capacity(header.encoded_len() + event.encoded_len());
    header.encode(&mut out);
    event.encode(&mut out);
    out.freeze()
}

/// A frame from a server, after the handshake.
///
/// ```
/// use bytes::BytesMut;
/// use zoolet_protocol::{
///     ErrorCode, Incoming, ReplyHeader, Response, Xid, Zxid, decode_incoming, encode_reply,
/// };
///
/// let header = ReplyHeader { xid: Xid(1), zxid: Zxid(2), err: ErrorCode::OK };
/// let mut frame = BytesMut::new();
/// encode_reply(&header, &Response::Empty, &mut frame);
/// let incoming = decode_incoming(&frame.freeze());
/// assert!(matches!(incoming, Ok(Incoming::Reply { header, .. }) if header.zxid == Zxid(2)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// A watch fired.
    Event {
        /// The transaction that fired it. -1 from servers before 3.9, and for events that
        /// `setWatches` reports.
        zxid: Zxid,
        /// The event.
        event: WatchedEvent,
    },
    /// A reply. Find the request by its xid, and decode the body with [`Response::decode`].
    Reply {
        /// The header.
        header: ReplyHeader,
        /// The undecoded body.
        body: Bytes,
    },
}

/// Decodes the header of a frame from a server and, if it is an event, the event.
///
/// # Errors
///
/// [`DecodeError`] if the frame is too short for a header, or if its header announces an event and
/// its body is none.
pub fn decode_incoming(frame: &Bytes) -> Result<Incoming, DecodeError> {
    let (body, header) = ReplyHeader::decode(frame, frame)?;
    if header.xid == Xid::EVENT {
        let (_, event) = WatchedEvent::decode(frame, body)?;
        return Ok(Incoming::Event { zxid: header.zxid, event });
    }
    let body = if body.is_empty() { Bytes::new() } else { frame.slice_ref(body) };
    Ok(Incoming::Reply { header, body })
}

/// As [`decode_incoming`], of a frame that the caller does not keep: the path of an event and the body of
/// a reply take its memory over, which need not be shared.
///
/// # Errors
///
/// As [`decode_incoming`].
///
/// ```
/// use zoolet_protocol::{EventType, WatchedEvent, Zxid, decode_incoming, encode_event, into_incoming};
///
/// let frame = encode_event(Zxid(4), &WatchedEvent::new(EventType::NODE_CREATED, "/a"));
/// assert_eq!(into_incoming(frame.clone()), decode_incoming(&frame));
/// ```
pub fn into_incoming(mut frame: Bytes) -> Result<Incoming, DecodeError> {
    let (body, header) = ReplyHeader::decode(&frame, &frame)?;
    let body_at = frame.len() - body.len();
    if header.xid != Xid::EVENT {
        frame.advance(body_at);
        return Ok(Incoming::Reply { header, body: frame });
    }
    let Some((event_type, state)) = plain_event(body) else { return decode_incoming(&frame) };
    frame.advance(body_at + EVENT_PATH_AT);
    let path = RawPath::from(ByteString::try_from(frame).ok());
    Ok(Incoming::Event { zxid: header.zxid, event: WatchedEvent { event_type, state, path } })
}

/// Where the path of an event begins: after type, state and length.
const EVENT_PATH_AT: usize = 12;

/// The type and the state of an event whose path is ASCII and ends with the frame, as almost every path.
fn plain_event(mut body: &[u8]) -> Option<(EventType, KeeperState)> {
    if body.len() < EVENT_PATH_AT {
        return None;
    }
    let (event_type, state, length) = (body.get_i32(), body.get_i32(), body.get_i32());
    let is_plain = usize::try_from(length) == Ok(body.len()) && body.is_ascii();
    is_plain.then_some((EventType(event_type), KeeperState(state)))
}
