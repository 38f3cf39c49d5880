//! Passes the text of a report from the thread that makes it to the task that writes it.

use std::fmt;

use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel as bounded};
use tokio::time::{Instant, timeout_at};

use super::permits::ReportKind;
use crate::engine::clock::now;
use crate::limits::{MONITORING_CHUNKS_MAX, REPORT_CHUNK_BYTES, REPORT_TIMEOUT};

/// A report that is being made. It passes its text on in chunks, and blocks while the client does
/// not read. Writing to it fails when the client has closed the connection, or has not read the
/// report in [`REPORT_TIMEOUT`].
pub(crate) struct Chunks {
    gathered: String,
    sender: Sender<String>,
    deadline: Instant,
    runtime: Handle,
}

/// A report, the receiver of its chunks, and the moment at which writing fails. One chunk of a listing
/// waits while another is written; all chunks of the metrics may wait, so that their thread does not.
/// Must be called within a tokio runtime.
pub(crate) fn channel(kind: ReportKind) -> (Chunks, Receiver<String>, Instant) {
    let waiting_max = match kind {
        ReportKind::Listing => 1,
        ReportKind::Monitoring => MONITORING_CHUNKS_MAX,
    };
    let (sender, receiver) = bounded(waiting_max);
    let (deadline, runtime) = (now() + REPORT_TIMEOUT, Handle::current());
    (Chunks { gathered: String::new(), sender, deadline, runtime }, receiver, deadline)
}

impl Chunks {
    /// Passes the gathered text on.
    pub(crate) fn flush(&mut self) -> fmt::Result {
        let chunk = std::mem::take(&mut self.gathered);
        let sent = timeout_at(self.deadline, self.sender.send(chunk));
        self.runtime.block_on(sent).map_err(|_| fmt::Error)?.map_err(|_| fmt::Error)
    }
}

impl fmt::Write for Chunks {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.gathered.push_str(text);
        if self.gathered.len() >= REPORT_CHUNK_BYTES { self.flush() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_thread_of_a_report_does_not_wait_longer_than_the_limit_for_a_reader() {
        let (mut chunks, receiver, _) = channel(ReportKind::Listing);
        let endless =
            tokio::task::spawn_blocking(
                move || {
                    while chunks.write_str("0123456789abcdef").is_ok() {}
                },
            );
        while receiver.is_empty() {
            tokio::task::yield_now().await;
        }
        assert!(!endless.is_finished());
        tokio::time::advance(REPORT_TIMEOUT).await;
        endless.await.expect("it ends");
    }

    #[tokio::test]
    async fn the_thread_of_the_metrics_waits_for_no_reader() {
        let (mut chunks, mut receiver, _) = channel(ReportKind::Monitoring);
        let text = "x".repeat(2 * REPORT_CHUNK_BYTES);
        let made = tokio::task::spawn_blocking(move || {
            (0..10).try_for_each(|_| chunks.write_str(&text)).and_then(|()| chunks.flush())
        });
        assert_eq!(made.await.expect("it ends"), Ok(()));
        let mut bytes = 0;
        while let Some(chunk) = receiver.recv().await {
            bytes += chunk.len();
        }
        assert_eq!(bytes, 20 * REPORT_CHUNK_BYTES);
    }
}
