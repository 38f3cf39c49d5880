//! The commands of a page, in the blocks of its `console`.
//!
//! A line that begins with `$ ` is a command, and the lines up to the next one are what it prints. Lines
//! that begin with `localhost:PORT> ` are typed into the shell `zoolet cli`. A command `cat FILE` shows a
//! file that the reader has written. A line `<!-- run: COMMAND -->` of the page, which no reader sees, is a
//! command that must succeed, for what a reader has already.

use std::fs;

use zoolet_conformance::peers::conformance_folder;

use super::Outcome;

/// What a page does next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Runs a command that must succeed.
    Hidden(String),
    /// Writes a file.
    File { name: String, lines: Vec<String> },
    /// Starts a server, in the place of the one before.
    Serve(Command),
    /// Runs a command.
    Run(Command),
}

/// A command as the page shows it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) line: String,
    /// What is typed into it.
    pub(crate) input: Vec<String>,
    /// What it prints; nothing where the page leaves that out.
    pub(crate) prints: Vec<String>,
}

/// The steps of a page of `docs`.
pub(crate) fn steps(name: &str) -> Outcome<Vec<Step>> {
    let page = fs::read_to_string(conformance_folder().join(format!("../docs/{name}.md")))?;
    let mut steps = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let hidden = line.strip_prefix("<!-- run: ").and_then(|rest| rest.strip_suffix(" -->"));
        match hidden {
            Some(command) if command.starts_with(SERVE) => steps.push(step(command)),
            Some(command) => steps.push(Step::Hidden(command.to_owned())),
            None if line == "```console" => {
                block(lines.by_ref().take_while(|line| *line != "```"), &mut steps)?;
            }
            // A command that no test would run.
            None if line == "```sh" => return Err("the test runs no block of `sh`".into()),
            None => {}
        }
    }
    Ok(steps)
}

const SERVE: &str = "zoolet serve";

fn block<'a>(lines: impl Iterator<Item = &'a str>, steps: &mut Vec<Step>) -> Outcome<()> {
    let first = steps.len();
    for line in lines {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(step(command));
            continue;
        }
        let shown = steps[first..].last_mut().ok_or("a block begins with a command")?;
        match shown {
            Step::File { lines, .. } => lines.push(line.to_owned()),
            Step::Serve(command) | Step::Run(command) => {
                let typed = line.split_once("> ").filter(|(prompt, _)| prompt.starts_with(PROMPT));
                match typed {
                    Some((_, typed)) => command.input.push(typed.to_owned()),
                    None => command.prints.push(line.to_owned()),
                }
            }
            Step::Hidden(_) => return Err("a hidden command prints nothing".into()),
        }
    }
    Ok(())
}

/// The beginning of the shell's prompt.
const PROMPT: &str = "localhost:";

fn step(line: &str) -> Step {
    if let Some(name) = line.strip_prefix("cat ") {
        return Step::File { name: name.to_owned(), lines: Vec::new() };
    }
    let command = Command { line: line.to_owned(), input: Vec::new(), prints: Vec::new() };
    if line.starts_with(SERVE) { Step::Serve(command) } else { Step::Run(command) }
}
