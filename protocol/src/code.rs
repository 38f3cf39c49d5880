//! Operation codes and error codes. They are newtypes over integers, so that unknown codes are kept
//! and can be printed.

use std::fmt;

use crate::id::integer_newtype;

/// Declares the named constants of a newtype over `i32`, and a `Debug` that prints the names.
macro_rules! codes {
    ($name:ident { $( $(#[$meta:meta])* $constant:ident = $code:literal, $text:literal; )+ }) => {
        impl $name {
            $( $(#[$meta])* pub const $constant: Self = Self($code); )+

            /// The name that ZooKeeper's documentation uses, or `None` for an unknown code.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $( $code => Some($text), )+
                    _ => None,
                }
            }

            /// The code with this name, as [`Self::name`] returns it, or `None` if no code has it.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $( $text => Some(Self::$constant), )+
                    _ => None,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "{}({})", stringify!($name), self.0),
                }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.name() {
                    Some(name) => write!(f, "{name}({})", self.0),
                    None => write!(f, "{}({})", stringify!($name), self.0),
                }
            }
        }

        integer_newtype!($name(i32));
    };
}
pub(crate) use codes;

/// The operation of a request: `ZooDefs.OpCode`.
///
/// ```
/// use zoolet_protocol::OpCode;
///
/// assert_eq!(OpCode::GET_DATA.to_string(), "getData");
/// assert_eq!(OpCode(99).to_string(), "OpCode(99)");
/// assert_eq!(OpCode::from_name("getData"), Some(OpCode::GET_DATA));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpCode(pub i32);

codes! { OpCode {
    /// No client sends it.
    NOTIFICATION = 0, "notification";
    /// Creates a znode and returns its path.
    CREATE = 1, "create";
    /// Deletes a znode without children.
    DELETE = 2, "delete";
    /// Returns the Stat of a znode if it exists.
    EXISTS = 3, "exists";
    /// Returns the data of a znode.
    GET_DATA = 4, "getData";
    /// Sets the data of a znode.
    SET_DATA = 5, "setData";
    /// Returns the access control list of a znode.
    GET_ACL = 6, "getACL";
    /// Sets the access control list of a znode.
    SET_ACL = 7, "setACL";
    /// Returns the names of a znode's children.
    GET_CHILDREN = 8, "getChildren";
    /// Waits until the server has applied all earlier writes.
    SYNC = 9, "sync";
    /// Keeps the session alive.
    PING = 11, "ping";
    /// Like [`OpCode::GET_CHILDREN`], and returns the parent's Stat too.
    GET_CHILDREN2 = 12, "getChildren2";
    /// Compares the version of a znode. Only within a multi.
    CHECK = 13, "check";
    /// Does several writes, all or none.
    MULTI = 14, "multi";
    /// Like [`OpCode::CREATE`], and returns the Stat too.
    CREATE2 = 15, "create2";
    /// Changes the members of an ensemble.
    RECONFIG = 16, "reconfig";
    /// Tells whether the connection has a watch.
    CHECK_WATCHES = 17, "checkWatches";
    /// Removes watches.
    REMOVE_WATCHES = 18, "removeWatches";
    /// Creates a container.
    CREATE_CONTAINER = 19, "createContainer";
    /// Deletes an empty container or TTL znode, on behalf of the server's sweeper.
    DELETE_CONTAINER = 20, "deleteContainer";
    /// Creates a znode with a time to live.
    CREATE_TTL = 21, "createTTL";
    /// Does several reads.
    MULTI_READ = 22, "multiRead";
    /// Adds an identity to the connection.
    AUTH = 100, "auth";
    /// Sets the watches of a client that has reconnected.
    SET_WATCHES = 101, "setWatches";
    /// Does one round of a SASL exchange.
    SASL = 102, "sasl";
    /// Returns the session's ephemerals below a path.
    GET_EPHEMERALS = 103, "getEphemerals";
    /// Returns the number of a znode's descendants.
    GET_ALL_CHILDREN_NUMBER = 104, "getAllChildrenNumber";
    /// Like [`OpCode::SET_WATCHES`], with persistent watches too.
    SET_WATCHES2 = 105, "setWatches2";
    /// Sets a persistent watch.
    ADD_WATCH = 106, "addWatch";
    /// Returns the identities of the connection.
    WHO_AM_I = 107, "whoAmI";
    /// Creates a session. Only in logs.
    CREATE_SESSION = -10, "createSession";
    /// Closes the session.
    CLOSE_SESSION = -11, "closeSession";
    /// A refused write, in logs and in the results of a multi. Also the end of a multi.
    ERROR = -1, "error";
} }

