//! Cuts a log into records. Unlike [`LogReader`](crate::storage::LogReader), which holds one record at a time,
//! it reads large blocks, and the records share their memory.

use std::io::{self, Read};

use bytes::Bytes;

use crate::limits::LOG_RECORD_BYTES_MAX;
use crate::storage::log_reader::{
    FRAME_BYTES, HEADER_BYTES, LogEnd, LogError, MAGIC, RECORD_END, VERSION,
};

/// The bytes that are read at once. Longer ones are not read faster.
const BLOCK_BYTES: usize = 256 << 10;

/// The records of a log.
pub(super) struct Frames {
    input: Box<dyn Read + Send>,
    /// What was read and is not cut yet.
    block: Bytes,
    /// The offset of the next record.
    offset: u64,
    end: Option<LogEnd>,
}

impl Frames {
    /// Reads a log from its beginning.
    pub(super) fn new(input: Box<dyn Read + Send>) -> Result<Self, LogError> {
        let mut frames = Self::at(input, 0);
        frames.fill(HEADER_BYTES)?;
        let Some(&header) = frames.block.first_chunk::<HEADER_BYTES>() else {
            return Err(LogError::Short(frames.block.len()));
        };
        let [a, b, c, d, e, f, g, h, ..] = header;
        if [a, b, c, d] != MAGIC {
            return Err(LogError::Magic(u32::from_be_bytes([a, b, c, d])));
        }
        match i32::from_be_bytes([e, f, g, h]) {
            VERSION => {}
            version => return Err(LogError::Version(version)),
        }
        frames.skip(HEADER_BYTES);
        Ok(frames)
    }

    /// Reads a log from a record on, whose offset the input has reached.
    pub(super) fn at(input: Box<dyn Read + Send>, offset: u64) -> Self {
        Self { input, block: Bytes::new(), offset, end: None }
    }

    /// The offset of the next record.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next record with its offset; `None` at the end of the log.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Bytes)>, LogError> {
        if self.end.is_some() {
            return Ok(None);
        }
        let offset = self.offset;
        self.fill(FRAME_BYTES)?;
        let Some(&frame) = self.block.first_chunk::<FRAME_BYTES>() else {
            // A log that was extended with zeros may end anywhere in them.
            let is_clean = self.block.iter().all(|&byte| byte == 0);
            return Ok(self.finish(is_clean));
        };
        let [checksum @ .., l0, l1, l2, l3] = frame;
        let expected = u64::from_be_bytes(checksum);
        let length = i32::from_be_bytes([l0, l1, l2, l3]);
        if length == 0 {
            return Ok(self.finish(expected == 0));
        }
        let length = match usize::try_from(length) {
            Ok(bytes) if bytes <= LOG_RECORD_BYTES_MAX => bytes,
            _ => return Err(LogError::Length { offset, length }),
        };
        let whole = FRAME_BYTES + length + 1;
        self.fill(whole)?;
        if self.block.len() < whole || self.block[whole - 1] != RECORD_END {
            return Ok(self.finish(false));
        }
        let record = self.block.slice(FRAME_BYTES..FRAME_BYTES + length);
        let got = simd_adler32::adler32(&&record[..]);
        if u64::from(got) != expected {
            return Err(LogError::Checksum { offset, expected, got });
        }
        self.skip(whole);
        Ok(Some((offset, record)))
    }

    fn skip(&mut self, bytes: usize) {
        self.block = self.block.slice(bytes..);
        self.offset += bytes as u64;
    }

    fn finish(&mut self, is_clean: bool) -> Option<(u64, Bytes)> {
        let offset = self.offset;
        self.end = Some(if is_clean { LogEnd::Clean { offset } } else { LogEnd::Torn { offset } });
        None
    }

    /// Reads until so many bytes are in the block, or the file ends. It allocates memory for bytes that exist,
    /// not for a claimed number.
    fn fill(&mut self, wanted: usize) -> io::Result<()> {
        if self.block.len() >= wanted {
            return Ok(());
        }
        let mut block = Vec::with_capacity(BLOCK_BYTES);
        block.extend_from_slice(&self.block);
        let missing = wanted.max(BLOCK_BYTES) - block.len();
        self.input.by_ref().take(missing as u64).read_to_end(&mut block)?;
        self.block = block.into();
        Ok(())
    }
}
