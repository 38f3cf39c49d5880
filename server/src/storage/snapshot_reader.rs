//! Reads a snapshot (`FileSnap`, `SerializeUtils`, `DataTree`), one znode at a time.

use std::io::{self, Read};
use std::sync::Arc;

use bytes::{BufMut, Bytes};
use hashbrown::HashMap;
use simd_adler32::Adler32;
use zoolet_core::StatPersisted;
use zoolet_protocol::{
    Acl, Decode, DecodeError, Id, PathError, Permissions, RawPath, SessionId, ZPath, Zxid,
    decode_front,
};

use super::snapshot::{ACL_OPEN, MAGIC, VERSION, zxid_of};
use crate::limits::SNAPSHOT_FIELD_BYTES_MAX;

/// A zxid of 8 bytes and the seal behind it, which begins with a checksum of 8 bytes.
const SEALED_ZXID_BYTES: usize = 8 + 8 + SEAL_MARK.len();

/// What follows the checksum of a seal: the string `/`, with its length.
const SEAL_MARK: &[u8] = b"\0\0\0\x01/";

/// A znode of a snapshot.
///
/// ```
/// use zoolet_server::storage::SnapshotZnode;
///
/// fn is_ephemeral(znode: &SnapshotZnode) -> bool {
///     matches!(znode.stat.ephemeral_owner.ephemeral_type(), zoolet_core::EphemeralType::Ephemeral(_))
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotZnode {
    /// Its path.
    pub path: ZPath,
    /// Its data; `None` for null, which is not empty.
    pub data: Option<Bytes>,
    /// Its access control list; `None` for the one that is not in the file and allows everything to
    /// everyone.
    pub acl: Option<Arc<[Acl]>>,
    /// The stored part of its Stat.
    pub stat: StatPersisted,
}

/// Why a snapshot cannot be read.
///
/// ```
/// use zoolet_server::storage::SnapshotReader;
///
/// let error = SnapshotReader::new(&b"ZKLG\0\0\0\x02"[..]).unwrap_err();
/// assert_eq!(error.to_string(), "not a snapshot: it begins with 5a4b4c47 instead of ZKSN");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It is not a snapshot.
    #[error("not a snapshot: it begins with {0:08x} instead of ZKSN")]
    Magic(i32),
    /// It has an unknown version of the format.
    #[error("a snapshot of version {0}; only version 2 is known")]
    Version(i32),
    /// It ends in the middle.
    #[error("offset {offset}: the file ends inside a field")]
    Short {
        /// The offset of the field that it ends in.
        offset: u64,
    },
    /// A field has an impossible length or count.
    #[error("offset {offset}: a length of {length}; the limit is {SNAPSHOT_FIELD_BYTES_MAX}")]
    Length {
        /// Its offset.
        offset: u64,
        /// The length or count.
        length: i32,
    },
    /// A field cannot be decoded.
    #[error("offset {offset}: {error}")]
    Field {
        /// Its offset.
        offset: u64,
        /// Why it cannot be decoded.
        error: DecodeError,
    },
    /// A path is invalid.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A path is null.
    #[error("offset {offset}: a path is null")]
    NullPath {
        /// Its offset.
        offset: u64,
    },
    /// The access control list of a znode is missing.
    #[error("{path}: there is no access control list with the number {key}")]
    AclMissing {
        /// The path of the znode.
        path: ZPath,
        /// The number of the list.
        key: i64,
    },
    /// The bytes before a seal do not have its checksum.
    #[error("offset {offset}: the checksum is {got:08x} where {expected:08x} was written")]
    Checksum {
        /// The offset of the seal.
        offset: u64,
        /// The checksum in the file.
        expected: u64,
        /// The checksum of the bytes.
        got: u32,
    },
    /// The end mark after a checksum is missing.
    #[error("offset {offset}: no seal")]
    Seal {
        /// The offset at which it should be.
        offset: u64,
    },
}

/// Reads a snapshot in the order of the file: sessions, access control lists, and then the znodes,
/// each after its parent. The content is verified only when [`SnapshotReader::next_znode`] has
/// returned `None`, because the seals, each a checksum and an end mark, are at the end.
///
/// ```no_run
/// use std::fs::File;
/// use std::io::BufReader;
/// use zoolet_server::storage::SnapshotReader;
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let file = File::open("version-2/snapshot.0")?;
/// let mut snapshot = SnapshotReader::new(BufReader::new(file))?;
/// while let Some(znode) = snapshot.next_znode()? {
///     println!("{} {:?}", znode.path, znode.data);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SnapshotReader<R> {
    fields: Fields<R>,
    sessions: Vec<(SessionId, i32)>,
    acls: HashMap<i64, Arc<[Acl]>>,
    /// The zxid that zoolet writes to the header.
    written_at: Option<Zxid>,
    zxid: Option<Zxid>,
    /// The zxid of the digest.
    digest_zxid: Option<Zxid>,
    is_over: bool,
}

