//! Which lines a write makes (`AuditHelper`).

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use zoolet_core::{Identities, Requester, Txn, TxnOp};
use zoolet_protocol::{
    Create, CreateFlags, CreateKind, MultiOp, OpCode, RawPath, SessionId, Write, ZPath,
};

use super::line::{Line, Outcome, User};
use super::writer::Writer;
use super::{AuditError, AuditLog};
use crate::engine::registry::Peer;

/// What a client asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Asked<'a> {
    Write(&'a Write),
    /// A request that could not be decoded, or that is refused without a look at it.
    Refused(OpCode),
}

/// Who has asked for a command of the admin server.
#[derive(Debug, Clone)]
pub(crate) struct Administrator {
    pub(crate) identities: Identities,
    pub(crate) address: IpAddr,
}

/// The audit log of a server.
#[derive(Debug)]
pub(crate) struct Audit {
    writer: Writer,
    /// The user that runs the server.
    server_user: String,
    has_stopped: AtomicBool,
}

impl Audit {
    /// # Errors
    ///
    /// [`AuditError`] if the file cannot be opened.
    pub(crate) fn start(log: &AuditLog) -> Result<Self, AuditError> {
        let error = |source| AuditError { log: log.clone(), source };
        let writer = Writer::start(log).map_err(error)?;
        let server_user = whoami::username().unwrap_or_default();
        Ok(Self { writer, server_user, has_stopped: AtomicBool::new(false) })
    }

    /// The server starts.
    pub(crate) fn server_started(&self, outcome: Outcome, time_ms: i64) {
        self.put_server("serverStart", outcome, time_ms);
    }

    /// The server is about to stop.
    pub(crate) fn server_stops(&self, time_ms: i64) {
        if !self.has_stopped.swap(true, Ordering::Relaxed) {
            self.put_server("serverStop", Outcome::Invoked, time_ms);
        }
    }

    /// The whole state was replaced by a snapshot, or was to be. ZooKeeper has no line for this.
    pub(crate) fn restored(
        &self,
        administrator: Option<&Administrator>,
        outcome: Outcome,
        time_ms: i64,
    ) {
        let server = self.of_server();
        let user =
            administrator.map_or(server.user, |it| User::Client(&it.identities, Some(it.address)));
        let line = Line { user, operation: "restore", znode: Some("/"), outcome, ..server };
        self.writer.put(&line, time_ms);
    }

    fn put_server(&self, operation: &'static str, outcome: Outcome, time_ms: i64) {
        let line = Line { operation, outcome, ..self.of_server() };
        self.writer.put(&line, time_ms);
    }

    fn of_server(&self) -> Line<'_> {
        Line {
            session: None,
            user: User::Server(&self.server_user),
            operation: "",
            znode: None,
            znode_type: None,
            acl: None,
            outcome: Outcome::Success,
        }
    }

    /// A session ends, and these ephemerals of it are deleted.
    pub(crate) fn session_ended<'a>(
        &self,
        session: SessionId,
        paths: impl Iterator<Item = &'a ZPath>,
        time_ms: i64,
    ) {
        let line = |path: &'a ZPath| Line {
            session: Some(session),
            operation: "ephemeralZNodeDeletionOnSessionCloseOrExpire",
            znode: Some(path),
            ..self.of_server()
        };
        self.writer.put_all(paths.map(line), time_ms);
    }

    /// A client's write was carried out or refused, as `txn` says.
    pub(crate) fn decided(&self, peer: &Peer, requester: &Requester, asked: Asked<'_>, txn: &Txn) {
        let outcome = if txn.op.is_refusal() { Outcome::Failure } else { Outcome::Success };
        let line = Line {
            session: Some(requester.session),
            user: User::Client(&requester.identities, peer.address.map(|address| address.ip())),
            outcome,
            ..self.of_server()
        };
        let put = |line: Line<'_>| self.writer.put(&line, txn.time_ms);
        let write = match asked {
            Asked::Write(write) => write,
            Asked::Refused(op) => {
                if let Some(operation) = refused(op) {
                    put(Line { operation, outcome: Outcome::Failure, ..line });
                }
                return;
            }
        };
        match (write, &txn.op) {
            (Write::Multi(ops), TxnOp::Multi(decided)) => {
                if decided.iter().any(TxnOp::is_refusal) {
                    put(Line { operation: "multiOperation", outcome: Outcome::Failure, ..line });
                    return;
                }
                for (op, decided) in ops.iter().zip(decided) {
                    if let Some(line) = of_op(op, decided, line) {
                        put(Line { znode_type: type_in_multi(op, decided), ..line });
                    }
                }
            }
            (Write::Multi(_), _) => put(Line { operation: "multiOperation", ..line }),
            (Write::Op(op), decided) => of_op(op, decided, line).into_iter().for_each(put),
            (Write::SetAcl(set_acl), _) => put(Line {
                operation: "setAcl",
                znode: set_acl.path.text(),
                acl: Some(set_acl.acl.as_deref().unwrap_or_default()),
                ..line
            }),
            (Write::DeleteContainer(path), _) => {
                put(Line { operation: "delete", znode: path.text(), ..line });
            }
            (Write::Reconfig(_), _) => put(Line { operation: "reconfig", ..line }),
            (Write::CloseSession, _) => {}
        }
    }

    /// Whether so much waits to be written that no further request should be read.
    pub(crate) fn is_behind(&self) -> bool {
        self.writer.is_behind()
    }

    /// Waits until it is no longer behind.
    pub(crate) async fn caught_up(&self) {
        self.writer.caught_up().await;
    }

    /// Waits until all lines are written. Later ones are lost.
    pub(crate) fn close(&self) {
        self.writer.close();
    }

    /// The lines that were written, and those that were lost.
    pub(crate) fn counts(&self) -> (u64, u64) {
        self.writer.counts()
    }
}

