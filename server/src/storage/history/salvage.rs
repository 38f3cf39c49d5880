//! Finds the records behind a damaged place of a log.

use std::io::{self, Read};
use std::path::PathBuf;

use bytes::Bytes;
use zoolet_protocol::Zxid;

use crate::storage::log_reader::{FRAME_BYTES, Frame, RECORD_END, check_sum, read_frame};
use crate::storage::txn_record::decode_txn;

/// A place of a log that cannot be read.
///
/// ```
/// use zoolet_server::storage::history::Damage;
///
/// let damage = Damage { path: "version-2/log.1".into(), offset: 900, behind: None };
/// assert!(damage.to_string().ends_with("log.1: no record is found behind the damage at offset 900"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Damage {
    /// The log.
    pub path: PathBuf,
    /// The offset behind the last record before it.
    pub offset: u64,
    /// The offset of the next record that can be read, if this log has one.
    pub behind: Option<u64>,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (path, offset) = (self.path.display(), self.offset);
        match self.behind {
            Some(behind) => write!(
                f,
                "{path}: behind the damage at offset {offset} records are found again from offset {behind} on"
            ),
            None => write!(f, "{path}: no record is found behind the damage at offset {offset}"),
        }
    }
}

/// The shortest record: the header of a transaction.
const RECORD_BYTES_MIN: usize = 32;

/// A file whose bytes look like the beginnings of many long records is not searched for ever.
const SUMMED_BYTES_MAX: u64 = 1 << 30;

/// A later epoch than this many further is no epoch, but other bytes.
const EPOCHS_FURTHER_MAX: i64 = 1 << 16;

/// The bytes that are read at once.
const BLOCK_BYTES: usize = 256 << 10;

/// Searches what follows `offset`, which the input has reached, for a record of a transaction after `after`.
/// Returns its offset.
pub(super) fn find(input: impl Read, offset: u64, after: Zxid) -> io::Result<Option<u64>> {
    let mut window = Window { input, bytes: Vec::new(), begin: 0, is_at_end: false };
    let mut at = offset;
    let mut summed = 0;
    loop {
        if !window.fill(FRAME_BYTES + RECORD_BYTES_MIN + 1)? {
            return Ok(None);
        }
        if let Some(length) = plausible(window.rest(), after) {
            let whole = FRAME_BYTES + length + 1;
            if window.fill(whole)? && is_record(&window.rest()[..whole], length, &mut summed) {
                return Ok(Some(at));
            }
            if summed > SUMMED_BYTES_MAX {
                return Ok(None);
            }
        }
        window.begin += 1;
        at += 1;
    }
}

/// The length of a record that may begin here.
fn plausible(bytes: &[u8], after: Zxid) -> Option<usize> {
    // Adler-32 fills half of its field.
    if bytes[..4] != [0; 4] {
        return None;
    }
    let Ok(Frame::Record { length, .. }) = read_frame(bytes, 0) else { return None };
    // Behind the session and the number of the request.
    let zxid = bytes[FRAME_BYTES + 12..].first_chunk().map(|it| i64::from_be_bytes(*it))?;
    let is_later = zxid > after.0 && zxid < i64::MAX;
    let is_near = (zxid >> 32).saturating_sub(after.0 >> 32) <= EPOCHS_FURTHER_MAX;
    (length >= RECORD_BYTES_MIN && is_later && is_near).then_some(length)
}

fn is_record(bytes: &[u8], length: usize, summed: &mut u64) -> bool {
    if bytes.last() != Some(&RECORD_END) {
        return false;
    }
    let Ok(Frame::Record { checksum, .. }) = read_frame(bytes, 0) else { return false };
    let record = &bytes[FRAME_BYTES..FRAME_BYTES + length];
    *summed += length as u64;
    check_sum(record, checksum, 0).is_ok() && decode_txn(Bytes::copy_from_slice(record)).is_ok()
}

struct Window<R> {
    input: R,
    bytes: Vec<u8>,
    begin: usize,
    is_at_end: bool,
}

impl<R: Read> Window<R> {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.begin..]
    }

    /// Reads until so many bytes are there. Returns whether they are.
    fn fill(&mut self, wanted: usize) -> io::Result<bool> {
        while self.rest().len() < wanted && !self.is_at_end {
            self.bytes.drain(..self.begin);
            self.begin = 0;
            let more = wanted.saturating_sub(self.bytes.len()).clamp(BLOCK_BYTES, 16 * BLOCK_BYTES);
            let read = self.input.by_ref().take(more as u64).read_to_end(&mut self.bytes)?;
            self.is_at_end = read == 0;
        }
        Ok(self.rest().len() >= wanted)
    }
}
