//! The `zoolet` command: a module for each sub-command, and the modules that they share.

mod bench;
mod called_as;
mod certs;
mod cli;
mod completions;
mod connect_options;
mod connecting;
mod console;
#[cfg(unix)]
mod container;
mod counted;
mod data;
mod demo;
mod digest;
mod doctor;
mod health;
#[cfg(unix)]
mod lock;
mod logging;
mod man;
mod page;
mod report_file;
mod serve;
mod server_options;
mod signals;
#[cfg(unix)]
mod sweep;
mod writers;
mod zoo_cfg;

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

/// A small coordination server that speaks ZooKeeper's protocol
///
/// Programs that use Apache ZooKeeper work with it unchanged. It is a single node and needs no Java.
/// It keeps its data in memory, or in ZooKeeper's own files if it is given a directory.
#[derive(Debug, Parser)]
#[command(name = "zoolet", version, after_help = AFTER_HELP)]
struct Zoolet {
    #[command(subcommand)]
    command: Command,
}

/// The command if it is `serve`. To define the options of all others takes a third of the instructions of
/// a start.
#[derive(Debug, Parser)]
#[command(name = "zoolet", version)]
struct Serving {
    #[command(subcommand)]
    command: ServeCommand,
}

#[derive(Debug, Subcommand)]
enum ServeCommand {
    /// Start a server [the default]
    ///
    /// Once clients can connect it prints "listening on HOST:PORT" to stdout. It stays in the
    /// foreground until Ctrl-C or SIGTERM ends it, and logs to stderr.
    Serve(Box<serve::Serve>),
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Serve(ServeCommand),

    /// Run a command while a lock is held
    ///
    /// Waits for a lock of the whole cluster, runs the command, and releases the lock when the
    /// command has ended. The exit status is the command's. If the lock is lost the command is
    /// stopped.
    #[cfg(unix)]
    Lock(lock::Lock),

    /// Read and change the znodes of a server
    ///
    /// A shell: it reads commands from a terminal or a pipe, or runs the one that is given.
    Cli(cli::Cli),

    /// Print the hash of a password, for access control lists and for the superuser
    Digest(digest::Digest),

    /// Check, dump or convert the data directory of a server, and tell its past
    ///
    /// It may be that of an Apache ZooKeeper server: the files are the same.
    Data(data::Data),

    /// Make certificates to try TLS with
    ///
    /// Makes an authority, a certificate for a server and one for a client, in PEM and for Java, and
    /// tells how to use them. For a real service, have your own authority issue the certificates.
    Certs(certs::Certs),

    /// Find what is wrong with the locks of a server or an ensemble
    ///
    /// Who holds and who waits, deadlocks over all paths, holders that are silent, libraries that do
    /// not exclude one another, and what will fail soon. It reads only, and works with every
    /// ZooKeeper.
    Doctor(doctor::Doctor),

    /// Show the locks and the sessions of a server or an ensemble in a browser, live
    ///
    /// One page, on this machine unless told otherwise: each queue with its holder and those who wait,
    /// deadlocks, sessions, the tree, and what zoolet doctor finds. It reads only, and works with every
    /// ZooKeeper.
    Console(Box<console::Console>),

    /// Tell whether a server serves
    ///
    /// For the probes of service managers and for scripts: one line, and the exit status.
    Health(health::HealthCommand),

    /// Measure what servers and locks cost
    ///
    /// On a server of its own that is started for the time of the run, or on any others, side by
    /// side.
    Bench(Box<bench::Bench>),

    /// See a sale go wrong without a lock, and right with one
    ///
    /// Many buyers share a stock that is a znode: without a lock more is sold than there is, with the
    /// wrong lock everything is slow, with the right one it is not.
    Demo(demo::Demo),

    /// Run a test again and again, each time with another fault at another request
    ///
    /// Finds out what a lost reply, a lost connection, an expired session or a slow server does to a
    /// program, at each request that it sends. For programs in any language.
    #[cfg(unix)]
    Sweep(sweep::Sweep),

    /// Start a server as ZooKeeper's official container image does
    ///
    /// The entry point of an image that takes its place: the same directories, variables and scripts.
    #[cfg(unix)]
    Container(container::Container),

