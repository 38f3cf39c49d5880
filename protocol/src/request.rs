//! Requests, grouped by what a server must do to answer them.
//!
//! The bodies of the operations are in `records`, encoding and decoding in `codec`.

mod codec;
mod create_mode;
mod plain;
mod records;

use bytes::Bytes;

pub use self::codec::{RequestEncoder, decode_request, encode_request};
pub use self::create_mode::CreateMode;
pub use self::plain::{PlainChange, PlainGetData, PlainWrite};
pub use self::records::{
    AddWatch, Auth, Check, CheckWatches, Create, CreateFlags, CreateKind, Delete, Reconfig,
    RemoveWatches, SetAcl, SetData, SetWatches,
};
use crate::code::OpCode;
use crate::id::Xid;
use crate::jute::Encode;
use crate::multi::{MultiOp, MultiReadOp};
use crate::path::RawPath;
use crate::record;

record! {
    /// The header of every request.
    ///
    /// ```
    /// use zoolet_protocol::{Encode, OpCode, RequestHeader, Xid, limits};
    ///
    /// let header = RequestHeader { xid: Xid::PING, op: OpCode::PING };
    /// assert_eq!(header.encoded_len(), limits::REQUEST_HEADER_BYTES);
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct RequestHeader {
        /// The id of the request. The reply carries the same xid.
        pub xid: Xid,
        /// The operation.
        pub op: OpCode,
    }
}

/// A request.
///
/// ```
/// use zoolet_protocol::{Lookup, OpCode, Read, Request, Watch};
///
/// let path = "/lock".into();
/// let watching = Request::Watch(Watch::Lookup(Lookup::Exists(path)));
/// assert_eq!(watching.op_code(), OpCode::EXISTS);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Reads without setting a watch.
    Read(Read),
    /// Sets or removes watches.
    Watch(Watch),
    /// Changes the tree or the sessions. It takes a zxid even if it is refused.
    Write(Write),
    /// Concerns the session or the connection.
    Session(SessionRequest),
    /// Has an unknown operation code.
    Unknown {
        /// The code.
        op: OpCode,
        /// The undecoded body.
        body: Bytes,
    },
}

/// A request that reads without setting a watch.
///
/// ```
/// use zoolet_protocol::{OpCode, Read};
///
/// assert_eq!(Read::Sync("/".into()).op_code(), OpCode::SYNC);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// A lookup without a watch.
    Lookup(Lookup),
    /// `getACL`.
    GetAcl(RawPath),
    /// `sync`: returns the path unchanged.
    Sync(RawPath),
    /// `getEphemerals`: the session's ephemerals whose paths begin with this prefix.
    GetEphemerals(RawPath),
    /// `getAllChildrenNumber`.
    GetAllChildrenNumber(RawPath),
    /// `checkWatches`.
    CheckWatches(CheckWatches),
    /// `multiRead`.
    MultiRead(Vec<MultiReadOp>),
}

/// A request that sets or removes watches.
///
/// ```
/// use zoolet_protocol::{AddWatch, OpCode, Watch, WatchMode};
///
/// let add = AddWatch { path: "/".into(), mode: WatchMode::PERSISTENT };
/// assert_eq!(Watch::Add(add).op_code(), OpCode::ADD_WATCH);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watch {
    /// A lookup that sets a watch.
    Lookup(Lookup),
    /// `addWatch`.
    Add(AddWatch),
    /// `removeWatches`.
    Remove(RemoveWatches),
    /// `setWatches`, without persistent watches.
    Set(SetWatches),
    /// `setWatches2`.
    Set2(SetWatches),
}

/// The four reads that can set a watch.
///
/// ```
/// use zoolet_protocol::{Lookup, OpCode};
///
/// assert_eq!(Lookup::GetChildren2("/".into()).op_code(), OpCode::GET_CHILDREN2);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// `exists`: returns the Stat.
    Exists(RawPath),
    /// `getData`: returns data and Stat.
    GetData(RawPath),
    /// `getChildren`: returns the names of the children.
    GetChildren(RawPath),
    /// `getChildren2`: returns the names of the children, and the Stat of the parent.
    GetChildren2(RawPath),
}

/// A request that changes the tree or the sessions.
///
/// ```
/// use zoolet_protocol::{OpCode, Write};
///
/// assert_eq!(Write::Multi(Vec::new()).op_code(), OpCode::MULTI);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// An operation that can also be part of a multi.
    Op(MultiOp),
    /// `setACL`.
    SetAcl(SetAcl),
    /// `deleteContainer`, which only the sweeper of a server should send.
    DeleteContainer(RawPath),
    /// `multi`: does all operations or none.
    Multi(Vec<MultiOp>),
    /// `reconfig`.
    Reconfig(Reconfig),
    /// `closeSession`.
    CloseSession,
}

