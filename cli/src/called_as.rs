//! What the command is called as: without a sub-command, and by the names of ZooKeeper's scripts.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The arguments with a sub-command where they have none, and with ours in place of a script.
///
/// In a container image that takes the place of ZooKeeper's, its scripts are links to this command, and
/// the entry point is given one of them: see `container`.
pub(crate) fn arguments(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<_> = args.collect();
    let called = args.first().and_then(|path| file_name(path));
    match called.as_deref() {
        Some(script @ ("zkServer.sh" | "zkCli.sh")) => {
            let script = script.into();
            args.splice(..1, ["zoolet".into(), "container".into(), script]);
        }
        Some("docker-entrypoint.sh") => {
            args.splice(..1, ["zoolet".into(), "container".into()]);
        }
        _ => {}
    }
    if args.get(1).is_some_and(|word| word == "container") {
        replace_script(&mut args);
    }
    if is_for_serve(&args) {
        args.insert(1.min(args.len()), "serve".into());
    }
    args
}

/// Takes the entry point's first argument for a command: one of the scripts, this command, or one of
/// its sub-commands.
fn replace_script(args: &mut Vec<OsString>) {
    let Some(name) = args.get(2).and_then(|command| file_name(command)) else { return };
    match name.as_str() {
        "zkServer.sh" => args[2] = name.into(),
        "zkCli.sh" => {
            args.splice(1..3, ["cli".into()]);
        }
        "zoolet" => {
            args.drain(1..3);
        }
        name if name.starts_with('-') || name == "help" => {}
        _ => {
            args.remove(1);
        }
    }
}

fn file_name(path: &OsStr) -> Option<String> {
    Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned())
}

fn is_for_serve(args: &[OsString]) -> bool {
    let first = args.get(1).map(|first| first.to_string_lossy());
    match first.as_deref() {
        None => true,
        Some("-h" | "--help" | "-V" | "--version") => false,
        Some(first) => first.starts_with('-'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cases: &[(&str, &str)]) {
        for (called, expected) in cases {
            let called = called.split_whitespace().map(OsString::from);
            let expected: Vec<_> = expected.split_whitespace().collect();
            assert_eq!(arguments(called.clone()), expected, "{called:?}");
        }
    }

    #[test]
    fn serve_is_the_default() {
        check(&[
            ("zoolet", "zoolet serve"),
            ("zoolet --listen a:1", "zoolet serve --listen a:1"),
            ("zoolet -l a:1", "zoolet serve -l a:1"),
            ("zoolet serve -h", "zoolet serve -h"),
            ("zoolet help", "zoolet help"),
            ("zoolet --help", "zoolet --help"),
            ("zoolet -V", "zoolet -V"),
        ]);
    }

    #[test]
    fn a_script_is_a_command() {
        check(&[
            ("/bin/zkServer.sh start-foreground", "zoolet container zkServer.sh start-foreground"),
            ("zkServer.sh status", "zoolet container zkServer.sh status"),
            ("/bin/zkCli.sh -server a:1 ls /", "zoolet cli -server a:1 ls /"),
            (
                "/docker-entrypoint.sh zkServer.sh start-foreground",
                "zoolet container zkServer.sh start-foreground",
            ),
        ]);
    }

    #[test]
    fn the_entry_point_takes_a_command() {
        check(&[
            ("zoolet container", "zoolet container"),
            (
                "zoolet container zkServer.sh start-foreground",
                "zoolet container zkServer.sh start-foreground",
            ),
            ("zoolet container bin/zkServer.sh status", "zoolet container zkServer.sh status"),
            ("zoolet container zkCli.sh -server a", "zoolet cli -server a"),
            ("zoolet container zoolet health", "zoolet health"),
            ("zoolet container /usr/bin/zoolet", "zoolet serve"),
            ("zoolet container health a:1", "zoolet health a:1"),
            ("zoolet container bash", "zoolet bash"),
            ("zoolet container --help", "zoolet container --help"),
        ]);
    }
}
