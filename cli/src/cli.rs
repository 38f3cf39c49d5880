//! `zoolet cli`: a shell for the znodes of a server.

pub(crate) mod acl;
mod commands;
mod complete;
mod editor;
mod execute;
mod failure;
mod input;
mod line;
mod locks;
mod multi;
mod output;
pub(crate) mod tree;
mod watches;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use zoolet_client::{Client, ConnectionState, Error, RetryPolicy};

use self::commands::Command;
use self::execute::{Flow, Shell};
use self::failure::Failure;
use self::input::{Input, Lines};
use self::output::Output;
use crate::complain;
use crate::connect_options::ConnectOptions;
use crate::logging::{self, LogLevel};
use crate::server_options::values;

/// The options. The help text of the command is on its variant in the list of commands.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Cli {
    /// The command to run, instead of reading commands
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    command: Vec<String>,

    /// End at the first command that fails, unless a person types them
    #[arg(short = 'e', long)]
    stop_on_error: bool,

    /// How long to wait for a connection, at first and with each command
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = values::some_time)]
    connect_timeout: Duration,

    #[command(flatten)]
    server: ConnectOptions,

    /// How much to log [default: error, or what the variable RUST_LOG says]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<LogLevel>,
}

/// How long to wait before a read is sent again whose answer was lost with the connection.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// How long to wait for the server to end the session.
const GOODBYE_WITHIN: Duration = Duration::from_secs(2);

/// The exit statuses.
const FAILED: u8 = 1;
const WRONG: u8 = 2;
const NO_SERVER: u8 = 69;
const NO_SYSTEM: u8 = 71;
const INTERRUPTED: u8 = 130;

impl Cli {
    /// Runs commands until the input ends, and returns the exit status.
    pub(crate) fn run(self) -> ExitCode {
        logging::start(self.log_level, LogLevel::Error);
        let command = match self.command.as_slice() {
            [] => None,
            words => match Command::parse(words) {
                Ok(command) => Some(command),
                Err(failure) => {
                    let is_help = matches!(failure, Failure::Help(_));
                    Output::new().tell(&failure, None);
                    return ExitCode::from(if is_help { 0 } else { WRONG });
                }
            },
        };
        match tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build() {
            Ok(runtime) => ExitCode::from(runtime.block_on(self.run_connected(command))),
            Err(error) => {
                complain(&format!("the system refuses what this needs: {error}"));
                ExitCode::from(NO_SYSTEM)
            }
        }
    }

    async fn run_connected(&self, command: Option<Command>) -> u8 {
        let client = match self.connect().await {
            Ok(client) => client,
            Err(code) => return code,
        };
        let shell = Shell::new(client.clone());
        let code = match command {
            Some(command) => run_one(shell, command).await,
            None if std::io::stdin().is_terminal() => {
                let prompt = self.server.server.clone();
                converse(shell, Lines::edited(&client, prompt)).await
            }
            None => run_script(shell, Lines::piped(), self.stop_on_error).await,
        };
        let _ = tokio::time::timeout(GOODBYE_WITHIN, client.close()).await;
        code
    }

    async fn connect(&self) -> Result<Client, u8> {
        let server = &self.server.server;
        let builder = self.server.builder(self.connect_timeout).map_err(|error| {
            complain(&error);
            WRONG
        })?;
        let client = tokio::select! {
            client = builder.connect(server.as_str()) => client,
            _ = tokio::signal::ctrl_c() => return Err(INTERRUPTED),
        };
        match client {
            Ok(client) => Ok(client.with_retry_policy(RetryPolicy::one_time(AGAIN_AFTER))),
            Err(Error::Unreachable(cause)) => {
                complain(&format!(
                    "no server at {server} could be connected to ({cause}); is one running there? \
                     --server or ZOOLET_SERVER names another"
                ));
                Err(NO_SERVER)
            }
            Err(error) => {
                complain(&error);
                Err(NO_SERVER)
            }
        }
    }
}

