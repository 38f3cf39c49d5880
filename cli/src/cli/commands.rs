//! The commands of the shell, as they are typed.

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use super::acl::AclList;
use super::arguments::{
    self, Create, DataForm, Delete, LimitKinds, Members, NewQuota, RemovedWatches, Set, Switch,
    WatchModeName, any_version, counted, hexadecimal, znode,
};
use super::failure::Failure;
use super::tree;
use super::word::Word;

#[derive(Debug, Parser)]
#[command(multicall = true, help_template = "{subcommands}{after-help}", after_help = AFTER_HELP)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List children
    #[command(after_help = "Examples:\n  ls -s /app\n  ls -R -s /app   all of it, with Stats")]
    Ls {
        /// With the Stat of the znode, or, with -R, of each
        #[arg(short, long)]
        stat: bool,
        /// All descendants, each with its path
        ///
        /// The children of a znode that may not be read are left out, and the command fails at its
        /// end.
        #[arg(short = 'R', long)]
        recursive: bool,
        /// Watch for the next child that is created or deleted
        #[arg(short, long)]
        watch: bool,
        #[arg(value_parser = znode, default_value = "/")]
        path: String,
    },
    /// Print a znode's data
    #[command(after_help = "Examples:\n  get -s /config\n  get -x /config   as a hex dump")]
    Get {
        /// With its Stat
        #[arg(short, long)]
        stat: bool,
        /// Watch for the next change
        #[arg(short, long)]
        watch: bool,
        #[command(flatten)]
        form: DataForm,
        #[arg(value_parser = znode)]
        path: String,
    },
    /// Print a znode's Stat
    ///
    /// Without PATH it is the four-letter word of this name: the server's counters and clients.
    #[command(after_help = "Example:\n  stat -w /config")]
    Stat {
        /// Watch for the next change
        #[arg(short, long, requires = "path")]
        watch: bool,
        #[arg(value_parser = znode)]
        path: Option<String>,
    },
    /// Create a znode
    #[command(after_help = "Examples:\n  create -p /app/config 'two words'\n  \
                            create -e -s /app/member- host:1\n  \
                            create /app/own data digest:ann:HASH:cdrwa,world:anyone:r")]
    Create {
        /// Create missing parents too
        #[arg(short, long)]
        parents: bool,
        #[command(flatten)]
        create: Create,
    },
    /// Replace a znode's data
    #[command(after_help = "Examples:\n  set /config 'two words'\n  set -v 3 /config x")]
    Set {
        /// Print its Stat afterwards
        #[arg(short, long)]
        stat: bool,
        /// The data is given in base64
        #[arg(short, long)]
        base64: bool,
        #[command(flatten)]
        set: Set,
    },
    /// Delete a znode without children
    #[command(after_help = "Example:\n  delete -v 3 /config")]
    Delete(Delete),
    /// Delete a znode and all its descendants
    #[command(visible_alias = "rmr", after_help = "Example:\n  deleteall /app")]
    Deleteall {
        /// How many deletes are sent at a time
        #[arg(short, long, value_name = "COUNT", default_value_t = tree::TOGETHER)]
        #[arg(value_parser = counted, allow_negative_numbers = true)]
        batch: usize,
        #[arg(value_parser = znode)]
        path: String,
    },
    /// Print the access control list of a znode
    #[command(name = "getAcl", visible_alias = "acl", after_help = "Example:\n  getAcl /app")]
    GetAcl {
        /// With its Stat
        #[arg(short, long)]
        stat: bool,
        #[arg(value_parser = znode)]
        path: String,
    },
    /// Replace the access control list of a znode
    #[command(name = "setAcl")]
    #[command(after_help = "Examples:\n  setAcl /app auth::cdrwa\n  setAcl -R /app world:anyone:r")]
    SetAcl {
        /// Print its Stat afterwards
        #[arg(short, long, conflicts_with = "recursive")]
        stat: bool,
        /// Only if the list has this version
        #[arg(short = 'v', long, value_name = "VERSION")]
        #[arg(value_parser = any_version, allow_negative_numbers = true)]
        version: Option<i32>,
        /// Of all descendants too
        #[arg(short = 'R', long)]
        recursive: bool,
        #[arg(value_parser = znode)]
        path: String,
        /// Such as world:anyone:r,digest:ann:HASH:cdrwa
        acl: AclList,
    },
    /// Do several operations, all or none
    ///
    /// Each is a word in quotes: create, set and delete as the commands, and `check [-v VERSION]
    /// PATH`, which only has the znode be there with that version.
    #[command(after_help = "Examples:\n  multi 'create /a' 'create /a/b \"two words\"'\n  \
                            multi 'check -v 3 /config' 'set /state done'")]
    Multi {
        /// Such as 'check -v 3 /a' 'set /b x'
        #[arg(required = true, value_name = "OPERATION")]
        operations: Vec<String>,
    },
    /// Print changes as they come, until Ctrl-C
    #[command(after_help = "Example:\n  watch -R /app")]
    Watch {
        /// Of all descendants too
        #[arg(short = 'R', long)]
        recursive: bool,
        /// End after this many changes
        #[arg(short = 'n', long, value_name = "COUNT", allow_negative_numbers = true)]
        count: Option<u64>,
        #[arg(value_parser = znode)]
        path: String,
    },
    /// Watch a znode until `removewatches`
    #[command(name = "addWatch", after_help = "Example:\n  addWatch -m PERSISTENT /app")]
    AddWatch {
        /// PERSISTENT: the znode and the list of its children; PERSISTENT_RECURSIVE: the znode and its
        /// descendants
        #[arg(short, long, value_enum, ignore_case = true)]
        #[arg(default_value = "PERSISTENT_RECURSIVE")]
        mode: WatchModeName,
        #[arg(value_parser = znode)]
        path: String,
    },
    /// Remove the watches that this shell has on a znode
    #[command(after_help = "Example:\n  removewatches -d /config")]
    Removewatches {
        #[command(flatten)]
        kinds: RemovedWatches,
        /// Without a connection too, which needs no option here
        #[arg(short, long)]
        local: bool,
        #[arg(value_parser = znode)]
        path: String,
    },
    /// Print whether events are printed, or switch that
    #[command(after_help = "Example:\n  printwatches off")]
    Printwatches { switch: Option<Switch> },
    /// List the ephemerals of this session
    #[command(name = "getEphemerals", after_help = "Example:\n  getEphemerals /app")]
    GetEphemerals {
        /// Only those whose path begins with this
        #[arg(value_parser = znode, default_value = "/")]
        path: String,
    },
    /// Print how many descendants a znode has
    #[command(name = "getAllChildrenNumber", after_help = "Example:\n  getAllChildrenNumber /app")]
    GetAllChildrenNumber {
        #[arg(value_parser = znode)]
        path: String,
    },
    /// Limit how many znodes, or how much data, there may be at a path
    ///
    /// ZooKeeper logs what exceeds -n or -b. A server with enforceQuota=true refuses what exceeds -N
    /// or -B.
    #[command(after_help = "Examples:\n  setquota -n 1000 /app\n  setquota -B 1048576 /app")]
    Setquota {
        #[command(flatten)]
        quota: NewQuota,
        #[arg(value_parser = znode)]
        path: String,
    },
    /// Print the quota of a path, and what of it is used
    #[command(after_help = "Example:\n  listquota /app")]
    Listquota {
        #[arg(value_parser = znode)]
        path: String,
    },
    /// Remove the quota of a path, or one of its limits
    #[command(after_help = "Example:\n  delquota -b /app")]
    Delquota {
        #[command(flatten)]
        kinds: LimitKinds,
        #[arg(value_parser = znode)]
        path: String,
    },
    /// Print the configuration of the ensemble; nothing on a single node
    #[command(after_help = "Example:\n  config -c   where clients connect")]
    Config {
        /// Only its version and the addresses for clients
        #[arg(short, long)]
        client: bool,
        /// Watch for its next change
        #[arg(short, long)]
        watch: bool,
        /// With the Stat of its znode
        #[arg(short, long)]
        stat: bool,
    },
    /// Change the members of an ensemble
    #[command(after_help = "Example:\n  reconfig -add 'server.4=zk4:2888:3888;2181' -remove 1")]
    Reconfig {
        /// Print the Stat of the configuration afterwards
        #[arg(short, long)]
        stat: bool,
        /// Only if the configuration has this version, in hex, as `config` shows it
        #[arg(short = 'v', long, value_name = "VERSION", value_parser = hexadecimal)]
        version: Option<i64>,
        #[command(flatten)]
        members: Members,
    },
    /// Wait until the server has applied every write that was committed before
    #[command(after_help = "Example:\n  sync /")]
    Sync {
        #[arg(value_parser = znode, default_value = "/")]
        path: String,
    },
    /// Print the identities that this connection has
    #[command(after_help = "Example:\n  whoami")]
    Whoami,
    /// Add an identity, such as digest user:password
    #[command(after_help = "Example:\n  addauth digest ann:PASSWORD")]
    Addauth { scheme: String, credentials: Option<String> },
    /// Print who holds a lock and who waits for it, in their order
    ///
    /// Knows the znodes of Curator's mutex, read-write lock, semaphore and leader latch. Who is
    /// first came first. CAME is when the znode was made: when its owner entered the line, or, of
    /// a permit, got it.
    #[command(after_help = "Example:\n  locks /locks/stock")]
    Locks {
        #[arg(value_parser = znode)]
        path: String,
    },
    /// Close the session, and open one, here or at another server
    #[command(after_help = "Example:\n  connect zk2:2181/app")]
    Connect {
        #[arg(value_name = "HOST:PORT,..[/CHROOT]")]
        server: Option<String>,
    },
    /// Close the session; `connect` opens another
    #[command(after_help = "Example:\n  close")]
    Close,
    /// Print the last commands and their numbers
    #[command(after_help = "Example:\n  history")]
    History,
    /// Run a command of the history again
    #[command(after_help = "Example:\n  redo 3")]
    Redo {
        #[arg(value_name = "NUMBER", allow_negative_numbers = true)]
        number: i64,
    },
    /// Print the version of this shell
    #[command(after_help = "Example:\n  version")]
    Version,
    /// End the session
    #[command(visible_alias = "exit", after_help = "Example:\n  quit")]
    Quit,
    #[command(flatten)]
    Word(Word),
}

