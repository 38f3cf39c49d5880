//! Runs the commands of the pages in `docs`.

mod console;
mod migration;
mod page;

use std::error::Error;
use std::fs;
use std::process::ExitCode;

use libtest_mimic::Arguments;
use zoolet_conformance::harness::needs;
use zoolet_conformance::peers::Peer::{Apache, Curl};
use zoolet_conformance::process::zoolet_binary;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let run = |test: fn() -> Outcome<()>| move || Ok(test()?);
    let trials = vec![
        needs(&[Apache], "there-and-back", run(migration::there_and_back)),
        needs(&[Apache], "to-an-ensemble", run(migration::to_an_ensemble)),
        needs(&[], "authentication", run(|| console::run("authentication"))),
        needs(&[], "cli", run(|| console::run("cli"))),
        needs(&[], "logging", run(|| console::run("logging"))),
        needs(&[Curl], "metrics", run(|| console::run("metrics"))),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The search path of a shell, with the command under test first.
fn path_with_zoolet() -> Outcome<String> {
    let program = fs::canonicalize(zoolet_binary()?)?;
    let folder = program.parent().ok_or("it is in a folder")?;
    Ok(format!("{}:{}", folder.display(), std::env::var("PATH")?))
}
