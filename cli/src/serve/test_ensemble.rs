//! `--servers`: an ensemble for tests, in this process, with a port for each server.

use clap::ArgMatches;
use clap::parser::ValueSource;
use zoolet_server::Config;
use zoolet_testkit::TestEnsemble;

use super::announcement::Addresses;
use super::ending::Endings;
use super::test_control::{self, Subject};
use super::{Parent, ServeError};
use crate::server_options::ServerOptions;

/// As of other servers for tests: clients ask for 10 to 40 seconds, however short a tick is.
const SESSION_TIMEOUT_MS_MAX: i32 = 60_000;

/// The options that have an effect on an ensemble for tests, by their ids.
const EFFECTIVE: [&str; 16] = [
    "servers",
    "test_control",
    "ready_json",
    "exit_with_stdin",
    "log_level",
    "log_format",
    "tick_time",
    "min_session_timeout",
    "max_session_timeout",
    "jute_maxbuffer",
    "enforce_quota",
    "extended_types_enabled",
    "reconfig_enabled",
    "znode_container_check_interval_ms",
    "znode_container_max_per_minute",
    "znode_container_max_never_used_interval_ms",
];

/// Refuses options that would have no effect.
///
/// # Errors
///
/// [`ServeError::NotOfAnEnsemble`] with the first of them.
pub(super) fn check(matches: &ArgMatches) -> Result<(), ServeError> {
    let is_given = |id: &str| {
        let is_effective = EFFECTIVE.contains(&id);
        // The ids of groups have no source.
        let is_argument = matches.try_contains_id(id).is_ok_and(|is_there| is_there);
        !is_effective && is_argument && matches.value_source(id) == Some(ValueSource::CommandLine)
    };
    let mut ids = matches.ids().map(clap::Id::as_str);
    match ids.find(|id| is_given(id)) {
        None => Ok(()),
        Some(id) => Err(ServeError::NotOfAnEnsemble { option: id.replace('_', "-") }),
    }
}

/// Runs an ensemble of so many servers until something ends it.
///
/// # Errors
///
/// [`ServeError`] if it cannot start.
pub(super) async fn serve(
    servers: usize,
    options: &ServerOptions,
    parent: Parent,
) -> Result<(), ServeError> {
    let mut options = options.clone();
    options.max_session_timeout.get_or_insert(SESSION_TIMEOUT_MS_MAX);
    let given = options.config()?;
    let mut endings = Endings::new(parent.exits_with_stdin).map_err(ServeError::Runtime)?;
    let builder = TestEnsemble::builder().servers(servers).tcp();
    let ensemble = builder.configure(|config| put(config, given, &options)).start().await?;
    let control = match parent.test_control {
        None => None,
        Some(address) => {
            let control = test_control::start(address, Subject::Ensemble(ensemble.clone())).await;
            Some(control.map_err(|source| ServeError::TestControl { address, source })?)
        }
    };
    Addresses::of_ensemble(&ensemble, control).announce_ensemble(parent.ready);
    let ending = endings.next().await;
    tracing::info!("{ending}, shutting down");
    Ok(())
}

/// The settings that were given; the others stay those of tests.
fn put(config: &mut Config, given: Config, options: &ServerOptions) {
    if options.tick_time.is_some() {
        config.tick_time_ms = given.tick_time_ms;
    }
    config.min_session_timeout_ms = given.min_session_timeout_ms;
    config.max_session_timeout_ms = given.max_session_timeout_ms;
    config.frame_bytes_max = given.frame_bytes_max;
    config.container_check_interval = given.container_check_interval;
    config.container_max_per_minute = given.container_max_per_minute;
    config.container_max_never_used_ms = given.container_max_never_used_ms;
    config.settings = given.settings;
}
