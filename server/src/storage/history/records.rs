//! Goes through the records of all logs in their order.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use zoolet_protocol::Zxid;

use super::error::HistoryError;
use super::frames::Frames;
use super::salvage::{self, Damage};
use crate::storage::directory::{Directory, Files, LogFile};
use crate::storage::error::StorageError;
use crate::storage::log_reader::{LogError, LogRecord};
use crate::storage::log_tail::{self, Tail};
use crate::storage::txn_record::decode_txn;
use crate::storage::{log_scan, recovery};

/// What becomes of transactions that are in no file, between two logs.
///
/// ```
/// use zoolet_server::storage::history::Gaps;
///
/// assert_ne!(Gaps::Refuse, Gaps::Tell);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gaps {
    /// They are an error, as for a server that starts: no state can be told after them.
    Refuse,
    /// [`Records::gaps`] tells of them.
    Tell,
}

/// Transactions that are in no file.
///
/// ```
/// use zoolet_protocol::Zxid;
/// use zoolet_server::storage::history::Gap;
///
/// let gap = Gap { after: Zxid(5), found: Zxid(9) };
/// assert!(gap.found > gap.after.next());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The last one before.
    pub after: Zxid,
    /// The first one behind.
    pub found: Zxid,
}

/// How the last log ended.
///
/// ```
/// use zoolet_server::storage::history::Ended;
///
/// let ended = Ended::Torn { path: "version-2/log.1".into(), offset: 16 };
/// assert_ne!(ended, Ended::Whole);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// With a whole record.
    Whole,
    /// With a part of one: a crash has left it, or a server is about to write it.
    Torn {
        /// The log.
        path: PathBuf,
        /// The offset at which the part begins.
        offset: u64,
    },
}

/// The records of the logs, in their order. It holds one block of a log in memory.
///
/// A record shares the memory of its block: who keeps data of it copies that.
///
/// ```
/// use std::sync::Arc;
/// use zoolet_protocol::Zxid;
/// use zoolet_server::storage::history::{Gaps, History, Records};
/// use zoolet_server::storage::{MemDisk, StorageConfig};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let disk = Arc::new(MemDisk::default());
/// let history = History::open(&StorageConfig { disk, ..StorageConfig::at("/data") })?;
/// let mut records: Records = history.records(Zxid::ZERO, Gaps::Tell);
/// while let Some(record) = records.next_record()? {
///     println!("{} {:?}", record.txn.zxid, record.txn.op);
/// }
/// # Ok(())
/// # }
/// ```
pub struct Records {
    directory: Directory,
    /// Those that were not begun.
    ahead: VecDeque<LogFile>,
    current: Option<Open>,
    /// The newest one that was begun or is ahead.
    newest: Option<Zxid>,
    /// Records up to this one are left out.
    after: Zxid,
    /// The last one that was read, and the last that was returned or left out knowingly.
    read: Zxid,
    last: Zxid,
    handling: Gaps,
    gaps: Vec<Gap>,
    /// A log without a header.
    unreadable: Option<LogFile>,
    /// Whether a damage was passed over, and no record was read since.
    is_behind_damage: bool,
    ended: Ended,
    /// Whether parts of records are kept, so that they must not share the memory of their blocks.
    are_kept: bool,
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records").field("read", &self.read).finish_non_exhaustive()
    }
}

/// A log that is being read.
struct Open {
    log: LogFile,
    frames: Frames,
    /// Whether none of its records was read.
    is_first: bool,
}

/// What a log has next.
enum Step {
    Record(u64, Bytes),
    End,
}

impl Files {
    /// The logs that may hold transactions after `after`.
    pub(super) fn logs_after(&self, after: Zxid) -> &[LogFile] {
        let needed = self.logs.iter().rposition(|log| log.goes_on_from(after)).unwrap_or(0);
        &self.logs[needed..]
    }
}

impl Records {
    pub(super) fn new(
        directory: Directory,
        logs: Vec<LogFile>,
        after: Zxid,
        handling: Gaps,
    ) -> Self {
        Self {
            directory,
            newest: logs.last().map(|log| log.zxid),
            ahead: logs.into(),
            current: None,
            after,
            read: Zxid::ZERO,
            last: after,
            handling,
            gaps: Vec::new(),
            unreadable: None,
            is_behind_damage: false,
            ended: Ended::Whole,
            are_kept: false,
        }
    }

    /// Returns records that share no memory with their blocks.
    pub(super) fn detached(self) -> Self {
        Self { are_kept: true, ..self }
    }

