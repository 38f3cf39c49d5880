//! The results that criterion has written.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;

use crate::Failure;

/// One measurement.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Measured {
    pub(crate) group: String,
    pub(crate) row: String,
    /// The column, where a group has several.
    pub(crate) column: Option<String>,
    /// The median, per element where a benchmark has a throughput.
    pub(crate) nanoseconds: f64,
}

/// The measurements of a suite, in the order in which they were made.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Results(pub(crate) Vec<Measured>);

impl Results {
    /// Reads the results that were written since `since`, of groups whose names begin with the suite's.
    pub(crate) fn read(suite: &str, since: SystemTime) -> Result<Self, Failure> {
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"), PathBuf::from);
        let mut found = Vec::new();
        collect(&target.join("criterion"), &mut found)?;
        let mut measured = Vec::new();
        for directory in found {
            let about = directory.join("benchmark.json");
            let written = fs::metadata(&about)?.modified()?;
            if written < since {
                continue;
            }
            let estimates = json(&directory.join("estimates.json"))?;
            if let Some(one) = one(suite, &json(&about)?, &estimates) {
                measured.push((written, one));
            }
        }
        measured.sort_by_key(|(written, _)| *written);
        Ok(Self(measured.into_iter().map(|(_, one)| one).collect()))
    }

    /// The names of the groups, in their order.
    pub(crate) fn groups(&self) -> Vec<&str> {
        let mut groups: Vec<&str> = Vec::new();
        for Measured { group, .. } in &self.0 {
            if !groups.contains(&group.as_str()) {
                groups.push(group);
            }
        }
        groups
    }

    pub(crate) fn of_group<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a Measured> {
        self.0.iter().filter(move |measured| measured.group == group)
    }
}

/// Collects the directories named `new`.
fn collect(directory: &Path, found: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let Ok(entries) = fs::read_dir(directory) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        if path.join("benchmark.json").is_file() && path.ends_with("new") {
            found.push(path);
        } else if path.is_dir() {
            collect(&path, found)?;
        }
    }
    Ok(())
}

fn json(path: &Path) -> Result<Value, Failure> {
    Ok(serde_json::from_str(&fs::read_to_string(path)?)?)
}

/// Makes a measurement from its two files, if it belongs to the suite.
fn one(suite: &str, about: &Value, estimates: &Value) -> Option<Measured> {
    let group = about["group_id"].as_str()?;
    if !group.starts_with(&format!("{suite}: ")) {
        return None;
    }
    let elements = about["throughput"]["Elements"].as_f64().unwrap_or(1.0);
    Some(Measured {
        group: group.to_owned(),
        row: about["function_id"].as_str()?.to_owned(),
        column: about["value_str"].as_str().map(str::to_owned),
        nanoseconds: estimates["median"]["point_estimate"].as_f64()? / elements,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::one;

    #[test]
    fn the_median_is_divided_by_the_number_of_elements() {
        let about = json!({
            "group_id": "core: watches", "function_id": "set", "value_str": "100",
            "throughput": {"Elements": 100}
        });
        let estimates = json!({"median": {"point_estimate": 1500.0}});
        let measured = one("core", &about, &estimates).unwrap();
        assert_eq!((measured.row.as_str(), measured.nanoseconds), ("set", 15.0));
        assert_eq!(measured.column.as_deref(), Some("100"));
        assert_eq!(one("codec", &about, &estimates), None);
    }
}
