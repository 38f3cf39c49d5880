//! Logs go to stderr, so that stdout has only the output of the command.

use std::io::{self, IsTerminal};

use clap::ValueEnum;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Off => Self::OFF,
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
}

/// Starts logging from `level` up, or as the variable `RUST_LOG` says, or from `default` up.
pub(crate) fn start(level: Option<LogLevel>, default: LogLevel) {
    let variable = std::env::var("RUST_LOG").ok().filter(|directives| !directives.is_empty());
    let (targets, bad) = match (level, variable.as_deref().map(str::parse::<Targets>)) {
        (Some(level), _) => (from(level), None),
        (None, Some(Ok(targets))) => (targets, None),
        (None, Some(Err(error))) => (from(default), Some(error)),
        (None, None) => (from(default), None),
    };
    let wants_colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let layer = tracing_subscriber::fmt::layer()
        .compact()
        .with_writer(io::stderr)
        .with_ansi(wants_colour && io::stderr().is_terminal())
        // Without this, a closed stderr would make the subscriber print an error to it, and panic.
        .log_internal_errors(false);
    tracing_subscriber::registry().with(layer).with(targets).init();
    if let Some(error) = bad {
        tracing::warn!("RUST_LOG is not understood, and logs are from {default:?} up: {error}");
    }
}

fn from(level: LogLevel) -> Targets {
    Targets::new().with_default(LevelFilter::from(level))
}
