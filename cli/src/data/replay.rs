//! Goes through the past with what it needs to begin: for reports on sessions and locks.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, SyncSender};

use zoolet_core::{Core, Txn};
use zoolet_protocol::Zxid;
use zoolet_server::storage::history::{
    Base, Damage, DeletedZnode, Ended, Gaps, History, HistoryError, Moment, Records,
};
use zoolet_server::storage::{LogRecord, StorageError};

use super::history::wait_for_more;
use super::{DataError, json};
use crate::notice;

/// What wants to see the past.
pub(super) trait Witness {
    /// The state from which the transactions go on, which may hold some of them already: those after `after`.
    /// It may lack some that were there after `after`: those that were deleted.
    fn begin(
        &mut self,
        core: &Core,
        after: Zxid,
        deleted: &[DeletedZnode],
    ) -> Result<(), DataError>;

    /// The next transaction.
    fn txn(&mut self, txn: &Txn) -> Result<(), DataError>;

    /// Transactions are missing: all that is known before them counts no more. Another begin follows.
    fn lost(&mut self) -> Result<(), DataError>;

    /// Nothing more was written yet, so that what was told should be seen.
    fn pause(&mut self) -> Result<(), DataError> {
        Ok(())
    }
}

/// The part of the past that was told.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Span {
    pub(super) first: Option<Moment>,
    pub(super) last: Option<Moment>,
    /// Whether transactions within it are in no file, or cannot be read.
    pub(super) has_holes: bool,
    pub(super) clock: Clock,
}

/// How often the clock of the servers went back, and where it did so furthest.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Clock {
    times: u64,
    /// The last transaction before, and the first one behind.
    furthest: Option<(Moment, Moment)>,
}

impl Clock {
    fn goes_back(&mut self, from: Moment, to: Moment) {
        self.times += 1;
        let far = |from: Moment, to: Moment| from.time_ms.saturating_sub(to.time_ms);
        if self.furthest.is_none_or(|(a, b)| far(a, b) < far(from, to)) {
            self.furthest = Some((from, to));
        }
    }

    /// Says so if times and durations are not what a watch on the wall would have shown.
    fn tell(self) {
        let Some((from, to)) = self.furthest else { return };
        let how_often = match self.times {
            1 => "once".to_owned(),
            times => format!("{times} times, furthest"),
        };
        notice(&format!(
            "the clock of the servers went back {how_often} from {} ({}) to {} ({}): times are those of the records, \
             and what lasted over such a place was longer than told",
            json::time(from.time_ms),
            from.zxid,
            json::time(to.time_ms),
            to.zxid
        ));
    }
}

/// The exit status of a report that lacks a part of the past, which its messages name.
pub(super) const HAS_HOLES: u8 = 3;

impl Span {
    pub(super) fn exit_code(self) -> ExitCode {
        if self.has_holes { ExitCode::from(HAS_HOLES) } else { ExitCode::SUCCESS }
    }
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

/// Whether a replay goes on with what a server writes, for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    Now,
    Stopped,
}

/// Shows the whole past to a witness. Where transactions are missing it goes on from the next snapshot.
pub(super) fn replay(history: &History, witness: &mut impl Witness) -> Result<Span, DataError> {
    replay_until(history, Until::Now, witness)
}

/// As [`replay`].
pub(super) fn replay_until(
    history: &History,
    until: Until,
    witness: &mut impl Witness,
) -> Result<Span, DataError> {
    let mut span = Span::default();
    let end = replay_from(history, history.oldest_base()?, until, witness, &mut span);
    span.clock.tell();
    end.map(|()| span)
}

