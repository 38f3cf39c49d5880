//! One line for each connection, as in `stat` and `cons` (`NIOServerCnxn.dumpConnectionInfo`).

use std::fmt::{self, Write};

use zoolet_core::ConnectionId;

use crate::engine::lock::Engine;
use crate::engine::stats::four_letters;
use crate::reports::connections::{ConnectionReport, SessionReport, connections};

/// The lines of `stat`.
pub(super) fn brief(engine: &Engine, asker: ConnectionId, out: &mut impl Write) -> fmt::Result {
    for connection in connections(engine, Some(asker)) {
        beginning(&connection, out)?;
        out.write_str(")\n")?;
    }
    Ok(())
}

/// The lines of `cons`.
pub(super) fn full(engine: &Engine, asker: ConnectionId, out: &mut impl Write) -> fmt::Result {
    for connection in connections(engine, Some(asker)) {
        beginning(&connection, out)?;
        if let Some(session) = &connection.session {
            details(session, out)?;
        }
        out.write_str(")\n")?;
    }
    Ok(())
}

fn beginning(connection: &ConnectionReport, out: &mut impl Write) -> fmt::Result {
    let ConnectionReport { address, interest, outstanding, received, sent, .. } = connection;
    write!(out, " /{address}[{interest:x}](queued={outstanding},recved={received},sent={sent}")
}

fn details(session: &SessionReport, out: &mut impl Write) -> fmt::Result {
    let last = session.last;
    write!(
        out,
        ",sid={},lop={},est={},to={}",
        session.session,
        four_letters(last.op),
        session.established_ms,
        session.timeout_ms,
    )?;
    if last.xid.0 >= 0 {
        write!(out, ",lcxid={:#x}", last.xid.0)?;
    }
    write!(
        out,
        ",lzxid={},lresp={},llat={},minlat={},avglat={},maxlat={}",
        last.zxid,
        last.replied_ms,
        last.latency_ms,
        session.latency_min_ms,
        session.latency_average_ms,
        session.latency_max_ms,
    )
}
