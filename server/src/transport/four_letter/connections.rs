//! One line for each connection, as in `stat` and `cons` (`NIOServerCnxn.dumpConnectionInfo`).

use std::fmt::{self, Write};

use zoolet_core::ConnectionId;

use crate::engine::lock::Engine;
use crate::engine::registry::Peer;
use crate::engine::stats::four_letters;

/// The interest bits of a Java selector: read, and write while messages wait.
const INTEREST_READ: u8 = 1;
const INTEREST_WRITE: u8 = 4;

/// The lines of `stat`.
pub(super) fn brief(engine: &Engine, asker: ConnectionId, out: &mut impl Write) -> fmt::Result {
    lines(engine, asker, out, |_, _| Ok(()))
}

/// The lines of `cons`.
pub(super) fn full(engine: &Engine, asker: ConnectionId, out: &mut impl Write) -> fmt::Result {
    lines(engine, asker, out, |line, peer| {
        let stats = &peer.stats;
        if stats.session().is_none() {
            return Ok(());
        }
        let last = stats.last();
        let (least, average, greatest) = stats.latency.summary_ms();
        write!(
            line,
            ",sid={},lop={},est={},to={}",
            stats.session(),
            four_letters(last.op),
            stats.established_ms,
            stats.timeout_ms(),
        )?;
        if last.xid.0 >= 0 {
            write!(line, ",lcxid={:#x}", last.xid.0)?;
        }
        write!(
            line,
            ",lzxid={},lresp={},llat={},minlat={least},avglat={},maxlat={greatest}",
            last.zxid, last.replied_ms, last.latency_ms, average as u64,
        )
    })
}

fn lines<W: Write>(
    engine: &Engine,
    asker: ConnectionId,
    out: &mut W,
    details: impl Fn(&mut W, &Peer) -> fmt::Result,
) -> fmt::Result {
    for peer in engine.registry.peers() {
        let waits = peer.outbox.waiting_messages();
        let interest = match waits {
            // The server reads nothing more from the connection that sent the word.
            _ if peer.id == asker => 0,
            0 => INTEREST_READ,
            _ => INTEREST_READ | INTEREST_WRITE,
        };
        let received = peer.stats.received.value();
        let sent = peer.stats.sent.value();
        write!(
            out,
            " /{}[{interest:x}](queued={waits},recved={received},sent={sent}",
            peer.address_text(),
        )?;
        details(out, &peer)?;
        out.write_str(")\n")?;
    }
    Ok(())
}
