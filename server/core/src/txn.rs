//! Transactions: the decisions about writes, in the form in which they are logged and applied.

use std::sync::Arc;

use bytes::Bytes;
use zoolet_protocol::{Acl, CreateKind, ErrorCode, OpCode, SessionId, Xid, ZPath, Zxid};

use crate::tree::{Data, InMulti, LookedUp};

/// The decision about one write: ZooKeeper's `TxnHeader` with its record.
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
    /// The session of the client. [`SessionId::NONE`] for a write of the server itself.
    pub session: SessionId,
    /// The xid of the request.
    pub cxid: Xid,
    /// The position in the order of all writes.
    pub zxid: Zxid,
    /// When it was decided, in milliseconds since 1970.
    pub time_ms: i64,
    /// What it does.
    pub op: TxnOp,
}

/// A transaction with the places in the tree that its decision has looked up, so that
/// [`Core::apply_decided`](crate::Core::apply_decided) need not look them up again.
///
/// A [`Txn`] of a log has no such places: `Decided::from` makes one that is looked up when it is
/// applied.
///
/// ```
/// use zoolet_core::{ConnectionId, Core, Requester, Settings};
/// use zoolet_protocol::{Delete, Expect, MultiOp, SessionId, Write, Xid};
///
/// let mut core = Core::new(Settings::default());
/// core.apply(&core.prepare_create_session(SessionId(1), 30_000, 0));
/// let requester = Requester::new(SessionId(1), ConnectionId(1), Xid(1));
/// let delete = Delete { path: "/none".into(), version: Expect::Any };
/// let decided = core.decide(&Write::Op(MultiOp::Delete(delete)), &requester, 0);
/// assert!(decided.txn().op.is_refusal());
/// assert!(core.apply_decided(&decided).reply.is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    pub(crate) txn: Txn,
    pub(crate) looked_up: LookedUp,
    /// What was looked up for each operation of a multi.
    pub(crate) in_multi: InMulti,
}

impl Decided {
    /// The transaction.
    #[must_use]
    pub fn txn(&self) -> &Txn {
        &self.txn
    }

    /// The transaction alone.
    #[must_use]
    pub fn into_txn(self) -> Txn {
        self.txn
    }
}

impl From<Txn> for Decided {
    fn from(txn: Txn) -> Self {
        Self { txn, looked_up: LookedUp::default(), in_multi: InMulti::new() }
    }
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
    /// Creates a session.
    CreateSession {
        /// Its timeout in milliseconds.
        timeout_ms: i32,
    },
    /// Closes a session and deletes its ephemerals.
    CloseSession {
        /// The ephemerals, in the order of their deletion: as many as one transaction of a log holds. All
        /// others are deleted too.
        paths: Vec<ZPath>,
    },
    /// Creates a znode.
    Create(CreateTxn),
    /// Deletes a znode.
    Delete {
        /// The path of the znode.
        path: ZPath,
    },
    /// Deletes a container or a TTL znode on behalf of the sweeper.
    DeleteContainer {
        /// The path of the znode.
        path: ZPath,
    },
    /// Sets the data of a znode.
    SetData {
        /// The path of the znode.
        path: ZPath,
        /// The new data. The tree copies them, if it can into the place of those before.
        data: Option<Bytes>,
        /// The new version of the data.
        version: i32,
    },
    /// Sets the access control list of a znode.
    SetAcl {
        /// The path of the znode.
        path: ZPath,
        /// The new list.
        acl: Arc<[Acl]>,
        /// The new version of the list.
        version: i32,
    },
    /// Changes nothing: a version was compared and is the expected one. Only in a multi.
    Check {
        /// The path of the znode.
        path: ZPath,
        /// The version after the compared one, as ZooKeeper logs it.
        version: i32,
    },
    /// Does all of these, or none of them if one is a [`TxnOp::Error`].
    Multi(Vec<Self>),
    /// Changes nothing: the write was refused.
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
    /// The operation, which decides the type of the znode and the form of the reply.
    pub kind: CreateKind,
    /// The path, with the sequence number of a sequential znode.
    pub path: ZPath,
    /// The data, which the znode shares.
    pub data: Option<Data>,
    /// The access control list.
    pub acl: Arc<[Acl]>,
    /// Whether the znode is an ephemeral of the session.
    pub ephemeral: bool,
    /// The stored cversion that the parent gets, unless it has a greater one.
    pub parent_cversion: i32,
}

impl CreateTxn {
    /// The value in records from before ZooKeeper 3.4, which do not contain the parent's cversion.
    /// It means one more than the parent has.
    pub const PARENT_CVERSION_UNKNOWN: i32 = -1;
}

impl TxnOp {
    /// The operation code under which it is logged.
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

    /// An estimate of the bytes that it takes in the log.
    pub(crate) fn about_bytes(&self) -> usize {
        const FIELDS: usize = 32;
        let text =
            |text: &Option<bytestring::ByteString>| text.as_ref().map_or(0, |text| text.len());
        let acl = |acl: &[Acl]| -> usize {
            acl.iter().map(|entry| 12 + text(&entry.id.scheme) + text(&entry.id.id)).sum()
        };
        let length = |data: Option<&[u8]>| data.map_or(0, <[u8]>::len);
        FIELDS
            + match self {
                Self::CreateSession { .. } | Self::Error(_) => 0,
                Self::CloseSession { paths } => paths.iter().map(|path| 4 + path.len()).sum(),
                Self::Create(create) => {
                    create.path.len() + length(create.data.as_deref()) + acl(&create.acl)
                }
                Self::Delete { path } | Self::DeleteContainer { path } => path.len(),
                Self::SetData { path, data, .. } => path.len() + length(data.as_deref()),
                Self::SetAcl { path, acl: list, .. } => path.len() + acl(list),
                Self::Check { path, .. } => path.len(),
                Self::Multi(ops) => ops.iter().map(Self::about_bytes).sum(),
            }
    }

    /// Whether the write was refused.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Error(_))
    }

    /// The single operations: those of a multi, or this one. A multi with a refused operation has none,
    /// since it does nothing.
    #[must_use]
    pub fn single_operations(&self) -> &[Self] {
        match self {
            Self::Multi(ops) if ops.iter().any(Self::is_refusal) => &[],
            Self::Multi(ops) => ops,
            op => std::slice::from_ref(op),
        }
    }
}