fn replay_from(
    history: &History,
    mut base: Base,
    until: Until,
    witness: &mut impl Witness,
    span: &mut Span,
) -> Result<(), DataError> {
    tell_begin(history, &base);
    let mut damages = BTreeSet::new();
    loop {
        let next = match go_on(history, &base, until, witness, span, &mut damages) {
            Ok(None) => return Ok(()),
            Ok(Some(reached)) => reached.max(base.after).next(),
            Err(DataError::History(HistoryError::Storage(StorageError::Gap {
                after,
                found,
                ..
            }))) => {
                tell_gap(after, found);
                Zxid(found.0.saturating_sub(1))
            }
            Err(error) => return Err(error),
        };
        span.has_holes = true;
        witness.lost()?;
        match history.base_from(next) {
            Ok(behind) => {
                notice(&format!("the report goes on after {}, from a snapshot", behind.after));
                base = behind;
            }
            Err(_) => {
                notice("no snapshot has the state behind it: the report ends there");
                return Ok(());
            }
        }
    }
}

/// Says so if the logs have transactions that lead to no state, or an older snapshot is of no use.
fn tell_begin(history: &History, base: &Base) {
    for unusable in &base.unusable {
        notice(&format!("{unusable}; the report does without it"));
    }
    if let (Some(path), Ok(Some(first))) = (&base.snapshot, history.first())
        && first.zxid <= base.after
    {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        notice(&format!(
            "the report begins after {}, with {name}: the transactions from {} on are in the logs, and the state \
             before them is in no file. `zoolet data history` reads them",
            base.after, first.zxid
        ));
    }
}

/// Names the transactions that are in no file.
pub(super) fn tell_gap(after: Zxid, found: Zxid) {
    let (first, last) = (after.next(), Zxid(found.0.saturating_sub(1)));
    match first.cmp(&last) {
        Ordering::Equal => notice(&format!("the transaction {first} is in no file")),
        // Of another epoch, nobody knows how many they were.
        _ if after.0 >> 32 != found.0 >> 32 => {
            notice(&format!(
                "transactions between {after} and {found} are in no file; the last ones of the epoch before may \
                 never have been committed"
            ));
        }
        _ => notice(&format!("the transactions from {first} to {last} are in no file")),
    }
}

/// Says so if the last log ends with a part of a record.
pub(super) fn tell_end(records: &Records) {
    if let Ended::Torn { path, offset } = records.ended() {
        notice(&format!(
            "{}: torn at offset {offset}: a crash has left it, or a server is writing it",
            path.display()
        ));
    }
}

/// Passes over a damage, and tells it once. Any other error is returned.
pub(super) fn pass_over(
    records: &mut Records,
    error: HistoryError,
    told: &mut BTreeSet<Damage>,
) -> Result<(), HistoryError> {
    let Some(damage) = records.pass_over(&error)? else { return Err(error) };
    if !told.contains(&damage) {
        notice(&format!("{error}\n{damage}"));
        told.insert(damage);
    }
    Ok(())
}

/// Goes on from a state. Within, the last transaction that was read if it ended in a damage.
fn go_on(
    history: &History,
    base: &Base,
    until: Until,
    witness: &mut impl Witness,
    span: &mut Span,
    damages: &mut BTreeSet<Damage>,
) -> Result<Option<Zxid>, DataError> {
    witness.begin(&base.core, base.after, &history.deleted_while_written(base))?;
    let mut records = history.records(base.after, Gaps::Refuse);
    let mut is_told = false;
    loop {
        show(&mut records, witness, span, damages)?;
        if until == Until::Now || records.ends_with_damage() {
            break;
        }
        witness.pause()?;
        // Nobody waits for an end that may never come.
        if !is_told && span.clock.times > 0 {
            span.clock.tell();
            is_told = true;
        }
        wait_for_more();
        records.resume()?;
    }
    tell_end(&records);
    Ok(records.ends_with_damage().then(|| records.reached()))
}

