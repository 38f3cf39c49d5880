//! The command line of `cli` before it is parsed: a server that stands before the command, and the options
//! of `zkCli.sh`, which have one dash.

use std::ffi::{OsStr, OsString};

use super::commands::Command;

/// The arguments of `zoolet`, with the server and the options of `zkCli.sh` after `cli` as `--server` and the
/// like. `options` are those of `cli`.
pub(super) fn plain(arguments: Vec<OsString>, options: &clap::Command) -> Vec<OsString> {
    if arguments.get(1).is_none_or(|command| command != "cli") {
        return arguments;
    }
    let mut arguments = arguments.into_iter();
    let mut written: Vec<_> = arguments.by_ref().take(2).collect();
    while let Some(argument) = arguments.next() {
        match argument.to_str().unwrap_or_default() {
            word if !word.starts_with('-') => {
                if is_server(word, arguments.as_slice()) {
                    written.extend(["--server".into(), argument]);
                    continue;
                }
                // The words of the command begin.
                written.push(argument);
                break;
            }
            "--" => {
                written.push(argument);
                break;
            }
            // Each command waits for the connection.
            "-waitforconnection" => {}
            "-server" => {
                written.push("--server".into());
                written.extend(arguments.next());
            }
            // clap would read it as `-s erver=...`.
            text if text.starts_with("-server=") => {
                written.push("--server".into());
                written.extend(text.strip_prefix("-server=").map(OsString::from));
            }
            "-timeout" => {
                written.push("--session-timeout".into());
                // Its unit is the millisecond. What is not a number of them is refused as it stands.
                written.extend(arguments.next().map(|mut time| {
                    time.push("ms");
                    time
                }));
            }
            text => {
                let value = takes_value(options, text).then(|| arguments.next()).flatten();
                written.push(argument);
                written.extend(value);
            }
        }
    }
    written.extend(arguments);
    written
}

/// Whether a word names servers. One with a port does; another does if a command follows.
fn is_server(word: &str, rest: &[OsString]) -> bool {
    if Command::is_name(word) || word.starts_with('/') {
        return false;
    }
    let mut rest = rest.iter().filter_map(|word| OsStr::to_str(word));
    let next = rest.find(|word| !word.starts_with('-'));
    word.contains(':') || next.is_some_and(Command::is_name)
}

/// Whether the argument after this option is its value.
fn takes_value(options: &clap::Command, option: &str) -> bool {
    let is_meant = |argument: &&clap::Arg| match option.strip_prefix("--") {
        Some(long) => argument.get_long() == Some(long),
        None => argument.get_short().is_some_and(|short| option == format!("-{short}")),
    };
    options
        .get_arguments()
        .find(is_meant)
        .is_some_and(|argument| argument.get_action().takes_values())
}

#[cfg(test)]
mod tests {
    use clap::Args;

    use super::super::Cli;
    use super::*;

    #[test]
    fn servers_and_options_of_zkcli_become_options() {
        let cases = [
            ("zoolet cli -server a:1 ls /", "zoolet cli --server a:1 ls /"),
            (
                "zoolet cli --json -e -s b -timeout 5000 -waitforconnection -r -server a:1",
                "zoolet cli --json -e -s b --session-timeout 5000ms -r --server a:1",
            ),
            ("zoolet cli -server=a:1 ls /", "zoolet cli --server a:1 ls /"),
            ("zoolet cli set /a -server=b", "zoolet cli set /a -server=b"),
            ("zoolet cli set /a -server", "zoolet cli set /a -server"),
            ("zoolet cli -- -server", "zoolet cli -- -server"),
            ("zoolet cli --server -server x", "zoolet cli --server -server x"),
            ("zoolet cli -server", "zoolet cli --server"),
            ("zoolet cli zk1:2181 srvr", "zoolet cli --server zk1:2181 srvr"),
            ("zoolet cli zk1 --json srvr", "zoolet cli --server zk1 --json srvr"),
            ("zoolet cli -e zk1,zk2/app ls /", "zoolet cli -e --server zk1,zk2/app ls /"),
            ("zoolet cli [::1]:2181", "zoolet cli --server [::1]:2181"),
            ("zoolet cli gte /a", "zoolet cli gte /a"),
            ("zoolet cli zk1", "zoolet cli zk1"),
            ("zoolet cli help ls", "zoolet cli help ls"),
            ("zoolet cli create /a:1", "zoolet cli create /a:1"),
            ("zoolet serve -server", "zoolet serve -server"),
            ("zoolet", "zoolet"),
        ];
        let options = Cli::augment_args(clap::Command::new("cli"));
        for (typed, expected) in cases {
            let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
            assert_eq!(plain(words(typed), &options), words(expected), "{typed}");
        }
    }
}
