//! Four-letter words: questions to a server that need no session.

use std::time::Duration;

use clap::Subcommand;
use zoolet_client::{ConnectError, FourLetterWord};

use crate::connecting::PERHAPS_TOO_MANY;

/// The words, except for `stat`, which is a command of the shell too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
#[command(rename_all = "lower")]
pub(super) enum Word {
    /// Print the configuration of the server
    #[command(hide = true, after_help = "Example:\n  conf")]
    Conf,
    /// Print the connections, with their counters
    #[command(hide = true, after_help = "Example:\n  cons")]
    Cons,
    /// Reset the counters of the connections
    #[command(hide = true, after_help = "Example:\n  crst")]
    Crst,
    /// Print how many bytes snapshots and logs have
    #[command(hide = true, after_help = "Example:\n  dirs")]
    Dirs,
    /// Print sessions and their ephemerals
    #[command(hide = true, after_help = "Example:\n  dump")]
    Dump,
    /// Print the environment of the server
    #[command(hide = true, after_help = "Example:\n  envi")]
    Envi,
    /// Print the trace mask
    #[command(hide = true, after_help = "Example:\n  gtmk")]
    Gtmk,
    /// Print the digests of the last transactions
    #[command(hide = true, after_help = "Example:\n  hash")]
    Hash,
    /// Print whether the server serves reads only: rw or ro
    #[command(hide = true, after_help = "Example:\n  isro")]
    Isro,
    /// Print the metrics
    #[command(hide = true, after_help = "Example:\n  mntr")]
    Mntr,
    /// Ask whether the server runs: it answers imok
    #[command(hide = true, after_help = "Example:\n  ruok")]
    Ruok,
    /// Reset the counters of the server
    #[command(hide = true, after_help = "Example:\n  srst")]
    Srst,
    /// Print the server's version, mode and counters
    #[command(hide = true, after_help = "Example:\n  srvr")]
    Srvr,
    /// Set the trace mask
    #[command(hide = true, after_help = "Example:\n  stmk 306")]
    Stmk {
        /// Decimal, or hexadecimal after 0x
        #[arg(value_parser = trace_mask, allow_negative_numbers = true)]
        mask: i64,
    },
    /// Print the watches by sessions
    #[command(hide = true, after_help = "Example:\n  wchc")]
    Wchc,
    /// Print the watches by paths
    #[command(hide = true, after_help = "Example:\n  wchp")]
    Wchp,
    /// Print how many watches there are
    #[command(hide = true, after_help = "Example:\n  wchs")]
    Wchs,
    /// Print the server's clients and counters
    #[command(skip)]
    Stat,
}

impl Word {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Conf => "conf",
            Self::Cons => "cons",
            Self::Crst => "crst",
            Self::Dirs => "dirs",
            Self::Dump => "dump",
            Self::Envi => "envi",
            Self::Gtmk => "gtmk",
            Self::Hash => "hash",
            Self::Isro => "isro",
            Self::Mntr => "mntr",
            Self::Ruok => "ruok",
            Self::Srst => "srst",
            Self::Srvr => "srvr",
            Self::Stmk { .. } => "stmk",
            Self::Wchc => "wchc",
            Self::Wchp => "wchp",
            Self::Wchs => "wchs",
            Self::Stat => "stat",
        }
    }

    /// What is sent: the word, and after `stmk` the mask.
    pub(super) fn request(self) -> FourLetterWord {
        let request = FourLetterWord::new(self.name());
        match self {
            Self::Stmk { mask } => request.argument(mask.to_be_bytes().to_vec()),
            _ => request,
        }
    }
}

fn trace_mask(text: &str) -> Result<i64, &'static str> {
    let mask = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    mask.map_err(|_| "must be a whole number, decimal or hexadecimal after 0x")
}

/// Why a word got no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum WordFailure {
    #[error(
        "{word} is not executed because it is not in the whitelist of {server}; add it there to \
         4lw.commands.whitelist in zoo.cfg, or to --4lw-commands-whitelist of `zoolet serve`"
    )]
    NotWhitelisted { word: &'static str, server: String },
    #[error("{server} does not serve requests at the moment: {answer}")]
    NotServing { server: String, answer: String },
    #[error("{server} answers {answer:?} to ruok, and not imok")]
    NotOk { server: String, answer: String },
    #[error(
        "{server} closed the connection without an answer to {word}; is it a ZooKeeper server? \
         {PERHAPS_TOO_MANY}"
    )]
    NoAnswer { word: &'static str, server: String },
    #[error("cannot ask {error}{cure}", error = .0, cure = cure(.0))]
    Unreachable(ConnectError),
    #[error(
        "the answer of {server} to {word} has more than {ANSWER_BYTES_MAX} bytes, the limit for JSON; \
         leave out --json"
    )]
    TooLong { word: &'static str, server: String },
    #[error(
        "{server} has not answered {word} within {limit:?}; --connect-timeout TIME waits longer"
    )]
    TimedOut { word: &'static str, server: String, limit: Duration },
}

fn cure(error: &ConnectError) -> String {
    match error {
        ConnectError::Refused(_) => "; does a server run there?".to_owned(),
        ConnectError::Closed(_) => format!(". {PERHAPS_TOO_MANY}"),
        _ => String::new(),
    }
}

/// The longest answer that is kept to be parsed, for JSON. The list of connections of a server with a
/// million clients fits.
pub(super) const ANSWER_BYTES_MAX: usize = 256 << 20;
