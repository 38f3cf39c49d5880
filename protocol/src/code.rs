//! Operation codes and error codes, as newtypes: a code that is not known is kept and printed.

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

            /// The code with that name, as [`Self::name`] gives it, or `None` if no known one has it.
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

/// The kind of a request: `ZooDefs.OpCode`.
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
    /// Never sent by a client.
    NOTIFICATION = 0, "notification";
    /// Creates a znode; the reply holds its path.
    CREATE = 1, "create";
    /// Deletes a znode without children.
    DELETE = 2, "delete";
    /// Asks for a znode's Stat, if it exists.
    EXISTS = 3, "exists";
    /// Asks for a znode's data.
    GET_DATA = 4, "getData";
    /// Replaces a znode's data.
    SET_DATA = 5, "setData";
    /// Asks for a znode's access control list.
    GET_ACL = 6, "getACL";
    /// Replaces a znode's access control list.
    SET_ACL = 7, "setACL";
    /// Asks for the names of a znode's children.
    GET_CHILDREN = 8, "getChildren";
    /// Waits until all earlier changes are visible here.
    SYNC = 9, "sync";
    /// Keeps a session alive.
    PING = 11, "ping";
    /// As [`OpCode::GET_CHILDREN`], with the parent's Stat.
    GET_CHILDREN2 = 12, "getChildren2";
    /// Compares a version; within a multi only.
    CHECK = 13, "check";
    /// Several writes, all or none.
    MULTI = 14, "multi";
    /// As [`OpCode::CREATE`], with the Stat.
    CREATE2 = 15, "create2";
    /// Changes an ensemble's members.
    RECONFIG = 16, "reconfig";
    /// Asks whether a watch is registered.
    CHECK_WATCHES = 17, "checkWatches";
    /// Takes watches back.
    REMOVE_WATCHES = 18, "removeWatches";
    /// Creates a container.
    CREATE_CONTAINER = 19, "createContainer";
    /// Deletes an empty container or TTL znode; sent by the server's own sweeper.
    DELETE_CONTAINER = 20, "deleteContainer";
    /// Creates a znode with a time to live.
    CREATE_TTL = 21, "createTTL";
    /// Several reads in one request.
    MULTI_READ = 22, "multiRead";
    /// Adds an identity to a connection.
    AUTH = 100, "auth";
    /// Registers a reconnecting client's watches again.
    SET_WATCHES = 101, "setWatches";
    /// One round of a SASL exchange.
    SASL = 102, "sasl";
    /// Asks for the session's ephemerals below a path.
    GET_EPHEMERALS = 103, "getEphemerals";
    /// Asks for the number of a znode's descendants.
    GET_ALL_CHILDREN_NUMBER = 104, "getAllChildrenNumber";
    /// As [`OpCode::SET_WATCHES`], with persistent watches.
    SET_WATCHES2 = 105, "setWatches2";
    /// Registers a persistent watch.
    ADD_WATCH = 106, "addWatch";
    /// Asks for a connection's identities.
    WHO_AM_I = 107, "whoAmI";
    /// In logs: a session's begin.
    CREATE_SESSION = -10, "createSession";
    /// Ends a session.
    CLOSE_SESSION = -11, "closeSession";
    /// In logs and multi results: a refusal; ends the list of a multi.
    ERROR = -1, "error";
} }

/// What became of a request: `KeeperException.Code`.
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
    /// It was done.
    OK = 0, "Ok";
    /// In a multi: the operations after the one that was refused.
    RUNTIME_INCONSISTENCY = -2, "RuntimeInconsistency";
    /// Client side: the connection went away.
    CONNECTION_LOSS = -4, "ConnectionLoss";
    /// The request could not be understood.
    MARSHALLING_ERROR = -5, "MarshallingError";
    /// The operation is unknown or switched off.
    UNIMPLEMENTED = -6, "Unimplemented";
    /// Client side: no answer in time.
    OPERATION_TIMEOUT = -7, "OperationTimeout";
    /// A path, flag or time to live that is not legal.
    BAD_ARGUMENTS = -8, "BadArguments";
    /// The session is not known.
    UNKNOWN_SESSION = -12, "UnknownSession";
    /// Ensembles only.
    NEW_CONFIG_NO_QUORUM = -13, "NewConfigNoQuorum";
    /// Ensembles only.
    RECONFIG_IN_PROGRESS = -14, "ReconfigInProgress";
    /// The znode, or for a create its parent, does not exist.
    NO_NODE = -101, "NoNode";
    /// No permission.
    NO_AUTH = -102, "NoAuth";
    /// The version is not the expected one.
    BAD_VERSION = -103, "BadVersion";
    /// The parent is an ephemeral.
    NO_CHILDREN_FOR_EPHEMERALS = -108, "NoChildrenForEphemerals";
    /// The znode exists.
    NODE_EXISTS = -110, "NodeExists";
    /// The znode has children.
    NOT_EMPTY = -111, "NotEmpty";
    /// The session is over.
    SESSION_EXPIRED = -112, "SessionExpired";
    /// Client side: a callback of the wrong type.
    INVALID_CALLBACK = -113, "InvalidCallback";
    /// The access control list is empty or names an identity that cannot be.
    INVALID_ACL = -114, "InvalidACL";
    /// The credentials were refused.
    AUTH_FAILED = -115, "AuthFailed";
    /// The session is served by another server.
    SESSION_MOVED = -118, "SessionMoved";
    /// A write was sent to a read-only server.
    NOT_READ_ONLY = -119, "NotReadOnly";
    /// Local sessions only.
    EPHEMERAL_ON_LOCAL_SESSION = -120, "EphemeralOnLocalSession";
    /// No such watch.
    NO_WATCHER = -121, "NoWatcher";
    /// Client side: the request took too long.
    REQUEST_TIMEOUT = -122, "RequestTimeout";
    /// Reconfiguration is switched off.
    RECONFIG_DISABLED = -123, "ReconfigDisabled";
    /// The session must authenticate before anything else.
    SESSION_CLOSED_REQUIRE_SASL_AUTH = -124, "SessionClosedRequireSaslAuth";
    /// A hard quota would be exceeded.
    QUOTA_EXCEEDED = -125, "QuotaExceeded";
    /// The request waited too long and was not carried out.
    THROTTLED_OP = -127, "ThrottledOp";
} }

impl ErrorCode {
    /// Whether the request was carried out.
    #[must_use]
    pub fn is_ok(self) -> bool {
        self == Self::OK
    }
}
