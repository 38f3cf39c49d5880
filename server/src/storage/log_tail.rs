//! What stands in a log behind its last good record: nothing, what a crash has left of records that
//! nobody was told of, or damage.
//!
//! A log grows into zeros, so what did not reach the disk is zeros. A crash of the process, or one of
//! the machine on which writes go in order, leaves the beginning of a record and zeros behind it. When
//! the machine loses power the disk may have written some sectors of the last batch and not others:
//! then there are whole sectors of zeros between what was written, and all of it lies within one
//! batch. Everything else was written and is no longer what it was.

use std::io::{self, Read};

use super::log_reader::FRAME_BYTES;
use crate::limits::{LOG_BATCH_BYTES_MAX, LOG_RECORD_BYTES_MAX};

/// What a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;

/// What stands behind the last good record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    /// Nothing.
    Clean,
    /// What was being written when it ended.
    Torn,
    /// Something that was written whole, whose last byte is here.
    Damaged { behind: u64 },
}

/// Looks at what stands in a log from `from` on, where no record could be read. `is_whole` says that
/// there is one to its end, with the wrong checksum.
pub(super) fn look(mut log: impl Read, from: u64, is_whole: bool) -> io::Result<Tail> {
    io::copy(&mut log.by_ref().take(from), &mut io::sink())?;
    let mut sector = [0; SECTOR_BYTES];
    let mut at = from;
    let mut frame = Vec::with_capacity(FRAME_BYTES);
    let mut last = None;
    // Where sectors of zeros begin that may be lost, and whether something stands behind one.
    let mut zeros_at: Option<u64> = None;
    let mut lost_at = None;
    loop {
        let wanted = SECTOR_BYTES - (at % SECTOR_BYTES as u64) as usize;
        let count = read_up_to(&mut log, &mut sector[..wanted])?;
        let piece = &sector[..count];
        let missing = FRAME_BYTES - frame.len();
        frame.extend_from_slice(&piece[..count.min(missing)]);
        if piece == &ZEROS[..count] {
            zeros_at = zeros_at.or(Some(at));
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
    let mark_at = from + (FRAME_BYTES + claimed_length(&frame)) as u64;
    let is_torn = !is_whole && last < mark_at;
    let is_lost = lost_at.is_some_and(|lost| lost <= mark_at);
    let batch_end = mark_at.max(from + LOG_BATCH_BYTES_MAX as u64);
    if is_torn || (is_lost && last <= batch_end) {
        Ok(Tail::Torn)
    } else {
        Ok(Tail::Damaged { behind: last })
    }
}

const ZEROS: [u8; SECTOR_BYTES] = [0; SECTOR_BYTES];

/// The length of the record that begins with `frame`, as far as that was written.
fn claimed_length(frame: &[u8]) -> usize {
    let mut length = [0; 4];
    for (to, from) in length.iter_mut().zip(frame.iter().skip(FRAME_BYTES - 4)) {
        *to = *from;
    }
    let length = usize::try_from(i32::from_be_bytes(length)).unwrap_or(0);
    length.min(LOG_RECORD_BYTES_MAX)
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
        // And another one behind it.
        log[end + 1..end + 100].fill(9);
        for (at, byte) in log.iter_mut().enumerate().skip(600) {
            if !is_there(at) {
                *byte = 0;
            }
        }
        log
    }

    #[test]
    fn zeros_are_nothing() {
        let log = log(1_000, |_| false);
        assert_eq!(look(&log[..], 600, false).unwrap(), Tail::Clean);
        assert_eq!(look(&log[..600], 600, false).unwrap(), Tail::Clean);
    }

    #[test]
    fn a_record_of_which_the_beginning_was_written_is_torn() {
        for cut in 601..600 + FRAME_BYTES + 1_000 {
            let log = log(1_000, |at| at < cut);
            assert_eq!(look(&log[..], 600, false).unwrap(), Tail::Torn, "cut at {cut}");
            assert_eq!(look(&log[..cut], 600, false).unwrap(), Tail::Torn, "ends at {cut}");
        }
    }

    #[test]
    fn a_record_of_which_a_sector_was_not_written_is_torn_whatever_stands_behind_it() {
        for lost in [1, 2, 3] {
            let log = log(1_000, |at| at / SECTOR_BYTES != lost);
            assert_eq!(look(&log[..], 600, lost == 2).unwrap(), Tail::Torn, "sector {lost}");
        }
    }

    #[test]
    fn a_whole_record_with_wrong_bytes_is_damage() {
        let log = log(1_000, |_| true);
        let behind = (600 + FRAME_BYTES + 1_000 + 99) as u64;
        assert_eq!(look(&log[..], 600, true).unwrap(), Tail::Damaged { behind });
        assert_eq!(look(&log[..], 600, false).unwrap(), Tail::Damaged { behind });
    }

    #[test]
    fn a_lost_sector_with_records_behind_it_that_were_synced_later_is_damage() {
        let mut log = log(1_000, |at| at / SECTOR_BYTES != 2);
        log.resize(LOG_BATCH_BYTES_MAX + 10_000, 0);
        log[LOG_BATCH_BYTES_MAX + 5_000] = 1;
        let behind = (LOG_BATCH_BYTES_MAX + 5_000) as u64;
        assert_eq!(look(&log[..], 600, true).unwrap(), Tail::Damaged { behind });
    }
}
