//! The configuration, and the sizes of the directories.

use std::net::SocketAddr;

use crate::engine::lock::Engine;
use crate::storage::directory::Directory;

/// What `conf` shows (`ZooKeeperServerConf`).
#[derive(Debug)]
pub(crate) struct Configuration {
    /// -1 if there is none.
    pub(crate) client_port: i32,
    /// -1 if there is none.
    pub(crate) secure_client_port: i32,
    pub(crate) tick_time_ms: u32,
    pub(crate) max_client_connections: usize,
    pub(crate) session_timeouts_ms: (i32, i32),
    /// -1 for the default.
    pub(crate) listen_backlog: i64,
    pub(crate) directories: Directories,
}

/// The directories of snapshots and logs, each with its size in bytes; empty in memory only.
#[derive(Debug, Default)]
pub(crate) struct Directories {
    pub(crate) data: (String, u64),
    pub(crate) logs: (String, u64),
}

impl Configuration {
    pub(crate) fn of(engine: &Engine) -> Self {
        let config = &engine.config;
        let port =
            |address: Option<SocketAddr>| address.map_or(-1, |address| address.port().into());
        Self {
            client_port: port(engine.local_addr()),
            secure_client_port: port(engine.secure_addr()),
            tick_time_ms: config.tick_time_ms,
            max_client_connections: config.max_client_connections,
            session_timeouts_ms: engine.session_timeouts_ms(),
            listen_backlog: config.listen_backlog.map_or(-1, i64::from),
            directories: Directories::of(engine),
        }
    }
}

impl Directories {
    pub(crate) fn of(engine: &Engine) -> Self {
        let Some(storage) = &engine.config.storage else { return Self::default() };
        let [data, logs] = Directory::of(storage)
            .sizes()
            .map(|(directory, bytes)| (directory.display().to_string(), bytes));
        Self { data, logs }
    }
}
