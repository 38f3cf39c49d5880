//! The settings of a server for tests.

use std::path::PathBuf;
use std::sync::Arc;

use zoolet_server::storage::{Disk, MemDisk, SimDisk, StorageConfig};
use zoolet_server::{Config, FourLetterWhitelist, WallTime};

use super::port::Port;
use super::{Resources, TestServer, TestServerError};

/// The settings of a [`TestServer`].
///
/// ```
/// use zoolet_testkit::TestServer;
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
    data: Data,
    is_tcp: bool,
}

/// Where the server keeps its data.
#[derive(Debug, Clone)]
enum Data {
    /// On a disk in memory, because no method chose anything.
    Default,
    /// As [`Config::storage`] says.
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
        Self { config, data: Data::Default, is_tcp: false }
    }
}

impl TestServerBuilder {
    /// Listens also on a free port of the loopback address, which a restart keeps.
    pub fn tcp(mut self) -> Self {
        self.is_tcp = true;
        self
    }

    /// Replaces the whole configuration, including earlier changes by
    /// [`configure`](Self::configure). The other methods of this builder take precedence, whether
    /// called before or after. Unless one of them or [`Config::storage`] chooses a place for the
    /// data, the server keeps none.
    ///
    /// The default configuration differs from [`Config::default`]: a tick has 500 ms, session
    /// timeouts are 1 to 60 seconds, all four-letter words are enabled, and the wall time goes on
    /// with tokio's clock.
    pub fn config(mut self, config: Config) -> Self {
        if matches!(self.data, Data::Default) {
            self.data = Data::Configured;
        }
        self.config = config;
        self
    }

    /// Changes the configuration.
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// Lets everything that is otherwise up to chance or to the machine's clock follow from a seed:
    /// the ids of sessions, the wall time, which begins on 1 January 2026, and the seeds of the
    /// clients of [`TestServer::connect`]. On a runtime with one thread and a paused clock a run
    /// then repeats to the byte.
    ///
    /// A client that a test connects by itself needs a seed of its own: `Client::builder().seed(..)`.
    ///
    /// ```
    /// use zoolet_testkit::TestServer;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut sessions = Vec::new();
    /// for _ in 0..2 {
    ///     let server = TestServer::builder().seed(7).start().await?;
    ///     sessions.push(server.connect().await?.session_id());
    /// }
    /// assert_eq!(sessions[0], sessions[1]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.seed = Some(seed);
        self.config.wall_time = WallTime::Virtual { start_ms: SEEDED_START_MS };
        self
    }

    /// Keeps the data on a disk in memory, which survives a restart: the default.
    pub fn memory(mut self) -> Self {
        self.data = Data::Memory;
        self
    }

    /// Keeps no data: after a restart the tree is empty and there are no sessions.
    pub fn forgetful(mut self) -> Self {
        self.data = Data::Nowhere;
        self
    }

    /// Keeps the data on a simulated disk, for [`TestServer::lose_power`].
    pub fn sim_disk(mut self, disk: SimDisk) -> Self {
        self.data = Data::Simulated(disk);
        self
    }

    /// Keeps the data in a temporary directory, which is deleted with the server.
    pub fn temp_dir(mut self) -> Self {
        self.data = Data::Temporary;
        self
    }

    /// Keeps the data in a directory, which is not deleted.
    pub fn data_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.data = Data::Directory(directory.into());
        self
    }

    /// Starts the server, which is ready when this returns. It must be awaited within a tokio
    /// runtime, which then drives the server.
    ///
    /// # Errors
    ///
    /// [`TestServerError`] if the settings contradict each other, or no port or directory is
    /// available.
    pub async fn start(self) -> Result<TestServer, TestServerError> {
        let Self { mut config, data, is_tcp } = self;
        let port = is_tcp.then(Port::pick).transpose().map_err(TestServerError::Port)?;
        if let Some(port) = &port {
            config.listen = Some(port.address());
        }
        let mut directory = None;
        let mut sim_disk = None;
        match data {
            Data::Configured => {}
            Data::Nowhere => config.storage = None,
            Data::Directory(path) => config.storage = Some(StorageConfig::at(path)),
            Data::Default | Data::Memory => choose_disk(&mut config, Arc::new(MemDisk::default())),
            Data::Simulated(disk) => {
                choose_disk(&mut config, Arc::new(disk.clone()));
                sim_disk = Some(disk);
            }
            Data::Temporary => {
                let made = tempfile::tempdir().map_err(TestServerError::Directory)?;
                config.storage = Some(StorageConfig::at(made.path()));
                directory = Some(made);
            }
        }
        let resources = Resources { _port: port, _directory: directory, sim_disk };
        TestServer::new(config, resources).await
    }
}

/// Keeps the data on a disk that is not the machine's.
fn choose_disk(config: &mut Config, disk: Arc<dyn Disk>) {
    let storage = config.storage.take().unwrap_or_else(|| StorageConfig::at("/zoolet-test"));
    config.storage = Some(StorageConfig { disk, allocate_bytes: LOG_GROWS_BY, ..storage });
}

/// The wall time at the start of a server with a seed: 2026-01-01.
const SEEDED_START_MS: i64 = 1_767_225_600_000;

/// By how many bytes a log on such a disk grows: little, because it takes memory for all of them.
const LOG_GROWS_BY: u64 = 16 << 10;
