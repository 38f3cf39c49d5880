//! A znode in a cache, and its compact form.

use bytes::Bytes;
use zoolet_protocol::{SessionId, Stat, Zxid};

/// A znode as a cache has it: Curator's `ChildData`.
///
/// The Stat is that of the last read, with two differences. Its `pzxid` says up to which
/// transaction the changes of the znode's children are in the cache. Its `cversion`, `aversion` and
/// `num_children` may be older than the server's: no event tells of them. Count the children of the
/// cache instead.
///
/// ```
/// use zoolet_recipes::CachedZnode;
/// use zoolet_recipes::protocol::Stat;
///
/// let znode = CachedZnode { path: "/app/one".into(), data: "1".into(), stat: Stat::default() };
/// assert_eq!(znode.name(), "one");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedZnode {
    /// The path, as the client names it.
    pub path: String,
    /// The data; empty where the cache keeps none.
    pub data: Bytes,
    /// The Stat.
    pub stat: Stat,
}

impl CachedZnode {
    /// The last part of the path.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit_once('/').map_or(&self.path, |(_, name)| name)
    }

    /// The data, decompressed (`COMPRESSED_DATA` of Curator), with the feature `compression`. The cache
    /// keeps it as it is on the server, so that each call decompresses it.
    ///
    /// ```
    /// use zoolet_client::compression::compress;
    /// use zoolet_recipes::CachedZnode;
    /// use zoolet_recipes::protocol::Stat;
    ///
    /// let data = compress(b"hello");
    /// let znode = CachedZnode { path: "/page".into(), data, stat: Stat::default() };
    /// assert_eq!(znode.decompressed().unwrap(), "hello");
    /// ```
    ///
    /// # Errors
    ///
    /// The data is not compressed or damaged, or longer than
    /// [`DECOMPRESSED_BYTES_MAX`](zoolet_client::compression::DECOMPRESSED_BYTES_MAX).
    #[cfg(feature = "compression")]
    pub fn decompressed(&self) -> Result<Bytes, zoolet_client::compression::DecompressError> {
        use zoolet_client::compression::{DECOMPRESSED_BYTES_MAX, decompress};

        decompress(&self.data, DECOMPRESSED_BYTES_MAX)
    }
}

/// A Stat and data in one allocation, since a cache may have a million of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record(Box<[u8]>);

/// Where the fields of a Stat are in a [`Record`].
mod field {
    pub(super) const CZXID: usize = 0;
    pub(super) const MZXID: usize = 8;
    pub(super) const PZXID: usize = 16;
    pub(super) const CTIME: usize = 24;
    pub(super) const MTIME: usize = 32;
    pub(super) const EPHEMERAL_OWNER: usize = 40;
    pub(super) const VERSION: usize = 48;
    pub(super) const CVERSION: usize = 52;
    pub(super) const AVERSION: usize = 56;
    pub(super) const DATA_LENGTH: usize = 60;
    pub(super) const NUM_CHILDREN: usize = 64;
    pub(super) const DATA: usize = 68;
}

impl Record {
    /// Copies the data: a slice of a reply would keep the whole reply in memory.
    pub(crate) fn new(stat: &Stat, data: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(field::DATA + data.len());
        for long in [
            stat.czxid.0,
            stat.mzxid.0,
            stat.pzxid.0,
            stat.ctime,
            stat.mtime,
            stat.ephemeral_owner.0,
        ] {
            bytes.extend_from_slice(&long.to_be_bytes());
        }
        for int in [stat.version, stat.cversion, stat.aversion, stat.data_length, stat.num_children]
        {
            bytes.extend_from_slice(&int.to_be_bytes());
        }
        bytes.extend_from_slice(data);
        Self(bytes.into_boxed_slice())
    }

    fn long(&self, at: usize) -> i64 {
        let bytes = self.0[at..at + 8].try_into().expect("eight bytes were sliced");
        i64::from_be_bytes(bytes)
    }

    fn int(&self, at: usize) -> i32 {
        let bytes = self.0[at..at + 4].try_into().expect("four bytes were sliced");
        i32::from_be_bytes(bytes)
    }

    pub(crate) fn czxid(&self) -> Zxid {
        Zxid(self.long(field::CZXID))
    }

    pub(crate) fn mzxid(&self) -> Zxid {
        Zxid(self.long(field::MZXID))
    }

    pub(crate) fn pzxid(&self) -> Zxid {
        Zxid(self.long(field::PZXID))
    }

    pub(crate) fn set_pzxid(&mut self, pzxid: Zxid) {
        self.0[field::PZXID..field::PZXID + 8].copy_from_slice(&pzxid.0.to_be_bytes());
    }

    pub(crate) fn has_children(&self) -> bool {
        self.int(field::NUM_CHILDREN) > 0
    }

    /// The length of the znode's data on the server.
    pub(crate) fn data_length(&self) -> usize {
        usize::try_from(self.int(field::DATA_LENGTH)).unwrap_or(0)
    }

    pub(crate) fn data(&self) -> &[u8] {
        &self.0[field::DATA..]
    }

    /// The bytes of the allocation.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether neither the znode nor the list of its children has changed since it was cached.
    pub(crate) fn is_unchanged(&self, stat: &Stat) -> bool {
        self.mzxid() == stat.mzxid && self.pzxid() == stat.pzxid && self.czxid() == stat.czxid
    }

    pub(crate) fn stat(&self) -> Stat {
        Stat {
            czxid: self.czxid(),
            mzxid: self.mzxid(),
            ctime: self.long(field::CTIME),
            mtime: self.long(field::MTIME),
            version: self.int(field::VERSION),
            cversion: self.int(field::CVERSION),
            aversion: self.int(field::AVERSION),
            ephemeral_owner: SessionId(self.long(field::EPHEMERAL_OWNER)),
            data_length: self.int(field::DATA_LENGTH),
            num_children: self.int(field::NUM_CHILDREN),
            pzxid: self.pzxid(),
        }
    }

    pub(crate) fn znode(&self, path: &str) -> CachedZnode {
        let data = Bytes::copy_from_slice(self.data());
        CachedZnode { path: path.to_owned(), data, stat: self.stat() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_keeps_each_field_of_a_stat() {
        let stat = Stat {
            czxid: Zxid(1),
            mzxid: Zxid(2),
            ctime: 3,
            mtime: 4,
            version: 5,
            cversion: 6,
            aversion: 7,
            ephemeral_owner: SessionId(8),
            data_length: 9,
            num_children: 10,
            pzxid: Zxid(11),
        };
        let mut record = Record::new(&stat, b"data");
        assert_eq!(record.stat(), stat);
        assert_eq!(record.data(), b"data");
        assert!(record.is_unchanged(&stat));
        record.set_pzxid(Zxid(12));
        assert_eq!(record.stat(), Stat { pzxid: Zxid(12), ..stat });
    }
}
