//! What a log contains after its last good record: nothing, the rest of records that were never
//! acknowledged and that a crash has left, or damage.
//!
//! A log is extended with zeros, so bytes that did not reach the disk are zeros. A crash of the
//! process, or of a machine whose disk writes in order, leaves the beginning of a record and zeros
//! after it. When the power fails the disk may have written some sectors of the last batch and not
//! others: then there are whole sectors of zeros among the written bytes, and all of them lie
//! within the length of one batch. Any other content was changed after it was written, and so was a
//! record whose checksum shows that it ends elsewhere than its length says.

use std::io::{self, Read};

use simd_adler32::Adler32;

use super::log_reader::{FRAME_BYTES, RECORD_END};
use crate::limits::{LOG_BATCH_BYTES_MAX, LOG_RECORD_BYTES_MAX};

/// The bytes that a disk writes atomically.
const SECTOR_BYTES: usize = 512;

/// The bytes of a checksum that are always zero: Adler-32 fills half of its field.
const ZERO_BYTES: u64 = 4;

/// What follows the last good record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    /// Nothing.
    Clean,
    /// The rest of records that were being written in a crash; it ends at this offset.
    Torn { behind: u64 },
    /// Damaged records, which end at this offset.
    Damaged { behind: u64 },
}

/// Classifies the content of a log from `from` on, where no record could be decoded. `is_whole`
/// says that the record there is complete and has a wrong checksum.
pub(super) fn look(mut log: impl Read, from: u64, is_whole: bool) -> io::Result<Tail> {
    io::copy(&mut log.by_ref().take(from), &mut io::sink())?;
    look_at(log, from, is_whole)
}

/// As [`look`], for a log whose reader is at `from` already.
pub(super) fn look_at(mut log: impl Read, from: u64, is_whole: bool) -> io::Result<Tail> {
    let mut sector = [0; SECTOR_BYTES];
    let mut at = from;
    let mut record = Record::default();
    let mut last = None;
    // Where sectors of zeros begin that may be lost, and whether written bytes follow one.
    let mut zeros_at: Option<u64> = None;
    let mut lost_at = None;
    loop {
        let wanted = SECTOR_BYTES - (at % SECTOR_BYTES as u64) as usize;
        let count = read_up_to(&mut log, &mut sector[..wanted])?;
        let piece = &sector[..count];
        record.add(piece);
        if piece == &ZEROS[..count] {
            // Where a record itself has zeros, zeros do not show that a sector was lost.
            if at + count as u64 > from + ZERO_BYTES {
                zeros_at = zeros_at.or(Some(at));
            }
        } else {
            let nonzero = piece.iter().rposition(|&byte| byte != 0).unwrap_or(0);
            last = Some(at + nonzero as u64);
            lost_at = lost_at.or(zeros_at);
        }
        at += count as u64;
        if count < wanted {
            break;
        }
    }
    let Some(last) = last else { return Ok(Tail::Clean) };
    let mark_at = from + (FRAME_BYTES + record.claimed_length()) as u64;
    let is_torn = !is_whole && last < mark_at;
    let is_lost = lost_at.is_some_and(|lost| lost <= mark_at);
    let batch_end = mark_at.max(from + LOG_BATCH_BYTES_MAX as u64);
    if !record.ends_elsewhere && (is_torn || (is_lost && last <= batch_end)) {
        Ok(Tail::Torn { behind: last })
    } else {
        Ok(Tail::Damaged { behind: last })
    }
}

const ZEROS: [u8; SECTOR_BYTES] = [0; SECTOR_BYTES];

/// The record that could not be decoded.
#[derive(Default)]
struct Record {
    frame: Vec<u8>,
    sum: Adler32,
    /// Whether its checksum shows that it ends elsewhere than its length says.
    ends_elsewhere: bool,
    bytes: usize,
}

impl Record {
    /// Takes the next bytes of the log.
    fn add(&mut self, piece: &[u8]) {
        let missing = FRAME_BYTES - self.frame.len();
        let (frame, rest) = piece.split_at(missing.min(piece.len()));
        self.frame.extend_from_slice(frame);
        if self.ends_elsewhere || self.bytes > LOG_RECORD_BYTES_MAX {
            return;
        }
        for part in rest.split_inclusive(|&byte| byte == RECORD_END) {
            let bytes = part.strip_suffix(&[RECORD_END]).unwrap_or(part);
            self.sum.write(bytes);
            self.bytes += bytes.len();
            if bytes.len() < part.len() {
                let is_end = self.frame[..8] == u64::from(self.sum.finish()).to_be_bytes();
                self.ends_elsewhere |= is_end && self.bytes != self.claimed_length();
                self.sum.write(&[RECORD_END]);
                self.bytes += 1;
            }
        }
    }