impl<R: Read> SnapshotReader<R> {
    /// Reads an uncompressed snapshot in small pieces: a file should be buffered.
    ///
    /// # Errors
    ///
    /// [`SnapshotError`] if it is not a snapshot, or its sessions or lists cannot be decoded.
    pub fn new(input: R) -> Result<Self, SnapshotError> {
        let mut fields = Fields { input, offset: 0, sum: Adler32::new(), peeked: Vec::new() };
        let magic: i32 = fields.next()?;
        if magic != MAGIC {
            return Err(SnapshotError::Magic(magic));
        }
        let version: i32 = fields.next()?;
        if version != VERSION {
            return Err(SnapshotError::Version(version));
        }
        let written_at = zxid_of(fields.next()?);
        let mut sessions = Vec::new();
        for _ in 0..fields.next::<i32>()?.max(0) {
            sessions.push((fields.next()?, fields.next()?));
        }
        let mut acls = HashMap::new();
        for _ in 0..fields.next::<i32>()?.max(0) {
            acls.insert(fields.next()?, fields.next_acl()?.into());
        }
        Ok(Self {
            fields,
            sessions,
            acls,
            written_at,
            zxid: None,
            digest_zxid: None,
            is_over: false,
        })
    }

    /// The sessions and their timeouts in milliseconds.
    #[must_use]
    pub fn sessions(&self) -> &[(SessionId, i32)] {
        &self.sessions
    }

    /// The last transaction of the snapshot, if the file contains it: those of zoolet do, and those
    /// of ZooKeeper since 3.9, at their end. The file name contains it too.
    #[must_use]
    pub fn zxid(&self) -> Option<Zxid> {
        self.written_at.or(self.zxid)
    }

    /// The last transaction that the snapshot may hold in part, if the file tells it: at its end. ZooKeeper applies
    /// one transaction at a time, and writes the zxid of the last whole one behind the znodes, with their digest.
    #[must_use]
    pub(super) fn holds_nothing_after(&self) -> Option<Zxid> {
        self.zxid().or_else(|| self.digest_zxid.map(Zxid::next))
    }

    /// Whether a file with this zxid in its name may have this content, as far as it is known: at
    /// the end. ZooKeeper names a snapshot when it begins to write it, so that it may hold later
    /// transactions; one that lacks some that its name promises would lose them.
    #[must_use]
    pub fn fits_name(&self, zxid: Zxid) -> bool {
        match (self.written_at, self.zxid) {
            (Some(written_at), _) => written_at == zxid,
            (None, Some(last)) => last >= zxid,
            (None, None) => true,
        }
    }

    /// Reads the next znode; `None` when there are no more and all seals are correct.
    ///
    /// # Errors
    ///
    /// [`SnapshotError`] if the rest cannot be decoded or is damaged.
    pub fn next_znode(&mut self) -> Result<Option<SnapshotZnode>, SnapshotError> {
        if self.is_over {
            return Ok(None);
        }
        let offset = self.fields.offset;
        let path: RawPath = self.fields.next_text()?;
        let path = match path.text() {
            None => return Err(SnapshotError::NullPath { offset }),
            Some("/") => {
                self.is_over = true;
                self.finish()?;
                return Ok(None);
            }
            Some("") => ZPath::root(),
            Some(path) => ZPath::parse(path)?,
        };
        let data = self.fields.next_text()?;
        let key: i64 = self.fields.next()?;
        let acl = match self.acls.get(&key) {
            Some(acl) => Some(Arc::clone(acl)),
            None if key == ACL_OPEN => None,
            None => return Err(SnapshotError::AclMissing { path, key }),
        };
        Ok(Some(SnapshotZnode { path, data, acl, stat: self.fields.next()? }))
    }

    /// Whether nothing follows what was read.
    pub(super) fn is_at_end(&mut self) -> Result<bool, SnapshotError> {
        self.fields.is_at_end()
    }

