//! The settings of an ensemble for tests.

use std::time::Duration;

use zoolet_server::{Config, EnforceAuth, FourLetterWhitelist, WallTime};

use super::error::TestEnsembleError;
use super::settings::{Elections, Law, Sweeps};
use crate::limits::ENSEMBLE_SERVERS_MAX;

/// ZooKeeper's sample configuration has it.
const SYNC_LIMIT: u32 = 5;

/// The settings of a [`TestEnsemble`](crate::TestEnsemble).
///
/// ```
/// use zoolet_testkit::TestEnsemble;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ensemble = TestEnsemble::builder().servers(5).tcp().start().await?;
/// assert_eq!(ensemble.connect_string().unwrap().split(',').count(), 5);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it is started"]
pub struct TestEnsembleBuilder {
    pub(super) config: Config,
    pub(super) servers: usize,
    pub(super) seed: u64,
    pub(super) is_tcp: bool,
    sync_limit: u32,
    has_read_only_mode: bool,
    elections: Elections,
    tells_zxids: bool,
}

impl Default for TestEnsembleBuilder {
    fn default() -> Self {
        let config = Config {
            tick_time_ms: 500,
            max_session_timeout_ms: Some(60_000),
            max_client_connections: 0,
            four_letter_words: FourLetterWhitelist::all(),
            wall_time: WallTime::starting_now(),
            ..Config::default()
        };
        Self {
            config,
            servers: 3,
            seed: 0,
            is_tcp: false,
            sync_limit: SYNC_LIMIT,
            has_read_only_mode: false,
            elections: Elections::Drawn,
            tells_zxids: true,
        }
    }
}

impl TestEnsembleBuilder {
    /// The number of servers: 3 by default, and 15 at most.
    pub fn servers(mut self, servers: usize) -> Self {
        self.servers = servers;
        self
    }

    /// Lets each server listen on a free port of the loopback address, for clients in other
    /// processes and languages.
    pub fn tcp(mut self) -> Self {
        self.is_tcp = true;
        self
    }

    /// Changes the configuration of all servers. These settings have an effect: the tick (500 ms by
    /// default), session timeouts (1 to 60 s), the limit of a frame, four-letter words (all enabled),
    /// those of containers, `sessionless_timeout`, the start of the wall time, and
    /// [`Config::settings`].
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// `syncLimit`: after how many ticks without a message a server gives its leader up; 5 by
    /// default.
    pub fn sync_limit(mut self, ticks: u32) -> Self {
        self.sync_limit = ticks;
        self
    }

    /// `readonlymode.enabled`: a server that has had no leader for two seconds, or a tick if that is
    /// longer, serves clients that allow read-only servers. As in ZooKeeper, it accepts only new
    /// sessions and those that it has begun in this state; the sessions of the ensemble are refused.
    pub fn read_only_mode(mut self) -> Self {
        self.has_read_only_mode = true;
        self
    }

    /// The seed of session ids, of the times that elections take, and of whom they elect. Without
    /// it every ensemble has the same.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Lets no election take place but by [`TestEnsemble::elect`](crate::TestEnsemble::elect).
    pub fn elect_by_hand(mut self) -> Self {
        self.elections = Elections::ByHand;
        self
    }

    /// Sends events without the zxid of the change, as ZooKeeper did before 3.9.
    pub fn without_event_zxids(mut self) -> Self {
        self.tells_zxids = false;
        self
    }

    pub(super) fn law(&self) -> Result<Law, TestEnsembleError> {
        let Self { config, servers, sync_limit, .. } = self;
        if !(1..=ENSEMBLE_SERVERS_MAX).contains(servers) {
            return Err(TestEnsembleError::Servers(*servers));
        }
        if *sync_limit == 0 {
            return Err(TestEnsembleError::NoSyncLimit);
        }
        config.check()?;
        if let Some(key) = unsupported(config) {
            return Err(TestEnsembleError::Unsupported(key));
        }
        let wall_start_ms = match config.wall_time {
            WallTime::Virtual { start_ms } => start_ms,
            WallTime::Machine => match WallTime::starting_now() {
                WallTime::Virtual { start_ms } => start_ms,
                WallTime::Machine => 0,
            },
        };
        let never_used_ms = config.container_max_never_used_ms;
        Ok(Law {
            tick: Duration::from_millis(config.tick_time_ms.into()),
            sync_limit: *sync_limit,
            tell_zxids: vec![self.tells_zxids; *servers],
            timeouts_ms: config.session_timeouts_ms()?,
            first_leader: Some(0),
            has_epochs: true,
            elections: self.elections,
            sweeps: Sweeps::Every(config.container_check_interval, never_used_ms),
            has_read_only_mode: self.has_read_only_mode,
            settings: config.settings.clone(),
            frame_bytes_max: config.frame_bytes_max,
            wall_start_ms,
        })
    }
}

/// A setting that would have no effect.
fn unsupported(config: &Config) -> Option<&'static str> {
    let settings = [
        ("Config::listen", config.listen.is_some()),
        ("Config::enforce_auth", !matches!(config.enforce_auth, EnforceAuth::Off)),
        ("Config::sasl", config.sasl.is_some()),
        ("Config::session_key", config.session_key.is_some()),
        ("Config::storage", config.storage.is_some()),
        ("Config::audit", config.audit.is_some()),
    ];
    settings.into_iter().find(|(_, is_set)| *is_set).map(|(key, _)| key)
}