impl Command {
    /// Reads a command.
    pub(super) fn parse(words: &[String]) -> Result<Self, Failure> {
        let all = Self::all();
        known(words, &all, "command")?;
        if let [help, name, ..] = words
            && help == "help"
            && !name.starts_with('-')
        {
            known(&words[1..], &all, "command")?;
        }
        let words = arguments::with_double_dashes(words);
        Line::try_parse_from(words).map(|line| line.command).map_err(wrong)
    }

    /// Whether it is carried out in a session.
    pub(super) fn needs_session(&self) -> bool {
        let is_about_the_shell =
            matches!(self, Self::Version | Self::Quit | Self::Connect { .. } | Self::Redo { .. });
        !is_about_the_shell && !matches!(self, Self::Word(_) | Self::Stat { path: None, .. })
    }

    /// Whether this is the name of a command.
    pub(super) fn is_name(word: &str) -> bool {
        Self::all().find_subcommand(word).is_some()
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
    if all.find_subcommand(word).is_some() {
        return Ok(());
    }
    let names = |shown: fn(&clap::Command) -> bool| {
        let commands = all.get_subcommands().filter(move |command| shown(command));
        commands.flat_map(|command| command.get_name_and_visible_aliases())
    };
    let distance =
        |name: &&str| strsim::damerau_levenshtein(&name.to_lowercase(), &word.to_lowercase());
    let nearest = names(|_| true).min_by_key(distance).filter(|name| distance(name) <= NEAR);
    Err(Failure::Usage(match nearest {
        Some(name) => format!("there is no {what} {word:?}; did you mean {name}?"),
        None => {
            let names: Vec<_> = names(|command| !command.is_hide_set()).collect();
            format!("there is no {what} {word:?}; there are {}", names.join(", "))
        }
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

const AFTER_HELP: &str = "
Four-letter words, which need no session: conf, cons, crst, dirs, dump, envi, gtmk, hash, isro,
mntr, ruok, srst, srvr, stat (without a path), stmk, wchc, wchp, wchs.

`help COMMAND` explains one. Words with spaces stand in quotes; # begins a comment.";

#[cfg(test)]
mod tests;
