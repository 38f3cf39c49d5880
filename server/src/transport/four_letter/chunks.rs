//! The text of a report on its way from the thread that makes it to the socket.

use std::fmt;

use tokio::sync::mpsc::{Receiver, Sender, channel as bounded};

use crate::limits::REPORT_CHUNK_BYTES;

/// A report that is being made: text is gathered and handed on piece by piece. Whoever makes it waits
/// while the client does not read, and is told by an error when the client has gone.
pub(super) struct Chunks {
    gathered: String,
    sender: Sender<String>,
}

/// Where a report is made, and where it comes out. One chunk waits while one is written.
pub(super) fn channel() -> (Chunks, Receiver<String>) {
    let (sender, receiver) = bounded(1);
    (Chunks { gathered: String::new(), sender }, receiver)
}

impl Chunks {
    /// Hands on what is gathered.
    pub(super) fn flush(&mut self) -> fmt::Result {
        let chunk = std::mem::take(&mut self.gathered);
        self.sender.blocking_send(chunk).map_err(|_| fmt::Error)
    }
}

impl fmt::Write for Chunks {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.gathered.push_str(text);
        if self.gathered.len() >= REPORT_CHUNK_BYTES { self.flush() } else { Ok(()) }
    }
}
