//! `zoolet man`: the manual pages of this command and its sub-commands.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command};
use clap_mangen::roff::{Roff, roman};

/// The options. The help text of the command is on its variant in the list of commands.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Man {
    /// Where to write the pages, one for each command [default: the main page is printed]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

impl Man {
    /// Writes the pages of `command`.
    pub(crate) fn run(self, command: Command) -> ExitCode {
        let mut command = command.disable_help_subcommand(true);
        command.build();
        let (place, written) = match &self.directory {
            Some(directory) => {
                let written = if directory.exists() && !directory.is_dir() {
                    Err(io::Error::other("it is a file; name a directory"))
                } else {
                    fs::create_dir_all(directory)
                };
                (
                    directory.display().to_string(),
                    written.and_then(|()| write_all(&command, directory)),
                )
            }
            None => {
                let page = page(&command);
                (
                    "stdout".to_owned(),
                    page.and_then(|page| crate::print(&String::from_utf8_lossy(&page))),
                )
            }
        };
        match written {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                crate::complain(&format!("the manual cannot be written to {place}: {error}"));
                ExitCode::FAILURE
            }
        }
    }
}

/// Writes the page of a command and those of its sub-commands.
fn write_all(command: &Command, directory: &Path) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    fs::write(directory.join(format!("{name}.1")), page(command)?)?;
    command
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .try_for_each(|command| write_all(command, directory))
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    // Sub-commands have no version of their own.
    let source = concat!("zoolet ", env!("CARGO_PKG_VERSION"));
    let man = clap_mangen::Man::new(command.clone()).source(source).manual("zoolet");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.get_subcommands().any(|command| !command.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    let notes = command.get_after_long_help().or_else(|| command.get_after_help());
    if let Some(notes) = notes {
        notes_section(&notes.to_string()).to_writer(&mut page)?;
    }
    Ok(page)
}

/// The text below the options. Its lines are kept as they are, because it has tables and examples.
fn notes_section(text: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["NOTES"]);
    roff.control("nf", []);
    for line in text.lines() {
        if line.is_empty() {
            roff.control("sp", []);
        } else {
            roff.text([roman(line)]);
        }
    }
    roff.control("fi", []);
    roff
}

const AFTER_HELP: &str = "\
Examples:
  zoolet man | man -l -                     to read the main page
  zoolet man ~/.local/share/man/man1        then `man zoolet-serve` finds its page";
