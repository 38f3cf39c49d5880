//! How a server for tests is to be.

use std::path::PathBuf;
use std::sync::Arc;

use zoolet_server::storage::{Disk, MemDisk, SimDisk, StorageConfig};
use zoolet_server::{Config, FourLetterWhitelist, WallTime};

use super::port::Port;
use super::server::{Belongings, TestServer};
use super::{Faults, TestServerError};

/// How a [`TestServer`] is to be.
///
/// ```
/// use zoolet::testing::TestServer;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = TestServer::builder().tcp().start().await?;
/// assert!(server.connect_string().unwrap().starts_with("127.0.0.1:"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it is started"]
pub struct TestServerBuilder {
    config: Config,
    kept: Kept,
    is_tcp: bool,
}

/// Where the data is.
#[derive(Debug, Clone)]
enum Kept {
    /// Nobody said: in memory, or as a whole configuration says that was given.
    Unsaid,
    /// As a whole configuration says that was given, which may be nowhere.
    Configured,
    Nowhere,
    Memory,
    Directory(PathBuf),
    Simulated(SimDisk),
    Temporary,
}

impl Default for TestServerBuilder {
    fn default() -> Self {
        let config = Config {
            tick_time_ms: 500,
            max_session_timeout_ms: Some(60_000),
            max_client_connections: 0,
            four_letter_words: FourLetterWhitelist::all(),
            wall_time: WallTime::starting_now(),
            ..Config::default()
        };
        Self { config, kept: Kept::Unsaid, is_tcp: false }
    }
}

impl TestServerBuilder {
    /// Listens at a free port of the loopback address too, which it keeps when it is restarted.
    pub fn tcp(mut self) -> Self {
        self.is_tcp = true;
        self
    }

    /// Chooses everything that may be chosen, what [`configure`](Self::configure) changed before
    /// included. What the other methods choose holds, before or after. The data's place is nowhere
    /// then, unless [`Config::storage`] or one of the other methods names one. Without this a tick
    /// has 500 ms, sessions may have 1 to 60 seconds, all four-letter words are answered, and the
    /// wall time goes on with tokio's clock.
    pub fn config(mut self, config: Config) -> Self {
        if matches!(self.kept, Kept::Unsaid) {
            self.kept = Kept::Configured;
        }
        self.config = config;
        self
    }

    /// Changes some of what may be chosen.
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// Keeps the data on a disk in memory, from which a restart goes on: the default.
    pub fn memory(mut self) -> Self {
        self.kept = Kept::Memory;
        self
    }

    /// Keeps the data nowhere: a restart begins with an empty tree and no sessions.
    pub fn forgetful(mut self) -> Self {
        self.kept = Kept::Nowhere;
        self
    }

    /// Keeps the data on a disk that can lose power, for [`TestServer::lose_power`].
    pub fn sim_disk(mut self, disk: SimDisk) -> Self {
        self.kept = Kept::Simulated(disk);
        self
    }

    /// Keeps the data in a directory of the machine, which is deleted with the server.
    pub fn temp_dir(mut self) -> Self {
        self.kept = Kept::Temporary;
        self
    }

    /// Keeps the data in a directory of the machine, which stays.
    pub fn data_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.kept = Kept::Directory(directory.into());
        self
    }

    /// Starts the server, which is ready when this returns. Must be awaited within a tokio runtime,
    /// which then drives it.
    ///
    /// # Errors
    ///
    /// [`TestServerError`] if the choices contradict each other, or a port or directory cannot be had.
    pub async fn start(self) -> Result<TestServer, TestServerError> {
        let Self { mut config, kept, is_tcp } = self;
        let port = is_tcp.then(Port::pick).transpose().map_err(TestServerError::Port)?;
        if let Some(port) = &port {
            config.listen = Some(port.address());
        }
        let mut directory = None;
        let mut sim_disk = None;
        match kept {
            Kept::Configured => {}
            Kept::Nowhere => config.storage = None,
            Kept::Directory(path) => config.storage = Some(StorageConfig::at(path)),
            Kept::Unsaid | Kept::Memory => choose_disk(&mut config, Arc::new(MemDisk::default())),
            Kept::Simulated(disk) => {
                choose_disk(&mut config, Arc::new(disk.clone()));
                sim_disk = Some(disk);
            }
            Kept::Temporary => {
                let made = tempfile::tempdir().map_err(TestServerError::Directory)?;
                config.storage = Some(StorageConfig::at(made.path()));
                directory = Some(made);
            }
        }
        TestServer::new(config, Faults::default(), Belongings { port, directory, sim_disk }).await
    }
}

/// Lets the data be on a disk that is no directory of the machine.
fn choose_disk(config: &mut Config, disk: Arc<dyn Disk>) {
    let storage = config.storage.take().unwrap_or_else(|| StorageConfig::at("/zoolet-test"));
    config.storage = Some(StorageConfig { disk, allocate_bytes: LOG_GROWS_BY, ..storage });
}

/// A disk that is simulated has memory for all that is set aside.
const LOG_GROWS_BY: u64 = 16 << 10;
