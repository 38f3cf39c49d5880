//! Goes through the past with what it needs to begin: for reports on sessions and locks.

use zoolet_core::{Core, Txn, TxnOp};
use zoolet_protocol::Zxid;
use zoolet_server::storage::StorageError;
use zoolet_server::storage::history::{Base, Ended, Gaps, History, HistoryError, Moment};

use super::{DataError, json};
use crate::notice;

/// What wants to see the past.
pub(super) trait Witness {
    /// The state from which the transactions go on, which may hold some of them already: those after `after`.
    fn begin(&mut self, core: &Core, after: Zxid) -> Result<(), DataError>;

    /// The next transaction.
    fn txn(&mut self, txn: &Txn) -> Result<(), DataError>;

    /// Transactions are missing: all that is known before them counts no more. Another begin follows.
    fn lost(&mut self) -> Result<(), DataError>;
}

/// The part of the past that was told.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Span {
    pub(super) first: Option<Moment>,
    pub(super) last: Option<Moment>,
}

impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.first, self.last) {
            (Some(first), Some(last)) => {
                let (from, to) = (json::time(first.time_ms), json::time(last.time_ms));
                write!(f, "from {from} ({}) to {to} ({})", first.zxid, last.zxid)
            }
            _ => f.write_str("no transaction"),
        }
    }
}

/// Shows the whole past to a witness. Where transactions are missing it goes on from the next snapshot.
pub(super) fn replay(history: &History, witness: &mut impl Witness) -> Result<Span, DataError> {
    let mut base = history.oldest_base()?;
    let mut span = Span::default();
    loop {
        match go_on(history, &base, witness, &mut span) {
            Ok(()) => return Ok(span),
            Err(DataError::History(HistoryError::Storage(
                gap @ StorageError::Gap { found, .. },
            ))) => {
                let next =
                    history.base_from(Zxid(found.0 - 1)).map_err(|_| HistoryError::from(gap))?;
                notice(&format!(
                    "no file has all that came before {found}: the report goes on after {}",
                    next.after
                ));
                witness.lost()?;
                base = next;
            }
            Err(error) => return Err(error),
        }
    }
}

fn go_on(
    history: &History,
    base: &Base,
    witness: &mut impl Witness,
    span: &mut Span,
) -> Result<(), DataError> {
    witness.begin(&base.core, base.after)?;
    let mut records = history.records(base.after, Gaps::Refuse);
    while let Some(record) = records.next_record()? {
        let moment = Moment::of(&record.txn);
        span.first.get_or_insert(moment);
        span.last = Some(moment);
        witness.txn(&record.txn)?;
    }
    if let Ended::Torn { path, offset } = records.ended() {
        notice(&format!(
            "{}: torn at offset {offset}: a crash has left it, or a server is writing it",
            path.display()
        ));
    }
    Ok(())
}

/// The operations of a transaction that were carried out.
pub(super) fn ops(op: &TxnOp) -> &[TxnOp] {
    match op {
        // A refused multi does nothing.
        TxnOp::Multi(ops) if ops.iter().any(TxnOp::is_refusal) => &[],
        TxnOp::Multi(ops) => ops,
        op => std::slice::from_ref(op),
    }
}
