//! Where clients connect, and how many of them.

use super::{Key, put};
use crate::server_options::values;

pub(super) const KEYS: &[Key] = &[
    ("clientPort", |c, v| put(&mut c.client_port, values::port(v))),
    ("clientPortAddress", |c, v| put(&mut c.client_port_address, values::host(v))),
    ("clientPortListenBacklog", |c, v| {
        put(&mut c.client_port_listen_backlog, values::listen_backlog(v))
    }),
    ("clientTcpKeepAlive", |c, v| put(&mut c.client_tcp_keep_alive, values::boolean(v))),
    ("maxClientCnxns", |c, v| {
        put(&mut c.max_client_cnxns, values::connections_from_one_address(v))
    }),
    ("maxCnxns", |c, v| put(&mut c.max_cnxns, values::connections(v))),
    ("jute.maxbuffer", |c, v| put(&mut c.jute_maxbuffer, values::frame_bytes(v))),
];
