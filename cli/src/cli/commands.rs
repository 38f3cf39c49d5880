//! The commands of the shell, as they are typed.

use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
use zoolet_protocol::{CreateMode, Expect, PathError, ZPath};

use super::acl::AclList;
use super::failure::Failure;
use crate::server_options::values::{self, BadValue};

#[derive(Debug, Parser)]
#[command(multicall = true, help_template = "{subcommands}{after-help}", after_help = AFTER_HELP)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List children
    Ls {
        /// With the znode's Stat
        #[arg(short, long)]
        stat: bool,
        /// All descendants, each with its path
        #[arg(short = 'R', long, conflicts_with_all = ["stat", "watch"])]
        recursive: bool,
        /// Watch for the next child that is created or deleted
        #[arg(short, long)]
        watch: bool,
        #[arg(value_parser = znode, default_value = "/")]
        path: String,
    },
    /// Print a znode's data
    Get {
        /// With its Stat
        #[arg(short, long)]
        stat: bool,
        /// Watch for the next change
        #[arg(short, long)]
        watch: bool,
        #[arg(value_parser = znode)]
        path: String,
    },
    /// Print a znode's Stat
    Stat {
        /// Watch for the next change
        #[arg(short, long)]
        watch: bool,
        #[arg(value_parser = znode)]
        path: String,
    },
    /// Create a znode
    Create {
        /// Create missing parents too
        #[arg(short, long)]
        parents: bool,
        #[command(flatten)]
        create: Create,
    },
    /// Replace a znode's data
    Set {
        /// Print its Stat afterwards
        #[arg(short, long)]
        stat: bool,
        #[command(flatten)]
        set: Set,
    },
    /// Delete a znode without children
    Delete(Delete),
    /// Delete a znode and all its descendants
    #[command(alias = "rmr")]
    Deleteall {
        #[arg(value_parser = znode)]
        path: String,
    },
    /// Print the access control list of a znode
    #[command(name = "getAcl", visible_alias = "acl")]
    GetAcl {
        /// With its Stat
        #[arg(short, long)]
        stat: bool,
        #[arg(value_parser = znode)]
        path: String,
    },
    /// Replace the access control list of a znode
    #[command(name = "setAcl")]
    SetAcl {
        /// Only if the list has this version
        #[arg(short = 'v', long, value_name = "VERSION")]
        #[arg(value_parser = version, allow_negative_numbers = true)]
        version: Option<i32>,
        #[arg(value_parser = znode)]
        path: String,
        /// Such as world:anyone:r,digest:ann:HASH:cdrwa
        acl: AclList,
    },
    /// Do several operations, all or none
    ///
    /// Each is a word in quotes: create, set and delete as the commands, and `check [-v VERSION]
    /// PATH`, which only has the znode be there with that version.
    #[command(after_help = MULTI_HELP)]
    Multi {
        /// Such as 'check -v 3 /a' 'set /b x'
        #[arg(required = true, value_name = "OPERATION")]
        operations: Vec<String>,
    },
    /// Print changes as they come, until Ctrl-C
    Watch {
        /// Of all descendants too
        #[arg(short = 'R', long)]
        recursive: bool,
        /// End after this many changes
        #[arg(short = 'n', long, value_name = "COUNT")]
        count: Option<u64>,
        #[arg(value_parser = znode)]
        path: String,
    },
    /// Wait until the server has applied every write that was committed before
    Sync {
        #[arg(value_parser = znode, default_value = "/")]
        path: String,
    },
    /// Print the identities that this connection has
    Whoami,
    /// Add an identity, such as digest user:password
    Addauth { scheme: String, credentials: Option<String> },
    /// Print who holds a lock and who waits for it, in their order
    ///
    /// Knows the znodes of Curator's mutex, read-write lock, semaphore and leader latch. Who is
    /// first came first. CAME is when the znode was made: when its owner entered the line, or, of
    /// a permit, got it.
    Locks {
        #[arg(value_parser = znode)]
        path: String,
    },
    /// End the session
    #[command(visible_alias = "exit")]
    Quit,
}