impl Write {
    /// The bytes of the body on the wire.
    ///
    /// ```
    /// use zoolet_protocol::Write;
    ///
    /// assert_eq!(Write::CloseSession.encoded_len(), 0);
    /// assert_eq!(Write::DeleteContainer("/a".into()).encoded_len(), 4 + 2);
    /// ```
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        match self {
            Self::Op(op) => op.body_len(),
            Self::SetAcl(set_acl) => set_acl.encoded_len(),
            Self::DeleteContainer(path) => path.encoded_len(),
            Self::Multi(ops) => crate::multi::ops_len(ops),
            Self::Reconfig(reconfig) => reconfig.encoded_len(),
            Self::CloseSession => 0,
        }
    }
}

/// A request that concerns the session or the connection.
///
/// ```
/// use zoolet_protocol::{OpCode, SessionRequest};
///
/// assert_eq!(SessionRequest::Ping.op_code(), OpCode::PING);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionRequest {
    /// `ping`: keeps the session alive.
    Ping,
    /// `auth`: adds an identity.
    Auth(Auth),
    /// `sasl`: one round of the exchange, with the client's token.
    Sasl(Option<Bytes>),
    /// `whoAmI`: lists the identities.
    WhoAmI,
}

impl Lookup {
    /// The code of the operation.
    #[must_use]
    pub fn op_code(&self) -> OpCode {
        match self {
            Self::Exists(_) => OpCode::EXISTS,
            Self::GetData(_) => OpCode::GET_DATA,
            Self::GetChildren(_) => OpCode::GET_CHILDREN,
            Self::GetChildren2(_) => OpCode::GET_CHILDREN2,
        }
    }

    /// The path of the znode.
    #[must_use]
    pub fn path(&self) -> &RawPath {
        match self {
            Self::Exists(path)
            | Self::GetData(path)
            | Self::GetChildren(path)
            | Self::GetChildren2(path) => path,
        }
    }
}

impl Read {
    /// The code of the operation.
    #[must_use]
    pub fn op_code(&self) -> OpCode {
        match self {
            Self::Lookup(lookup) => lookup.op_code(),
            Self::GetAcl(_) => OpCode::GET_ACL,
            Self::Sync(_) => OpCode::SYNC,
            Self::GetEphemerals(_) => OpCode::GET_EPHEMERALS,
            Self::GetAllChildrenNumber(_) => OpCode::GET_ALL_CHILDREN_NUMBER,
            Self::CheckWatches(_) => OpCode::CHECK_WATCHES,
            Self::MultiRead(_) => OpCode::MULTI_READ,
        }
    }
}

impl Watch {
    /// The code of the operation.
    #[must_use]
    pub fn op_code(&self) -> OpCode {
        match self {
            Self::Lookup(lookup) => lookup.op_code(),
            Self::Add(_) => OpCode::ADD_WATCH,
            Self::Remove(_) => OpCode::REMOVE_WATCHES,
            Self::Set(_) => OpCode::SET_WATCHES,
            Self::Set2(_) => OpCode::SET_WATCHES2,
        }
    }
}

impl Write {
    /// The code of the operation.
    #[must_use]
    pub fn op_code(&self) -> OpCode {
        match self {
            Self::Op(op) => op.op_code(),
            Self::SetAcl(_) => OpCode::SET_ACL,
            Self::DeleteContainer(_) => OpCode::DELETE_CONTAINER,
            Self::Multi(_) => OpCode::MULTI,
            Self::Reconfig(_) => OpCode::RECONFIG,
            Self::CloseSession => OpCode::CLOSE_SESSION,
        }
    }
}

impl SessionRequest {
    /// The code of the operation.
    #[must_use]
    pub fn op_code(&self) -> OpCode {
        match self {
            Self::Ping => OpCode::PING,
            Self::Auth(_) => OpCode::AUTH,
            Self::Sasl(_) => OpCode::SASL,
            Self::WhoAmI => OpCode::WHO_AM_I,
        }
    }
}

impl Request {
    /// The code of the operation.
    #[must_use]
    pub fn op_code(&self) -> OpCode {
        match self {
            Self::Read(read) => read.op_code(),
            Self::Watch(watch) => watch.op_code(),
            Self::Write(write) => write.op_code(),
            Self::Session(session) => session.op_code(),
            Self::Unknown { op, .. } => *op,
        }
    }
}
