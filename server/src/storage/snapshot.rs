//! Writes a snapshot (`FileSnap`, `SerializeUtils`, `DataTree`).

use std::io::{self, Write};

use bytes::BytesMut;
use hashbrown::HashMap;
use simd_adler32::Adler32;
use zoolet_core::{AclList, Frozen, Znode};
use zoolet_protocol::{Encode, RawPath, Zxid};

/// The magic number, "ZKSN".
pub(super) const MAGIC: i32 = 0x5a4b_534e;

/// The version of the format, unchanged since ZooKeeper 3.
pub(super) const VERSION: i32 = 2;

/// A field of the header in which ZooKeeper writes -1, and which it ignores: the last transaction
/// of the snapshot. Its sign distinguishes it from what other writers may put there.
pub(super) fn database_of(zxid: Zxid) -> i64 {
    !zxid.next().0
}

/// The last transaction in a snapshot, if a server of this kind wrote its header.
pub(super) fn zxid_of(database: i64) -> Option<Zxid> {
    let zxid = (!database).checked_sub(1)?;
    (zxid >= 0).then_some(Zxid(zxid))
}

/// The number of the access control list that is not written to the file.
pub(super) const ACL_OPEN: i64 = -1;

/// The bytes that are gathered before the output is called.
const CHUNK_BYTES: usize = 64 << 10;

/// The version of the digest, of which ZooKeeper since 3.6 reads the number.
const DIGEST_VERSION: i32 = 2;

/// Writes a snapshot without compression. It takes memory for one reference per znode and for the
/// numbers of the access control lists.
///
/// Its sections are those of ZooKeeper 3.9. The digest is empty, as when ZooKeeper has none; the
/// last zxid follows it, because nothing marks the sections. Older versions of ZooKeeper do not read
/// the sections that they do not know.
///
/// ```
/// use zoolet_core::{Core, Settings};
/// use zoolet_server::storage::{SnapshotReader, write_snapshot};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut file = Vec::new();
/// write_snapshot(&Core::new(Settings::default()).freeze(), &mut file)?;
/// let mut snapshot = SnapshotReader::new(&file[..])?;
/// assert_eq!(snapshot.next_znode()?.expect("there is a root").path.as_str(), "/");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The error of the output.
pub fn write_snapshot(frozen: &Frozen, output: impl Write) -> io::Result<()> {
    let mut out = Summed { output, buffer: BytesMut::new(), sum: Adler32::new() };
    let znodes = frozen.znodes();
    let keys = number_acl_lists(&znodes);
    out.put(&MAGIC)?;
    out.put(&VERSION)?;
    out.put(&database_of(frozen.zxid))?;
    let sessions = frozen.sessions();
    out.put(&count(sessions.len()))?;
    for (session, timeout_ms) in &sessions {
        out.put(session)?;
        out.put(timeout_ms)?;
    }
    let mut lists: Vec<_> = keys.iter().map(|(list, key)| (*key, *list)).collect();
    lists.sort_unstable_by_key(|(key, _)| *key);
    out.put(&count(lists.len()))?;
    for (key, list) in lists {
        out.put(&key)?;
        out.put(&Some(list.to_vec()))?;
    }
    for znode in znodes {
        let path = if znode.path.is_root() { "" } else { znode.path.as_str() };
        out.put(&RawPath::from(path))?;
        out.put_data(znode.data.as_deref())?;
        out.put(&keys.get(&znode.acl).copied().unwrap_or(ACL_OPEN))?;
        out.put(&znode.stat)?;
    }
    out.put(&RawPath::from("/"))?;
    out.seal()?;
    out.put(&Zxid::ZERO)?;
    out.put(&DIGEST_VERSION)?;
    out.put(&0_i64)?;
    out.seal()?;
    out.put(&frozen.zxid)?;
    out.seal()?;
    out.flush()
}

/// The numbers of the access control lists, from 1 on.
fn number_acl_lists<'a>(znodes: &[&'a Znode]) -> HashMap<&'a AclList, i64> {
    let mut keys = HashMap::new();
    for znode in znodes {
        if znode.acl.entries().is_some() {
            let next = keys.len() as i64 + 1;
            keys.entry(&znode.acl).or_insert(next);
        }
    }
    keys
}

fn count(count: usize) -> i32 {
    i32::try_from(count).expect("there are fewer than 2^31")
}

/// An output with a checksum of its bytes.
struct Summed<W> {
    output: W,
    buffer: BytesMut,
    sum: Adler32,
}

impl<W: Write> Summed<W> {
    /// Writes a buffer with its length before it; -1 for null.
    fn put_data(&mut self, data: Option<&[u8]>) -> io::Result<()> {
        let Some(data) = data else { return self.put(&-1) };
        count(data.len()).encode(&mut self.buffer);
        self.buffer.extend_from_slice(data);
        if self.buffer.len() >= CHUNK_BYTES { self.flush() } else { Ok(()) }
    }

    fn put(&mut self, field: &impl Encode) -> io::Result<()> {
        field.encode(&mut self.buffer);
        if self.buffer.len() >= CHUNK_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sum.write(&self.buffer);
        self.output.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Writes the checksum of all bytes before it, and an end mark.
    fn seal(&mut self) -> io::Result<()> {
        self.flush()?;
        self.put(&i64::from(self.sum.finish()))?;
        self.put(&RawPath::from("/"))
    }
}
