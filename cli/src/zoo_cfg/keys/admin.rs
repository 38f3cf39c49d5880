//! The admin server.

use super::{Key, put};
use crate::server_options::{admin, values};

pub(super) const KEYS: &[Key] = &[
    ("admin.enableServer", |c, v| put(&mut c.admin.admin_enable_server, values::boolean(v))),
    ("admin.serverAddress", |c, v| put(&mut c.admin.admin_server_address, values::host(v))),
    ("admin.serverPort", |c, v| put(&mut c.admin.admin_server_port, values::port(v))),
    ("admin.commandURL", |c, v| put(&mut c.admin.admin_command_url, values::some_text(v))),
    ("admin.idleTimeout", |c, v| put(&mut c.admin.admin_idle_timeout, admin::milliseconds(v))),
    ("admin.snapshot.enabled", |c, v| put(&mut c.admin.admin_snapshot_enabled, values::boolean(v))),
    ("admin.restore.enabled", |c, v| put(&mut c.admin.admin_restore_enabled, values::boolean(v))),
    ("admin.rateLimiterIntervalInMS", |c, v| {
        put(&mut c.admin.admin_rate_limiter_interval_in_ms, admin::interval(v))
    }),
    ("IPAuthenticationProvider.usexforwardedfor", |c, v| {
        put(&mut c.admin.trust_forwarded_for, values::boolean(v))
    }),
];