/// Runs a command of the command line.
async fn run_one(mut shell: Shell, command: Command) -> u8 {
    let result = tokio::select! {
        result = shell.execute(command) => result,
        _ = tokio::signal::ctrl_c() => Err(Failure::Interrupted),
    };
    shell.drain_events();
    code_of(&mut shell, result.map(drop), None)
}

/// Runs commands from a pipe or a file.
async fn run_script(mut shell: Shell, mut lines: Lines, stop_on_error: bool) -> u8 {
    let mut code = 0;
    let mut number = 0;
    loop {
        shell.drain_events();
        let next = async {
            match lines.next("").await {
                Input::Line(line) => {
                    number += 1;
                    shell.execute_line(&line).await
                }
                Input::End => Ok(Flow::Quit),
                Input::Failed(error) => Err(Failure::Input(error)),
            }
        };
        let result = tokio::select! {
            result = next => result,
            _ = tokio::signal::ctrl_c() => Err(Failure::Interrupted),
        };
        match result {
            Ok(Flow::Continue) => {}
            Ok(Flow::Quit) => return code,
            Err(failure) => {
                let is_last = failure.is_last();
                match code_of(&mut shell, Err(failure), Some(number)) {
                    0 => {}
                    failed => code = failed,
                }
                if is_last || (stop_on_error && code != 0) {
                    return code;
                }
            }
        }
    }
}

/// Runs the commands that a person types, and prints events and connection changes meanwhile.
async fn converse(mut shell: Shell, mut lines: Lines) -> u8 {
    shell.output.print_by(lines.printer().await);
    let mut state = shell.client.state();
    loop {
        let is_connected = state.borrow().is_some_and(ConnectionState::is_connected);
        let input = tokio::select! {
            biased;
            event = shell.watches.next() => {
                shell.output.event(&event);
                continue;
            }
            changed = state.changed() => {
                if changed.is_err() {
                    return FAILED;
                }
                let now = *state.borrow_and_update();
                shell.output.connection(now);
                continue;
            }
            input = lines.next(if is_connected { "" } else { " (not connected)" }) => input,
        };
        let result = match input {
            Input::Line(line) => tokio::select! {
                result = execute_lines(&mut shell, &line) => result,
                _ = tokio::signal::ctrl_c() => Err(Failure::Interrupted),
            },
            Input::End => return 0,
            Input::Failed(error) => {
                shell.output.tell(&Failure::Input(error), None);
                return FAILED;
            }
        };
        match result {
            Ok(Flow::Continue) | Err(Failure::Interrupted) => {}
            Ok(Flow::Quit) => return 0,
            Err(failure) => return code_of(&mut shell, Err(failure), None),
        }
    }
}

/// Runs an input, which has several lines if it was pasted.
async fn execute_lines(shell: &mut Shell, lines: &str) -> Result<Flow, Failure> {
    for line in lines.lines() {
        match shell.execute_line(line).await {
            Ok(Flow::Continue) => {}
            Err(failure) if !failure.is_last() => shell.output.tell(&failure, None),
            result => return result,
        }
    }
    Ok(Flow::Continue)
}

/// Prints a failure and returns its exit status.
fn code_of(shell: &mut Shell, result: Result<(), Failure>, line: Option<usize>) -> u8 {
    let Err(failure) = result else { return 0 };
    shell.output.tell(&failure, line);
    match failure {
        Failure::Help(_) => 0,
        Failure::Interrupted => INTERRUPTED,
        _ => FAILED,
    }
}

const AFTER_HELP: &str = "\
Without COMMAND it reads commands: from a terminal with a history and completion by Tab, from a
pipe one a line, where # begins a comment. `zoolet cli help` lists them, `zoolet cli help create`
explains one. Most are named as in zkCli.sh.

Exit status: 0 if all commands succeeded, 1 if one failed, 2 if the arguments are wrong, 69 if
there is no server, 130 after Ctrl-C.

Examples:
  zoolet cli                               a shell for the server at localhost:2181
  zoolet cli --server zk1,zk2/app ls -R /  one command
  zoolet cli locks /locks/stock            who holds a lock, and who waits for it
  zoolet cli < script                      many commands";
