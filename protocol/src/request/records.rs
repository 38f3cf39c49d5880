//! The bodies of the single operations.

use std::fmt;

use bytes::{Bytes, BytesMut};
use bytestring::ByteString;

use crate::acl::Acl;
use crate::code::OpCode;
use crate::id::{Expect, Zxid, integer_newtype};
use crate::jute::{Decode, Encode, Parsed, within};
use crate::names::Names;
use crate::path::RawPath;
use crate::record;
use crate::watch::{WatchMode, WatcherType};

use super::CreateMode;

/// The four operations that create a znode.
///
/// ```
/// use zoolet_protocol::{CreateKind, OpCode};
///
/// assert_eq!(CreateKind::Ttl { ttl_ms: 1 }.op_code(), OpCode::CREATE_TTL);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CreateKind {
    /// `create`: the reply is the path.
    Create,
    /// `create2`: the reply is the path and the Stat.
    Create2,
    /// `createContainer`: the reply is the path and the Stat.
    Container,
    /// `createTTL`: the reply is the path and the Stat.
    Ttl {
        /// The time to live after the data was last set, in milliseconds.
        ttl_ms: i64,
    },
}

impl CreateKind {
    /// The code of the operation.
    #[must_use]
    pub fn op_code(self) -> OpCode {
        match self {
            Self::Create => OpCode::CREATE,
            Self::Create2 => OpCode::CREATE2,
            Self::Container => OpCode::CREATE_CONTAINER,
            Self::Ttl { .. } => OpCode::CREATE_TTL,
        }
    }

    /// The operation with this code. Its time to live is 0, since it follows in the body.
    pub(crate) fn from_op_code(op: OpCode) -> Option<Self> {
        match op {
            OpCode::CREATE => Some(Self::Create),
            OpCode::CREATE2 => Some(Self::Create2),
            OpCode::CREATE_CONTAINER => Some(Self::Container),
            OpCode::CREATE_TTL => Some(Self::Ttl { ttl_ms: 0 }),
            _ => None,
        }
    }
}

/// The flags of a create: ZooKeeper's `CreateMode` as a number. The operation code tells whether
/// the znode is a container or a TTL znode; the flags tell whether it is ephemeral or sequential.
///
/// ```
/// use zoolet_protocol::CreateFlags;
///
/// assert!(CreateFlags::EPHEMERAL_SEQUENTIAL.is_ephemeral());
/// assert!(!CreateFlags(7).is_known());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CreateFlags(pub i32);

impl CreateFlags {
    /// The znode exists until a client deletes it.
    pub const PERSISTENT: Self = Self(0);
    /// The server deletes the znode when the session ends.
    pub const EPHEMERAL: Self = Self(1);
    /// Persistent, and the server appends a number to the name.
    pub const PERSISTENT_SEQUENTIAL: Self = Self(2);
    /// Ephemeral, and the server appends a number to the name.
    pub const EPHEMERAL_SEQUENTIAL: Self = Self(3);
    /// The server deletes the znode some time after its last child was deleted.
    pub const CONTAINER: Self = Self(4);
    /// The server deletes the znode when its data was not set for its time to live and it has no
    /// children.
    pub const PERSISTENT_WITH_TTL: Self = Self(5);
    /// With a time to live, and the server appends a number to the name.
    pub const PERSISTENT_SEQUENTIAL_WITH_TTL: Self = Self(6);

    /// Whether these are the flags of one of ZooKeeper's modes.
    #[must_use]
    pub fn is_known(self) -> bool {
        (0..=6).contains(&self.0)
    }

    /// Whether the znode is ephemeral.
    #[must_use]
    pub fn is_ephemeral(self) -> bool {
        matches!(self, Self::EPHEMERAL | Self::EPHEMERAL_SEQUENTIAL)
    }

    /// Whether the server appends a number to the name.
    #[must_use]
    pub fn is_sequential(self) -> bool {
        matches!(
            self,
            Self::PERSISTENT_SEQUENTIAL
                | Self::EPHEMERAL_SEQUENTIAL
                | Self::PERSISTENT_SEQUENTIAL_WITH_TTL
        )
    }

