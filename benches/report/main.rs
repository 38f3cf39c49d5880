//! Runs the suites and writes what they measured into `benches/README.md`, with the machine, its load
//! and the date.
//!
//! ```text
//! cargo run -p zoolet-benches                    # all suites
//! cargo run -p zoolet-benches handoff herd       # these
//! cargo run -p zoolet-benches -- --measurement-time 5
//! ```
//!
//! The first argument that begins with a dash, and all that follow it, go to criterion in place of the
//! short times that are the default. `--help` prints this.

mod document;
mod machine;
mod results;
mod tables;

use std::error::Error;
use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::SystemTime;

use self::document::replace;
use self::results::Results;
use self::tables::Cell;

/// All suites, in the order of the document.
const SUITES: [&str; 15] = [
    "codec",
    "core",
    "engine",
    "session",
    "client",
    "many_sessions",
    "scaling",
    "handoff",
    "handoff_tcp",
    "herd",
    "durable",
    "recover",
    "size",
    "fairness",
    "cache",
];

/// Suites that take no options of criterion.
const WITHOUT_CRITERION: [&str; 7] =
    ["client", "durable", "fairness", "handoff_tcp", "many_sessions", "scaling", "size"];

/// Short enough for all suites in a few minutes.
const SHORT: [&str; 6] =
    ["--warm-up-time", "0.2", "--measurement-time", "0.6", "--nresamples", "2000"];

/// The prefix of results that criterion does not measure.
const TOLD: &str = "result: ";
/// The prefix of numbers that are shown in a table.
const CELL: &str = "cell: ";

type Failure = Box<dyn Error>;

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Vec<String>) -> Result<(), Failure> {
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        writeln!(io::stdout(), "{}", help())?;
        return Ok(());
    }
    let options_at = arguments.iter().position(|argument| argument.starts_with('-'));
    let (names, options) = arguments.split_at(options_at.unwrap_or(arguments.len()));
    if let Some(unknown) = names.iter().find(|name| !SUITES.contains(&name.as_str())) {
        return Err(format!("{unknown} is none of {}", SUITES.join(", ")).into());
    }
    let short = SHORT.map(str::to_owned);
    let options = if options.is_empty() { &short[..] } else { options };
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    // Checked first: a run takes minutes.
    OpenOptions::new().append(true).open(&document).map_err(not_written(&document))?;
    for suite in SUITES {
        if names.is_empty() || names.iter().any(|name| name == suite) {
            let part = measure(suite, options)?;
            // Written at once, so that what was measured is kept when a later suite fails.
            write(&document, suite, &part)?;
        }
    }
    write(&document, "machine", &machine::describe())
}

fn write(document: &Path, name: &str, part: &str) -> Result<(), Failure> {
    let text = replace(&std::fs::read_to_string(document)?, name, part)?;
    std::fs::write(document, text).map_err(not_written(document))?;
    Ok(())
}

fn not_written(document: &Path) -> impl Fn(io::Error) -> String {
    move |error| format!("{} cannot be written: {error}", document.display())
}

fn help() -> String {
    format!(
        "Runs suites, and replaces their results in benches/README.md.\n\n\
         Usage: cargo run -p zoolet-benches [SUITE]..            these suites, or all\n       \
         cargo run -p zoolet-benches [SUITE].. -- OPTION..  with options of criterion, such as\n{:50}\
         --measurement-time 5\n\n\
         Suites: {}\n\n\
         Those that take no options of criterion: {}",
        "",
        SUITES.join(", "),
        WITHOUT_CRITERION.join(", "),
    )
}

/// Runs a suite, and returns its part of the document.
fn measure(suite: &str, options: &[String]) -> Result<String, Failure> {
    // Built first, so that the build is no load on the measurement.
    let built = bench(suite).arg("--no-run").status()?;
    if !built.success() {
        return Err(format!("{suite} does not build").into());
    }
    let (since, load) = (now(), machine::load());
    let mut command = bench(suite);
    command.arg("--");
    if !WITHOUT_CRITERION.contains(&suite) {
        command.arg("--noplot").args(options);
    }
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let (mut told, mut cells) = (Vec::new(), Vec::new());
    for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines) {
        let line = line?;
        // Who reads this may have enough; the results are for the document.
        let _ = writeln!(io::stdout(), "{line}");
        told.extend(line.strip_prefix(TOLD).map(str::to_owned));
        cells.extend(line.strip_prefix(CELL).and_then(Cell::parse));
    }
    if !child.wait()?.success() {
        return Err(format!("{suite} fails").into());
    }
    let results = Results::read(suite, since)?;
    let told = rendered(suite, &results, &cells, &told)?;
    // A suite may be measured alone: on another machine than the others.
    let machine = machine::processor_and_cores();
    Ok(format!("*{} on {machine}; load before it {load}.*\n{told}", machine::today()))
}

/// What a suite has told. Nothing is an error, so that it does not take the place of results.
fn rendered(
    suite: &str,
    results: &Results,
    cells: &[Cell],
    told: &[String],
) -> Result<String, String> {
    let mut text = tables::render(results);
    text.push_str(&tables::render_cells(cells));
    if !told.is_empty() {
        text.push('\n');
        text.extend(told.iter().map(|line| format!("- {line}\n")));
    }
    if text.is_empty() {
        return Err(format!(
            "{suite} has measured nothing with these options; its results stay as they were"
        ));
    }
    Ok(text)
}

/// The command that builds and runs a suite. It names the package, so that Cargo builds what ships and
/// adds no feature that another package of the workspace asks for.
fn bench(suite: &str) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["bench", "--quiet", "--package", "zoolet-benches", "--bench", suite]);
    cargo
}

#[expect(clippy::disallowed_methods, reason = "files are told apart by when they were written")]
fn now() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use super::{Cell, Results, help, rendered, run};

    #[test]
    fn a_suite_that_measures_nothing_does_not_replace_its_results() {
        let nothing = rendered("codec", &Results::default(), &[], &[]).unwrap_err();
        assert!(nothing.starts_with("codec has measured nothing"), "{nothing}");
        let cell = Cell::parse("get | alone | ours | 1 µs").unwrap();
        assert!(rendered("client", &Results::default(), &[cell], &[]).unwrap().contains("1 µs"));
        let told = ["a line".to_owned()];
        assert_eq!(rendered("size", &Results::default(), &[], &told).unwrap(), "\n- a line\n");
    }

    #[test]
    fn help_is_printed_and_nothing_is_measured() {
        for arguments in [&["--help"][..], &["codec", "-h"]] {
            run(arguments.iter().map(|&argument| argument.to_owned()).collect()).unwrap();
        }
        assert!(help().contains("codec, core,"), "{}", help());
    }

    #[test]
    fn a_suite_that_does_not_exist_is_an_error_that_names_all() {
        let error = run(vec!["handof".to_owned()]).unwrap_err().to_string();
        assert!(error.starts_with("handof is none of codec, core,"), "{error}");
    }
}
