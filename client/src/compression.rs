//! Compressed data of znodes: Curator's `GzipCompressionProvider`, whose bytes Java programs read.
//!
//! The data of a znode does not say that it is compressed: all programs that read it must know. Where
//! a call for it is missing here, as in a transaction, [`compress`] and [`decompress`] do the same.
//!
//! This module is there with the feature `compression`.

use std::io::{Read as _, Write as _};

use bytes::Bytes;
use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use zoolet_protocol::{Lookup, Read, ReplyHeader, Request, Response, Stat};

pub use crate::limits::DECOMPRESSED_BYTES_MAX;
use crate::operation::UnexpectedReply;
use crate::{Client, Create, Operation, SetData};

/// What every gzip file begins with.
const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Why data cannot be decompressed.
///
/// ```
/// use zoolet_client::compression::{DecompressError, decompress};
///
/// assert_eq!(decompress(b"plain", 1024), Err(DecompressError::NotCompressed));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecompressError {
    /// The data is not in the format of gzip: it was written without compression.
    #[error("it is not in the format of gzip; read it without decompression")]
    NotCompressed,
    /// The data is cut off, has other data behind it, or does not match its checksum.
    #[error("the gzip data is cut off or damaged")]
    Damaged,
    /// The data is longer than the limit: a few bytes can expand to a thousand times as many.
    #[error("the data is longer than {bytes_max} bytes; decompress it with a greater limit")]
    TooLong {
        /// The limit.
        bytes_max: usize,
    },
}

/// Compresses data as Curator does: with gzip, at the usual level. Short data becomes longer: 20 bytes
/// are added.
///
/// ```
/// use zoolet_client::compression::{compress, decompress};
///
/// let compressed = compress(&[b'a'; 1000]);
/// assert!(compressed.len() < 100);
/// assert_eq!(decompress(&compressed, 1000)?, vec![b'a'; 1000]);
/// # Ok::<(), zoolet_client::compression::DecompressError>(())
/// ```
#[must_use]
pub fn compress(data: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(data).and_then(|()| encoder.finish());
    written.expect("a vector takes all bytes").into()
}

/// Decompresses what [`compress`] or Curator has compressed, if it is not longer than this then.
///
/// # Errors
///
/// [`DecompressError`]. Data that is too long is not decompressed beyond the limit.
pub fn decompress(data: &[u8], bytes_max: usize) -> Result<Bytes, DecompressError> {
    if !data.starts_with(&MAGIC) {
        return Err(DecompressError::NotCompressed);
    }
    let mut decoder = GzDecoder::new(data);
    let mut decompressed = Vec::new();
    // One byte more tells that there is more, and if there is none, the checksum has been read.
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    let read = decoder.by_ref().take(limit).read_to_end(&mut decompressed);
    if decompressed.len() > bytes_max {
        return Err(DecompressError::TooLong { bytes_max });
    }
    // As Curator, not more than one file.
    if read.is_err() || !decoder.into_inner().is_empty() {
        return Err(DecompressError::Damaged);
    }
    Ok(decompressed.into())
}

impl Create {
    /// Sets the data of the znode, compressed (`compressed()` of Curator).
    ///
    /// ```no_run
    /// # async fn example(client: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
    /// client.create("/page").compressed_data("<p>hello</p>").await?;
    /// let (data, _stat) = client.get_decompressed("/page").await?;
    /// assert_eq!(data, "<p>hello</p>");
    /// # Ok(())
    /// # }
    /// ```
    pub fn compressed_data(self, data: impl AsRef<[u8]>) -> Self {
        self.data(compress(data.as_ref()))
    }
}

impl Client {
    /// As [`Client::set`], with the data compressed (`compressed()` of Curator).
    pub fn set_compressed(&self, path: &str, data: impl AsRef<[u8]>) -> SetData {
        self.set(path, compress(data.as_ref()))
    }

    /// As [`Client::get`], with the data decompressed (`decompressed()` of Curator). The Stat is that of
    /// the znode, with the length of the compressed data.
    ///
    /// Awaited, it fails with [`Error::Decompress`](crate::Error::Decompress) if the data is not
    /// compressed, is damaged, or is longer than [`DECOMPRESSED_BYTES_MAX`].
    pub fn get_decompressed(&self, path: &str) -> Operation<(Bytes, Stat)> {
        self.operation(path, read_decompressed, |path| {
            Request::Read(Read::Lookup(Lookup::GetData(path.into())))
        })
    }
}

/// The data of a reply, decompressed.
fn read_decompressed(
    header: &ReplyHeader,
    response: Response,
) -> Result<(Bytes, Stat), UnexpectedReply> {
    match response {
        Response::Data(data, stat) if header.err.is_ok() => {
            match decompress(&data.unwrap_or_default(), DECOMPRESSED_BYTES_MAX) {
                Ok(data) => Ok((data, stat)),
                Err(fault) => Err(UnexpectedReply::Compressed(fault)),
            }
        }
        _ => Err(UnexpectedReply::of(header)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `GzipCompressionProvider` of Curator writes for no data, on Java 16 and later.
    const EMPTY_OF_CURATOR: [u8; 20] =
        [31, 139, 8, 0, 0, 0, 0, 0, 0, 255, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    #[test]
    fn the_header_is_that_of_curator_and_what_it_writes_is_read() {
        assert_eq!(compress(b""), EMPTY_OF_CURATOR[..]);
        assert_eq!(decompress(&EMPTY_OF_CURATOR, 0).unwrap(), "");
        let compressed = compress(b"hello");
        assert_eq!(compressed[..10], EMPTY_OF_CURATOR[..10]);
        // The header of Java 8 to 15 has another system.
        let mut older = compressed.to_vec();
        older[9] = 0;
        assert_eq!(decompress(&older, 5).unwrap(), "hello");
    }

    #[test]
    fn the_limit_is_kept_to_the_byte() {
        let data = vec![7_u8; 100_000];
        let compressed = compress(&data);
        assert_eq!(decompress(&compressed, 100_000).unwrap(), data);
        let too_long = Err(DecompressError::TooLong { bytes_max: 99_999 });
        assert_eq!(decompress(&compressed, 99_999), too_long);
        assert_eq!(decompress(&compressed, 0), Err(DecompressError::TooLong { bytes_max: 0 }));
        assert_eq!(decompress(&compressed, usize::MAX).unwrap().len(), 100_000);
    }

    #[test]
    fn damaged_data_is_an_error_wherever_it_is_cut_off_or_changed() {
        let compressed = compress(b"The same text, the same text, and the same text again.");
        for length in 2..compressed.len() {
            let cut = decompress(&compressed[..length], 1 << 20);
            assert_eq!(cut, Err(DecompressError::Damaged), "{length} bytes");
        }
        for at in compressed.len() - 8..compressed.len() {
            let mut changed = compressed.to_vec();
            changed[at] ^= 1;
            assert_eq!(decompress(&changed, 1 << 20), Err(DecompressError::Damaged), "byte {at}");
        }
        let twice = [&compressed[..], &compressed[..]].concat();
        assert_eq!(decompress(&twice, 1 << 20), Err(DecompressError::Damaged));
        assert_eq!(decompress(b"", 1 << 20), Err(DecompressError::NotCompressed));
    }
}
