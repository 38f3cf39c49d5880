//! The four-letter words: commands of an administrator, sent in place of a handshake and answered
//! with text (`org.apache.zookeeper.server.command`).
//!
//! The texts have ZooKeeper's format, because programs parse them. Values that exist only in a Java
//! virtual machine are left out, or tell what runs in its place.
//!
//! A thread of its own makes each long report, in slices between which it releases the engine's
//! lock. The connection's task writes each chunk while the thread makes the next.

mod connections;
mod monitor;
mod report;

use std::fmt::{self, Write};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::BytesMut;
use tokio::time::error::Elapsed;
use zoolet_core::ConnectionId;

use super::socket::Socket;
use crate::engine::lock::Engine;
use crate::engine::registry::Peer;
use crate::limits::REPORT_TIMEOUT;
use crate::reports::permits::ReportKind;
use crate::reports::{self, VERSION, chunks};

/// A known word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(&'static str);

/// The words, in the order of ZooKeeper's manual.
const WORDS: [&str; 18] = [
    "conf", "cons", "crst", "dump", "envi", "ruok", "srst", "srvr", "stat", "wchs", "wchc", "dirs",
    "wchp", "mntr", "isro", "hash", "gtmk", "stmk",
];

/// The words whose reports grow with the number of connections, sessions or watches.
const LONG_WORDS: [&str; 6] = ["cons", "dump", "mntr", "stat", "wchc", "wchp"];

/// What telnet sends when it is closed; ZooKeeper treats it as a word that is never on the
/// whitelist.
const TELNET_CLOSE: [u8; 4] = [0xff, 0xf4, 0xff, 0xfd];

const TELNET_CLOSE_NAME: &str = "telnet close";

impl Word {
    /// The word that these bytes spell. As the length of a frame they would be far too large.
    pub(crate) fn from_bytes(bytes: [u8; 4]) -> Option<Self> {
        if bytes == TELNET_CLOSE {
            return Some(Self(TELNET_CLOSE_NAME));
        }
        WORDS.into_iter().find(|word| word.as_bytes() == bytes).map(Self)
    }
}

/// Answers a word, after which the connection ends. The connection itself, `asker`, is listed and
/// counted in the report, as in ZooKeeper.
pub(crate) async fn answer(
    socket: &mut impl Socket,
    input: &mut BytesMut,
    word: Word,
    engine: &Arc<Engine>,
    asker: &Arc<Peer>,
) {
    tracing::debug!(address = asker.address_text(), word = word.0, "four-letter word");
    asker.stats.received.add(1);
    engine.stats.frame_received(0);
    let is_listed = engine.config.four_letter_words.contains(word.0);
    let text = if !is_listed || word.0 == TELNET_CLOSE_NAME {
        format!("{} is not executed because it is not in the whitelist.\n", word.0)
    } else if word.0 == "stmk" {
        match trace_mask(socket, input, engine.config.sessionless_timeout).await {
            Some(mask) => mask.to_string(),
            None => return,
        }
    } else if LONG_WORDS.contains(&word.0) {
        let report = write_report(socket, word, engine, asker.id);
        return log_failure(word, tokio::time::timeout(REPORT_TIMEOUT, report).await);
    } else {
        text(word, engine)
    };
    engine.stats.sent.add(1);
    let write = async {
        socket.write_all(&mut text.as_bytes()).await?;
        socket.shutdown().await
    };
    log_failure(word, tokio::time::timeout(engine.config.sessionless_timeout, write).await);
}

/// Logs that an answer could not be written.
fn log_failure(word: Word, written: Result<io::Result<()>, Elapsed>) {
    match written {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::debug!(word = word.0, cause = %error, "the client did not read the answer");
        }
        Err(_) => tracing::debug!(word = word.0, "the client did not read the answer in time"),
    }
}

/// Makes a report, in a thread of its own if there may be one, and writes it.
async fn write_report(
    socket: &mut impl Socket,
    word: Word,
    engine: &Arc<Engine>,
    asker: ConnectionId,
) -> io::Result<()> {
    let kind = match word.0 {
        "mntr" => ReportKind::Monitoring,
        _ => ReportKind::Listing,
    };
    let permit = engine.reports.acquire(kind).await;
    engine.stats.sent.add(1);
    if engine.is_single_threaded() {
        let mut text = String::new();
        report(word, engine, asker, &mut text).map_err(io::Error::other)?;
        socket.write_all(&mut text.as_bytes()).await?;
        return socket.shutdown().await;
    }
    let (mut chunks, mut receiver, _) = chunks::channel(kind);
    let reporting = Arc::clone(engine);
    tokio::task::spawn_blocking(move || {
        // It fails when the client has closed the connection, and the thread ends.
        let _ = report(word, &reporting, asker, &mut chunks).and_then(|()| chunks.flush());
        drop(permit);
    });
    while let Some(chunk) = receiver.recv().await {
        socket.write_all(&mut chunk.as_bytes()).await?;
    }
    socket.shutdown().await
}

/// Makes the report for one of [`LONG_WORDS`].
fn report(word: Word, engine: &Engine, asker: ConnectionId, out: &mut impl Write) -> fmt::Result {
    match word.0 {
        "stat" => {
            write!(out, "Zookeeper version: {VERSION}\nClients:\n")?;
            connections::brief(engine, asker, out)?;
            write!(out, "\n{}", report::numbers(engine))
        }
        "cons" => {
            connections::full(engine, asker, out)?;
            writeln!(out)
        }
        "dump" => report::dump(engine, out),
        "wchc" => report::watches_by_session(engine, out),
        "wchp" => report::watches_by_path(engine, out),
        "mntr" => monitor::write(engine, out),
        other => unreachable!("{other} is not long"),
    }
}

/// Reads the mask that follows `stmk`.
async fn trace_mask(
    socket: &mut impl Socket,
    input: &mut BytesMut,
    timeout: Duration,
) -> Option<i64> {
    let read = async {
        while input.len() < 12 {
            if socket.read(input).await.ok()? == 0 {
                return None;
            }
        }
        let (_, mask) = input.split_first_chunk::<4>()?;
        Some(i64::from_be_bytes(*mask.first_chunk::<8>()?))
    };
    tokio::time::timeout(timeout, read).await.ok().flatten()
}

fn text(word: Word, engine: &Engine) -> String {
    match word.0 {
        "ruok" => "imok".to_owned(),
        "isro" => "rw".to_owned(),
        "gtmk" => engine.trace_mask.load(Ordering::Relaxed).to_string(),
        "conf" => report::configuration(engine),
        "dirs" => report::directories(engine),
        "envi" => report::environment(),
        "srvr" => report::server(engine),
        "wchs" => report::watch_summary(engine),
        "hash" => String::new(),
        "crst" => {
            reports::reset_connections(engine);
            "Connection stats reset.\n".to_owned()
        }
        "srst" => {
            reports::reset_server(engine);
            "Server stats reset.\n".to_owned()
        }
        other => unreachable!("{other} is on the whitelist and has no answer"),
    }
}
