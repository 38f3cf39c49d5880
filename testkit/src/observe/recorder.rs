//! Records what passes between a server and its clients.

use std::sync::Arc;

use super::recording::Recording;
use super::script;

/// Records what passes between a server and its clients, until it is dropped.
///
/// If it begins when the server has just started, the script is complete: it repeats the run on any
/// server, whatever its zxids, sessions and times are.
///
/// ```
/// use zoolet_testkit::TestServer;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = TestServer::start().await?;
/// let recorder = server.record();
/// assert_eq!(recorder.script(), "# Recorded from a run.\n");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the recording ends when this is dropped"]
pub struct Recorder {
    recording: Arc<Recording>,
}

impl Recorder {
    pub(super) fn new(recording: Arc<Recording>) -> Self {
        Self { recording }
    }

    /// The recording as a golden script: the requests of named clients, as commands, and what each
    /// client received.
    ///
    /// Sessions are named `a`, `b`, and so on, in the order in which they appear. Commands are in
    /// the order in which the server carried them out. A request that no named command can express
    /// is written as `raw` bytes. Comments mark what a script cannot repeat: sessions that lived
    /// before, restarts, requests without a reply, and faults, except delayed and corrupted
    /// messages. Pings are left out; the first lines say how many there were.
    #[must_use]
    pub fn script(&self) -> String {
        script::write(&self.recording)
    }
}