#[derive(Debug, Args)]
#[group(skip)]
pub(super) struct Create {
    /// With a number after its name
    #[arg(short, long)]
    pub(super) sequential: bool,
    /// Ephemeral: deleted when this session ends
    #[arg(short, long)]
    pub(super) ephemeral: bool,
    /// A container: deleted some time after its last child
    #[arg(short, long, conflicts_with_all = ["sequential", "ephemeral"])]
    pub(super) container: bool,
    /// Deleted when unchanged and without children for this long: milliseconds, or a time such as 10m
    #[arg(short, long, value_name = "TIME", value_parser = time_to_live)]
    #[arg(conflicts_with_all = ["ephemeral", "container"])]
    pub(super) ttl: Option<Duration>,
    /// May end with a slash with -s
    pub(super) path: String,
    #[arg(default_value = "")]
    pub(super) data: String,
    /// The access control list, such as world:anyone:r
    #[arg(default_value = "world:anyone:cdrwa")]
    pub(super) acl: AclList,
}

#[derive(Debug, Args)]
#[group(skip)]
pub(super) struct Set {
    /// Only if the data has this version
    #[arg(short = 'v', long, value_name = "VERSION")]
    #[arg(value_parser = version, allow_negative_numbers = true)]
    version: Option<i32>,
    #[arg(value_parser = znode)]
    pub(super) path: String,
    #[arg(allow_negative_numbers = true)]
    pub(super) data: String,
}

#[derive(Debug, Args)]
pub(super) struct Delete {
    /// Only if the data has this version
    #[arg(short = 'v', long, value_name = "VERSION")]
    #[arg(value_parser = version, allow_negative_numbers = true)]
    version: Option<i32>,
    #[arg(value_parser = znode)]
    pub(super) path: String,
}

impl Create {
    /// The mode that the options describe together. Contradictory options were refused.
    pub(super) fn mode(&self) -> CreateMode {
        match (self.ttl, self.container, self.sequential, self.ephemeral) {
            (Some(ttl), _, true, _) => CreateMode::PersistentSequentialWithTtl(ttl),
            (Some(ttl), _, false, _) => CreateMode::PersistentWithTtl(ttl),
            (None, true, ..) => CreateMode::Container,
            (None, false, true, true) => CreateMode::EphemeralSequential,
            (None, false, true, false) => CreateMode::PersistentSequential,
            (None, false, false, true) => CreateMode::Ephemeral,
            (None, false, false, false) => CreateMode::Persistent,
        }
    }
}

impl Set {
    pub(super) fn version(&self) -> Expect {
        expected(self.version)
    }
}

impl Delete {
    pub(super) fn version(&self) -> Expect {
        expected(self.version)
    }
}

/// Parses a version.
fn version(text: &str) -> Result<i32, &'static str> {
    text.parse().map_err(|_| "must be a whole number, as `stat` shows it, or -1 for any version")
}

/// The version that a request expects; -1 is any, as in ZooKeeper.
pub(super) fn expected(version: Option<i32>) -> Expect {
    version.map_or(Expect::Any, Expect::from)
}

impl Command {
    /// Reads a command.
    pub(super) fn parse(words: &[String]) -> Result<Self, Failure> {
        known(words, &Self::all(), "command")?;
        Line::try_parse_from(words).map(|line| line.command).map_err(wrong)
    }

    /// The definition of all commands, for completion and help.
    pub(super) fn all() -> clap::Command {
        let mut all = Line::command();
        all.build();
        all
    }
}

/// Checks that the first word is the name of a command, and suggests the nearest name if it is not.
pub(super) fn known(words: &[String], all: &clap::Command, what: &str) -> Result<(), Failure> {
    let word = words.first().map_or("", String::as_str);
    let names = all.get_subcommands().flat_map(|command| command.get_name_and_visible_aliases());
    let names: Vec<_> = names.collect();
    if all.find_subcommand(word).is_some() {
        return Ok(());
    }
    let distance =
        |name: &&&str| strsim::damerau_levenshtein(&name.to_lowercase(), &word.to_lowercase());
    let nearest = names.iter().min_by_key(distance).filter(|name| distance(name) <= NEAR);
    Err(Failure::Usage(match nearest {
        Some(name) => format!("there is no {what} {word:?}; did you mean {name}?"),
        None => format!("there is no {what} {word:?}; there are {}", names.join(", ")),
    }))
}

