//! Writes transaction logs (`FileTxnLog`).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use zoolet_core::Txn;
use zoolet_protocol::Zxid;

use super::config::StorageConfig;
use super::directory::Directory;
use super::disk::DiskFile;
use super::error::StorageError;
use super::log_reader::{FRAME_BYTES, HEADER_BYTES, MAGIC, RECORD_END, VERSION};
use super::mark::{Mark, MarkFile};
use super::stats::StorageStats;
use super::txn_record::encode_txn;
use crate::clock::{ms_since, now};
use crate::limits::{LOG_RESERVED_BYTES_MAX, LOG_RESERVED_BYTES_MIN};

/// A log is extended when it has fewer free bytes.
const ROOM_BYTES_MIN: u64 = 4096;

/// Disk space is reserved in multiples of a page, which is what file systems take at once.
const PAGE_BYTES: u64 = 4096;

/// Appends a transaction in the format of a log: a checksum, a length, the record and an end mark.
///
/// ```
/// use bytes::BytesMut;
/// use zoolet_core::{Core, Settings};
/// use zoolet_protocol::SessionId;
/// use zoolet_server::storage::{LogReader, encode_log_record};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let txn = Core::new(Settings::default()).prepare_create_session(SessionId(1), 30_000, 0);
/// let mut log = BytesMut::from(&b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0"[..]);
/// encode_log_record(&txn, &mut log);
/// let mut log = LogReader::new(&log[..])?;
/// assert_eq!(log.next_record()?.expect("there is one").txn, txn);
/// # Ok(())
/// # }
/// ```
pub fn encode_log_record(txn: &Txn, out: &mut BytesMut) {
    let start = out.len();
    out.put_bytes(0, FRAME_BYTES);
    encode_txn(txn, out);
    let record = &out[start + FRAME_BYTES..];
    let length = i32::try_from(record.len()).expect("a request is shorter than 2 GiB");
    let checksum = u64::from(simd_adler32::adler32(&record));
    out[start..start + 8].copy_from_slice(&checksum.to_be_bytes());
    out[start + 8..start + FRAME_BYTES].copy_from_slice(&length.to_be_bytes());
    out.put_u8(RECORD_END);
}

/// Writes records to the current log.
///
/// The header and the name of a new log are synced before its first record. So a log without a
/// complete header contains no acknowledged record.
#[derive(Debug)]
pub(super) struct LogWriter {
    directory: Directory,
    /// By how many bytes a log is extended ahead of its records: `preAllocSize`.
    allocate_bytes: u64,
    /// `fsync.warningthresholdms`.
    sync_warning: Duration,
    /// Whether files and names are synced at all.
    is_synced: bool,
    /// `None` if records are not synced.
    mark: Option<MarkFile>,
    open: Option<OpenLog>,
    stats: Arc<StorageStats>,
}

#[derive(Debug)]
struct OpenLog {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    first: Zxid,
    written: u64,
    /// Where the zeros end by which it was extended.
    allocated: u64,
    /// Where the disk space ends that it takes; `None` after an error.
    reserved: Option<u64>,
}

impl LogWriter {
    /// A writer, which syncs its records if it has a mark to update.
    pub(super) fn new(
        directory: Directory,
        config: &StorageConfig,
        mark: Option<MarkFile>,
        stats: Arc<StorageStats>,
    ) -> Self {
        let StorageConfig { allocate_bytes, sync_warning, .. } = *config;
        let is_synced = mark.is_some();
        Self { directory, allocate_bytes, sync_warning, is_synced, mark, open: None, stats }
    }

    /// Writes records and syncs them. `first` is the zxid of the first record.
    pub(super) fn write(&mut self, first: Zxid, records: &[u8]) -> Result<(), StorageError> {
        let mut log = match self.open.take() {
            Some(log) => log,
            None => self.begin(first)?,
        };
        let end = log.written + records.len() as u64;
        if end + ROOM_BYTES_MIN > log.allocated && self.allocate_bytes > 0 {
            let steps = (end + ROOM_BYTES_MIN).div_ceil(self.allocate_bytes);
            log.allocate(steps * self.allocate_bytes + HEADER_BYTES as u64)?;
        }
        log.file.write_all(records).map_err(StorageError::io("write to", &log.path))?;
        log.written = end;
        if self.is_synced {
            // After the write: on a disk that is almost full, the records come first.
            log.reserve_behind(end);
            let begin = now();
            log.file.sync().map_err(StorageError::io("sync", &log.path))?;
            self.synced_in(ms_since(begin));
        }
        // After an error the log is not written again, because its content is not known.
        self.open = Some(log);
        Ok(())
    }

