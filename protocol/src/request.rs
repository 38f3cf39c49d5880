//! Requests: what a client asks, grouped by what a server must do to answer.
//!
//! The bodies of the single operations are in `records`, the way to bytes and back in `codec`.

mod codec;
mod create_mode;
mod records;

use bytes::Bytes;

pub use self::codec::{decode_request, encode_request};
pub use self::create_mode::CreateMode;
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
    /// What stands before the body of every request.
    ///
    /// ```
    /// use zoolet_protocol::{Encode, OpCode, RequestHeader, Xid, limits};
    ///
    /// let header = RequestHeader { xid: Xid::PING, op: OpCode::PING };
    /// assert_eq!(header.encoded_len(), limits::REQUEST_HEADER_BYTES);
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct RequestHeader {
        /// By which the reply is recognised.
        pub xid: Xid,
        /// What is asked.
        pub op: OpCode,
    }
}

/// A request, by what answering it takes.
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
    /// A look at the tree that changes nothing.
    Read(Read),
    /// A look that leaves or removes watches.
    Watch(Watch),
    /// A change of the tree or of the set of sessions: it takes a zxid, even when refused.
    Write(Write),
    /// About the connection itself.
    Session(Session),
    /// An operation that is not known.
    Unknown {
        /// Its code.
        op: OpCode,
        /// What followed the header.
        body: Bytes,
    },
}

/// A look at the tree that changes nothing.
///
/// ```
/// use zoolet_protocol::{OpCode, Read};
///
/// assert_eq!(Read::Sync("/".into()).op_code(), OpCode::SYNC);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// A read without its watch.
    Lookup(Lookup),
    /// `getACL`.
    GetAcl(RawPath),
    /// `sync`: the path comes back as it was.
    Sync(RawPath),
    /// `getEphemerals` of the session, below a prefix of paths.
    GetEphemerals(RawPath),
    /// `getAllChildrenNumber`.
    GetAllChildrenNumber(RawPath),
    /// `checkWatches`.
    CheckWatches(CheckWatches),
    /// `multiRead`.
    MultiRead(Vec<MultiReadOp>),
}

/// A look that leaves or removes watches.
///
/// ```
/// use zoolet_protocol::{AddWatch, OpCode, Watch, WatchMode};
///
/// let add = AddWatch { path: "/".into(), mode: WatchMode::PERSISTENT };
/// assert_eq!(Watch::Add(add).op_code(), OpCode::ADD_WATCH);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watch {
    /// A read with its watch.
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

/// The four reads that may leave a watch.
///
/// ```
/// use zoolet_protocol::{Lookup, OpCode};
///
/// assert_eq!(Lookup::GetChildren2("/".into()).op_code(), OpCode::GET_CHILDREN2);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// `exists`: the Stat, or that there is none.
    Exists(RawPath),
    /// `getData`: data and Stat.
    GetData(RawPath),
    /// `getChildren`: names.
    GetChildren(RawPath),
    /// `getChildren2`: names, and the parent's Stat.
    GetChildren2(RawPath),
}

/// A change of the tree or of the set of sessions.
///
/// ```
/// use zoolet_protocol::{OpCode, Write};
///
/// assert_eq!(Write::Multi(Vec::new()).op_code(), OpCode::MULTI);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// One that may also stand in a multi.
    Op(MultiOp),
    /// `setACL`.
    SetAcl(SetAcl),
    /// `deleteContainer`, which only a server's own sweeper should send.
    DeleteContainer(RawPath),
    /// `multi`: all or none.
    Multi(Vec<MultiOp>),
    /// `reconfig`.
    Reconfig(Reconfig),
    /// `closeSession`.
    CloseSession,
}

impl Write {
    /// The bytes of its body on the wire.
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

/// About the connection itself.
///
/// ```
/// use zoolet_protocol::{OpCode, Session};
///
/// assert_eq!(Session::Ping.op_code(), OpCode::PING);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Session {
    /// `ping`: keeps the session alive.
    Ping,
    /// `auth`: adds an identity.
    Auth(Auth),
    /// `sasl`: one round, with the client's token.
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

    /// The path that is looked at.
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

impl Session {
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