    /// Its length, as far as the length was written.
    fn claimed_length(&self) -> usize {
        let mut length = [0; 4];
        for (to, from) in length.iter_mut().zip(self.frame.iter().skip(FRAME_BYTES - 4)) {
            *to = *from;
        }
        let length = usize::try_from(i32::from_be_bytes(length)).unwrap_or(0);
        length.min(LOG_RECORD_BYTES_MAX)
    }
}

fn read_up_to(input: &mut impl Read, out: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while count < out.len() {
        match input.read(&mut out[count..]) {
            Ok(0) => break,
            Ok(read) => count += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record that begins at 600, in a log of zeros of 64 sectors.
    fn log(length: i32, is_there: impl Fn(usize) -> bool) -> Vec<u8> {
        let mut log = vec![0; 64 * SECTOR_BYTES];
        log[..600].fill(0xaa);
        let end = 600 + FRAME_BYTES + usize::try_from(length).expect("a length");
        log[600..end].fill(7);
        log[608..612].copy_from_slice(&length.to_be_bytes());
        log[end] = b'B';
        // And another record after it.
        log[end + 1..end + 100].fill(9);
        for (at, byte) in log.iter_mut().enumerate().skip(600) {
            if !is_there(at) {
                *byte = 0;
            }
        }
        log
    }

    #[test]
    fn only_zeros_after_the_last_record_mean_a_clean_end() {
        let log = log(1_000, |_| false);
        assert_eq!(look(&log[..], 600, false).unwrap(), Tail::Clean);
        assert_eq!(look(&log[..600], 600, false).unwrap(), Tail::Clean);
    }

    #[test]
    fn a_record_whose_end_was_not_written_is_torn() {
        for cut in 601..600 + FRAME_BYTES + 1_000 {
            let log = log(1_000, |at| at < cut);
            let tail = look(&log[..], 600, false).unwrap();
            assert!(matches!(tail, Tail::Torn { .. }), "cut at {cut}: {tail:?}");
            assert_eq!(look(&log[..cut], 600, false).unwrap(), tail, "ends at {cut}");
        }
    }

    #[test]
    fn a_record_with_an_unwritten_sector_is_torn_whatever_follows_it() {
        for lost in [1, 2, 3] {
            let log = log(1_000, |at| at / SECTOR_BYTES != lost);
            let behind = log.iter().rposition(|&byte| byte != 0).expect("some are there") as u64;
            let tail = look(&log[..], 600, lost == 2).unwrap();
            assert_eq!(tail, Tail::Torn { behind }, "sector {lost}");
        }
    }

    #[test]
    fn a_complete_record_with_changed_bytes_is_damage() {
        let log = log(1_000, |_| true);
        let behind = (600 + FRAME_BYTES + 1_000 + 99) as u64;
        assert_eq!(look(&log[..], 600, true).unwrap(), Tail::Damaged { behind });
        assert_eq!(look(&log[..], 600, false).unwrap(), Tail::Damaged { behind });
    }

    #[test]
    fn a_lost_sector_before_records_that_were_synced_later_is_damage() {
        let mut log = log(1_000, |at| at / SECTOR_BYTES != 2);
        log.resize(LOG_BATCH_BYTES_MAX + 10_000, 0);
        log[LOG_BATCH_BYTES_MAX + 5_000] = 1;
        let behind = (LOG_BATCH_BYTES_MAX + 5_000) as u64;
        assert_eq!(look(&log[..], 600, true).unwrap(), Tail::Damaged { behind });
    }

    /// A record with a right checksum that begins at `from`, in a log of zeros of 64 sectors.
    fn log_of_one(from: usize, payload: &[u8]) -> Vec<u8> {
        let mut log = vec![0; 64 * SECTOR_BYTES];
        log[..from].fill(0xaa);
        let sum = u64::from(simd_adler32::adler32(&payload));
        log[from..from + 8].copy_from_slice(&sum.to_be_bytes());
        let length = i32::try_from(payload.len()).expect("a length");
        log[from + 8..from + FRAME_BYTES].copy_from_slice(&length.to_be_bytes());
        let end = from + FRAME_BYTES + payload.len();
        log[from + FRAME_BYTES..end].copy_from_slice(payload);
        log[end] = b'B';
        log
    }

    #[test]
    fn a_changed_byte_is_damage_wherever_the_record_begins_in_its_sector() {
        for from in 512..1_024 {
            let mut log = log_of_one(from, &[7; 1_000]);
            log[from + 500] ^= 1;
            let tail = look(&log[..], from as u64, true).unwrap();
            assert!(matches!(tail, Tail::Damaged { .. }), "begins at {from}: {tail:?}");
        }
    }

    #[test]
    fn a_complete_record_with_a_changed_length_is_damage() {
        for bit in 0..24 {
            let mut log = log_of_one(600, &[b'B'; 1_000]);
            log[609 + bit / 8] ^= 1 << (bit % 8);
            let tail = look(&log[..], 600, false).unwrap();
            assert!(matches!(tail, Tail::Damaged { .. }), "bit {bit}: {tail:?}");
        }
    }
}
