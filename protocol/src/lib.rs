//! ZooKeeper's wire protocol: typed records, and their encoding in frames of bytes.
//!
//! Every record can be both encoded and decoded, so that servers and clients use the same code:
//! [`Request`], [`Response`], [`WatchedEvent`], the handshake ([`ConnectRequest`],
//! [`ConnectResponse`]) and the values that they carry. [`Transport`] and [`Dial`] are the traits
//! of a connection.
//!
//! What this crate guarantees:
//!
//! - Decoding copies no data: strings and buffers are slices of the frame in which they came.
//! - No length from a peer decides how much memory is allocated before it was checked against the
//!   bytes that follow.
//! - Unknown codes can be decoded and encoded again: codes are newtypes with named constants.
//! - The crate keeps no state, reads no clock and does no I/O.
//!
//! Paths are not validated when they are decoded, because ZooKeeper makes other checks first
//! ([`RawPath`], [`ZPath`]).
//!
//! ```
//! use zoolet_protocol::{Lookup, Read, Request, RequestHeader, Xid, decode_request, encode_request};
//!
//! let request = Request::Read(Read::Lookup(Lookup::GetData("/config".into())));
//! let frame = encode_request(Xid(1), &request);
//! let header = RequestHeader { xid: Xid(1), op: request.op_code() };
//! assert_eq!(decode_request(&frame).unwrap(), (header, Ok(request)));
//! ```

mod acl;
mod code;
mod connect;
mod frame;
mod id;
mod jute;
mod multi;
mod names;
mod parts;
mod path;
mod request;
mod response;
mod stat;
mod transport;
mod watch;

pub mod limits;

pub use acl::{Acl, Id, ParsePermissionsError, Permissions};
pub use code::{ErrorCode, OpCode};
pub use connect::{ConnectRequest, ConnectResponse, PASSWORD_BYTES, Password};
pub use frame::{FrameCodec, FrameError};
pub use id::{Expect, SessionId, Xid, Zxid};
pub use jute::{Decode, DecodeError, DecodeFault, Encode, Parsed, decode_all, decode_front};
pub use multi::{MultiOp, MultiReadOp, MultiResult, multi_refusal};
pub use names::Names;
pub use parts::{Parts, encode_reply_in_parts};
pub use path::{PathError, RawPath, SEQUENCE_DIGITS, ZPath, last_slash, sequence_number};
pub use request::{
    AddWatch, Auth, Check, CheckWatches, Create, CreateFlags, CreateKind, CreateMode, Delete,
    Lookup, PlainChange, PlainGetData, PlainWrite, Read, Reconfig, RemoveWatches, Request,
    RequestEncoder, RequestHeader, SessionRequest, SetAcl, SetData, SetWatches, Watch, Write,
    decode_request, encode_request,
};
pub use response::{
    ClientInfo, Incoming, PlainReply, ReplyHeader, Response, decode_incoming, encode_event,
    encode_reply, into_incoming, put_data_reply, put_reply,
};
pub use stat::Stat;
pub use transport::{ConnectTarget, Dial, Dialing, Disconnected, Received, Searching, Transport};
pub use watch::{EventType, KeeperState, WatchMode, WatchedEvent, WatcherType};
