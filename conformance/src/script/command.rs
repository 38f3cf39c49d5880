//! One line of a script: a command about the connection, or operations.

use clap::{Parser, Subcommand};

use super::operation::Operation;
use super::value::Fault;

/// What a line says.
#[derive(Debug, Clone, Subcommand)]
#[command(rename_all = "camelCase")]
pub(super) enum Command {
    /// Opens a connection and shakes hands.
    Connect(Connect),
    /// Opens a connection and sends nothing.
    Dial,
    /// Sends bytes as they are, in pieces.
    Bytes { pieces: Vec<String> },
    /// Sends a frame, given in pieces.
    Frame { pieces: Vec<String> },
    /// Cuts the connection; the session lives on.
    Cut,
    /// Receives what is on its way: all that the server sent before it answers a ping.
    Receive,
    /// Receives the answer of a handshake that was sent as bytes.
    ReceiveHandshake,
    /// Receives one message, of whatever kind.
    AwaitMessage,
    /// Receives up to the next event.
    AwaitEvent,
    /// Receives until the server closes the connection.
    AwaitClose,
    /// Lets the session of this name expire, where the server has no clock of its own.
    Expire,
    /// Lets containers and TTL znodes go that may, where the server has no clock of its own.
    Sweep,
    /// Shows the zxids of events from here on.
    ShowEventZxids,
    /// One operation: sent, and its answer awaited.
    #[command(flatten)]
    Ask(Operation),
    /// Operations that are sent at once, then all answers are awaited.
    #[command(skip)]
    Pipeline(Vec<Operation>),
    /// Operations that are sent, and no answer awaited.
    #[command(skip)]
    Send(Vec<Operation>),
}

/// A handshake.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Connect {
    #[arg(long, default_value_t = 30_000, allow_negative_numbers = true)]
    pub(super) timeout: i32,
    /// The session to take up: the name of a client, or a number.
    #[arg(long, allow_negative_numbers = true)]
    pub(super) session: Option<String>,
    /// `own`, `wrong`, `short`, or `null`.
    #[arg(long, default_value = "own")]
    pub(super) password: String,
    /// The last zxid seen.
    #[arg(long, default_value = "0", allow_negative_numbers = true)]
    pub(super) seen: String,
    /// `yes`, `no`, or `absent`.
    #[arg(long, default_value = "no")]
    pub(super) read_only: String,
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    pub(super) protocol: i32,
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

/// Between operations of a pipeline.
const PIPELINE_SEPARATOR: &str = ";";
/// Between operations of a multi.
const MULTI_SEPARATOR: &str = ",";

impl Command {
    /// Reads a line.
    pub(super) fn parse(line: &str) -> Result<Self, Fault> {
        let words = shell_words::split(line).map_err(|error| error.to_string())?;
        match words.split_first() {
            Some((first, rest)) if first == "pipeline" => operations(rest).map(Self::Pipeline),
            Some((first, rest)) if first == "send" => operations(rest).map(Self::Send),
            Some((first, _)) if is_multi(first) => operation(&words).map(Self::Ask),
            _ => Line::try_parse_from(words).map(|line| line.command).map_err(|e| e.to_string()),
        }
    }
}

fn is_multi(word: &str) -> bool {
    matches!(word, "multi" | "multiRead")
}

fn operations(words: &[String]) -> Result<Vec<Operation>, Fault> {
    words.split(|word| word == PIPELINE_SEPARATOR).map(operation).collect()
}

fn operation(words: &[String]) -> Result<Operation, Fault> {
    let Some((first, rest)) = words.split_first() else { return Err("no operation".into()) };
    if !is_multi(first) {
        let line = OperationLine::try_parse_from(words).map_err(|error| error.to_string())?;
        return Ok(line.operation);
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