    /// The next record; `None` at the end of the last log, about which [`Records::ended`] tells.
    ///
    /// # Errors
    ///
    /// [`HistoryError`] where a server would refuse the logs, or if a file is gone. Nothing can be read after an
    /// error, except with [`Records::pass_over`].
    pub fn next_record(&mut self) -> Result<Option<LogRecord>, HistoryError> {
        while let Some((offset, bytes)) = self.next_frame()? {
            let Some(open) = &mut self.current else { return Ok(None) };
            let bytes = if self.are_kept { Bytes::copy_from_slice(&bytes) } else { bytes };
            let (txn, digest) = decode_txn(bytes)
                .map_err(|error| damaged(&open.log.path, LogError::Record { offset, error }))?;
            let record = LogRecord { offset, txn, digest };
            if self.is_wanted(&record)? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// Goes on behind a damage that [`Records::next_record`] has returned as an error: with the next record of
    /// this log that can be read, or with the next log. The transactions between are missing like those of
    /// a [`Gap`]. Returns `None` if the error is another one.
    ///
    /// # Errors
    ///
    /// [`HistoryError`] if the log cannot be read.
    pub fn pass_over(&mut self, error: &HistoryError) -> Result<Option<Damage>, HistoryError> {
        let Some(offset) = place_of(error) else { return Ok(None) };
        let log = self.current.take().map(|open| open.log).or_else(|| self.unreadable.take());
        let Some(log) = log else { return Ok(None) };
        let path = log.path.clone();
        let open = |at| self.directory.disk.open_at(&path, at).map_err(|error| lost(&path, error));
        let found = salvage::find(open(offset + 1)?, offset + 1, self.read);
        let behind = found.map_err(StorageError::io("read", &path))?;
        if let Some(at) = behind {
            let frames = Frames::at(open(at)?, at);
            self.current = Some(Open { log, frames, is_first: false });
        }
        self.is_behind_damage = true;
        Ok(Some(Damage { path, offset, behind }))
    }

    /// Whether the last thing that was read is a damage: what came there is not known.
    #[must_use]
    pub fn ends_with_damage(&self) -> bool {
        self.is_behind_damage
    }

    /// The last transaction that was read.
    #[must_use]
    pub fn reached(&self) -> Zxid {
        self.read
    }

    /// The gaps that were met so far, with [`Gaps::Tell`].
    #[must_use]
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// How the last log ended, after [`Records::next_record`] has returned `None`.
    #[must_use]
    pub fn ended(&self) -> &Ended {
        &self.ended
    }

    /// The log that is being read.
    #[must_use]
    pub fn log(&self) -> Option<&Path> {
        Some(&self.current.as_ref()?.log.path)
    }

    /// Looks for records and logs that were written since the end was reached.
    ///
    /// # Errors
    ///
    /// [`HistoryError`] if the directory cannot be listed, or the log cannot be read.
    pub fn resume(&mut self) -> Result<(), HistoryError> {
        // Before the log, which is complete when a newer one is there.
        let files = self.directory.files()?;
        let newest = self.newest;
        let newer = files.logs.into_iter().filter(|log| newest.is_none_or(|it| log.zxid > it));
        self.ahead.extend(newer);
        self.newest = self.ahead.back().map(|log| log.zxid).or(newest);
        self.ended = Ended::Whole;
        let Some(open) = &mut self.current else { return Ok(()) };
        let offset = open.frames.offset();
        match self.directory.disk.open_at(&open.log.path, offset) {
            Ok(input) => open.frames = Frames::at(input, offset),
            // It was purged: newer ones go on, or the check of gaps tells.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(StorageError::io("read", &open.log.path)(error).into()),
        }
        Ok(())
    }

    fn next_frame(&mut self) -> Result<Option<(u64, Bytes)>, HistoryError> {
        loop {
            let Some(open) = &mut self.current else {
                if !self.open_next()? {
                    return Ok(None);
                }
                continue;
            };
            match step(&self.directory, open, &mut self.ended)? {
                Step::Record(offset, bytes) => return Ok(Some((offset, bytes))),
                // The last one is kept, so that it can be resumed.
                Step::End if self.ahead.is_empty() => return Ok(None),
                Step::End => self.current = None,
            }
        }
    }

    /// Opens the next log. Returns whether there was one.
    fn open_next(&mut self) -> Result<bool, HistoryError> {
        while let Some(log) = self.ahead.pop_front() {
            let path = &log.path;
            let input = self.directory.disk.open(path).map_err(|error| lost(path, error))?;
            match Frames::new(input) {
                Ok(frames) => {
                    self.ended = Ended::Whole;
                    self.current = Some(Open { log, frames, is_first: true });
                    return Ok(true);
                }
                Err(LogError::Short(_) | LogError::Magic(_))
                    if log_scan::is_unwritten(&*self.directory.disk, path)? =>
                {
                    // The last one is looked for again: a server may be about to write it.
                    if self.ahead.is_empty() {
                        self.newest = Some(Zxid(log.zxid.0.saturating_sub(1)));
                    }
                }
                Err(error) => {
                    let error = damaged(path, error);
                    self.unreadable = Some(log);
                    return Err(error);
                }
            }
        }
        Ok(false)
    }

    /// Makes the checks of recovery. Returns whether the record is one of those that were asked for.
    fn is_wanted(&mut self, record: &LogRecord) -> Result<bool, HistoryError> {
        let Some(open) = &mut self.current else { return Ok(false) };
        let (zxid, offset, path) = (record.txn.zxid, record.offset, &open.log.path);
        let is_first = std::mem::replace(&mut open.is_first, false);
        let is_behind_damage = std::mem::replace(&mut self.is_behind_damage, false);
        if is_first {
            recovery::check_name(&open.log, zxid)?;
        }
        if zxid == Zxid(i64::MAX) {
            return Err(StorageError::LastZxid { path: path.clone(), offset }.into());
        }
        if zxid <= self.read {
            let (path, after) = (path.clone(), self.read);
            return Err(StorageError::Order { path, offset, after, found: zxid }.into());
        }
        self.read = zxid;
        if zxid <= self.after {
            return Ok(false);
        }
        let after = self.last;
        let is_new_epoch = zxid.0 >> 32 != after.0 >> 32;
        // A leader numbers the transactions of its epoch from 1.
        let next = if is_new_epoch { Zxid((zxid.0 >> 32 << 32) | 1) } else { after.next() };
        if (is_behind_damage || is_first || is_new_epoch) && zxid != next {
            match self.handling {
                Gaps::Tell if after == Zxid::ZERO => {}
                Gaps::Tell => self.gaps.push(Gap { after, found: zxid }),
                Gaps::Refuse => {
                    let path = path.clone();
                    return Err(StorageError::Gap { path, offset, after, found: zxid }.into());
                }
            }
        }
        self.last = zxid;
        Ok(true)
    }
}

/// How often a place that looks damaged is read anew: a server may have written there since its block was
/// read.
const READS_MAX: u32 = 4;

/// What a log has next. At its end it is classified as recovery classifies it.
fn step(directory: &Directory, open: &mut Open, ended: &mut Ended) -> Result<Step, HistoryError> {
    let path = &open.log.path;
    let mut reads = 1;
    loop {
        let (offset, checksum) = match open.frames.next() {
            Ok(Some((offset, bytes))) => return Ok(Step::Record(offset, bytes)),
            Ok(None) => (open.frames.offset(), None),
            Err(error @ LogError::Checksum { offset, .. }) => (offset, Some(error)),
            Err(error) => return Err(damaged(path, error)),
        };
        let read_anew = || directory.disk.open_at(path, offset).map_err(|error| lost(path, error));
        let tail = log_tail::look_at(read_anew()?, offset, checksum.is_some());
        match (tail.map_err(StorageError::io("read", path))?, checksum) {
            (Tail::Clean, _) => *ended = Ended::Whole,
            (Tail::Torn { .. }, _) => *ended = Ended::Torn { path: path.clone(), offset },
            (Tail::Damaged { .. }, _) if reads < READS_MAX => {
                reads += 1;
                open.frames = Frames::at(read_anew()?, offset);
                continue;
            }
            (Tail::Damaged { .. }, Some(error)) => return Err(damaged(path, error)),
            (Tail::Damaged { behind }, None) => {
                return Err(StorageError::Hole { path: path.clone(), offset, behind }.into());
            }
        }
        return Ok(Step::End);
    }
}

/// Where a log is damaged.
fn place_of(error: &HistoryError) -> Option<u64> {
    match error {
        HistoryError::Storage(StorageError::Hole { offset, .. }) => Some(*offset),
        HistoryError::Storage(StorageError::Damaged { error, .. }) => match error {
            LogError::Length { offset, .. }
            | LogError::Checksum { offset, .. }
            | LogError::Record { offset, .. } => Some(*offset),
            LogError::Short(_) | LogError::Magic(_) | LogError::Version(_) => Some(0),
            LogError::Io(_) => None,
        },
        _ => None,
    }
}

fn damaged(path: &Path, error: LogError) -> HistoryError {
    match error {
        LogError::Io(error) => lost(path, error),
        error => StorageError::Damaged { path: path.to_owned(), error }.into(),
    }
}

/// The error of a file that was listed and cannot be read.
pub(super) fn lost(path: &Path, error: io::Error) -> HistoryError {
    match error.kind() {
        io::ErrorKind::NotFound => HistoryError::Vanished { path: path.to_owned() },
        _ => StorageError::io("read", path)(error).into(),
    }
}
