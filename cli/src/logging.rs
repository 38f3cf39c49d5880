//! Logs go to stderr, so that stdout has only the output of the command.

use std::io::{self, IsTerminal};
use std::str::FromStr;

use clap::ValueEnum;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
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

/// How much each part of the program logs: a level, or levels for targets, with commas between.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LogLevels(Targets);

impl From<LogLevel> for LogLevels {
    fn from(level: LogLevel) -> Self {
        Self(Targets::new().with_default(LevelFilter::from(level)))
    }
}

impl LogLevels {
    /// The same levels. What has no target of its own logs from `default` up, unless a level is given for it: a
    /// misspelt target must not silence the warnings of the others.
    fn or_else(self, default: LogLevel) -> Self {
        match self.0.default_level() {
            Some(_) => self,
            None => Self(self.0.with_default(LevelFilter::from(default))),
        }
    }
}

/// The text is not a list of levels.
#[derive(Debug, thiserror::Error)]
#[error(
    "must be off, error, warn, info, debug or trace, or levels for targets with commas between, such \
     as zoolet_server::transport=debug,info"
)]
pub(crate) struct NotLogLevels;

impl FromStr for LogLevels {
    type Err = NotLogLevels;

    /// A text that names a target without a level would log everything of it, and most such texts are
    /// misspelt levels.
    fn from_str(text: &str) -> Result<Self, NotLogLevels> {
        let is_known = |part: &str| match part.rsplit_once('=') {
            Some((target, level)) => {
                !target.trim().is_empty() && LogLevel::from_str(level, true).is_ok()
            }
            None => LogLevel::from_str(part, true).is_ok(),
        };
        let parts: Vec<_> = text.split(',').map(str::trim).collect();
        if !parts.iter().all(|part| is_known(part)) {
            return Err(NotLogLevels);
        }
        parts.join(",").parse().map(Self).map_err(|_| NotLogLevels)
    }
}

/// How the lines of the log are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    #[default]
    Text,
    /// For programs: one JSON object a line
    Json,
}

/// Starts logging from `level` up, or as the variable `RUST_LOG` says, or from `default` up.
pub(crate) fn start(level: Option<LogLevel>, default: LogLevel) {
    start_with(level.map(LogLevels::from), default, LogFormat::Text);
}

/// Starts logging as `levels` or the variable `RUST_LOG` says, or from `default` up.
pub(crate) fn start_with(levels: Option<LogLevels>, default: LogLevel, format: LogFormat) {
    let variable = std::env::var("RUST_LOG").ok();
    let (levels, bad) = match (levels, variable.as_deref().and_then(targets_of)) {
        (Some(levels), _) => (levels, None),
        (None, Some(Ok(targets))) => (LogLevels(targets), None),
        (None, Some(Err(error))) => (default.into(), Some(error)),
        (None, None) => (default.into(), None),
    };
    // Without `log_internal_errors(false)`, a closed stderr would make the subscriber print an error
    // to it, and panic.
    let layer = match format {
        LogFormat::Text => {
            let wants_colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
            tracing_subscriber::fmt::layer()
                .compact()
                .with_writer(io::stderr)
                .with_ansi(wants_colour && io::stderr().is_terminal())
                .log_internal_errors(false)
                .boxed()
        }
        LogFormat::Json => tracing_subscriber::fmt::layer()
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .with_writer(io::stderr)
            .log_internal_errors(false)
            .boxed(),
    };
    tracing_subscriber::registry().with(layer).with(levels.or_else(default).0).init();
    if let Some(error) = bad {
        tracing::warn!("RUST_LOG is not understood, and logs are from {default:?} up: {error}");
    }
}

/// The levels of the variable `RUST_LOG`; `None` if there are none. A part without text, as behind a last
/// comma, would count as a level for everything.
fn targets_of(variable: &str) -> Option<Result<Targets, ParseError>> {
    let parts: Vec<_> =
        variable.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    (!parts.is_empty()).then(|| parts.join(",").parse())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_those_of_everything_and_of_targets() {
        for text in ["off", "TRACE", "zoolet_server::transport=debug,info", "a=off, b=warn"] {
            assert!(text.parse::<LogLevels>().is_ok(), "{text}");
        }
        for text in ["", "verbose", "zoolet_server", "zoolet_server=loud", "=debug", "info,,warn"] {
            assert!(text.parse::<LogLevels>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_part_of_the_variable_without_text_is_no_level() {
        let targets = |text| targets_of(text).map(|targets| targets.expect("it is understood"));
        assert_eq!(targets("a=debug, ,"), targets("a=debug"));
        assert_eq!((targets(""), targets(" , ")), (None, None));
    }

    #[test]
    fn what_has_no_target_logs_as_without_levels() {
        let levels =
            |text: &str| text.parse::<LogLevels>().expect("it is one").or_else(LogLevel::Info);
        assert_eq!(levels("a=debug"), levels("a=debug,info"));
        assert_ne!(levels("a=debug,off"), levels("a=debug"));
    }
}