    /// Print the completions of a shell for this command
    Completions(completions::Completions),

    /// Print the manual page of this command, or write those of all its commands
    Man(man::Man),
}

fn main() -> ExitCode {
    let arguments = called_as::arguments(std::env::args_os());
    if arguments.get(1).is_some_and(|first| first == "serve") {
        let matches = with_negative_numbers(Serving::command()).get_matches_from(arguments);
        return match Serving::from_arg_matches(&matches) {
            Ok(Serving { command }) => serve(command, &matches),
            Err(error) => error.exit(),
        };
    }
    #[cfg(unix)]
    match arguments.get(1) {
        Some(first) if first == lock::watchdog::ARGUMENT => return lock::watchdog::run(),
        Some(first) if first == lock::gate::ARGUMENT => return lock::gate::run(&arguments[2..]),
        _ => {}
    }
    let arguments = cli::Cli::plain_arguments(arguments);
    let matches = definition().get_matches_from(arguments);
    let Zoolet { command } = match Zoolet::from_arg_matches(&matches) {
        Ok(zoolet) => zoolet,
        Err(error) => error.exit(),
    };
    match command {
        Command::Serve(command) => serve(command, &matches),
        #[cfg(unix)]
        Command::Lock(lock) => lock.run(),
        Command::Cli(cli) => cli.run(),
        Command::Digest(digest) => digest.run(),
        Command::Data(data) => data.run(),
        Command::Certs(certs) => certs.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Console(console) => console.run(),
        Command::Health(health) => health.run(),
        Command::Bench(bench) => bench.run(),
        Command::Demo(demo) => demo.run(),
        #[cfg(unix)]
        Command::Sweep(sweep) => sweep.run(),
        #[cfg(unix)]
        Command::Container(container) => container.run(),
        Command::Completions(completions) => completions.run(definition()),
        Command::Man(man) => man.run(definition()),
    }
}

fn serve(command: ServeCommand, matches: &ArgMatches) -> ExitCode {
    let ServeCommand::Serve(serve) = command;
    let (_, matches) = matches.subcommand().expect("a sub-command is required");
    match serve.run(matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            error.exit_code()
        }
    }
}

/// The definition of the command.
fn definition() -> clap::Command {
    with_negative_numbers(Zoolet::command())
}

/// Tells a negative number from an option, so that the message about it is that of the setting.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|argument| {
        let is_option = argument.get_long().is_some() || argument.get_short().is_some();
        match is_option && argument.get_action().takes_values() {
            true => argument.allow_negative_numbers(true),
            false => argument,
        }
    });
    command.mut_subcommands(with_negative_numbers)
}

/// Prints an error to stderr.
fn complain(error: &impl Display) {
    // A reader that closed stderr does not want the message.
    let _ = writeln!(io::stderr(), "error: {error}");
}

/// Prints what a command was asked for. It is no error if a reader closed stdout: it does not want the rest.
fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Tells on stderr what a person may want to know, though nothing has failed.
fn notice(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

const AFTER_HELP: &str = "\
Without a command, zoolet serves: `zoolet --listen 127.0.0.1:2182` is the same as
`zoolet serve --listen 127.0.0.1:2182`.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_in_order() {
        definition().debug_assert();
        with_negative_numbers(Serving::command()).debug_assert();
    }

    #[test]
    fn serve_is_the_same_when_nothing_else_is_defined() {
        let helps = [definition(), with_negative_numbers(Serving::command())].map(|mut command| {
            command.build();
            let serve = command.find_subcommand_mut("serve").expect("it is a sub-command");
            (serve.render_long_help().to_string(), serve.render_version())
        });
        assert!(helps[0].0.contains("--data-dir"), "{}", helps[0].0);
        assert_eq!(helps[0], helps[1]);
    }

    /// clap wraps at 100 columns, which would break a longer line in two.
    #[test]
    fn the_lines_of_the_help_after_the_options_are_short() {
        fn check(command: &clap::Command) -> usize {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in help.lines() {
                assert!(line.chars().count() <= 100, "{}: {line}", command.get_name());
            }
            usize::from(!help.is_empty()) + command.get_subcommands().map(check).sum::<usize>()
        }
        assert!(check(&definition()) > 10, "there are so many commands with such a help");
    }
}
