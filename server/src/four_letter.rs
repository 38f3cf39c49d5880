//! The four-letter words: an administrator's questions, asked in place of a handshake and
//! answered as text (`org.apache.zookeeper.server.command`).
//!
//! The texts have ZooKeeper's form, because programs read them. What only a Java machine or files on
//! disk could tell is left out or empty.

mod connections;
mod monitor;
mod report;

use std::sync::Arc;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zoolet_core::ConnectionId;

use crate::engine::Engine;
use crate::limits::SESSIONLESS_TIMEOUT;
use crate::registry::Peer;

/// The version that is told to those who ask: programs read from it what the server can do.
pub(crate) const VERSION: &str =
    concat!("3.9.4-zoolet-", env!("CARGO_PKG_VERSION"), ", built on 2026-11-20 00:00 UTC");

/// The trace mask that ZooKeeper starts with; nothing is traced by it here.
const DEFAULT_TRACE_MASK: i64 = 306;

/// A word that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(&'static str);

/// The words, in the order of ZooKeeper's manual.
const WORDS: [&str; 18] = [
    "conf", "cons", "crst", "dump", "envi", "ruok", "srst", "srvr", "stat", "wchs", "wchc", "dirs",
    "wchp", "mntr", "isro", "hash", "gtmk", "stmk",
];

/// What telnet sends when it is closed; ZooKeeper knows it as a word that is never answered.
const TELNET_CLOSE: [u8; 4] = [0xff, 0xf4, 0xff, 0xfd];

const TELNET_CLOSE_NAME: &str = "telnet close";

impl Word {
    /// The word that these bytes are; as the length of a frame they would be far too large.
    pub(crate) fn from_bytes(bytes: [u8; 4]) -> Option<Self> {
        if bytes == TELNET_CLOSE {
            return Some(Self(TELNET_CLOSE_NAME));
        }
        WORDS.into_iter().find(|word| word.as_bytes() == bytes).map(Self)
    }
}

/// Answers a word; the connection ends with it. `asker` is among the connections that are listed
/// and counted, as in ZooKeeper.
pub(crate) async fn answer(
    stream: &mut TcpStream,
    input: &mut BytesMut,
    word: Word,
    engine: &Arc<Engine>,
    asker: &Peer,
) {
    tracing::debug!(word = word.0, "four-letter word");
    asker.stats.frame_received(0);
    let is_listed = engine.config.four_letter_words.contains(word.0);
    let text = if !is_listed || word.0 == TELNET_CLOSE_NAME {
        format!("{} is not executed because it is not in the whitelist.\n", word.0)
    } else if word.0 == "stmk" {
        match trace_mask(stream, input).await {
            Some(mask) => mask.to_string(),
            None => return,
        }
    } else {
        text(word, engine, asker.id)
    };
    engine.stats.sent.add(1);
    let write = async {
        stream.write_all(text.as_bytes()).await?;
        stream.shutdown().await
    };
    match tokio::time::timeout(SESSIONLESS_TIMEOUT, write).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(word = word.0, "the answer was not taken: {error}"),
        Err(_) => tracing::debug!(word = word.0, "the answer was not taken in time"),
    }
}

/// The mask that follows `stmk`.
async fn trace_mask(stream: &mut TcpStream, input: &mut BytesMut) -> Option<i64> {
    let read = async {
        while input.len() < 12 {
            if stream.read_buf(input).await.ok()? == 0 {
                return None;
            }
        }
        let (_, mask) = input.split_first_chunk::<4>()?;
        Some(i64::from_be_bytes(*mask.first_chunk::<8>()?))
    };
    tokio::time::timeout(SESSIONLESS_TIMEOUT, read).await.ok().flatten()
}

fn text(word: Word, engine: &Engine, asker: ConnectionId) -> String {
    match word.0 {
        "ruok" => "imok".to_owned(),
        "isro" => "rw".to_owned(),
        "gtmk" => DEFAULT_TRACE_MASK.to_string(),
        "conf" => report::configuration(engine),
        "dirs" => report::directories(engine),
        "envi" => report::environment(),
        "srvr" => report::server(engine),
        "stat" => {
            format!(
                "Zookeeper version: {VERSION}\nClients:\n{}\n{}",
                connections::brief(engine, asker),
                report::numbers(engine)
            )
        }
        "cons" => format!("{}\n", connections::full(engine, asker)),
        "dump" => report::dump(engine),
        "wchs" => report::watch_summary(engine),
        "wchc" => report::watches_by_session(engine),
        "wchp" => report::watches_by_path(engine),
        "mntr" => monitor::text(engine),
        "hash" => String::new(),
        "crst" => {
            for peer in engine.registry.peers() {
                peer.stats.reset();
            }
            "Connection stats reset.\n".to_owned()
        }
        "srst" => {
            engine.stats.reset();
            "Server stats reset.\n".to_owned()
        }
        other => unreachable!("{other} is on the whitelist and has no answer"),
    }
}
