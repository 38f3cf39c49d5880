//! Reads a snapshot that somebody sends, to go on from it.

use std::io::{BufReader, Cursor, Read};

use zoolet_core::{Core, Restore, Settings};
use zoolet_protocol::{SessionId, Zxid};

use super::compression::Compression;
use super::snapshot_fault::SnapshotFault;
use super::snapshot_reader::SnapshotReader;

/// The bytes by which compressions differ.
const MAGIC_BYTES: u64 = 8;

/// Reads all of a snapshot, compressed or not, and makes a state of it. The sessions that `is_ended`
/// names have ended, and so have those that own an ephemeral znode but are not in the snapshot.
/// `zxid` chooses the zxid of the state from the newest one in the snapshot.
///
/// # Errors
///
/// [`SnapshotFault`] if it cannot be read, is damaged, or is followed by something.
pub(crate) fn read_snapshot(
    mut input: Box<dyn Read + Send>,
    settings: &Settings,
    is_ended: impl Fn(SessionId) -> bool,
    zxid: impl FnOnce(Zxid) -> Zxid,
) -> Result<Core, SnapshotFault> {
    let mut begin = Vec::new();
    input.by_ref().take(MAGIC_BYTES).read_to_end(&mut begin)?;
    let compression = Compression::of_content(&begin);
    let whole: Box<dyn Read + Send> = Box::new(Cursor::new(begin).chain(input));
    let mut snapshot = SnapshotReader::new(BufReader::new(compression.reader(whole)))?;
    let mut restore = Restore::new(settings.clone());
    for &(session, timeout_ms) in snapshot.sessions() {
        if !is_ended(session) {
            restore.session(session, timeout_ms);
        }
    }
    let mut newest = Zxid::ZERO;
    while let Some(znode) = snapshot.next_znode()? {
        let stat = &znode.stat;
        newest = newest.max(stat.czxid).max(stat.mzxid).max(stat.pzxid);
        restore.znode(znode.path, znode.data, znode.acl, znode.stat)?;
    }
    newest = newest.max(snapshot.zxid().unwrap_or(Zxid::ZERO));
    // The sender may have broken off after the last byte, or may send on.
    if !snapshot.is_at_end()? {
        return Err(SnapshotFault::Overlong);
    }
    if newest.0 > ZXID_MAX {
        return Err(SnapshotFault::LastZxid(newest));
    }
    let mut core = restore.finish(zxid(newest))?.core;
    for txn in core.prepare_orphan_removal() {
        core.apply(&txn);
    }
    Ok(core)
}

/// The greatest zxid from which a server can go on for long.
const ZXID_MAX: i64 = i64::MAX >> 1;
