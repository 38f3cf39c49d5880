//! The reports that the user asks for beside the text.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use super::failure::Failure;
use super::report::{Destination, NotMade, Report, json, junit, page};

/// Where the reports are written, and what is written there.
#[derive(Debug)]
pub(super) struct Reports {
    all: Vec<(Format, Destination)>,
}

/// A kind of report, by the name of its option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Junit,
    Json,
    Html,
}

impl Format {
    fn option(self) -> &'static str {
        match self {
            Self::Junit => "--junit",
            Self::Json => "--json",
            Self::Html => "--html",
        }
    }

    fn report(self, report: &Report<'_>) -> String {
        match self {
            Self::Junit => junit::document(report),
            Self::Json => json::document(report),
            Self::Html => page::document(report),
        }
    }

    fn not_made(self, report: &NotMade<'_>) -> String {
        match self {
            Self::Junit => junit::not_made(report),
            Self::Json => json::not_made(report),
            Self::Html => page::not_made(report),
        }
    }
}

impl Reports {
    /// Checks that all can be written.
    ///
    /// # Errors
    ///
    /// [`Failure::Report`] if one cannot be written, and [`Failure::TwoOnStdout`] if stdout would get two.
    pub(super) fn open(paths: [(Format, Option<&Path>); 3]) -> Result<Self, Failure> {
        let mut all: Vec<(Format, Destination)> = Vec::new();
        for (format, path) in paths {
            let Some(path) = path else { continue };
            let destination = Destination::open(path)?;
            let mut others = all.iter().filter(|(_, other)| other.is_stdout());
            if destination.is_stdout()
                && let Some((other, _)) = others.next()
            {
                return Err(Failure::TwoOnStdout { options: [other.option(), format.option()] });
            }
            all.push((format, destination));
        }
        Ok(Self { all })
    }

    /// Replaces the files of an earlier sweep, which would tell of a success if nobody came to write the
    /// reports of this one.
    ///
    /// # Errors
    ///
    /// [`Failure::Report`] if one cannot be written.
    pub(super) fn begin(&self, command: &[OsString]) -> Result<(), Failure> {
        let why = "it was stopped before its end".to_owned();
        let not_made = NotMade { command, stopped_by: why.clone(), why, output: String::new() };
        let mut all = self.all.iter();
        all.try_for_each(|(format, to)| to.write_for_now(&format.not_made(&not_made)))
    }

    /// Writes the reason why there are no faults, and returns it.
    pub(super) fn not_made(&self, command: &[OsString], failure: Failure) -> Failure {
        let why = failure.to_string();
        let (stopped_by, output) = match &failure {
            Failure::Signal(signal) => ((*signal).to_owned(), String::new()),
            Failure::FailsByItself { output, .. } => (why.clone(), output.clone()),
            _ => (why.clone(), String::new()),
        };
        let not_made = NotMade { command, why, stopped_by, output };
        let mut all = self.all.iter();
        let written = all.try_for_each(|(format, to)| to.write(&format.not_made(&not_made)));
        written.err().unwrap_or(failure)
    }

    /// Writes all.
    ///
    /// # Errors
    ///
    /// [`Failure::Report`] if one cannot be written.
    pub(super) fn write(&self, report: &Report<'_>) -> Result<(), Failure> {
        self.all.iter().try_for_each(|(format, to)| to.write(&format.report(report)))
    }

    /// Prints the text: on stdout, unless that is for another report.
    ///
    /// # Errors
    ///
    /// [`Failure::Report`] if stdout cannot be written.
    pub(super) fn print(&self, text: &str) -> Result<(), Failure> {
        if self.all.iter().any(|(_, to)| to.is_stdout()) {
            // A reader that closed its end does not want the rest.
            let _ = write!(io::stderr(), "{text}");
            return Ok(());
        }
        crate::print(text).map_err(|error| Failure::Report { path: "stdout".into(), error })
    }
}
