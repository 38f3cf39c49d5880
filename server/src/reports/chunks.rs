//! Passes the text of a report from the thread that makes it to the task that writes it.

use std::fmt;

use tokio::sync::mpsc::{Receiver, Sender, channel as bounded};

use crate::limits::REPORT_CHUNK_BYTES;

/// A report that is being made. It passes its text on in chunks, and blocks while the client does
/// not read. Writing to it fails when the client has closed the connection.
pub(crate) struct Chunks {
    gathered: String,
    sender: Sender<String>,
}

/// A report and the receiver of its chunks. One chunk waits while another is written.
pub(crate) fn channel() -> (Chunks, Receiver<String>) {
    let (sender, receiver) = bounded(1);
    (Chunks { gathered: String::new(), sender }, receiver)
}

impl Chunks {
    /// Passes the gathered text on.
    pub(crate) fn flush(&mut self) -> fmt::Result {
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