/// The line of an operation that stands alone or in a multi; `None` for a check, which changes
/// nothing.
fn of_op<'a>(op: &'a MultiOp, decided: &'a TxnOp, line: Line<'a>) -> Option<Line<'a>> {
    let operation = match op {
        MultiOp::Create(_) => "create",
        MultiOp::Delete(_) => "delete",
        MultiOp::SetData(_) => "setData",
        MultiOp::Check(_) => return None,
    };
    let znode_type = match op {
        MultiOp::Create(create) => znode_type(create),
        _ => None,
    };
    // A sequential znode has another path than the request.
    let znode = match decided {
        TxnOp::Create(create) => Some(&*create.path),
        _ => RawPath::text(op.path()),
    };
    Some(Line { operation, znode, znode_type, ..line })
}

/// The mode by the name of Java's `CreateMode`; `None` for flags that are none.
fn znode_type(create: &Create) -> Option<&'static str> {
    Some(match create.flags {
        CreateFlags::PERSISTENT => "persistent",
        CreateFlags::EPHEMERAL => "ephemeral",
        CreateFlags::PERSISTENT_SEQUENTIAL => "persistent_sequential",
        CreateFlags::EPHEMERAL_SEQUENTIAL => "ephemeral_sequential",
        CreateFlags::CONTAINER => "container",
        CreateFlags::PERSISTENT_WITH_TTL => "persistent_with_ttl",
        CreateFlags::PERSISTENT_SEQUENTIAL_WITH_TTL => "persistent_sequential_with_ttl",
        _ => return None,
    })
}

/// In a multi, ZooKeeper finds the type by the path of the request, and leaves it out where that is
/// not the path of the znode, and for a TTL znode.
fn type_in_multi(op: &MultiOp, decided: &TxnOp) -> Option<&'static str> {
    match (op, decided) {
        (MultiOp::Create(create), TxnOp::Create(created)) => {
            let is_found = create.path.text() == Some(&created.path)
                && !matches!(create.kind, CreateKind::Ttl { .. });
            if is_found { znode_type(create) } else { None }
        }
        _ => None,
    }
}

/// The operation of a request that could not be decoded.
fn refused(op: OpCode) -> Option<&'static str> {
    Some(match op {
        OpCode::CREATE | OpCode::CREATE2 | OpCode::CREATE_CONTAINER | OpCode::CREATE_TTL => {
            "create"
        }
        OpCode::DELETE | OpCode::DELETE_CONTAINER => "delete",
        OpCode::SET_DATA => "setData",
        OpCode::SET_ACL => "setAcl",
        OpCode::MULTI => "multiOperation",
        OpCode::RECONFIG => "reconfig",
        _ => return None,
    })
}
