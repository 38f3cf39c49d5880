//! `zoolet cli`: a shell for the znodes of a server.

pub(crate) mod acl;
pub(crate) mod answer;
mod arguments;
mod command_line;
mod commands;
mod complete;
mod connection;
mod conversation;
mod editor;
mod ensemble;
mod execute;
mod failure;
mod four_letter;
mod hex_dump;
mod history;
mod input;
mod line;
mod locks;
mod multi;
pub(crate) mod output;
mod quota;
pub(crate) mod tree;
mod watches;
mod word;
mod znodes;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use self::commands::Command;
use self::connection::Connection;
use self::conversation::{
    FAILED, INTERRUPTED, NO_SYSTEM, WRONG, code_of, converse, run_one, run_script,
};
use self::execute::Shell;
use self::failure::Failure;
use self::output::{Form, Output};
use crate::complain;
use crate::connect_options::ConnectOptions;
use crate::logging::{self, LogLevel};
use crate::server_options::values;

/// The options. The help text of the command is on its variant in the list of commands.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Cli {
    /// The command to run, instead of reading commands; servers may stand before it
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    command: Vec<String>,

    /// Print answers, events and errors as JSON, one value a line
    #[arg(long)]
    json: bool,

    /// End at the first command that fails, unless a person types them
    #[arg(short = 'e', long)]
    stop_on_error: bool,

    /// How long to wait for a connection, at first and with each command, and for the parts of a
    /// four-letter word's answer
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = values::some_time)]
    connect_timeout: Duration,

    /// Take a server too that serves reads only, as it has lost its ensemble
    #[arg(short, long)]
    read_only: bool,

    #[command(flatten)]
    server: ConnectOptions,

    /// How much to log [default: error, or what the variable RUST_LOG says]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<LogLevel>,
}

impl Cli {
    /// Runs commands until the input ends, and returns the exit status.
    pub(crate) fn run(self) -> ExitCode {
        logging::start(self.log_level, LogLevel::Error);
        let mut output = Output::new(if self.json { Form::Json } else { Form::Text });
        let command = match self.command() {
            Ok(command) => command,
            Err(failure) => {
                let is_told = output.tell(&failure, None);
                return ExitCode::from(match failure {
                    Failure::Help(_) if is_told => 0,
                    Failure::Help(_) => FAILED,
                    _ => WRONG,
                });
            }
        };
        match tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build() {
            Ok(runtime) => ExitCode::from(runtime.block_on(self.run_shell(output, command))),
            Err(error) => {
                complain(&format!("the system refuses what this needs: {error}"));
                ExitCode::from(NO_SYSTEM)
            }
        }
    }

    fn command(&self) -> Result<Option<Command>, Failure> {
        if self.command.is_empty() { Ok(None) } else { Command::parse(&self.command).map(Some) }
    }

    /// The arguments of `zoolet`; those of `cli` with a server that stands before the command, and the
    /// options of `zkCli.sh`, as options of ours.
    pub(crate) fn plain_arguments(arguments: Vec<OsString>) -> Vec<OsString> {
        command_line::plain(arguments, &Self::augment_args(clap::Command::new("cli")))
    }

    async fn run_shell(self, output: Output, command: Option<Command>) -> u8 {
        let connection = Connection::new(self.server, self.read_only, self.connect_timeout);
        let mut shell = Shell::new(connection, output);
        if command.as_ref().is_none_or(Command::needs_session) {
            let opened = tokio::select! {
                opened = shell.connection.open(&shell.output) => opened,
                _ = tokio::signal::ctrl_c() => return INTERRUPTED,
            };
            if opened.is_err() {
                return code_of(&mut shell, opened, None);
            }
        }
        let code = match command {
            Some(command) => run_one(&mut shell, command).await,
            None if std::io::stdin().is_terminal() => converse(&mut shell).await,
            None => run_script(&mut shell, self.stop_on_error).await,
        };
        shell.connection.close().await;
        code
    }
}

const AFTER_HELP: &str = "\
Without COMMAND it reads commands: from a terminal with a history and completion by Tab, from a
pipe one a line, where # begins a comment. `zoolet cli help` lists them, `zoolet cli help create`
explains one. They are those of zkCli.sh, whose options -server, -timeout (in milliseconds) and
-waitforconnection are understood too.

A four-letter word is sent to each server; it needs no session.

Exit status: 0 if all commands succeeded, 1 if one failed, 2 if the arguments are wrong, 69 if
no server answers, 130 after Ctrl-C.

Examples:
  zoolet cli                               a shell for the server at localhost:2181
  zoolet cli zk1,zk2/app ls -R /           one command
  zoolet cli zk1:2181 mntr                 a four-letter word
  zoolet cli --json get /config            the data and the Stat as JSON
  zoolet cli locks /locks/stock            who holds a lock, and who waits for it
  zoolet cli < script                      many commands";
