//! The keys that have an effect.

use crate::server_options::ServerOptions;
use crate::server_options::storage;
use crate::server_options::values::{self, BadValue};

/// Sets an option from a value.
pub(super) type Setter = fn(&mut ServerOptions, &str) -> Result<(), BadValue>;

/// The setter of a key without the prefix `zookeeper.`.
pub(super) fn setter(key: &str) -> Option<Setter> {
    KEYS.iter().find(|(name, _)| *name == key).map(|(_, set)| *set)
}

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|(name, _)| *name)
}

fn put<T>(slot: &mut Option<T>, value: Result<T, BadValue>) -> Result<(), BadValue> {
    *slot = Some(value?);
    Ok(())
}

/// Unlike the flag, the file may name words that ZooKeeper does not have, as it may in ZooKeeper.
fn four_letter_words(options: &mut ServerOptions, value: &str) -> Result<(), BadValue> {
    put(&mut options.four_letter_words, Ok(value.to_owned()))
}

pub(super) const FOUR_LETTER_WORDS: &str = "4lw.commands.whitelist";

const KEYS: [(&str, Setter); 36] = [
    ("clientPort", |c, v| put(&mut c.client_port, values::port(v))),
    ("clientPortAddress", |c, v| put(&mut c.client_port_address, values::host(v))),
    ("clientPortListenBacklog", |c, v| {
        put(&mut c.client_port_listen_backlog, values::listen_backlog(v))
    }),
    ("clientTcpKeepAlive", |c, v| put(&mut c.client_tcp_keep_alive, values::boolean(v))),
    ("tickTime", |c, v| put(&mut c.tick_time, values::tick_time(v))),
    ("minSessionTimeout", |c, v| put(&mut c.min_session_timeout, values::session_timeout(v))),
    ("maxSessionTimeout", |c, v| put(&mut c.max_session_timeout, values::session_timeout(v))),
    ("maxClientCnxns", |c, v| {
        put(&mut c.max_client_cnxns, values::connections_from_one_address(v))
    }),
    ("maxCnxns", |c, v| put(&mut c.max_cnxns, values::connections(v))),
    ("jute.maxbuffer", |c, v| put(&mut c.jute_maxbuffer, values::frame_bytes(v))),
    ("enforceQuota", |c, v| put(&mut c.enforce_quota, values::boolean(v))),
    ("skipACL", |c, v| put(&mut c.skip_acl, values::yes_or_no(v))),
    ("DigestAuthenticationProvider.superDigest", |c, v| {
        put(&mut c.super_digest, values::super_digest(v))
    }),
    ("DigestAuthenticationProvider.digestAlg", |c, v| {
        put(&mut c.digest_alg, values::digest_algorithm(v))
    }),
    ("DigestAuthenticationProvider.enabled", |c, v| {
        put(&mut c.digest_authentication_provider_enabled, values::boolean(v))
    }),
    ("enforce.auth.enabled", |c, v| put(&mut c.enforce_auth_enabled, values::boolean(v))),
    ("enforce.auth.schemes", |c, v| put(&mut c.enforce_auth_schemes, values::auth_schemes(v))),
    ("sessionRequireClientSASLAuth", |c, v| put(&mut c.require_sasl, values::boolean(v))),
    ("extendedTypesEnabled", |c, v| put(&mut c.extended_types_enabled, values::boolean(v))),
    ("znode.container.checkIntervalMs", |c, v| {
        put(&mut c.znode_container_check_interval_ms, values::check_interval(v))
    }),
    ("znode.container.maxPerMinute", |c, v| {
        put(&mut c.znode_container_max_per_minute, values::per_minute(v))
    }),
    ("znode.container.maxNeverUsedIntervalMs", |c, v| {
        put(&mut c.znode_container_max_never_used_interval_ms, values::never_used_ms(v))
    }),
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
    ("snapshot.trust.empty", |c, v| put(&mut c.storage.snapshot_trust_empty, values::boolean(v))),
    (FOUR_LETTER_WORDS, four_letter_words),
    ("readonlymode.enabled", |c, v| put(&mut c.readonly_mode, values::boolean(v))),
    ("reconfigEnabled", |c, v| put(&mut c.reconfig_enabled, values::boolean(v))),
];