    /// Whether the znode has a time to live.
    #[must_use]
    pub fn has_ttl(self) -> bool {
        matches!(self, Self::PERSISTENT_WITH_TTL | Self::PERSISTENT_SEQUENTIAL_WITH_TTL)
    }
}

integer_newtype!(CreateFlags(i32));

/// The body of the four operations that create a znode.
///
/// ```
/// use zoolet_protocol::{Acl, Create, CreateFlags, CreateKind};
///
/// let create = Create {
///     kind: CreateKind::Create2,
///     path: "/lock-".into(),
///     data: None,
///     acl: Some(vec![Acl::open()]),
///     flags: CreateFlags::EPHEMERAL_SEQUENTIAL,
/// };
/// assert!(create.flags.is_sequential());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Create {
    /// The operation.
    pub kind: CreateKind,
    /// The path, without the number that a sequential znode gets.
    pub path: RawPath,
    /// The data; `None` for null.
    pub data: Option<Bytes>,
    /// The access control list; ZooKeeper refuses a null or empty one.
    pub acl: Option<Vec<Acl>>,
    /// The mode.
    pub flags: CreateFlags,
}

impl Create {
    /// The body of the create of a mode: with empty data, open to everyone. What the mode needs,
    /// the operation code and the flags, cannot contradict each other here.
    ///
    /// ```
    /// use zoolet_protocol::{Acl, Create, CreateKind, CreateMode, MultiOp};
    ///
    /// let create = Create::new("/job-", CreateMode::PersistentSequential).data("build");
    /// assert_eq!(create.kind, CreateKind::Create2);
    /// let op = MultiOp::from(create.acl(vec![Acl::read_only()]));
    /// assert_eq!(op.path().text(), Some("/job-"));
    /// ```
    pub fn new(path: impl Into<RawPath>, mode: CreateMode) -> Self {
        // `create2` answers with the Stat, as the creates of the other kinds do.
        let kind = match mode.kind() {
            CreateKind::Create => CreateKind::Create2,
            kind => kind,
        };
        let (data, acl) = (Some(Bytes::new()), Some(vec![Acl::open()]));
        Self { kind, path: path.into(), data, acl, flags: mode.flags() }
    }

    /// The same with this data.
    #[must_use]
    pub fn data(mut self, data: impl Into<Bytes>) -> Self {
        self.data = Some(data.into());
        self
    }

    /// The same with this access control list.
    #[must_use]
    pub fn acl(mut self, acl: Vec<Acl>) -> Self {
        self.acl = Some(acl);
        self
    }

    /// Decodes the body of the operation `kind`.
    pub(crate) fn decode_as<'a>(
        kind: CreateKind,
        frame: &Bytes,
        input: &'a [u8],
    ) -> Parsed<'a, Self> {
        let fields = |input| {
            let (input, path) = RawPath::decode(frame, input)?;
            let (input, data) = Option::<Bytes>::decode(frame, input)?;
            let (input, acl) = Option::<Vec<Acl>>::decode(frame, input)?;
            let (input, flags) = CreateFlags::decode(frame, input)?;
            let (input, kind) = match kind {
                CreateKind::Ttl { .. } => {
                    let (input, ttl_ms) = i64::decode(frame, input)?;
                    (input, CreateKind::Ttl { ttl_ms })
                }
                kind => (input, kind),
            };
            Ok((input, Self { kind, path, data, acl, flags }))
        };
        within("CreateRequest", fields(input))
    }
}

impl Encode for Create {
    fn encode(&self, out: &mut BytesMut) {
        self.path.encode(out);
        self.data.encode(out);
        self.acl.encode(out);
        self.flags.encode(out);
        if let CreateKind::Ttl { ttl_ms } = self.kind {
            ttl_ms.encode(out);
        }
    }

