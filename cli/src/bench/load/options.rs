//! The options of a load, from the command line and a file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Deserializer};

use super::Plan;
use super::mix::Mix;
use crate::bench::failure::Failure;
use crate::server_options::values;

/// A field is `None` unless a file or an option sets it.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct LoadOptions {
    /// Read the options of this group from a TOML file; those on the command line override it
    #[arg(long, value_name = "FILE", help_heading = LOAD)]
    #[serde(skip)]
    config: Option<PathBuf>,

    /// Which operations, and how many of each: get, exists, children, set, create, delete
    /// [default: get=80,set=20]
    #[arg(long, value_name = "OP=WEIGHT,..", help_heading = LOAD)]
    #[serde(deserialize_with = "mix")]
    mix: Option<Mix>,

    /// How many clients, each with a session of its own [default: 16]
    #[arg(long, value_name = "COUNT", value_parser = values::some, help_heading = LOAD)]
    #[serde(deserialize_with = "some")]
    sessions: Option<usize>,

    /// How many requests each has under way at a time [default: 16]
    #[arg(long, value_name = "COUNT", value_parser = values::some, help_heading = LOAD)]
    #[serde(deserialize_with = "some")]
    depth: Option<usize>,

    /// For how long it is measured [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = values::some_time, help_heading = LOAD)]
    #[serde(deserialize_with = "some_time")]
    duration: Option<Duration>,

    /// For how long before that nothing is measured [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = values::time, help_heading = LOAD)]
    #[serde(deserialize_with = "time")]
    warm_up: Option<Duration>,

    /// How many bytes of data a znode has [default: 100]
    #[arg(long, value_name = "BYTES", value_parser = data_size, help_heading = LOAD)]
    #[serde(deserialize_with = "bytes")]
    data_size: Option<usize>,

    /// How many znodes are read and written [default: 1000]
    #[arg(long, value_name = "COUNT", value_parser = values::some, help_heading = LOAD)]
    #[serde(deserialize_with = "some")]
    znodes: Option<usize>,
}

const LOAD: &str = "Load";

/// The most data that fits into a request beside the path.
const DATA_SIZE_MAX: usize = 1_000_000;

/// The most requests under way: each has a task, and all of them are there before the first is
/// measured. A million take about a gigabyte.
const UNDER_WAY_MAX: usize = 1_000_000;

fn data_size(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(size) if size <= DATA_SIZE_MAX => Ok(size),
        _ => Err(format!("must be a whole number from 0 to {DATA_SIZE_MAX}")),
    }
}

impl LoadOptions {
    pub(super) fn plan(&self) -> Result<Plan, Failure> {
        let file = match &self.config {
            Some(path) => Self::read(path)?,
            None => Self::default(),
        };
        let default_mix = || Mix::new([("get", 80), ("set", 20)]);
        let mix = match self.mix.clone().or(file.mix) {
            Some(mix) => mix,
            None => default_mix().map_err(Failure::Usage)?,
        };
        let sessions = self.sessions.or(file.sessions).unwrap_or(16);
        let depth = self.depth.or(file.depth).unwrap_or(16);
        if sessions.saturating_mul(depth) > UNDER_WAY_MAX {
            return Err(Failure::Usage(format!(
                "{sessions} sessions with {depth} requests each are more than {UNDER_WAY_MAX} \
                 requests under way; ask for fewer by --sessions or --depth"
            )));
        }
        Ok(Plan {
            mix,
            sessions,
            depth,
            duration: self.duration.or(file.duration).unwrap_or(Duration::from_secs(5)),
            warm_up: self.warm_up.or(file.warm_up).unwrap_or(Duration::from_secs(1)),
            data_size: self.data_size.or(file.data_size).unwrap_or(100),
            znodes: self.znodes.or(file.znodes).unwrap_or(1000),
        })
    }

    fn read(path: &Path) -> Result<Self, Failure> {
        let usage = |what: String| Failure::Usage(format!("{}: {what}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| usage(error.to_string()))?;
        toml::from_str(&text).map_err(|error| usage(error.to_string().trim_end().to_owned()))
    }
}

/// A value of the file: a number, or a text as in an option.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(i64),
    Decimal(f64),
    Text(String),
}

/// Parses a value of the file as the option of the same name.
fn written<'de, D: Deserializer<'de>, T, E: std::fmt::Display>(
    deserializer: D,
    read: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, D::Error> {
    let text = match Written::deserialize(deserializer)? {
        Written::Number(number) => number.to_string(),
        Written::Decimal(number) => number.to_string(),
        Written::Text(text) => text,
    };
    read(&text).map(Some).map_err(serde::de::Error::custom)
}

fn some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    written(deserializer, values::some)
}

fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    written(deserializer, data_size)
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    written(deserializer, values::time)
}

fn some_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    written(deserializer, values::some_time)
}

/// The table `[mix]`, with a line for each operation.
fn mix<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Mix>, D::Error> {
    let weights = BTreeMap::<String, u32>::deserialize(deserializer)?;
    let weights = weights.iter().map(|(name, &weight)| (name.as_str(), weight));
    Mix::new(weights).map(Some).map_err(serde::de::Error::custom)
}
