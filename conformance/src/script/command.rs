//! Parses one line of a script: a command about the connection, or operations.

use std::cell::RefCell;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use zoolet_testkit::script_words::{DEFAULT_TIMEOUT_MS, MULTI_SEPARATOR, PIPELINE_SEPARATOR};

use super::operation::Operation;
use super::value::ValueError;

/// A command of a script.
#[derive(Debug, Clone, Subcommand)]
#[command(rename_all = "camelCase")]
pub(super) enum Command {
    /// Opens a connection and does the handshake.
    Connect(Connect),
    /// Opens a connection and sends nothing.
    Dial,
    /// Sends bytes, which are given in pieces.
    Bytes { pieces: Vec<String> },
    /// Sends a frame, which is given in pieces.
    Frame { pieces: Vec<String> },
    /// Closes the connection without closing the session.
    Cut,
    /// Pings, and receives everything that the server sends before it answers the ping.
    Receive,
    /// Receives the reply to a handshake that was sent as bytes.
    ReceiveHandshake,
    /// Receives one message.
    AwaitMessage,
    /// Receives messages up to the next event.
    AwaitEvent,
    /// Receives messages until the server closes the connection.
    AwaitClose,
    /// Expires the session of this name on a target without a clock. Other servers do so by
    /// themselves.
    Expire,
    /// Deletes the due containers and TTL znodes on a target without a clock.
    Sweep,
    /// Shows the zxids of events from now on.
    ShowEventZxids,
    /// Something that is done to a server of an ensemble, or asked of it.
    #[command(flatten)]
    Server(ServerCommand),
    /// Sends one operation and waits for its reply.
    #[command(flatten)]
    Ask(Operation),
    /// Sends operations in one piece and waits for all replies.
    #[command(skip)]
    Pipeline(Vec<Operation>),
    /// Sends operations and waits for no reply.
    #[command(skip)]
    Send(Vec<Operation>),
}

/// The options of a handshake.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Connect {
    /// The server of an ensemble.
    pub(super) server: Option<String>,
    /// Sends the handshake and does not wait for the answer.
    #[arg(long)]
    pub(super) late: bool,
    #[arg(long, default_value_t = DEFAULT_TIMEOUT_MS, allow_negative_numbers = true)]
    pub(super) timeout: i32,
    /// The session to reattach to: the name of a client, or a number.
    #[arg(long, allow_negative_numbers = true)]
    pub(super) session: Option<String>,
    /// `own`, `wrong`, `short`, or `null`.
    #[arg(long, default_value = "own")]
    pub(super) password: String,
    /// The last zxid that the client claims to have received.
    #[arg(long, default_value = "0", allow_negative_numbers = true)]
    pub(super) seen: String,
    /// `yes`, `no`, or `absent`.
    #[arg(long, default_value = "no")]
    pub(super) read_only: String,
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    pub(super) protocol: i32,
}

/// What is done to a server of an ensemble, or asked of it.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
#[command(rename_all = "camelCase")]
pub(crate) enum ServerCommand {
    /// It applies no transaction until it catches up. It still follows its leader.
    Lag,
    /// Ends a lag.
    CatchUp,
    /// It reaches no other server, and neither side is told.
    CutOff,
    /// Ends a cut, and waits until it follows the leader.
    Rejoin,
    /// Its process is killed.
    Stop,
    /// Its process begins again; waits until it follows the leader.
    Start,
    /// Waits until the servers that can have elected a leader. It is called `newLeader` from then on,
    /// and another server that follows it `newFollower`.
    AwaitLeader,
    /// Waits until it serves nobody.
    AwaitLooking,
    /// Waits until it serves clients that only read.
    AwaitReadOnly,
    /// Waits until it has applied a transaction.
    AwaitZxid { zxid: String },
    /// Counts zxids from the last one on, as at the beginning of the script.
    CountZxids,
    /// Shows its mode, from `srvr`.
    Mode,
    /// Shows its last zxid, from `srvr`.
    LastZxid,
    /// Shows the answer to a four-letter word.
    Word { word: String },
    /// Shows a value of `mntr`.
    Mntr { key: String },
}

#[derive(Debug, Parser)]
#[command(multicall = true, disable_help_subcommand = true, disable_help_flag = true)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Parser)]
#[command(multicall = true, disable_help_subcommand = true, disable_help_flag = true)]
struct OperationLine {
    #[command(subcommand)]
    operation: Operation,
}

thread_local! {
    // Building these takes much longer than parsing a line with them.
    static LINE: RefCell<clap::Command> = RefCell::new(Line::command());
    static OPERATION_LINE: RefCell<clap::Command> = RefCell::new(OperationLine::command());
}

fn parse<T: FromArgMatches>(
    parser: &'static std::thread::LocalKey<RefCell<clap::Command>>,
    words: &[String],
) -> Result<T, ValueError> {
    let matches = parser.with_borrow_mut(|parser| parser.try_get_matches_from_mut(words));
    matches.and_then(|matches| T::from_arg_matches(&matches)).map_err(|error| error.to_string())
}

impl Command {
    /// Parses a line.
    pub(super) fn parse(line: &str) -> Result<Self, ValueError> {
        let words = shell_words::split(line).map_err(|error| error.to_string())?;
        match words.split_first() {
            Some((first, rest)) if first == "pipeline" => operations(rest).map(Self::Pipeline),
            Some((first, rest)) if first == "send" => operations(rest).map(Self::Send),
            Some((first, _)) if is_multi(first) => operation(&words).map(Self::Ask),
            _ => parse::<Line>(&LINE, &words).map(|line| line.command),
        }
    }
}

fn is_multi(word: &str) -> bool {
    matches!(word, "multi" | "multiRead")
}

fn operations(words: &[String]) -> Result<Vec<Operation>, ValueError> {
    words.split(|word| word == PIPELINE_SEPARATOR).map(operation).collect()
}

fn operation(words: &[String]) -> Result<Operation, ValueError> {
    let Some((first, rest)) = words.split_first() else {
        return Err("an operation is missing".into());
    };
    if !is_multi(first) {
        return parse::<OperationLine>(&OPERATION_LINE, words).map(|line| line.operation);
    }
    let entries = match rest {
        [] => Vec::new(),
        rest => rest
            .split(|word| word == MULTI_SEPARATOR)
            .map(operation)
            .collect::<Result<Vec<_>, _>>()?,
    };
    Ok(if first == "multi" { Operation::Multi(entries) } else { Operation::MultiRead(entries) })
}
