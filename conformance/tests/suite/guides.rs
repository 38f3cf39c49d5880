//! Runs the commands of the pages in `docs`.

mod console;
mod migration;
mod page;

use std::error::Error;
use std::fs;

use zoolet_conformance::harness::{InTurn, Section};
use zoolet_conformance::peers::Peer::{self, Apache, Curl};
use zoolet_conformance::process::zoolet_binary;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

type Test = fn() -> Outcome<()>;

pub(crate) fn tests() -> Section {
    let mut section = Section::new("guides", 1);
    // The pages name the usual ports.
    let turn = InTurn::new(());
    let tests: [(&str, &[Peer], Test); 6] = [
        ("there-and-back", &[Apache], migration::there_and_back),
        ("to-an-ensemble", &[Apache], migration::to_an_ensemble),
        ("authentication", &[], || console::run("authentication")),
        ("cli", &[], || console::run("cli")),
        ("logging", &[], || console::run("logging")),
        ("metrics", &[Curl], || console::run("metrics")),
    ];
    for (name, peers, test) in tests {
        section.test_in_turn(&turn, peers, name, move |()| Ok(test()?));
    }
    section
}

/// The search path of a shell, with the command under test first.
fn path_with_zoolet() -> Outcome<String> {
    let program = fs::canonicalize(zoolet_binary()?)?;
    let folder = program.parent().ok_or("it is in a folder")?;
    Ok(format!("{}:{}", folder.display(), std::env::var("PATH")?))
}
