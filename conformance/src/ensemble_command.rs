//! Runs and records scripts with several servers.

use std::fs;

use clap::Subcommand;
use zoolet_conformance::apache::APACHE_VERSION;
use zoolet_conformance::ensemble_scripts::{ApacheStages, Area, drawn, play_on_double};
use zoolet_conformance::peers::conformance_folder;
use zoolet_conformance::script::{ENSEMBLE_SCRIPTS, ensemble_corpus};

use crate::{BoxError, for_each};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Writes the commands of the scripts that are drawn from seeds. Record them afterwards.
    Draw,
    /// Plays scripts on `TestEnsemble` and compares their traces with the recorded ones.
    Play {
        /// Only scripts whose names begin with one of these.
        prefixes: Vec<String>,
    },
    /// Runs scripts on three Apache servers and compares their traces with the recorded ones.
    Check {
        /// Only scripts whose names begin with one of these.
        prefixes: Vec<String>,
    },
    /// Runs scripts on three Apache servers and records their traces.
    Record {
        /// Only scripts whose names begin with one of these.
        prefixes: Vec<String>,
    },
}

/// Returns whether no script failed.
pub(crate) fn run(command: &Command) -> Result<bool, BoxError> {
    let mut apache = ApacheStages::default();
    let version = Some(APACHE_VERSION);
    match command {
        Command::Draw => {
            let folder = conformance_folder().join(ENSEMBLE_SCRIPTS);
            for (name, text) in drawn() {
                let path = folder.join(name);
                fs::create_dir_all(path.parent().unwrap_or(&folder))?;
                fs::write(path, text)?;
            }
            Ok(true)
        }
        Command::Play { prefixes } => for_each(ensemble_corpus(), prefixes, |script| {
            let area = Area::of(script);
            script.check_by(None, |text| play_on_double(area, text))?;
            Ok(false)
        }),
        Command::Check { prefixes } => for_each(ensemble_corpus(), prefixes, |script| {
            let area = Area::of(script);
            script.check_by(version, |text| apache.play(area, text))?;
            Ok(false)
        }),
        Command::Record { prefixes } => for_each(ensemble_corpus(), prefixes, |script| {
            let area = Area::of(script);
            Ok(script.record_by(version, |text| apache.play(area, text))?)
        }),
    }
}
