//! Snapshots: one that Apache ZooKeeper 3.8 wrote, ours, and what damage is taken for.

use std::collections::BTreeMap;

use bytes::Bytes;
use zoolet_core::{Core, Frozen, Settings, StatPersisted};
use zoolet_protocol::{Acl, SessionId};
use zoolet_server::storage::{LogReader, SnapshotError, SnapshotReader, write_snapshot};

/// What ZooKeeper wrote when it was started again after `apache-3.8.log`.
const APACHE: &[u8] = include_bytes!("data/apache-3.8.snapshot");
const APACHE_LOG: &[u8] = include_bytes!("data/apache-3.8.log");

/// Zxid, version and sum of the digest, and its seal: what may follow the first seal.
const DIGEST_BYTES: usize = 8 + 4 + 8 + 13;

/// What a snapshot says of each znode.
type Znodes = BTreeMap<String, (Option<Bytes>, Option<Vec<Acl>>, StatPersisted)>;

fn read(bytes: &[u8]) -> Result<(Vec<(SessionId, i32)>, Znodes), SnapshotError> {
    let mut snapshot = SnapshotReader::new(bytes)?;
    let mut znodes = Znodes::new();
    while let Some(znode) = snapshot.next_znode()? {
        let acl = znode.acl.map(|acl| acl.to_vec());
        let before = znodes.insert(znode.path.to_string(), (znode.data, acl, znode.stat));
        assert!(before.is_none(), "{} is there twice", znode.path);
    }
    Ok((snapshot.sessions().to_vec(), znodes))
}

/// The core after a log of the original.
fn replayed() -> Frozen {
    let mut core = Core::new(Settings::default());
    let mut log = LogReader::new(APACHE_LOG).expect("a log");
    while let Some(record) = log.next_record().expect("no damage") {
        core.apply(&record.txn);
    }
    core.freeze()
}

fn znodes_of(frozen: &Frozen) -> Znodes {
    let znode = |znode: &&zoolet_core::Znode| {
        let acl = znode.acl.entries().map(<[Acl]>::to_vec);
        (znode.path.to_string(), (znode.data_bytes(), acl, znode.stat))
    };
    frozen.znodes().iter().map(znode).collect()
}

#[test]
fn a_log_gives_the_same_tree_as_in_zookeeper() {
    let (sessions, theirs) = read(APACHE).expect("a good snapshot");
    let frozen = replayed();
    assert_eq!(sessions, frozen.sessions());
    let mut ours = znodes_of(&frozen);
    // Its data is the ensemble's configuration, which a single node of the original writes itself.
    let config = "/zookeeper/config";
    assert_eq!(ours.remove(config).map(|(_, acl, _)| acl), theirs.get(config).map(|z| z.1.clone()));
    let theirs: Znodes = theirs.into_iter().filter(|(path, _)| path != config).collect();
    assert_eq!(ours, theirs);
}

#[test]
fn a_written_snapshot_is_read_again() {
    let frozen = replayed();
    let mut file = Vec::new();
    write_snapshot(&frozen, &mut file).expect("memory takes it");
    let (sessions, znodes) = read(&file).expect("it was just written");
    assert_eq!(sessions, frozen.sessions());
    assert_eq!(znodes, znodes_of(&frozen));
    assert_eq!(file[file.len() - 5..], *b"\0\0\0\x01/", "by which ZooKeeper knows a whole file");
}

#[test]
fn a_snapshot_cut_anywhere_is_refused() {
    let without_digest = APACHE.len() - DIGEST_BYTES;
    read(&APACHE[..without_digest]).expect("the digest may be missing");
    for cut in (0..APACHE.len()).filter(|&cut| cut != without_digest) {
        let error = read(&APACHE[..cut]).expect_err("it is cut");
        assert!(matches!(error, SnapshotError::Short { .. }), "cut at {cut}: {error}");
    }
}

#[test]
fn a_snapshot_with_a_changed_byte_is_refused() {
    for at in 0..APACHE.len() {
        let mut bytes = APACHE.to_vec();
        bytes[at] ^= 0x01;
        assert!(read(&bytes).is_err(), "changed at {at}");
    }
}
