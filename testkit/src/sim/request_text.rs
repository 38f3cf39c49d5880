//! Requests in a few words, for stories.

use bytes::Bytes;
use zoolet_protocol::{
    ConnectRequest, CreateFlags, ErrorCode, Expect, MultiOp, MultiResult, OpCode, RawPath, Read,
    Request, Response, SessionId, Watch, Write, decode_all,
};

/// The most operations of a multi that are named.
const OPS_SHOWN: usize = 3;

/// The session that a handshake asks for.
pub(super) fn asked_session(frame: &Bytes) -> SessionId {
    decode_all::<ConnectRequest>(frame).map_or(SessionId::NONE, |request| request.session)
}

/// A request: its operation and what it concerns.
pub(super) fn of(request: &Request) -> String {
    let op = request.op_code();
    match request {
        Request::Read(Read::Lookup(lookup)) => format!("{op} {}", path(lookup.path())),
        Request::Read(Read::Sync(raw) | Read::GetEphemerals(raw) | Read::GetAcl(raw)) => {
            format!("{op} {}", path(raw))
        }
        Request::Watch(Watch::Lookup(lookup)) => {
            format!("{op} {}, and watches it", path(lookup.path()))
        }
        Request::Watch(Watch::Add(add)) => format!("{op} {}", path(&add.path)),
        Request::Watch(Watch::Remove(remove)) => format!("{op} {}", path(&remove.path)),
        Request::Write(Write::Op(write)) => of_op(write),
        Request::Write(Write::SetAcl(set)) => format!("{op} {}", path(&set.path)),
        Request::Write(Write::Multi(ops)) => {
            let mut shown: Vec<_> = ops.iter().take(OPS_SHOWN).map(of_op).collect();
            if ops.len() > OPS_SHOWN {
                shown.push(format!("{} more", ops.len() - OPS_SHOWN));
            }
            format!("{op}: {}", shown.join(", "))
        }
        _ => op.to_string(),
    }
}

/// Whether a request changes something if it succeeds. A `multi` that only checks does not.
pub(super) fn may_change(request: &Request) -> bool {
    match request {
        Request::Write(Write::Multi(ops)) => ops.iter().any(|op| !matches!(op, MultiOp::Check(_))),
        Request::Write(_) => true,
        _ => false,
    }
}

/// Whether a request creates an ephemeral znode if it succeeds.
pub(super) fn creates_ephemeral(request: &Request) -> bool {
    let is_one = |op: &MultiOp| match op {
        MultiOp::Create(create) => create.flags.is_ephemeral(),
        _ => false,
    };
    match request {
        Request::Write(Write::Op(op)) => is_one(op),
        Request::Write(Write::Multi(ops)) => ops.iter().any(is_one),
        _ => false,
    }
}

/// Which operation of a multi was refused, counted from 1, and why. The header of the reply has no
/// error then.
pub(super) fn refused(op: OpCode, body: &Bytes) -> Option<(usize, ErrorCode)> {
    if op != OpCode::MULTI {
        return None;
    }
    let Ok(Response::Multi(results)) = Response::decode(op, body) else { return None };
    let mut refused = results.iter().enumerate().filter_map(|(index, result)| match result {
        MultiResult::Error(code) if *code != ErrorCode::OK => Some((index + 1, *code)),
        _ => None,
    });
    // Those after it, which were not tried, have an error of their own.
    refused.next()
}

fn of_op(write: &MultiOp) -> String {
    let op = write.op_code();
    let path = path(write.path());
    let version = match write {
        MultiOp::Create(create) => {
            let kind = match create.flags {
                CreateFlags::EPHEMERAL => " (ephemeral)",
                CreateFlags::EPHEMERAL_SEQUENTIAL => " (ephemeral, sequential)",
                CreateFlags::PERSISTENT_SEQUENTIAL => " (sequential)",
                _ => "",
            };
            return format!("{op} {path}{kind}");
        }
        MultiOp::Delete(delete) => delete.version,
        MultiOp::SetData(set) => set.version,
        MultiOp::Check(check) => check.version,
    };
    match version {
        Expect::Any => format!("{op} {path}"),
        Expect::Exactly(version) => format!("{op} {path} (version {version})"),
    }
}

fn path(raw: &RawPath) -> &str {
    raw.text().unwrap_or("null")
}