    fn synced_in(&self, ms: u64) {
        self.stats.fsync_time.record(ms);
        if Duration::from_millis(ms) > self.sync_warning {
            self.stats.slow_syncs.add(1);
            tracing::warn!(
                "the disk took {ms} ms to sync the log, and every write waits for it; give the log \
                 a disk of its own (dataLogDir)"
            );
        }
    }

    fn begin(&self, first: Zxid) -> Result<OpenLog, StorageError> {
        let path = self.directory.log_path(first);
        let disk = &self.directory.disk;
        let file = disk.create(&path).map_err(StorageError::io("create", &path))?;
        let written = HEADER_BYTES as u64;
        let mut log = OpenLog { file, path, first, written, allocated: 0, reserved: Some(0) };
        let mut header = BytesMut::with_capacity(HEADER_BYTES);
        header.put_slice(&MAGIC);
        header.put_i32(VERSION);
        // An id that no server reads.
        header.put_i64(0);
        log.file.write_all(&header).map_err(StorageError::io("write to", &log.path))?;
        if self.allocate_bytes > 0 {
            log.allocate(self.allocate_bytes + HEADER_BYTES as u64)?;
        }
        if self.is_synced {
            log.reserve_behind(written);
            log.file.sync().map_err(StorageError::io("sync", &log.path))?;
            let logs = &self.directory.logs;
            disk.sync_directory(logs).map_err(StorageError::io("sync", logs))?;
        }
        Ok(log)
    }

    /// Ends the current log; the next record begins another. The file is truncated after its last
    /// record.
    pub(super) fn end(&mut self) -> Result<(), StorageError> {
        if let Some(mut log) = self.open.take() {
            log.file.set_length(log.written).map_err(StorageError::io("cut", &log.path))?;
            if self.is_synced {
                log.file.sync().map_err(StorageError::io("sync", &log.path))?;
            }
        }
        self.mark.as_mut().map_or(Ok(()), MarkFile::sync)
    }

    /// Updates the mark: everything up to `last`, the last written record, is durable.
    pub(super) fn mark(&mut self, last: Zxid) -> Result<(), StorageError> {
        match (&mut self.mark, &self.open) {
            (Some(mark), Some(log)) => mark.write(Mark { last, log: log.first, end: log.written }),
            _ => Ok(()),
        }
    }
}

impl OpenLog {
    fn allocate(&mut self, bytes: u64) -> Result<(), StorageError> {
        self.file.set_length(bytes).map_err(StorageError::io("make longer", &self.path))?;
        self.allocated = bytes;
        Ok(())
    }

