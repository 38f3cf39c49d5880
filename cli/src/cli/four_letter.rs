//! Four-letter words: questions to a server that need no session.

mod values;

use std::time::Duration;

use clap::Subcommand;
use zoolet_client::{ConnectError, FourLetterWord, WordAnswer};

use super::answer::Answer;
use super::failure::Failure;
use super::output::Output;

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
    fn name(self) -> &'static str {
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
        "{server} closed the connection without an answer to {word}; is it a ZooKeeper server?"
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

fn cure(error: &ConnectError) -> &'static str {
    match error {
        ConnectError::Refused(_) => "; does a server run there?",
        _ => "",
    }
}

/// The beginning of an answer that is looked at before anything is printed. All answers that are failures
/// are shorter.
const BEGINNING_BYTES: usize = 256;

/// The longest answer that is kept to be parsed, for JSON. The list of connections of a server with a
/// million clients fits.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// Sends a word to a server, and prints the answer as it comes; as JSON, when it is complete. Waits no
/// longer than `limit` for a connection, and for each further part of the answer. `request` is
/// [`Word::request`] with what the connection needs.
pub(super) async fn ask(
    server: &str,
    word: Word,
    request: FourLetterWord,
    limit: Duration,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut exchange = Exchange::begin(server, word, request, limit).await?;
    if output.is_json() {
        while exchange.read().await? {
            if exchange.read.len() > ANSWER_BYTES_MAX {
                return Err(
                    WordFailure::TooLong { word: word.name(), server: server.into() }.into()
                );
            }
        }
        exchange.check()?;
        let text = String::from_utf8_lossy(&exchange.read);
        let answer = Answer::of(word.name()).with("server", server).with("text", &*text);
        return Ok(output.answer(match values::parse(word.name(), &text) {
            Some(values) => answer.with("values", values),
            None => answer,
        })?);
    }
    while exchange.read.len() < BEGINNING_BYTES && exchange.read().await? {}
    exchange.check()?;
    let mut ends_with_line = true;
    loop {
        if let Some(last) = exchange.read.last() {
            ends_with_line = *last == b'\n';
        }
        output.part(&exchange.read)?;
        exchange.read.clear();
        if !exchange.read().await? {
            break;
        }
    }
    if !ends_with_line {
        output.part(b"\n")?;
    }
    Ok(())
}

/// A word that was sent, and the part of its answer that was read and not printed.
struct Exchange<'a> {
    server: &'a str,
    word: Word,
    limit: Duration,
    answer: WordAnswer,
    read: Vec<u8>,
}

impl<'a> Exchange<'a> {
    async fn begin(
        server: &'a str,
        word: Word,
        request: FourLetterWord,
        limit: Duration,
    ) -> Result<Self, WordFailure> {
        let answer = request.timeout(limit).open(server).await;
        let answer = answer.map_err(|error| failed(server, word, limit, error))?;
        Ok(Self { server, word, limit, answer, read: Vec::new() })
    }

    /// Reads a part of the answer; `false` at its end.
    async fn read(&mut self) -> Result<bool, WordFailure> {
        let part = self.answer.next_part().await;
        match part.map_err(|error| failed(self.server, self.word, self.limit, error))? {
            Some(part) => {
                self.read.extend_from_slice(&part);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Checks the beginning of the answer.
    fn check(&self) -> Result<(), WordFailure> {
        let (server, word) = (self.server.to_owned(), self.word.name());
        let beginning = &self.read[..self.read.len().min(BEGINNING_BYTES)];
        let beginning = String::from_utf8_lossy(beginning);
        let beginning = beginning.trim_end();
        match self.word {
            // `hash` and the lists of watches may be empty.
            Word::Hash | Word::Wchc | Word::Wchp | Word::Cons if beginning.is_empty() => Ok(()),
            _ if beginning.is_empty() => Err(WordFailure::NoAnswer { word, server }),
            _ if beginning.ends_with("is not executed because it is not in the whitelist.") => {
                Err(WordFailure::NotWhitelisted { word, server })
            }
            _ if beginning.starts_with("This ZooKeeper instance is not currently serving") => {
                Err(WordFailure::NotServing { server, answer: beginning.to_owned() })
            }
            Word::Ruok if beginning != "imok" => {
                Err(WordFailure::NotOk { server, answer: beginning.to_owned() })
            }
            _ => Ok(()),
        }
    }
}

fn failed(server: &str, word: Word, limit: Duration, error: ConnectError) -> WordFailure {
    match error {
        ConnectError::TimedOut(_) => {
            WordFailure::TimedOut { word: word.name(), server: server.to_owned(), limit }
        }
        error => WordFailure::Unreachable(error),
    }
}
