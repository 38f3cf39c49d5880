//! The times of sessions.

use super::{Key, put};
use crate::server_options::values;

pub(super) const KEYS: &[Key] = &[
    ("tickTime", |c, v| put(&mut c.tick_time, values::tick_time(v))),
    ("minSessionTimeout", |c, v| put(&mut c.min_session_timeout, values::session_timeout(v))),
    ("maxSessionTimeout", |c, v| put(&mut c.max_session_timeout, values::session_timeout(v))),
];
