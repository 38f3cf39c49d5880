//! What is told about a failure: its text, and a page.

use std::fmt;
use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::page;
use super::violation::ViolationKind;

impl Failure {
    /// Writes the page with the timeline.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write_page(&self, path: &Path) -> std::io::Result<()> {
        let page = page::of(self);
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        std::fs::write(path, page)
    }
}

/// A failure, and where its page is.
pub(super) struct Report {
    text: String,
    page: Result<PathBuf, String>,
}

impl Report {
    /// Writes the page of a failure.
    pub(super) fn write(failure: &Failure, directory: Option<PathBuf>) -> Self {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("sim").replace("::", "-");
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let test: String = test.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
        let directory = directory.unwrap_or_else(default_directory);
        let path = directory.join(format!("{test}-{}.html", failure.seed()));
        let nothing_to_show = match failure.violation().kind {
            ViolationKind::Unrepeatable => Some("two runs of the seed differ"),
            ViolationKind::Refused => Some("nothing was run"),
            ViolationKind::Untested => Some("no run fails"),
            _ => None,
        };
        if let Some(reason) = nothing_to_show {
            return Self { text: failure.to_string(), page: Err(reason.to_owned()) };
        }
        let written = failure.write_page(&path);
        let page = match written {
            Ok(()) => Ok(path),
            Err(error) => Err(format!("{} cannot be written: {error}", path.display())),
        };
        Self { text: failure.to_string(), page }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.text)?;
        match &self.page {
            Ok(path) => write!(f, "timeline: {}", path.display()),
            Err(error) => write!(f, "no timeline: {error}"),
        }
    }
}

/// `zoolet-sim` in cargo's target directory, in which the test program is.
fn default_directory() -> PathBuf {
    let program = std::env::current_exe().ok();
    let is_target = |directory: &&Path| directory.join("CACHEDIR.TAG").exists();
    let target = program.as_deref().and_then(|program| program.ancestors().find(is_target));
    target.unwrap_or_else(|| Path::new("target")).join("zoolet-sim")
}