/// How many letters of a mistyped name may be wrong for a suggestion.
const NEAR: usize = 2;

/// What is wrong with the words, or the help text that they ask for.
pub(super) fn wrong(error: clap::Error) -> Failure {
    let text = error.render().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Failure::Help(text)
        }
        _ => {
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            let text = text.split("\n\nFor more information").next().unwrap_or(text);
            Failure::Usage(text.trim_end().to_owned())
        }
    }
}

/// A path. A slash at the end is ignored.
pub(super) fn znode(text: &str) -> Result<String, PathError> {
    let path = match text.trim_end_matches('/') {
        "" => text.get(..1).unwrap_or(text),
        path => path,
    };
    ZPath::check(path).map(|()| path.to_owned())
}

/// A plain number is milliseconds, as in `zkCli.sh`.
fn time_to_live(text: &str) -> Result<Duration, BadValue> {
    match text.parse() {
        Ok(ms) => Ok(Duration::from_millis(ms)),
        Err(_) => values::some_time(text),
    }
}

const AFTER_HELP: &str = "
`help COMMAND` explains one. Words with spaces stand in quotes; # begins a comment.";

const MULTI_HELP: &str = "\
Examples:
  multi 'create /a' 'create /a/b \"two words\"'
  multi 'check -v 3 /config' 'set /state done'";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, Failure> {
        Command::parse(&super::super::line::words(line)?)
    }

    fn wrong_of(line: &str) -> String {
        match parse(line) {
            Err(Failure::Usage(text)) => text,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn the_definitions_are_in_order() {
        Line::command().debug_assert();
    }

    #[test]
    fn options_may_stand_anywhere_and_together() {
        for line in ["ls -s -w /a", "ls -sw /a", "ls /a -w --stat"] {
            let ls = parse(line).unwrap();
            assert!(matches!(ls, Command::Ls { stat: true, watch: true, recursive: false, path }
                if path == "/a"));
        }
        assert!(matches!(parse("ls").unwrap(), Command::Ls { path, .. } if path == "/"));
        assert!(matches!(parse("ls /a/b//").unwrap(), Command::Ls { path, .. } if path == "/a/b"));
        let set = parse("set -v 3 /a -17").unwrap();
        assert!(matches!(set, Command::Set { set, .. }
            if set.data == "-17" && set.version() == Expect::Exactly(3)));
        let set = parse("set /a -- --data").unwrap();
        assert!(matches!(set, Command::Set { set, .. } if set.data == "--data"));
        let create = parse("create -t 1500 /a").unwrap();
        assert!(matches!(create, Command::Create { create, .. }
            if create.ttl == Some(Duration::from_millis(1500)) && create.data.is_empty()));
    }

    #[test]
    fn what_is_nearly_right_is_answered_with_what_is_right() {
        assert_eq!(wrong_of("gte /a"), "there is no command \"gte\"; did you mean get?");
        assert_eq!(wrong_of("getacl /a"), "there is no command \"getacl\"; did you mean getAcl?");
        assert_eq!(wrong_of("exti"), "there is no command \"exti\"; did you mean exit?");
        assert!(wrong_of("frobnicate").ends_with("whoami, addauth, locks, quit, exit, help"));
        assert!(wrong_of("ls --recursiv /").contains("'--recursive'"));
        assert!(wrong_of("get").contains("<PATH>"));
        assert!(wrong_of("get a").contains("does not begin with /"));
        assert!(wrong_of("create -c -e /a").contains("cannot be used with"));
        assert!(wrong_of("setAcl /a anyone").contains("SCHEME:ID:PERMISSIONS"));
        assert!(!wrong_of("get").contains("--help"), "{}", wrong_of("get"));
    }

    #[test]
    fn help_is_no_failure_of_the_words() {
        for line in ["help", "help multi", "ls --help"] {
            assert!(matches!(parse(line), Err(Failure::Help(_))), "{line}");
        }
    }
}
