//! The script files: which server each needs, and how its trace is compared with the recorded one.
//!
//! A block in which a command has the tag `since-X.Y.Z` shows what ZooKeeper does from that version
//! on. An older server runs the block, but its trace is neither compared nor recorded. The tag
//! `ours` marks the few blocks in which zoolet differs from every version on purpose, or in which
//! ZooKeeper does not always do the same.

use std::fs;
use std::io;
use std::path::PathBuf;

use similar::TextDiff;

use super::runner;
use crate::peers::conformance_folder;
use crate::target::Target;

/// A version of ZooKeeper.
pub type Version = (u32, u32, u32);

/// A script file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// Area and name, `watch/delete-fires-once`.
    pub name: String,
    path: PathBuf,
}

/// The settings of the server that a script needs. The area of the script decides them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setting {
    /// The default settings, on a server that other scripts use too.
    Shared,
    /// The default settings, on a new server: the area `fresh`.
    Fresh,
    /// Hard quotas are enforced: the area `quota-enforced`.
    EnforceQuota,
    /// Clients must authenticate with the digest scheme before their first request: the area
    /// `enforce-auth`.
    EnforceAuth,
    /// The providers of x509, sasl and ensemble are configured, and the ensemble is `blue`: the area
    /// `providers`.
    Providers,
    /// Access control lists are ignored: the area `skip-acl`.
    SkipAcl,
    /// TTL znodes are disabled: the area `ttl-disabled`.
    TtlDisabled,
    /// The sweeper never runs: for all that is no script.
    Steady,
    /// The sweeper never runs, and hard quotas are enforced: for random operations with quotas.
    SteadyWithQuotas,
    /// The sweeper runs many times in a second: the area `sweep`.
    Sweeping,
}

impl Setting {
    /// Whether scripts that need it can use one server, one after the other.
    #[must_use]
    pub fn shares_servers(self) -> bool {
        // A late sweep would take a zxid in the next script.
        !matches!(self, Self::Fresh | Self::Sweeping)
    }
}

/// Why a script failed.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// It could not be run.
    #[error("{name}: {source}")]
    Run {
        /// The name of the script.
        name: String,
        /// The reason.
        source: io::Error,
    },
    /// Its trace differs from the recorded one.
    #[error("{name}: the trace differs; - is recorded, + is new\n{diff}")]
    Differs {
        /// The name of the script.
        name: String,
        /// The lines that differ.
        diff: String,
    },
}

/// All scripts, ordered by name.
///
/// # Errors
///
/// If the files cannot be listed.
pub fn corpus() -> io::Result<Vec<Script>> {
    scripts_below("scripts")
}

/// All scripts with several servers, ordered by name.
///
/// # Errors
///
/// If the files cannot be listed.
pub fn ensemble_corpus() -> io::Result<Vec<Script>> {
    scripts_below(ENSEMBLE_SCRIPTS)
}

/// The folder of the scripts with several servers, in that of this crate.
pub const ENSEMBLE_SCRIPTS: &str = "ensemble-scripts";

fn scripts_below(folder: &str) -> io::Result<Vec<Script>> {
    let root = conformance_folder().join(folder);
    let mut scripts = Vec::new();
    for area in fs::read_dir(&root)? {
        let area = area?;
        if !area.file_type()?.is_dir() {
            continue;
        }
        for file in fs::read_dir(area.path())? {
            let path = file?.path();
            let name = path.strip_prefix(&root).unwrap_or(&path).display().to_string();
            scripts.push(Script { name, path });
        }
    }
    scripts.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(scripts)
}

impl Script {
    /// The area: the folder of the file.
    #[must_use]
    pub fn area(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }

    /// The settings of the server that it needs.
    #[must_use]
    pub fn setting(&self) -> Setting {
        match self.area() {
            "fresh" => Setting::Fresh,
            "quota-enforced" => Setting::EnforceQuota,
            "enforce-auth" => Setting::EnforceAuth,
            "providers" => Setting::Providers,
            "skip-acl" => Setting::SkipAcl,
            "ttl-disabled" => Setting::TtlDisabled,
            "sweep" => Setting::Sweeping,
            _ => Setting::Shared,
        }
    }

    /// Runs the script and compares its trace with the recorded one, except in blocks for which a
    /// server of `version` is too old. `None` is the newest version.
    ///
    /// # Errors
    ///
    /// If it cannot be run, or the traces differ.
    pub fn check(&self, target: &dyn Target, version: Option<Version>) -> Result<(), ScriptError> {
        self.check_by(version, |text| self.run(target, text))
    }

    /// As [`Script::check`], with a function that runs the text of a script and traces it.
    ///
    /// # Errors
    ///
    /// If it cannot be run, or the traces differ.
    pub fn check_by(
        &self,
        version: Option<Version>,
        run: impl FnOnce(&str) -> io::Result<String>,
    ) -> Result<(), ScriptError> {
        let (recorded, traced) = self.trace(version, run)?;
        if recorded == traced {
            return Ok(());
        }
        let diff = TextDiff::from_lines(&recorded, &traced);
        let diff = diff.unified_diff().context_radius(6).to_string();
        Err(ScriptError::Differs { name: self.name.clone(), diff })
    }

    /// Runs the script and records its trace, except in blocks for which a server of `version` is
    /// too old. Returns whether the file has changed.
    ///
    /// # Errors
    ///
    /// If it cannot be run or written.
    pub fn record(
        &self,
        target: &dyn Target,
        version: Option<Version>,
    ) -> Result<bool, ScriptError> {
        self.record_by(version, |text| self.run(target, text))
    }

