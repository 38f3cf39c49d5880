//! Quotas, containers and TTL znodes.

use super::{Key, put};
use crate::server_options::values;

pub(super) const KEYS: &[Key] = &[
    ("enforceQuota", |c, v| put(&mut c.enforce_quota, values::boolean(v))),
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
];
