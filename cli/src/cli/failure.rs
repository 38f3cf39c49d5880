//! Failures of commands, with messages that tell the cure.

use std::io;

use serde_json::{Value, json};
use zoolet_client::{ConnectError, Error};
use zoolet_protocol::{ErrorCode, OpCode};

use super::word::WordFailure;
use crate::connect_options::{SecurityError, TlsFailure};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The words are not a command.
    #[error("{0}")]
    Usage(String),
    /// A help text, which is not a failure.
    #[error("{0}")]
    Help(String),
    #[error("a quote is not closed: ' and \" come in pairs, and \\' stands for one by itself")]
    Quote,
    #[error("{}", plain(.0))]
    Client(#[from] Error),
    /// The write of long data.
    #[error(
        "{}; perhaps the data, of {bytes} bytes, is longer than the server's jute.maxbuffer",
        plain(error)
    )]
    LongData { bytes: usize, error: Error },
    #[error(
        "the server refuses the SASL user {user:?}: is the name or the password (--sasl-user, \
         --sasl-password-file) wrong?"
    )]
    SaslUser { user: String },
    #[error("nothing was done, because of operation {} of the multi: {}", index + 1, plain(error))]
    Multi { index: usize, error: Error },
    #[error("the root is there to stay; name one of its children")]
    Root,
    #[error(transparent)]
    Word(#[from] WordFailure),
    #[error(
        "no server at {server} could be connected to ({cause}){cure}",
        cure = no_server_cure(cause)
    )]
    NoServer { server: String, cause: ConnectError },
    /// A file of the TLS options cannot be used.
    #[error(transparent)]
    Security(#[from] SecurityError),
    #[error("Not connected; `connect` opens a session")]
    NotConnected,
    #[error("No such watcher for {path}; this shell has no {what} there")]
    NoWatcher { path: String, what: &'static str },
    #[error(
        "{} may not be read, so what is below is left out; `addauth` says who you are",
        some(paths)
    )]
    Unreadable { paths: Vec<String> },
    #[error("the access control list of {} is as it was: {}", some(paths), plain(error))]
    AclKept { paths: Vec<String>, error: Error },
    #[error("{0}")]
    NoQuota(String),
    #[error("{0}")]
    Quota(String),
    #[error("the input cannot be read: {0}")]
    Input(io::Error),
    #[error("{file} cannot be read: {error}")]
    File { file: String, error: io::Error },
    #[error("interrupted")]
    Interrupted,
    /// The reader of stdout is gone.
    #[error("the output cannot be written: {0}")]
    Output(#[from] io::Error),
}

impl From<TlsFailure> for Failure {
    fn from(error: TlsFailure) -> Self {
        Self::Security(error.into())
    }
}

impl Failure {
    /// The failure of a write of so many bytes of data. A server ends the connection at a request that is
    /// too long for it.
    pub(super) fn of_write(error: Error, bytes: usize) -> Self {
        match error {
            Error::ConnectionLoss { .. } if bytes >= LONG_DATA_BYTES => {
                Self::LongData { bytes, error }
            }
            error => Self::Client(error),
        }
    }

    /// Whether no later command can succeed either.
    pub(super) fn is_last(&self) -> bool {
        matches!(self, Self::Interrupted | Self::Input(_) | Self::Output(_))
    }

    /// Whether there was no server that answered.
    pub(super) fn is_silence(&self) -> bool {
        match self {
            Self::NoServer { .. } => true,
            Self::Word(failure) => {
                matches!(failure, WordFailure::Unreachable(_) | WordFailure::TimedOut { .. })
            }
            _ => false,
        }
    }

    /// The failure as the value of `error`.
    pub(super) fn to_json(&self) -> Value {
        let mut json = json!({ "code": self.code(), "message": self.to_string() });
        let (error, index) = match self {
            Self::Client(error) | Self::LongData { error, .. } => (error, error.operation_index()),
            Self::Multi { index, error } => (error, Some(*index)),
            Self::AclKept { paths, error } => {
                json["paths"] = json!(paths);
                (error, None)
            }
            Self::Unreadable { paths } => {
                json["paths"] = json!(paths);
                return json;
            }
            _ => return json,
        };
        if let Error::Refused { op, path, code, .. } = error {
            json["number"] = code.0.into();
            json["operation"] = op.to_string().into();
            json["path"] = path.as_str().into();
        }
        if let Error::ConnectionLoss { op, path } | Error::NotSent { op, path } = error {
            json["operation"] = op.to_string().into();
            json["path"] = path.as_str().into();
        }
        if let Some(index) = index {
            json["index"] = index.into();
        }
        json
    }

