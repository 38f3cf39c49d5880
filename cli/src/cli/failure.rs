//! Failures of commands, with messages that tell the cure.

use std::io;

use zoolet_client::Error;
use zoolet_protocol::{ErrorCode, OpCode};

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
    #[error("nothing was done, because of operation {} of the multi: {}", index + 1, plain(error))]
    Multi { index: usize, error: Error },
    #[error("the root is there to stay; name one of its children")]
    Root,
    #[error("interrupted")]
    Interrupted,
    #[error("the input cannot be read: {0}")]
    Input(io::Error),
    /// The reader of stdout is gone.
    #[error("the output cannot be written: {0}")]
    Output(#[from] io::Error),
}

impl Failure {
    /// Whether no later command can succeed either.
    pub(super) fn is_last(&self) -> bool {
        matches!(self, Self::Interrupted | Self::Input(_) | Self::Output(_))
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
        Error::Closed => "the connection is closed; start `zoolet cli` anew".to_owned(),
        Error::AuthFailed => "the server refuses these credentials, or does not know the scheme, \
                              and has closed the connection; start `zoolet cli` anew"
            .to_owned(),
        other => other.to_string(),
    }
}

fn refused(op: OpCode, path: &str, code: ErrorCode) -> String {
    let is_create = [OpCode::CREATE, OpCode::CREATE2, OpCode::CREATE_CONTAINER, OpCode::CREATE_TTL]
        .contains(&op);
    match code {
        ErrorCode::NO_NODE if is_create => {
            format!("{path}: the znode above is missing; `create -p` makes it too")
        }
        ErrorCode::NO_NODE => {
            format!("there is no znode {path}; `ls` shows what there is, `create` makes one")
        }
        ErrorCode::NODE_EXISTS => {
            format!("{path} is there already; `set` replaces its data, `create -s` adds a number")
        }
        ErrorCode::NOT_EMPTY => {
            format!("{path} has children; `deleteall {path}` deletes them too")
        }
        ErrorCode::BAD_VERSION => format!(
            "{path} has another version, because somebody has changed it; `stat {path}` shows which"
        ),
        ErrorCode::NO_AUTH => format!(
            "{path}: the access control list does not allow it; `getAcl {path}` shows it, \
             `addauth` says who you are"
        ),
        ErrorCode::INVALID_ACL => format!(
            "{path}: the server does not take this access control list; is the scheme one of its \
             own, and for `auth` an identity added by `addauth`?"
        ),
        ErrorCode::NO_CHILDREN_FOR_EPHEMERALS => {
            format!("{path}: the znode above is ephemeral, and such have no children")
        }
        ErrorCode::QUOTA_EXCEEDED => format!("{path}: a quota above it does not allow more"),
        ErrorCode::UNIMPLEMENTED => {
            format!("{op} {path}: the server does not know this, or has it switched off")
        }
        ErrorCode::BAD_ARGUMENTS if path == "/zookeeper" || path.starts_with("/zookeeper/") => {
            format!(
                "{op} {path}: the server does not take these arguments; /zookeeper and its quotas \
                 are the server's own"
            )
        }
        ErrorCode::BAD_ARGUMENTS => {
            format!("{op} {path}: the server does not take these arguments")
        }
        code => format!("{op} {path}: the server answers {code}"),
    }
}
