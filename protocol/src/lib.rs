//! ZooKeeper's wire protocol: frames of bytes to typed records, and back.
//!
//! Both directions of every record are here, so that a server and a client are built from the same
//! lines: [`Request`], [`Response`], [`WatchedEvent`], the handshake ([`ConnectRequest`],
//! [`ConnectResponse`]) and the values that they carry.
//!
//! What this crate promises:
//!
//! - Decoding copies no data: strings and buffers are slices of the frame they came in.
//! - No length that a peer claims sizes an allocation before it was checked against the bytes
//!   that are there.
//! - A code that is not known survives a round trip: codes are newtypes with named constants.
//! - Nothing here keeps state, reads a clock, or does I/O. A path is not validated when it is
//!   decoded, because ZooKeeper checks paths after other things ([`RawPath`], [`ZPath`]).
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

pub use acl::{Acl, Id, Permissions};
pub use code::{ErrorCode, OpCode};
pub use connect::{ConnectRequest, ConnectResponse, PASSWORD_BYTES, Password};
pub use frame::{FrameCodec, FrameError};
pub use id::{Expect, SessionId, Xid, Zxid};
pub use jute::{Decode, DecodeError, DecodeFault, Encode, Parsed, decode_all, decode_front};
pub use multi::{MultiOp, MultiReadOp, MultiResult};
pub use names::Names;
pub use parts::{Parts, encode_reply_in_parts};
pub use path::{PathError, RawPath, ZPath};
pub use request::{
    AddWatch, Auth, Check, CheckWatches, Create, CreateFlags, CreateKind, CreateMode, Delete,
    Lookup, Read, Reconfig, RemoveWatches, Request, RequestHeader, Session, SetAcl, SetData,
    SetWatches, Watch, Write, decode_request, encode_request,
};
pub use response::{
    ClientInfo, Incoming, ReplyHeader, Response, decode_incoming, encode_event, encode_reply,
};
pub use stat::Stat;
pub use transport::{ConnectTarget, Dial, Dialing, Disconnected, Searching, Transport};
pub use watch::{EventType, KeeperState, WatchMode, WatchedEvent, WatcherType};
