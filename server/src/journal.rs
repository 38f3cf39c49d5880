//! The seam for a log: what was decided is appended under the lock, and becomes durable later.
//!
//! There is only the mode without a log so far, in which everything is as durable as it gets at
//! once.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use zoolet_core::Txn;
use zoolet_protocol::Zxid;

/// The last zxid that would survive a crash. Outboxes give out nothing that depends on a later one.
#[derive(Debug, Clone)]
pub(crate) struct Durable(Arc<AtomicI64>);

impl Durable {
    /// Without a log nothing is waited for.
    pub(crate) fn always() -> Self {
        Self(Arc::new(AtomicI64::new(i64::MAX)))
    }

    /// Whether what depends on `zxid` may leave.
    pub(crate) fn covers(&self, zxid: Zxid) -> bool {
        zxid.0 <= self.0.load(Ordering::Acquire)
    }
}

/// Where decisions are kept, in their order.
#[derive(Debug)]
pub(crate) struct Journal {
    durable: Durable,
    /// The last transaction that was appended.
    last: Zxid,
}

impl Journal {
    /// A journal that keeps nothing.
    pub(crate) fn in_memory() -> Self {
        Self { durable: Durable::always(), last: Zxid::ZERO }
    }

    pub(crate) fn durable(&self) -> Durable {
        self.durable.clone()
    }

    /// Appends a decision, before it is carried out.
    pub(crate) fn append(&mut self, txn: &Txn) {
        assert!(txn.zxid > self.last, "{} is appended after {}", txn.zxid, self.last);
        self.last = txn.zxid;
    }
}