    /// Checks the seals, and reads what is between them. ZooKeeper writes the digest since 3.6,
    /// unless `zookeeper.digest.enabled` is false, and the last zxid since 3.9, each followed by a
    /// seal.
    fn finish(&mut self) -> Result<(), SnapshotError> {
        self.fields.check_seal()?;
        if self.fields.has_digest()? {
            // The zxid and the digest: a sum over the tree, to find servers that differ.
            self.digest_zxid = Some(self.fields.next()?);
            match self.fields.next::<i32>()? {
                ..2 => drop(self.fields.next_text::<RawPath>()?),
                _ => drop(self.fields.next::<i64>()?),
            }
            self.fields.check_seal()?;
        }
        if !self.fields.is_at_end()? {
            self.zxid = Some(self.fields.next()?);
            self.fields.check_seal()?;
        }
        Ok(())
    }
}

/// Reads fields and computes the checksum of their bytes.
struct Fields<R> {
    input: R,
    offset: u64,
    sum: Adler32,
    /// Bytes that were read to see how many there are.
    peeked: Vec<u8>,
}

impl<R> std::fmt::Debug for Fields<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fields").field("offset", &self.offset).finish_non_exhaustive()
    }
}

impl<R: Read> Fields<R> {
    fn is_at_end(&mut self) -> Result<bool, SnapshotError> {
        Ok(self.peek(1)? == 0)
    }

    /// Whether a digest follows. Nothing marks it. But the last zxid, which may follow instead, is
    /// shorter than any digest, and a digest that is cut off after that length does not end as a
    /// seal does.
    fn has_digest(&mut self) -> Result<bool, SnapshotError> {
        let follow = self.peek(SEALED_ZXID_BYTES + 1)?;
        let is_zxid = follow == SEALED_ZXID_BYTES && self.peeked.ends_with(SEAL_MARK);
        Ok(follow != 0 && !is_zxid)
    }

    /// Reads ahead, and returns the number of bytes that follow, `count` at most.
    fn peek(&mut self, count: usize) -> Result<usize, SnapshotError> {
        let missing = count.saturating_sub(self.peeked.len());
        self.input.by_ref().take(missing as u64).read_to_end(&mut self.peeked)?;
        Ok(self.peeked.len().min(count))
    }

    /// Appends the next `count` bytes. It allocates memory for the bytes that exist, not for the
    /// claimed number.
    fn take(&mut self, count: usize, bytes: &mut Vec<u8>) -> Result<(), SnapshotError> {
        let before = bytes.len();
        bytes.extend(self.peeked.drain(..self.peeked.len().min(count)));
        let rest = count - (bytes.len() - before);
        self.input.by_ref().take(rest as u64).read_to_end(bytes)?;
        if bytes.len() - before < count {
            return Err(SnapshotError::Short { offset: self.offset });
        }
        self.sum.write(&bytes[before..]);
        self.offset += count as u64;
        Ok(())
    }

    /// Reads a field of fixed length.
    fn next<T: Decode>(&mut self) -> Result<T, SnapshotError> {
        let offset = self.offset;
        let mut bytes = Vec::with_capacity(T::MIN_BYTES);
        self.take(T::MIN_BYTES, &mut bytes)?;
        decode_front(&mut Bytes::from(bytes))
            .map_err(|error| SnapshotError::Field { offset, error })
    }

    /// Reads a string or a buffer, which follows its length.
    fn next_text<T: Decode>(&mut self) -> Result<T, SnapshotError> {
        let offset = self.offset;
        let length: i32 = self.next()?;
        let mut bytes = Vec::new();
        bytes.put_i32(length);
        match usize::try_from(length) {
            Ok(count) if count <= SNAPSHOT_FIELD_BYTES_MAX => self.take(count, &mut bytes)?,
            Err(_) if length == -1 => {}
            _ => return Err(SnapshotError::Length { offset, length }),
        }
        decode_front(&mut Bytes::from(bytes))
            .map_err(|error| SnapshotError::Field { offset, error })
    }

    fn next_acl(&mut self) -> Result<Vec<Acl>, SnapshotError> {
        let mut acl = Vec::new();
        for _ in 0..self.next::<i32>()?.max(0) {
            let permissions: Permissions = self.next()?;
            let id = Id { scheme: self.next_text()?, id: self.next_text()? };
            acl.push(Acl { permissions, id });
        }
        Ok(acl)
    }

    /// Reads a checksum of all bytes before it, and an end mark.
    fn check_seal(&mut self) -> Result<(), SnapshotError> {
        let (offset, got) = (self.offset, self.sum.finish());
        let expected = u64::from_ne_bytes(self.next::<i64>()?.to_ne_bytes());
        if u64::from(got) != expected {
            return Err(SnapshotError::Checksum { offset, expected, got });
        }
        let offset = self.offset;
        let mark: RawPath = self.next_text()?;
        if mark.text() == Some("/") { Ok(()) } else { Err(SnapshotError::Seal { offset }) }
    }
}
