//! The server of a simulation with its disk: it starts, is killed and loses power.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::timeout;
use zoolet_protocol::{SessionId, Stat};
use zoolet_server::storage::{SimDisk, StorageConfig};
use zoolet_server::{Config, Server, WallTime};

use super::fault::ServerFault;
use super::hooks::SimHooks;
use super::network::Network;
use super::record::{Lane, Record, What};
use super::violation::ViolationKind;
use super::znode;
use crate::clock::WALL_START_MS;

/// How long a run waits for a disk that is about to fail.
const FAILURE_WITHIN: Duration = Duration::from_secs(2);
/// By how much a log grows: little, because it takes memory for all of it.
const LOG_GROWS_BY: u64 = 4_096;

/// The server and its disk.
pub(super) struct ServerHost {
    record: Arc<Record>,
    network: Network,
    disk: SimDisk,
    config: Config,
    /// Those of the server that was started last.
    hooks: Mutex<Arc<SimHooks>>,
    server: Mutex<Option<Server>>,
    /// By how much the wall clock has jumped.
    skew_ms: Mutex<i64>,
}

impl ServerHost {
    pub(super) fn new(record: &Arc<Record>, network: &Network, config: &Config) -> Self {
        let disk = SimDisk::default();
        let storage = StorageConfig {
            disk: Arc::new(disk.clone()),
            allocate_bytes: LOG_GROWS_BY,
            ..StorageConfig::at("/zoolet-sim")
        };
        Self {
            record: Arc::clone(record),
            network: network.clone(),
            disk,
            config: Config { listen: None, storage: Some(storage), ..config.clone() },
            hooks: Mutex::new(Arc::new(SimHooks::new(record))),
            server: Mutex::default(),
            skew_ms: Mutex::new(0),
        }
    }

    fn state(&self, text: &str) {
        self.record.add(Lane::Server, || What::State(text.to_owned()));
    }

    /// Starts the server from its disk.
    pub(super) async fn start(&self) {
        let passed_ms = i64::try_from(self.record.now_ms()).unwrap_or(i64::MAX);
        let start_ms = WALL_START_MS.saturating_add(passed_ms + *self.skew_ms.lock());
        let wall_time = WallTime::Virtual { start_ms };
        let config = Config { wall_time, ..self.config.clone() };
        let hooks = Arc::new(SimHooks::new(&self.record));
        *self.hooks.lock() = Arc::clone(&hooks);
        match Server::builder().config(config).hooks(hooks).start().await {
            Ok(server) => {
                // A write whose sync failed may have survived: that shows only now.
                self.record.state_changed();
                self.network.serve(Some(Arc::new(server.dialer())));
                *self.server.lock() = Some(server);
                self.state("serves");
            }
            Err(error) => {
                let text = format!("the server does not start: {error}");
                self.record.violation(Lane::Server, ViolationKind::Server, text);
            }
        }
    }

    /// Ends the server at once, with everything in flight.
    fn lose(&self) {
        self.network.lose_server();
        drop(self.server.lock().take());
    }

    async fn wait_for_failure(&self) {
        // The server must not be locked while it is awaited.
        let Some(server) = self.server.lock().take() else { return };
        let _ = timeout(FAILURE_WITHIN, server.failure()).await;
        *self.server.lock() = Some(server);
    }

    /// Carries out a fault, and returns when the server serves again.
    pub(super) async fn inject(&self, fault: ServerFault) {
        let (text, for_ms) = (fault.to_string(), fault.for_ms());
        self.record.add(Lane::Server, || What::Fault { text, for_ms });
        let down = Duration::from_millis(for_ms.unwrap_or(0));
        match fault {
            ServerFault::ClockJump { ms } => *self.skew_ms.lock() += ms,
            ServerFault::Restart { .. } => {
                self.lose();
                tokio::time::sleep(down).await;
                self.disk.kill_process();
                self.start().await;
            }
            ServerFault::LosePower { steps, survives, .. } => {
                self.disk.lose_power_after(self.disk.steps() + steps);
                if steps > 0 {
                    self.wait_for_failure().await;
                    self.disk.lose_power_after(self.disk.steps());
                }
                self.lose();
                tokio::time::sleep(down).await;
                self.disk.restore_power(survives);
                self.start().await;
            }
            ServerFault::FailToSync { survives, .. } => {
                self.disk.fail_to_sync(true);
                self.wait_for_failure().await;
                self.lose();
                self.disk.fail_to_sync(false);
                tokio::time::sleep(down).await;
                self.disk.restore_power(survives);
                self.start().await;
            }
        }
    }

    /// Expires a session, if the server runs and has it.
    pub(super) fn expire(&self, session: SessionId) {
        let hooks = Arc::clone(&self.hooks.lock());
        hooks.expire(session);
    }

    /// Whether the server has a session, or does not run: it may have it then.
    pub(super) fn may_have_session(&self, session: SessionId) -> bool {
        let hooks = Arc::clone(&self.hooks.lock());
        hooks.may_have_session(session)
    }

    /// The data of a znode with its Stat; `Some(None)` if there is no such znode, and `None` while
    /// no server runs, or none whose state would survive a crash.
    pub(super) fn znode(&self, path: &str) -> Option<Option<(bytes::Bytes, Stat)>> {
        let mut found = None;
        let hooks = Arc::clone(&self.hooks.lock());
        hooks.inspect_durable(|core| found = Some(znode::read(core, path)));
        found
    }
}
