//! The data directory.

use super::{Key, put};
use crate::server_options::{storage, values};

pub(super) const KEYS: &[Key] = &[
    ("dataDir", |c, v| put(&mut c.storage.data_dir, storage::directory(v))),
    ("dataLogDir", |c, v| put(&mut c.storage.data_log_dir, storage::directory(v))),
    ("snapCount", |c, v| put(&mut c.storage.snap_count, storage::snap_count(v))),
    ("snapSizeLimitInKb", |c, v| put(&mut c.storage.snap_size_limit_in_kb, storage::limit_kb(v))),
    ("txnLogSizeLimitInKb", |c, v| {
        put(&mut c.storage.txn_log_size_limit_in_kb, storage::limit_kb(v))
    }),
    ("preAllocSize", |c, v| put(&mut c.storage.pre_alloc_size, storage::allocate_kb(v))),
    ("forceSync", |c, v| put(&mut c.storage.force_sync, values::yes_or_no(v))),
    ("snapshot.compression.method", |c, v| {
        put(&mut c.storage.snapshot_compression_method, storage::compression(v))
    }),
    ("autopurge.snapRetainCount", |c, v| {
        put(&mut c.storage.autopurge_snap_retain_count, storage::retain(v))
    }),
    ("autopurge.purgeInterval", |c, v| {
        put(&mut c.storage.autopurge_purge_interval, storage::purge_interval(v))
    }),
    ("datadir.autocreate", |c, v| put(&mut c.storage.datadir_autocreate, values::boolean(v))),
    ("fsync.warningthresholdms", |c, v| {
        put(&mut c.storage.fsync_warningthresholdms, storage::sync_warning(v))
    }),
    ("snapshot.trust.empty", |c, v| put(&mut c.storage.snapshot_trust_empty, values::boolean(v))),
];
