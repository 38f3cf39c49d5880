//! `zoolet completions`: what a shell needs to complete this command's arguments.

use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;

/// The options. The help text of the command is on its variant in the list of commands.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Completions {
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    /// Prints the completions of `command`.
    pub(crate) fn run(self, mut command: Command) -> ExitCode {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "zoolet", &mut script);
        match crate::print(&String::from_utf8_lossy(&script)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                crate::complain(&format!("the completions cannot be written: {error}"));
                ExitCode::FAILURE
            }
        }
    }
}

const AFTER_HELP: &str = "\
Examples:
  source <(zoolet completions bash)         for this shell
  zoolet completions bash > ~/.local/share/bash-completion/completions/zoolet
  zoolet completions zsh > ~/.zfunc/_zoolet
  zoolet completions fish > ~/.config/fish/completions/zoolet.fish";