    /// Takes disk space for the records behind `end`, unless there is some left. Without it the file
    /// system takes space for every few records, and each sync that has to record that as well takes
    /// up to twice as long.
    fn reserve_behind(&mut self, end: u64) {
        if self.reserved.is_none_or(|reserved| reserved >= end) {
            return;
        }
        let begin = end.next_multiple_of(PAGE_BYTES);
        let ahead = end.clamp(LOG_RESERVED_BYTES_MIN, LOG_RESERVED_BYTES_MAX);
        let part = begin..(begin + ahead).min(self.allocated);
        if part.is_empty() {
            return;
        }
        self.reserved = Some(part.end);
        if let Err(error) = self.file.reserve(part) {
            // The records need less space, and their write tells whether it is there.
            tracing::debug!("{}: no space is reserved: {error}", self.path.display());
            self.reserved = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::ops::Range;

    use parking_lot::Mutex;

    use super::*;
    use crate::storage::MemDisk;

    #[test]
    fn a_sync_that_takes_longer_than_the_threshold_is_counted() {
        let config = StorageConfig {
            sync_warning: Duration::from_millis(20),
            disk: Arc::new(MemDisk::default()),
            ..StorageConfig::at("/data")
        };
        let stats = Arc::new(StorageStats::default());
        let writer = LogWriter::new(Directory::of(&config), &config, None, Arc::clone(&stats));
        for (ms, count) in [(0, 0), (20, 0), (21, 1), (1_000, 2)] {
            writer.synced_in(ms);
            assert_eq!(stats.slow_syncs.value(), count, "{ms} ms");
        }
    }

    /// A file that notes which parts are reserved and refuses those beyond a limit, on a disk with
    /// room for so many more bytes.
    #[derive(Debug)]
    struct Reserving {
        parts: Arc<Mutex<Vec<Range<u64>>>>,
        limit: u64,
        room: u64,
    }

    impl Reserving {
        /// A file system takes all that there is before it refuses the rest.
        fn take(&mut self, bytes: u64) -> io::Result<()> {
            let taken = bytes.min(self.room);
            self.room -= taken;
            if taken == bytes { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
        }
    }

    impl Write for Reserving {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.take(bytes.len() as u64)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl DiskFile for Reserving {
        fn write_at(&mut self, _position: u64, _bytes: &[u8]) -> io::Result<()> {
            Ok(())
        }

        fn set_length(&mut self, _length: u64) -> io::Result<()> {
            Ok(())
        }

        fn reserve(&mut self, part: Range<u64>) -> io::Result<()> {
            if part.end > self.limit {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.take(part.end - part.start)?;
            self.parts.lock().push(part);
            Ok(())
        }

        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn reserving(limit: u64, allocated: u64) -> (OpenLog, Arc<Mutex<Vec<Range<u64>>>>) {
        let parts = Arc::default();
        let file = Box::new(Reserving { parts: Arc::clone(&parts), limit, room: 64 << 20 });
        let (path, first) = (PathBuf::from("/log.1"), Zxid(1));
        (OpenLog { file, path, first, written: 16, allocated, reserved: Some(0) }, parts)
    }

    #[test]
    fn what_is_reserved_lies_behind_the_records_and_before_the_end_of_the_file() {
        let (mut log, parts) = reserving(u64::MAX, 8 << 20);
        let mut rng = fastrand::Rng::with_seed(1);
        let mut end = 16;
        while end < 8 << 20 {
            let before = parts.lock().len();
            log.reserve_behind(end);
            for part in &parts.lock()[before..] {
                assert!(part.start >= end, "{part:?} has records, which end at {end}");
                assert!(
                    part.start < end + PAGE_BYTES && part.end <= 8 << 20,
                    "{part:?} after {end}"
                );
                assert!(part.end - part.start <= LOG_RESERVED_BYTES_MAX, "{part:?}");
            }
            assert!(log.reserved.is_some_and(|reserved| reserved >= end || reserved == 8 << 20));
            end += rng.u64(1..300_000);
        }
        assert!(parts.lock().len() > 5);
    }

    #[test]
    fn on_a_disk_that_is_almost_full_the_records_come_first() {
        let config =
            StorageConfig { disk: Arc::new(MemDisk::default()), ..StorageConfig::at("/data") };
        let mut writer = LogWriter::new(Directory::of(&config), &config, None, Arc::default());
        let file = Reserving { parts: Arc::default(), limit: u64::MAX, room: 70_000 };
        let path = PathBuf::from("/log.1");
        let (first, allocated) = (Zxid(1), 8 << 20);
        let file = Box::new(file);
        writer.open =
            Some(OpenLog { file, path, first, written: 16, allocated, reserved: Some(0) });
        writer.is_synced = true;
        writer.write(first, &[7; 60_000]).expect("there is room for the records");
        assert_eq!(writer.open.and_then(|log| log.reserved), None, "there is no room for more");
    }

    #[test]
    fn a_disk_without_space_is_asked_for_it_no_more() {
        let (mut log, parts) = reserving(100_000, 8 << 20);
        log.reserve_behind(16);
        log.reserve_behind(70_000);
        assert_eq!((parts.lock().len(), log.reserved), (1, None));
        log.reserve_behind(20_000);
        assert_eq!(parts.lock().len(), 1);
    }
}
