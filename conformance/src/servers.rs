//! The servers that golden scripts run against. They are started when they are needed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::time::Duration;

use zoolet_core::Settings;
use zoolet_server::{Config, EnforceAuth};

use crate::apache::{APACHE_VERSION, Apache};
use crate::core_target::{CoreTarget, SESSION_TIMEOUTS_MS};
use crate::script::{SUPER_DIGEST, Script, ScriptError, Setting, Version};
use crate::target::Target;
use crate::wire::Wire;

/// The implementation that scripts run against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ServerKind {
    /// The state machine in this process, without sockets and clock.
    Core,
    /// Our server over TCP.
    Wire,
    /// Apache ZooKeeper 3.8.
    Apache,
}

/// The servers of one implementation. Each script has its own server of ours, because starting one
/// costs nothing. Scripts that need the same settings share one Apache ZooKeeper, unless they need
/// a new server.
#[derive(Debug)]
pub struct ScriptServers {
    kind: ServerKind,
    shared: BTreeMap<Setting, Apache>,
}

/// How often the sweeper runs where a script waits for it.
const SWEEP_INTERVAL: Duration = Duration::from_millis(50);

/// The name of the ensemble, where its provider is configured.
const ENSEMBLE: &str = "blue";

/// The scheme in which clients must authenticate where that is enforced.
const ENFORCED_SCHEME: &str = "digest";

/// Longer than any run.
const NEVER: Duration = Duration::from_secs(1_000_000);

/// The tick of our server. Sessions expire at a tick.
const TICK_MS: u32 = 200;

impl ScriptServers {
    /// Starts no server yet.
    #[must_use]
    pub fn new(kind: ServerKind) -> Self {
        Self { kind, shared: BTreeMap::new() }
    }

    /// The version of ZooKeeper whose behaviour the servers have. `None` is the newest.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        match self.kind {
            ServerKind::Core | ServerKind::Wire => None,
            ServerKind::Apache => Some(APACHE_VERSION),
        }
    }

    /// Compares a script's trace with the recorded one.
    ///
    /// # Errors
    ///
    /// If the traces differ or the server does not start.
    pub fn check(&mut self, script: &Script) -> Result<(), ScriptError> {
        let version = self.version();
        self.with(script.setting(), |target| script.check(target, version))
            .unwrap_or_else(|source| Err(ScriptError::Run { name: script.name.clone(), source }))
    }

    /// Calls `act` with a server of these settings.
    ///
    /// # Errors
    ///
    /// If the server does not start.
    pub fn with<T>(
        &mut self,
        setting: Setting,
        act: impl FnOnce(&dyn Target) -> T,
    ) -> io::Result<T> {
        match self.kind {
            ServerKind::Core if setting == Setting::EnforceAuth => {
                Ok(act(&CoreTarget::new(settings(setting)).enforcing(ENFORCED_SCHEME)))
            }
            ServerKind::Core => Ok(act(&CoreTarget::new(settings(setting)))),
            ServerKind::Wire => {
                let server = Wire::start(config(setting))?;
                Ok(act(&server.target()))
            }
            ServerKind::Apache if !setting.shares_servers() => {
                let server = Apache::start(&properties(setting))?;
                Ok(act(&server.target()))
            }
            ServerKind::Apache => {
                let server = match self.shared.entry(setting) {
                    Entry::Occupied(running) => running.into_mut(),
                    Entry::Vacant(vacant) => vacant.insert(Apache::start(&properties(setting))?),
                };
                Ok(act(&server.target()))
            }
        }
    }
}

/// The settings of the state machine.
#[must_use]
pub fn settings(setting: Setting) -> Settings {
    Settings {
        super_digest: Some(SUPER_DIGEST.into()),
        enforce_quota: matches!(setting, Setting::EnforceQuota | Setting::SteadyWithQuotas),
        skip_acl: setting == Setting::SkipAcl,
        ttl_znodes: setting != Setting::TtlDisabled,
        x509_scheme: setting == Setting::Providers,
        sasl_scheme: setting == Setting::Providers,
        ensemble_scheme: setting == Setting::Providers,
        ensemble_names: Some([ENSEMBLE.to_owned()].into()),
        ..Settings::default()
    }
}

/// The configuration of our server.
#[must_use]
pub fn config(setting: Setting) -> Config {
    let (least, most) = SESSION_TIMEOUTS_MS;
    let defaults = Config::default();
    let check_interval = match setting {
        Setting::Sweeping => SWEEP_INTERVAL,
        Setting::Steady | Setting::SteadyWithQuotas => NEVER,
        _ => defaults.container_check_interval,
    };
    Config {
        tick_time_ms: TICK_MS,
        min_session_timeout_ms: Some(least),
        max_session_timeout_ms: Some(most),
        max_client_connections: 0,
        container_check_interval: check_interval,
        enforce_auth: match setting {
            Setting::EnforceAuth => EnforceAuth::Schemes(vec![ENFORCED_SCHEME.to_owned()]),
            _ => EnforceAuth::Off,
        },
        settings: settings(setting),
        ..defaults
    }
}

/// The JVM properties of Apache ZooKeeper with the same settings.
#[must_use]
pub fn properties(setting: Setting) -> Vec<String> {
    let super_digest = "zookeeper.DigestAuthenticationProvider.superDigest";
    let mut properties = vec![format!("-D{super_digest}={SUPER_DIGEST}")];
    let interval =
        |interval: Duration| format!("-Dznode.container.checkIntervalMs={}", interval.as_millis());
    let enforce_quota = "-Dzookeeper.enforceQuota=true".to_owned();
    let own = match setting {
        Setting::Shared | Setting::Fresh => Vec::new(),
        Setting::EnforceAuth => vec![
            "-Dzookeeper.enforce.auth.enabled=true".to_owned(),
            format!("-Dzookeeper.enforce.auth.schemes={ENFORCED_SCHEME}"),
        ],
        Setting::EnforceQuota => vec![enforce_quota],
        Setting::Providers => ["X509", "SASL", "Ensemble"]
            .map(|name| {
                let class =
                    format!("org.apache.zookeeper.server.auth.{name}AuthenticationProvider");
                format!("-Dzookeeper.authProvider.{name}={class}")
            })
            .into_iter()
            .chain([format!("-Dzookeeper.ensembleAuthName={ENSEMBLE}")])
            .collect(),
        Setting::SkipAcl => vec!["-Dzookeeper.skipACL=yes".to_owned()],
        Setting::TtlDisabled => vec!["-Dzookeeper.extendedTypesEnabled=false".to_owned()],
        Setting::Sweeping => vec![interval(SWEEP_INTERVAL)],
        Setting::Steady => vec![interval(NEVER)],
        Setting::SteadyWithQuotas => vec![enforce_quota, interval(NEVER)],
    };
    properties.extend(own);
    properties
}