    fn encoded_len(&self) -> usize {
        let ttl_bytes = if let CreateKind::Ttl { .. } = self.kind { 8 } else { 0 };
        self.path.encoded_len() + self.data.encoded_len() + self.acl.encoded_len() + 4 + ttl_bytes
    }
}

record! {
    /// The body of `delete`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Delete {
        /// The path of the znode.
        pub path: RawPath,
        /// The expected version of the data.
        pub version: Expect,
    }
}

record! {
    /// The body of `setData`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SetData {
        /// The path of the znode.
        pub path: RawPath,
        /// The new data; `None` for null.
        pub data: Option<Bytes>,
        /// The expected version of the data.
        pub version: Expect,
    }
}

record! {
    /// The body of `check`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Check {
        /// The path of the znode.
        pub path: RawPath,
        /// The expected version of the data.
        pub version: Expect,
    }
}

record! {
    /// The body of `setACL`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SetAcl {
        /// The path of the znode.
        pub path: RawPath,
        /// The new list.
        pub acl: Option<Vec<Acl>>,
        /// The expected version of the list.
        pub version: Expect,
    }
}

record! {
    /// The body of `reconfig`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Reconfig {
        /// The members to add.
        pub joining: Option<ByteString>,
        /// The members to remove.
        pub leaving: Option<ByteString>,
        /// The complete new list of members.
        pub new_members: Option<ByteString>,
        /// The version of the configuration to change; -1 for any.
        pub current_config: i64,
    }
}

record! {
    /// The body of `addWatch`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct AddWatch {
        /// The path. There need not be a znode.
        pub path: RawPath,
        /// Persistent or recursive.
        pub mode: WatchMode,
    }
}

record! {
    /// The body of `removeWatches`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RemoveWatches {
        /// The path.
        pub path: RawPath,
        /// The type of the watches.
        pub watcher_type: WatcherType,
    }
}

record! {
    /// The body of `checkWatches`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CheckWatches {
        /// The path.
        pub path: RawPath,
        /// The type of the watches.
        pub watcher_type: WatcherType,
    }
}

record! {
    /// The body of `setWatches2`. The body of `setWatches` has the first four fields only, without
    /// persistent watches.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SetWatches {
        /// The last zxid that the client received. The server reports later changes at once.
        pub relative_zxid: Zxid,
        /// Paths with data watches.
        pub data: Names,
        /// Paths with watches of `exists` where there was no znode.
        pub exist: Names,
        /// Paths with child watches.
        pub child: Names,
        /// Paths with persistent watches.
        pub persistent: Names,
        /// Paths with persistent recursive watches.
        pub persistent_recursive: Names,
    }
}

impl SetWatches {
    pub(super) fn decode_short<'a>(frame: &Bytes, input: &'a [u8]) -> Parsed<'a, Self> {
        let fields = |input| {
            let (input, relative_zxid) = Zxid::decode(frame, input)?;
            let (input, data) = Names::decode(frame, input)?;
            let (input, exist) = Names::decode(frame, input)?;
            let (input, child) = Names::decode(frame, input)?;
            let persistent = Names::EMPTY;
            let persistent_recursive = Names::EMPTY;
            let lists =
                Self { relative_zxid, data, exist, child, persistent, persistent_recursive };
            Ok((input, lists))
        };
        within("SetWatches", fields(input))
    }

    pub(super) fn encode_short(&self, out: &mut BytesMut) {
        self.relative_zxid.encode(out);
        self.data.encode(out);
        self.exist.encode(out);
        self.child.encode(out);
    }

    pub(super) fn short_len(&self) -> usize {
        8 + self.data.encoded_len() + self.exist.encoded_len() + self.child.encoded_len()
    }
}

record! {
    /// The body of `auth`.
    #[derive(Clone, PartialEq, Eq)]
    pub struct Auth {
        /// ZooKeeper ignores this field.
        pub auth_type: i32,
        /// The scheme, for example `digest`.
        pub scheme: Option<ByteString>,
        /// The credentials, in the format of the scheme.
        pub auth: Option<Bytes>,
    }
}

impl fmt::Debug for Auth {
    /// Shows the scheme without the credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}
