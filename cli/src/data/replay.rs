//! Goes through the past with what it needs to begin: for reports on sessions and locks.

use std::sync::mpsc::{self, SyncSender};

use zoolet_core::{Core, Txn, TxnOp};
use zoolet_protocol::Zxid;
use zoolet_server::storage::StorageError;
use zoolet_server::storage::history::{Base, Ended, Gaps, History, HistoryError, Moment, Records};

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
    // One thread reads and decodes, the other one follows: each of them takes about half of the time.
    let read = std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel(BATCHES_AHEAD);
        let reader = scope.spawn(|| read(&mut records, sender));
        for txn in receiver.iter().flatten() {
            let moment = Moment::of(&txn);
            span.first.get_or_insert(moment);
            span.last = Some(moment);
            witness.txn(&txn)?;
        }
        Ok::<_, DataError>(reader.join().expect("the reader does not panic"))
    });
    read??;
    if let Ended::Torn { path, offset } = records.ended() {
        notice(&format!(
            "{}: torn at offset {offset}: a crash has left it, or a server is writing it",
            path.display()
        ));
    }
    Ok(())
}

/// How many transactions pass from one thread to the other at once, and how many batches wait.
const BATCH: usize = 512;
const BATCHES_AHEAD: usize = 8;

/// Reads all records, until nobody wants more.
fn read(records: &mut Records, sender: SyncSender<Vec<Txn>>) -> Result<(), HistoryError> {
    let mut batch = Vec::with_capacity(BATCH);
    let mut end = Ok(());
    loop {
        match records.next_record() {
            Ok(Some(record)) => batch.push(record.txn),
            Ok(None) => break,
            Err(error) => {
                // What stands before it is told.
                end = Err(error);
                break;
            }
        }
        if batch.len() == BATCH
            && sender.send(std::mem::replace(&mut batch, Vec::with_capacity(BATCH))).is_err()
        {
            return Ok(());
        }
    }
    // A receiver that is gone has failed, and says why.
    let _ = sender.send(batch);
    drop(sender);
    end
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