    /// As [`Script::record`], with a function that runs the text of a script and traces it.
    ///
    /// # Errors
    ///
    /// If it cannot be run or written.
    pub fn record_by(
        &self,
        version: Option<Version>,
        run: impl FnOnce(&str) -> io::Result<String>,
    ) -> Result<bool, ScriptError> {
        let (recorded, traced) = self.trace(version, run)?;
        fs::write(&self.path, &traced).map_err(|source| self.failed(source))?;
        Ok(recorded != traced)
    }

    /// Runs the script and records its trace only in the blocks for which a server of `version` is
    /// too old.
    ///
    /// # Errors
    ///
    /// If it cannot be run or written.
    pub fn fill(&self, target: &dyn Target, version: Version) -> Result<bool, ScriptError> {
        let (recorded, traced) = self.trace(None, |text| self.run(target, text))?;
        let filled = merge(&recorded, &traced, |block| !block.is_beyond(version));
        fs::write(&self.path, &filled).map_err(|source| self.failed(source))?;
        Ok(recorded != filled)
    }

    /// The recorded text of the script, and the text with the new trace.
    fn trace(
        &self,
        version: Option<Version>,
        run: impl FnOnce(&str) -> io::Result<String>,
    ) -> Result<(String, String), ScriptError> {
        let recorded = fs::read_to_string(&self.path).map_err(|source| self.failed(source))?;
        let traced = run(&recorded).map_err(|source| self.failed(source))?;
        let Some(version) = version else { return Ok((recorded, traced)) };
        let merged = merge(&recorded, &traced, |block| block.is_beyond(version));
        Ok((recorded, merged))
    }

    /// The text without the traces.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn commands(&self) -> io::Result<String> {
        let text = fs::read_to_string(&self.path)?;
        let commands: Vec<_> = blocks(&text).iter().map(|block| block.commands).collect();
        Ok(commands.join("\n").trim_end().to_owned() + "\n")
    }

    fn run(&self, target: &dyn Target, text: &str) -> io::Result<String> {
        runner::run(target, text, self.setting() == Setting::Fresh)
    }

    fn failed(&self, source: io::Error) -> ScriptError {
        ScriptError::Run { name: self.name.clone(), source }
    }
}

/// One block of a script file.
struct Text<'a> {
    commands: &'a str,
    output: &'a str,
}

const SEPARATOR: &str = "---\n";
/// The beginning of a tag for what a later version does.
const SINCE: &str = "since-";
/// The tag for what only zoolet does, on purpose.
const OURS: &str = "ours";

impl Text<'_> {
    /// Whether a command has the tag of a later version, or of what only zoolet does.
    fn is_beyond(&self, version: Version) -> bool {
        self.commands
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split_once('[')?.1.split_once(']'))
            .flat_map(|(tags, _)| tags.split([',', ' ']))
            .any(|tag| {
                let since = tag.strip_prefix(SINCE).and_then(parse_version);
                tag == OURS || since.is_some_and(|since| since > version)
            })
    }
}

fn parse_version(text: &str) -> Option<Version> {
    let mut parts = text.splitn(3, '.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??, parts.next()??))
}

/// The blocks of a script. As in goldenscript, output ends at an empty line.
fn blocks(mut text: &str) -> Vec<Text<'_>> {
    let mut blocks = Vec::new();
    while let Some(end) = find_separator(text) {
        let (commands, rest) = text.split_at(end);
        let length = if rest.starts_with('\n') {
            1
        } else {
            rest.find("\n\n").map_or(rest.len(), |place| place + 2)
        };
        let (output, rest) = rest.split_at(length);
        blocks.push(Text { commands, output });
        text = rest;
    }
    blocks.push(Text { commands: text, output: "" });
    blocks
}

/// The offset of the line after the next separator.
fn find_separator(text: &str) -> Option<usize> {
    if text.starts_with(SEPARATOR) {
        return Some(SEPARATOR.len());
    }
    text.find("\n---\n").map(|place| place + 1 + SEPARATOR.len())
}

/// The new text, with the old output in the blocks for which `keeps` is true.
fn merge(old: &str, new: &str, keeps: impl Fn(&Text<'_>) -> bool) -> String {
    let (old, new) = (blocks(old), blocks(new));
    let last = new.len().saturating_sub(2);
    let mut merged = String::new();
    for (index, block) in new.iter().enumerate() {
        merged.push_str(block.commands);
        match old.get(index) {
            Some(before) if keeps(block) => {
                let output = before.output.trim_end_matches('\n');
                merged.push_str(output);
                merged.push_str(if output.is_empty() { "" } else { "\n" });
                merged.push_str(if index < last { "\n" } else { "" });
            }
            _ => merged.push_str(block.output),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "# Comment.\na: > x\n---\na: 1\n\na: [since-3.9.0] > y\n---\na: 2\n";

    #[test]
    fn a_tagged_block_keeps_its_recorded_trace() {
        let new = OLD.replace("a: 1", "a: 10").replace("a: 2", "a: 20");
        let merged = merge(OLD, &new, |block| block.is_beyond((3, 8, 0)));
        assert_eq!(merged, OLD.replace("a: 1", "a: 10"));
        assert_eq!(merge(OLD, &new, |block| block.is_beyond((3, 9, 0))), new);
    }
}