    /// The name of the failure: ZooKeeper's where it has one.
    fn code(&self) -> String {
        let name = match self {
            Self::Client(error)
            | Self::LongData { error, .. }
            | Self::Multi { error, .. }
            | Self::AclKept { error, .. } => return code(error),
            Self::SaslUser { .. } => return code(&Error::AuthFailed),
            Self::Usage(_) | Self::Quote | Self::Root | Self::Help(_) => "Usage",
            Self::Word(failure) => match failure {
                WordFailure::NotWhitelisted { .. } => "NotWhitelisted",
                WordFailure::NotServing { .. } | WordFailure::NotOk { .. } => "NotServing",
                WordFailure::NoAnswer { .. } => "NoAnswer",
                WordFailure::TooLong { .. } => "TooLong",
                WordFailure::Unreachable(_) => "Unreachable",
                WordFailure::TimedOut { .. } => "TimedOut",
            },
            Self::NoServer { .. } => "Unreachable",
            Self::Security(_) => "Security",
            Self::NotConnected => "NotConnected",
            Self::NoWatcher { .. } => "NoWatcher",
            Self::Unreadable { .. } => "NoAuth",
            Self::NoQuota(_) => "NoQuota",
            Self::Quota(_) => "BadQuota",
            Self::Input(_) | Self::Output(_) | Self::File { .. } => "InputOutput",
            Self::Interrupted => "Interrupted",
        };
        name.to_owned()
    }
}

/// The name of an error of the client, as `KeeperException.Code` has it where there is such a code.
fn code(error: &Error) -> String {
    let name = match error {
        Error::Refused { code, .. } => return code.to_string(),
        Error::ConnectionLoss { .. } => "ConnectionLoss",
        Error::NotSent { .. } => "NotSent",
        Error::SessionExpired => "SessionExpired",
        Error::Closed => "Closed",
        Error::Path(_) => "BadPath",
        Error::Hosts(_) => "BadServer",
        Error::Unreachable(_) => "Unreachable",
        Error::AuthFailed => "AuthFailed",
        Error::Protocol(_) => "Protocol",
        Error::TooLong { .. } => "TooLong",
        _ => "Other",
    };
    name.to_owned()
}

/// What to do where nobody has answered. Other causes contain their cure.
fn no_server_cure(cause: &ConnectError) -> &'static str {
    match cause {
        ConnectError::Refused(_) | ConnectError::NoSuchHost(_) | ConnectError::TimedOut(_) => {
            "; is one running there? --server, ZOOLET_SERVER or a first word HOST:PORT names another"
        }
        ConnectError::Closed(_) => "; `zoolet serve --max-client-cnxns 0` sets no such limit",
        _ => "",
    }
}

/// From this length on, data is perhaps too long for a server: the default of `jute.maxbuffer` is a MiB,
/// and nobody sets it to much less than this.
const LONG_DATA_BYTES: usize = 64 << 10;

/// How many paths a message names.
const PATHS_SHOWN_MAX: usize = 5;

fn some(paths: &[String]) -> String {
    match paths.len().checked_sub(PATHS_SHOWN_MAX) {
        None | Some(0) => paths.join(", "),
        Some(more) => format!("{} and {more} more", paths[..PATHS_SHOWN_MAX].join(", ")),
    }
}