/// Shows the records up to their end.
fn show(
    records: &mut Records,
    witness: &mut impl Witness,
    span: &mut Span,
    damages: &mut BTreeSet<Damage>,
) -> Result<(), DataError> {
    // One thread reads and decodes, the other one follows.
    let read = std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel(BATCHES_AHEAD);
        let (giver, given_back) = mpsc::channel();
        let reader = scope.spawn(move || read(records, &sender, &given_back, damages));
        for txns in receiver {
            for txn in &txns {
                let moment = Moment::of(txn);
                span.first.get_or_insert(moment);
                if let Some(last) =
                    span.last.replace(moment).filter(|it| it.time_ms > moment.time_ms)
                {
                    span.clock.goes_back(last, moment);
                }
                witness.txn(txn)?;
            }
            // Who has allocated frees: that is faster than to free what another thread goes on to allocate. One
            // that has read all wants none back.
            let _ = giver.send(txns);
        }
        Ok::<_, DataError>(reader.join().expect("the reader does not panic"))
    });
    Ok(read??)
}

/// How many transactions pass from one thread to the other at once, how many bytes their records have, but for the
/// last one, and how many batches wait. With more of them the cache of a processor does not hold them all.
const BATCH: usize = 256;
const BATCH_BYTES: u64 = 256 << 10;
const BATCHES_AHEAD: usize = 6;

/// Transactions that pass together.
#[derive(Default)]
struct Batch {
    txns: Vec<Txn>,
    bytes: u64,
    /// The offset of the last record.
    last: u64,
}

impl Batch {
    /// Takes a transaction. Returns whether they are enough.
    fn push(&mut self, record: LogRecord) -> bool {
        // The length of the record before. The first one may be deep in its log, and one that begins a log is none.
        self.bytes += record.offset.saturating_sub(self.last);
        self.last = record.offset;
        self.txns.push(record.txn);
        self.bytes >= BATCH_BYTES || self.txns.len() == BATCH
    }

    /// Gives the transactions out, and goes on with the memory of some that were given out before.
    fn give(&mut self, mut before: Vec<Txn>) -> Vec<Txn> {
        before.clear();
        self.bytes = 0;
        std::mem::replace(&mut self.txns, before)
    }
}

/// Reads all records, until nobody wants more. The batches that were followed come back.
fn read(
    records: &mut Records,
    sender: &SyncSender<Vec<Txn>>,
    given_back: &Receiver<Vec<Txn>>,
    damages: &mut BTreeSet<Damage>,
) -> Result<(), HistoryError> {
    let mut batch = Batch::default();
    let end = loop {
        match records.next_record() {
            Ok(Some(record)) => {
                if batch.push(record) {
                    let txns = batch.give(given_back.try_recv().unwrap_or_default());
                    if sender.send(txns).is_err() {
                        return Ok(());
                    }
                }
            }
            Ok(None) => break Ok(()),
            Err(error) => {
                if let Err(error) = pass_over(records, error, damages) {
                    // What stands before it is told.
                    break Err(error);
                }
            }
        }
    };
    // A receiver that is gone has failed, and says why.
    let _ = sender.send(batch.txns);
    end
}

#[cfg(test)]
mod tests {
    use zoolet_core::TxnOp;
    use zoolet_protocol::{SessionId, Xid};

    use super::*;

    fn record(offset: u64) -> LogRecord {
        let (session, cxid, zxid) = (SessionId(1), Xid(1), Zxid(1));
        let op = TxnOp::CreateSession { timeout_ms: 1 };
        LogRecord { offset, txn: Txn { session, cxid, zxid, time_ms: 0, op }, digest: None }
    }

    #[test]
    fn batches_have_few_long_records_and_many_short_ones() {
        let sizes = |length: u64| {
            let mut batch = Batch::default();
            let records = (0..2_000).map(|index| record(16 + index * length));
            let batches = records.filter_map(|it| batch.push(it).then(|| batch.give(Vec::new())));
            batches.map(|batch| batch.len()).collect::<Vec<_>>()
        };
        assert!(sizes(1 << 20).iter().all(|size| *size <= 2), "{:?}", sizes(1 << 20));
        assert!(sizes(64 << 10).iter().all(|size| *size <= 5), "{:?}", sizes(64 << 10));
        assert_eq!(sizes(50), [BATCH; 2_000 / BATCH]);
    }
}
