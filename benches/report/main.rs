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
//! short times that are the default.

mod document;
mod machine;
mod results;
mod tables;

use std::error::Error;
use std::io::{BufRead, BufReader};
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
    let options_at = arguments.iter().position(|argument| argument.starts_with('-'));
    let (names, options) = arguments.split_at(options_at.unwrap_or(arguments.len()));
    if let Some(unknown) = names.iter().find(|name| !SUITES.contains(&name.as_str())) {
        return Err(format!("{unknown} is none of {}", SUITES.join(", ")).into());
    }
    let short = SHORT.map(str::to_owned);
    let options = if options.is_empty() { &short[..] } else { options };
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    for suite in SUITES {
        if names.is_empty() || names.iter().any(|name| name == suite) {
            let part = measure(suite, options)?;
            // Written at once, so that what was measured is kept when a later suite fails.
            let text = replace(&std::fs::read_to_string(&document)?, suite, &part)?;
            std::fs::write(&document, text)?;
        }
    }
    let text = replace(&std::fs::read_to_string(&document)?, "machine", &machine::describe())?;
    std::fs::write(&document, text)?;
    Ok(())
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
        println!("{line}");
        told.extend(line.strip_prefix(TOLD).map(str::to_owned));
        cells.extend(line.strip_prefix(CELL).and_then(Cell::parse));
    }
    if !child.wait()?.success() {
        return Err(format!("{suite} fails").into());
    }
    let results = Results::read(suite, since)?;
    let mut part = format!("*{}; load before it {load}.*\n", machine::today());
    part.push_str(&tables::render(&results));
    part.push_str(&tables::render_cells(&cells));
    if !told.is_empty() {
        part.push('\n');
        part.extend(told.iter().map(|line| format!("- {line}\n")));
    }
    Ok(part)
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
