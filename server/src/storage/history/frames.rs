//! Cuts a log into records. Unlike [`LogReader`](crate::storage::LogReader), which holds one record at a time,
//! it reads large blocks, and the records share their memory.

use std::io::{self, Read};

use bytes::{Buf, Bytes};

use crate::storage::log_reader::{
    FRAME_BYTES, Frame, HEADER_BYTES, LogEnd, LogError, RECORD_END, check_header, check_sum,
    read_frame,
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
        check_header(&frames.block)?;
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
        let (expected, length) = match read_frame(&self.block, offset)? {
            Frame::Record { checksum, length } => (checksum, length),
            Frame::End { is_clean } => return Ok(self.finish(is_clean)),
        };
        let whole = FRAME_BYTES + length + 1;
        self.fill(whole)?;
        if self.block.len() < whole || self.block[whole - 1] != RECORD_END {
            return Ok(self.finish(false));
        }
        let record = self.block.slice(FRAME_BYTES..FRAME_BYTES + length);
        check_sum(&record, expected, offset)?;
        self.skip(whole);
        Ok(Some((offset, record)))
    }

    fn skip(&mut self, bytes: usize) {
        self.block.advance(bytes);
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