impl OpCode {
    /// Whether the operation creates a znode.
    #[must_use]
    pub fn is_create(self) -> bool {
        [Self::CREATE, Self::CREATE2, Self::CREATE_CONTAINER, Self::CREATE_TTL].contains(&self)
    }
}

/// The error of a request: `KeeperException.Code`.
///
/// ```
/// use zoolet_protocol::ErrorCode;
///
/// assert_eq!(ErrorCode::NO_NODE.to_string(), "NoNode");
/// assert_eq!(format!("{:?}", ErrorCode::NO_NODE), "NoNode(-101)");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorCode(pub i32);

codes! { ErrorCode {
    /// No error.
    OK = 0, "Ok";
    /// In a multi: an operation after the refused one.
    RUNTIME_INCONSISTENCY = -2, "RuntimeInconsistency";
    /// On the client's side: the connection was lost.
    CONNECTION_LOSS = -4, "ConnectionLoss";
    /// The server could not decode the request.
    MARSHALLING_ERROR = -5, "MarshallingError";
    /// The operation is unknown or disabled.
    UNIMPLEMENTED = -6, "Unimplemented";
    /// On the client's side: no reply in time.
    OPERATION_TIMEOUT = -7, "OperationTimeout";
    /// A path, flag or time to live is invalid.
    BAD_ARGUMENTS = -8, "BadArguments";
    /// The session is unknown.
    UNKNOWN_SESSION = -12, "UnknownSession";
    /// Only in ensembles.
    NEW_CONFIG_NO_QUORUM = -13, "NewConfigNoQuorum";
    /// Only in ensembles.
    RECONFIG_IN_PROGRESS = -14, "ReconfigInProgress";
    /// The znode, or for a create its parent, does not exist.
    NO_NODE = -101, "NoNode";
    /// The access control list does not permit it.
    NO_AUTH = -102, "NoAuth";
    /// The version is not the expected one.
    BAD_VERSION = -103, "BadVersion";
    /// The parent is an ephemeral, which can have no children.
    NO_CHILDREN_FOR_EPHEMERALS = -108, "NoChildrenForEphemerals";
    /// The znode exists already.
    NODE_EXISTS = -110, "NodeExists";
    /// The znode has children.
    NOT_EMPTY = -111, "NotEmpty";
    /// The session has expired or was closed.
    SESSION_EXPIRED = -112, "SessionExpired";
    /// On the client's side: a callback has the wrong type.
    INVALID_CALLBACK = -113, "InvalidCallback";
    /// The access control list is empty or contains an invalid identity.
    INVALID_ACL = -114, "InvalidACL";
    /// The credentials were refused.
    AUTH_FAILED = -115, "AuthFailed";
    /// Another server serves the session.
    SESSION_MOVED = -118, "SessionMoved";
    /// The server is read-only and refuses writes.
    NOT_READ_ONLY = -119, "NotReadOnly";
    /// Only in ensembles with local sessions.
    EPHEMERAL_ON_LOCAL_SESSION = -120, "EphemeralOnLocalSession";
    /// There is no such watch.
    NO_WATCHER = -121, "NoWatcher";
    /// On the client's side: the request took too long.
    REQUEST_TIMEOUT = -122, "RequestTimeout";
    /// Reconfiguration is disabled.
    RECONFIG_DISABLED = -123, "ReconfigDisabled";
    /// The client must authenticate before its first request.
    SESSION_CLOSED_REQUIRE_SASL_AUTH = -124, "SessionClosedRequireSaslAuth";
    /// The request would exceed a hard quota.
    QUOTA_EXCEEDED = -125, "QuotaExceeded";
    /// The server dropped the request because it had waited too long.
    THROTTLED_OP = -127, "ThrottledOp";
} }

impl ErrorCode {
    /// Whether this is [`ErrorCode::OK`].
    #[must_use]
    pub fn is_ok(self) -> bool {
        self == Self::OK
    }
}
