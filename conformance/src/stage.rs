//! The servers that scripts run against, started as they are needed.

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

/// Which of the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// The core in process, without sockets and time.
    Core,
    /// Our server over TCP.
    Wire,
    /// Apache ZooKeeper 3.8.
    Apache,
}

/// The servers of one kind. Ours are new for every script, since that costs nothing; one of
/// Apache's serves all scripts that need the same settings and no new server.
#[derive(Debug)]
pub struct Stage {
    kind: Kind,
    shared: BTreeMap<Setting, Apache>,
}

/// How often ours and Apache's look for containers that may go, where a script waits for it.
const SWEEP_INTERVAL: Duration = Duration::from_millis(50);

/// The scheme without which nothing is answered where authentication is enforced.
const ENFORCED_SCHEME: &str = "digest";

/// Longer than any run.
const NEVER: Duration = Duration::from_secs(1_000_000);

/// The tick of our server: how soon sessions expire.
const TICK_MS: u32 = 200;

impl Stage {
    /// No server yet.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        Self { kind, shared: BTreeMap::new() }
    }

    /// The version whose behaviour its servers have; `None` is the newest.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        match self.kind {
            Kind::Core | Kind::Wire => None,
            Kind::Apache => Some(APACHE_VERSION),
        }
    }

    /// Compares a script's trace with the recorded one.
    ///
    /// # Errors
    ///
    /// When they differ, or there is no server.
    pub fn check(&mut self, script: &Script) -> Result<(), ScriptError> {
        let version = self.version();
        self.with(script.setting(), |target| script.check(target, version))
            .unwrap_or_else(|source| Err(ScriptError::Run { name: script.name.clone(), source }))
    }

    /// Does something with a server of these settings.
    ///
    /// # Errors
    ///
    /// When the server does not come up.
    pub fn with<T>(
        &mut self,
        setting: Setting,
        act: impl FnOnce(&dyn Target) -> T,
    ) -> io::Result<T> {
        match self.kind {
            Kind::Core if setting == Setting::EnforceAuth => {
                Ok(act(&CoreTarget::new(settings(setting)).enforcing(ENFORCED_SCHEME)))
            }
            Kind::Core => Ok(act(&CoreTarget::new(settings(setting)))),
            Kind::Wire => {
                let server = Wire::start(config(setting))?;
                Ok(act(&server.target()))
            }
            // A sweep may come late, and take a zxid of whichever script is there then.
            Kind::Apache if matches!(setting, Setting::Fresh | Setting::Sweeping) => {
                let server = Apache::start(&properties(setting))?;
                Ok(act(&server.target()))
            }
            Kind::Apache => {
                let server = match self.shared.entry(setting) {
                    Entry::Occupied(running) => running.into_mut(),
                    Entry::Vacant(place) => place.insert(Apache::start(&properties(setting))?),
                };
                Ok(act(&server.target()))
            }
        }
    }
}

/// The settings of the core.
#[must_use]
pub fn settings(setting: Setting) -> Settings {
    Settings {
        super_digest: Some(SUPER_DIGEST.to_owned()),
        enforce_quota: matches!(setting, Setting::EnforceQuota | Setting::Steady),
        skip_acl: setting == Setting::SkipAcl,
        ttl_znodes: setting != Setting::TtlDisabled,
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
        Setting::Steady => NEVER,
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

/// The same for Apache.
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
        Setting::SkipAcl => vec!["-Dzookeeper.skipACL=yes".to_owned()],
        Setting::TtlDisabled => vec!["-Dzookeeper.extendedTypesEnabled=false".to_owned()],
        Setting::Sweeping => vec![interval(SWEEP_INTERVAL)],
        Setting::Steady => vec![enforce_quota, interval(NEVER)],
    };
    properties.extend(own);
    properties
}