fn plain(error: &Error) -> String {
    match error {
        Error::Refused { op, path, code, .. } => refused(*op, path, *code),
        Error::ConnectionLoss { op, path } => format!(
            "{op} {path}: the connection was lost before the answer came. It may have been done or \
             not: look before you try again"
        ),
        Error::NotSent { .. } => {
            "there is no connection to a server, and nothing was done; it is being looked for, so \
             try again"
                .to_owned()
        }
        Error::SessionExpired => {
            "the session is over, and with it its ephemerals and watches; the next \
                        command is in a new one"
                .to_owned()
        }
        Error::Closed => "the connection is closed; `connect` opens another".to_owned(),
        Error::AuthFailed => "the server refuses these credentials, or does not know the scheme, \
                              and has closed the connection; `connect` opens another"
            .to_owned(),
        other => other.to_string(),
    }
}

/// The words of `zkCli.sh`, where it has words of its own for the code, and the cure.
fn refused(op: OpCode, path: &str, code: ErrorCode) -> String {
    match code {
        ErrorCode::NO_NODE if op.is_create() => match parent(path) {
            "/" => format!(
                "Node does not exist: {path}; neither does the znode of the chroot, below which all \
                 paths are; create it from a shell without a chroot"
            ),
            parent => format!(
                "Node does not exist: {path}; its parent {parent} is missing; `create -p` makes it too"
            ),
        },
        ErrorCode::NO_NODE => {
            format!("Node does not exist: {path}; `ls` shows what there is, `create` makes one")
        }
        ErrorCode::NODE_EXISTS => format!(
            "Node already exists: {path}; `set` replaces its data, `create -s` adds a number"
        ),
        ErrorCode::NOT_EMPTY => {
            format!("Node not empty: {path}; `deleteall {path}` deletes its children too")
        }
        ErrorCode::BAD_VERSION => format!(
            "version No is not valid : {path}; somebody has changed it, and `stat {path}` shows its \
             version"
        ),
        ErrorCode::NO_AUTH if op == OpCode::GET_ACL => format!(
            "Insufficient permission : {path}; neither read nor admin is allowed; `addauth` says who \
             you are"
        ),
        ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH => format!(
            "the server answers {code} to {op}: it wants a client that authenticates: --sasl-user, or \
             --tls-cert"
        ),
        ErrorCode::NO_AUTH => format!(
            "Insufficient permission : {path}; `getAcl {path}` shows who may do what, `addauth` says \
             who you are"
        ),
        ErrorCode::INVALID_ACL => format!(
            "Acl is not valid : {path}; is the scheme one of the server's, and for `auth` an identity \
             added by `addauth`?"
        ),
        ErrorCode::NO_CHILDREN_FOR_EPHEMERALS => format!(
            "Ephemerals cannot have children: {path}; its parent {} is ephemeral",
            parent(path)
        ),
        ErrorCode::QUOTA_EXCEEDED => {
            format!("Quota has exceeded : {path}; `listquota` of a path above it shows the limits")
        }
        ErrorCode::NOT_READ_ONLY => {
            format!("Not a read-only call: {path}; the server is cut off from its ensemble")
        }
        ErrorCode::UNIMPLEMENTED => {
            format!(
                "Unimplemented for {path}; the server does not know {op}, or has it switched off"
            )
        }
        ErrorCode::BAD_ARGUMENTS if path == "/zookeeper" || path.starts_with("/zookeeper/") => {
            format!(
                "Arguments are not valid : {path}; /zookeeper and its quotas are the server's own"
            )
        }
        ErrorCode::BAD_ARGUMENTS => {
            format!("Arguments are not valid : {path}; the server does not take them for {op}")
        }
        ErrorCode::RECONFIG_DISABLED => {
            "Reconfig is disabled; the server allows it with reconfigEnabled=true".to_owned()
        }
        ErrorCode::RECONFIG_IN_PROGRESS => {
            "Another reconfiguration is in progress; try again when it has ended".to_owned()
        }
        ErrorCode::NEW_CONFIG_NO_QUORUM => {
            "No quorum of new config is connected and up-to-date with \
            the leader of last committed config; try again when the new servers are connected and \
            synced"
                .to_owned()
        }
        code if path.is_empty() => format!("{op}: the server answers {code}"),
        code => format!("{op} {path}: the server answers {code}"),
    }
}

fn parent(path: &str) -> &str {
    match path.rfind('/') {
        None | Some(0) => "/",
        Some(slash) => &path[..slash],
    }
}
