//! Where commands come from: the command line, a script, or a person.

use super::commands::Command;
use super::editor;
use super::execute::{Flow, Shell};
use super::failure::Failure;
use super::input::{Input, Lines};

/// The exit statuses.
pub(super) const FAILED: u8 = 1;
pub(super) const WRONG: u8 = 2;
pub(super) const NO_SERVER: u8 = 69;
pub(super) const NO_SYSTEM: u8 = 71;
pub(super) const INTERRUPTED: u8 = 130;

/// Runs a command of the command line.
pub(super) async fn run_one(shell: &mut Shell, command: Command) -> u8 {
    let result = tokio::select! {
        result = shell.execute(command) => result,
        _ = tokio::signal::ctrl_c() => Err(Failure::Interrupted),
    };
    shell.drain_events();
    code_of(shell, result.map(drop), None)
}

/// Runs commands from a pipe or a file.
pub(super) async fn run_script(shell: &mut Shell, stop_on_error: bool) -> u8 {
    let mut lines = Lines::piped();
    let mut code = 0;
    let mut number = 0;
    loop {
        shell.drain_events();
        let next = async {
            match lines.next(String::new).await {
                Input::Line(line) => {
                    number += 1;
                    shell.execute_line(&line).await
                }
                Input::End => Ok(Flow::Quit),
                Input::Failed(error) => {
                    number += 1;
                    Err(Failure::Input(error))
                }
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
                match code_of(shell, Err(failure), (number > 0).then_some(number)) {
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
pub(super) async fn converse(shell: &mut Shell) -> u8 {
    let (mut lines, printer) = editor::start(shell.connection.current()).await;
    shell.output.print_by(printer);
    loop {
        let servers = shell.connection.servers().to_owned();
        let about = if shell.connection.is_connected() { "" } else { " (not connected)" };
        let input = tokio::select! {
            biased;
            event = shell.watches.next() => {
                shell.tell_event(event);
                continue;
            }
            state = shell.connection.changed() => {
                shell.output.connection(state);
                continue;
            }
            input = lines.next(|| format!("{servers}{about}> ")) => input,
        };
        let result = match input {
            Input::Line(line) => tokio::select! {
                result = execute_lines(shell, &line) => result,
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
            Err(failure) => return code_of(shell, Err(failure), None),
        }
    }
}

/// Runs an input, which has several lines if it was pasted.
async fn execute_lines(shell: &mut Shell, lines: &str) -> Result<Flow, Failure> {
    for line in lines.lines() {
        match shell.execute_line(line).await {
            Ok(Flow::Continue) => {}
            Err(failure) if !failure.is_last() => {
                shell.output.tell(&failure, None);
            }
            result => return result,
        }
    }
    Ok(Flow::Continue)
}

/// Prints a failure and returns its exit status.
pub(super) fn code_of(shell: &mut Shell, result: Result<(), Failure>, line: Option<usize>) -> u8 {
    let Err(failure) = result else { return 0 };
    let is_told = shell.output.tell(&failure, line);
    match failure {
        Failure::Help(_) if is_told => 0,
        Failure::Interrupted => INTERRUPTED,
        Failure::Security(_) => WRONG,
        failure if failure.is_silence() => NO_SERVER,
        _ => FAILED,
    }
}
