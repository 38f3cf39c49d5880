//! Compression of snapshots (`SnapStream`).

use std::io::{self, BufReader, Read, Write};

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use crate::limits::SNAPPY_BLOCK_BYTES_MAX;

/// How a snapshot is compressed: `snapshot.compression.method`.
///
/// ```
/// use zoolet_server::storage::Compression;
///
/// assert_eq!("gz".parse(), Ok(Compression::Gzip));
/// assert_eq!("".parse(), Ok(Compression::None));
/// assert!("zip".parse::<Compression>().is_err());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Compression {
    /// Without compression.
    #[default]
    None,
    /// With gzip.
    Gzip,
    /// With Snappy, in the block format of the Java library.
    Snappy,
}

/// The name of an unknown compression.
///
/// ```
/// use zoolet_server::storage::Compression;
///
/// let error = "zip".parse::<Compression>().unwrap_err();
/// assert_eq!(error.to_string(), "must be gz, snappy or nothing");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be gz, snappy or nothing")]
pub struct UnknownCompression;

impl std::str::FromStr for Compression {
    type Err = UnknownCompression;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim() {
            "" => Ok(Self::None),
            name => Self::of_extension(name).ok_or(UnknownCompression),
        }
    }
}

impl Compression {
    /// The extension of a file name, with the dot.
    pub(super) fn extension(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gzip => ".gz",
            Self::Snappy => ".snappy",
        }
    }

    pub(super) fn of_extension(extension: &str) -> Option<Self> {
        match extension {
            "gz" => Some(Self::Gzip),
            "snappy" => Some(Self::Snappy),
            _ => None,
        }
    }

    /// Decompresses a file.
    pub(super) fn reader(self, input: Box<dyn Read + Send>) -> Box<dyn Read + Send> {
        match self {
            Self::None => input,
            Self::Gzip => Box::new(BufReader::new(MultiGzDecoder::new(input))),
            Self::Snappy => {
                Box::new(SnappyReader { input, block: Vec::new(), taken: 0, begun: false })
            }
        }
    }

    /// What a stream is compressed with that begins with these bytes.
    pub(super) fn of_content(begin: &[u8]) -> Self {
        match begin {
            [0x1f, 0x8b, ..] => Self::Gzip,
            _ if begin.starts_with(&SNAPPY_HEADER[..8]) => Self::Snappy,
            _ => Self::None,
        }
    }

    /// Compresses the output of `write`.
    pub(super) fn write(
        self,
        output: &mut dyn Write,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        match self {
            Self::None => write(output),
            Self::Gzip => {
                let mut encoder = GzEncoder::new(output, flate2::Compression::fast());
                write(&mut encoder)?;
                encoder.finish().map(drop)
            }
            Self::Snappy => {
                output.write_all(SNAPPY_HEADER)?;
                let mut writer = SnappyWriter { output, block: Vec::new() };
                write(&mut writer)?;
                writer.end_block()
            }
        }
    }
}

/// The header of the Java library: magic, version, and the lowest version that can read the file.
const SNAPPY_HEADER: &[u8; 16] = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";

/// The bytes of a block of the Java library.
const SNAPPY_BLOCK_BYTES: usize = 32 << 10;

/// Reads blocks, each after its length.
struct SnappyReader {
    input: Box<dyn Read + Send>,
    block: Vec<u8>,
    taken: usize,
    begun: bool,
}

impl SnappyReader {
    fn begin(&mut self) -> io::Result<()> {
        let mut header = [0; SNAPPY_HEADER.len()];
        self.input.read_exact(&mut header)?;
        // The versions after the magic have never changed.
        if header[..8] != SNAPPY_HEADER[..8] {
            return Err(invalid("not a Snappy stream"));
        }
        self.begun = true;
        Ok(())
    }

    /// Reads the next block; `false` at the end.
    fn next_block(&mut self) -> io::Result<bool> {
        let mut length = Vec::new();
        self.input.by_ref().take(4).read_to_end(&mut length)?;
        if length.is_empty() {
            return Ok(false);
        }
        let length: [u8; 4] =
            length.try_into().map_err(|_| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        let length = u32::from_be_bytes(length);
        if length as usize > SNAPPY_BLOCK_BYTES_MAX {
            return Err(invalid("a Snappy block is longer than any that was written"));
        }
        let mut compressed = Vec::new();
        self.input.by_ref().take(u64::from(length)).read_to_end(&mut compressed)?;
        if compressed.len() != length as usize {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let claimed = snap::raw::decompress_len(&compressed).map_err(io::Error::other)?;
        if claimed > SNAPPY_BLOCK_BYTES_MAX {
            return Err(invalid("a Snappy block holds more than any that was written"));
        }
        let decoded = snap::raw::Decoder::new().decompress_vec(&compressed);
        self.block = decoded.map_err(io::Error::other)?;
        self.taken = 0;
        Ok(true)
    }
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl Read for SnappyReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if !self.begun {
            self.begin()?;
        }
        while self.taken == self.block.len() {
            if !self.next_block()? {
                return Ok(0);
            }
        }
        let count = (&self.block[self.taken..]).read(out)?;
        self.taken += count;
        Ok(count)
    }
}

/// Writes blocks, each after its length.
struct SnappyWriter<'a> {
    output: &'a mut dyn Write,
    block: Vec<u8>,
}

impl SnappyWriter<'_> {
    fn end_block(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let compressed =
            snap::raw::Encoder::new().compress_vec(&self.block).map_err(io::Error::other)?;
        let length = u32::try_from(compressed.len()).expect("a block is short");
        self.output.write_all(&length.to_be_bytes())?;
        self.output.write_all(&compressed)?;
        self.block.clear();
        Ok(())
    }
}

impl Write for SnappyWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(SNAPPY_BLOCK_BYTES - self.block.len());
        self.block.extend_from_slice(&bytes[..count]);
        if self.block.len() == SNAPPY_BLOCK_BYTES {
            self.end_block()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(compression: Compression, bytes: &[u8]) -> Vec<u8> {
        let mut file = Vec::new();
        compression.write(&mut file, |out| out.write_all(bytes)).expect("memory takes it");
        let mut back = Vec::new();
        let mut reader = compression.reader(Box::new(io::Cursor::new(file.clone())));
        reader.read_to_end(&mut back).expect("it was just written");
        assert_eq!(back, bytes, "{compression:?}");
        file
    }

    #[test]
    fn compressed_data_is_decompressed_to_the_same_bytes() {
        let long: Vec<u8> = (0..100_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        for compression in [Compression::None, Compression::Gzip, Compression::Snappy] {
            round(compression, &long);
            round(compression, b"");
        }
        assert_eq!(round(Compression::Gzip, b"x")[..2], [0x1f, 0x8b]);
        assert_eq!(round(Compression::Snappy, b"x")[..8], *b"\x82SNAPPY\0");
    }

    #[test]
    fn a_block_with_a_false_length_allocates_no_memory() {
        for length in [u32::MAX, 64 << 20] {
            let mut file = SNAPPY_HEADER.to_vec();
            file.extend_from_slice(&length.to_be_bytes());
            let mut reader = Compression::Snappy.reader(Box::new(io::Cursor::new(file)));
            reader.read_to_end(&mut Vec::new()).expect_err("it is not there");
        }
    }
}
