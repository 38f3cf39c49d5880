//! Transactions: decisions about writes, in the form in which they are applied and logged.

use std::sync::Arc;

use bytes::Bytes;
use zoolet_protocol::{Acl, CreateKind, ErrorCode, OpCode, SessionId, Xid, ZPath, Zxid};

/// What was decided about one write: `TxnHeader` and the record behind it.
///
/// ```
/// use zoolet_core::{Core, Settings, TxnOp};
/// use zoolet_protocol::{SessionId, Zxid};
///
/// let txn = Core::new(Settings::default()).prepare_create_session(SessionId(1), 30_000, 0);
/// assert_eq!(txn.zxid, Zxid(1));
/// assert_eq!(txn.op, TxnOp::CreateSession { timeout_ms: 30_000 });
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Txn {
    /// Whose write it was; none for those of the server itself.
    pub session: SessionId,
    /// The request's xid.
    pub cxid: Xid,
    /// Its place in the order of all writes.
    pub zxid: Zxid,
    /// When it was decided: milliseconds since 1970.
    pub time_ms: i64,
    /// The decision.
    pub op: TxnOp,
}

/// What a transaction does.
///
/// ```
/// use zoolet_core::TxnOp;
/// use zoolet_protocol::{ErrorCode, OpCode};
///
/// assert_eq!(TxnOp::Error(ErrorCode::NO_NODE).op_code(), OpCode::ERROR);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TxnOp {
    /// A session begins.
    CreateSession {
        /// Its timeout in milliseconds.
        timeout_ms: i32,
    },
    /// A session ends, and these ephemerals of its with it.
    CloseSession {
        /// In the order in which they go.
        paths: Vec<ZPath>,
    },
    /// A znode is created.
    Create(CreateTxn),
    /// A znode is deleted.
    Delete {
        /// Which.
        path: ZPath,
    },
    /// The sweeper deletes a container or a TTL znode.
    DeleteContainer {
        /// Which.
        path: ZPath,
    },
    /// A znode's data is set.
    SetData {
        /// Which.
        path: ZPath,
        /// To what.
        data: Option<Bytes>,
        /// The version that it has from now on.
        version: i32,
    },
    /// A znode's access control list is set.
    SetAcl {
        /// Which.
        path: ZPath,
        /// To what.
        acl: Arc<[Acl]>,
        /// The version that the list has from now on.
        version: i32,
    },
    /// A version was compared and found right; in a multi only.
    Check {
        /// Which.
        path: ZPath,
        /// The version one after the compared one, as ZooKeeper logs it.
        version: i32,
    },
    /// All of these, or none if one of them is a [`TxnOp::Error`].
    Multi(Vec<Self>),
    /// Nothing: the write was refused.
    Error(ErrorCode),
}

/// The creation of a znode.
///
/// ```
/// use zoolet_core::{CreateTxn, TxnOp};
/// use zoolet_protocol::{Acl, CreateKind, OpCode, ZPath};
///
/// let create = CreateTxn {
///     kind: CreateKind::Container,
///     path: ZPath::parse("/locks").unwrap(),
///     data: None,
///     acl: [Acl::open()].into(),
///     ephemeral: false,
///     parent_cversion: 1,
/// };
/// assert_eq!(TxnOp::Create(create).op_code(), OpCode::CREATE_CONTAINER);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateTxn {
    /// Which of the operations, and with it what is stored.
    pub kind: CreateKind,
    /// Where, with the sequence number.
    pub path: ZPath,
    /// With which data.
    pub data: Option<Bytes>,
    /// With which access control list.
    pub acl: Arc<[Acl]>,
    /// Whether it goes with the session.
    pub ephemeral: bool,
    /// The stored cversion that the parent has from now on, if that is more than it has.
    pub parent_cversion: i32,
}

impl CreateTxn {
    /// The parent's cversion in records that do not tell it, those from before ZooKeeper 3.4: one
    /// more than it has.
    pub const PARENT_CVERSION_UNKNOWN: i32 = -1;
}

impl TxnOp {
    /// The code under which it is logged.
    #[must_use]
    pub fn op_code(&self) -> OpCode {
        match self {
            Self::CreateSession { .. } => OpCode::CREATE_SESSION,
            Self::CloseSession { .. } => OpCode::CLOSE_SESSION,
            Self::Create(create) => create.kind.op_code(),
            Self::Delete { .. } => OpCode::DELETE,
            Self::DeleteContainer { .. } => OpCode::DELETE_CONTAINER,
            Self::SetData { .. } => OpCode::SET_DATA,
            Self::SetAcl { .. } => OpCode::SET_ACL,
            Self::Check { .. } => OpCode::CHECK,
            Self::Multi(_) => OpCode::MULTI,
            Self::Error(_) => OpCode::ERROR,
        }
    }

    /// About as many bytes as it takes in a log.
    pub(crate) fn about_bytes(&self) -> usize {
        const FIELDS: usize = 32;
        let text =
            |text: &Option<bytestring::ByteString>| text.as_ref().map_or(0, |text| text.len());
        let acl = |acl: &[Acl]| -> usize {
            acl.iter().map(|entry| 12 + text(&entry.id.scheme) + text(&entry.id.id)).sum()
        };
        let data = |data: &Option<Bytes>| data.as_ref().map_or(0, Bytes::len);
        FIELDS
            + match self {
                Self::CreateSession { .. } | Self::Error(_) => 0,
                Self::CloseSession { paths } => paths.iter().map(|path| 4 + path.len()).sum(),
                Self::Create(create) => create.path.len() + data(&create.data) + acl(&create.acl),
                Self::Delete { path } | Self::DeleteContainer { path } => path.len(),
                Self::SetData { path, data: bytes, .. } => path.len() + data(bytes),
                Self::SetAcl { path, acl: list, .. } => path.len() + acl(list),
                Self::Check { path, .. } => path.len(),
                Self::Multi(ops) => ops.iter().map(Self::about_bytes).sum(),
            }
    }

    /// Whether it was refused.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Error(_))
    }
}
