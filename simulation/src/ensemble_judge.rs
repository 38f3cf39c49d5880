//! What the oracle learns from an ensemble itself: what happens, and what the leader commits.

use std::sync::Arc;

use zoolet_core::{ConnectionId, Core, Requester, Txn, TxnOp};
use zoolet_protocol::{Lookup, Read, Response, SessionId, Xid};
use zoolet_testkit::ensemble::{EnsembleEvent, EnsembleObserver};

use super::oracle::Oracle;
use super::tree::{FENCES, raw, token};

#[derive(Debug)]
pub(crate) struct Judge(pub(crate) Arc<Oracle>);

impl Judge {
    /// The holder of a lock writes its token: no smaller one may follow.
    fn judge(&self, op: &TxnOp, before: &Core) {
        match op {
            TxnOp::Multi(ops) => ops.iter().for_each(|op| self.judge(op, before)),
            TxnOp::SetData { path, data, .. } if path.starts_with(FENCES) => {
                let nobody = Requester::new(SessionId::NONE, ConnectionId(0), Xid(0));
                let read = Read::Lookup(Lookup::GetData(raw(path)));
                let Ok(Response::Data(before, _)) = before.read(&read, &nobody) else { return };
                if token(data) < token(&before) {
                    self.0.violation(format!("{path}: {data:?} after {before:?}"));
                }
            }
            _ => {}
        }
    }
}

impl EnsembleObserver for Judge {
    fn happened(&self, event: EnsembleEvent) {
        self.0.remark(|| event.to_string());
        let counted = match event {
            EnsembleEvent::LeaderCutOff(_) => "leaders cut off",
            EnsembleEvent::FollowerCutOff(_) => "followers cut off",
            EnsembleEvent::Leads(_) => "leaders elected",
            EnsembleEvent::SessionExpired(_) => "sessions expired",
            EnsembleEvent::ClientAhead(_) => "handshakes refused by a member that was behind",
            _ => return,
        };
        self.0.count(counted);
    }

    fn committing(&self, txn: &Txn, before: &Core) {
        self.judge(&txn.op, before);
    }
}
