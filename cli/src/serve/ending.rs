//! What ends a server: a signal, or the end of its standard input.

use std::fmt;
use std::io;
use std::thread;

use tokio::sync::oneshot;

use crate::signals::Signals;

/// What has ended a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Signal(&'static str),
    StandardInput,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signal(signal) => write!(f, "{signal} received"),
            Self::StandardInput => f.write_str("standard input has ended"),
        }
    }
}

/// What ends a server, and what hurries its end. Signals that came before they are awaited are kept.
pub(super) struct Endings {
    signals: Signals,
    /// Completed at the end of standard input. `None` if that does not count, or is over.
    input: Option<oneshot::Receiver<()>>,
}

impl Endings {
    /// Signals, and if `with_stdin` the end of standard input.
    ///
    /// # Errors
    ///
    /// If the system gives no signals, or no thread that reads.
    pub(super) fn new(with_stdin: bool) -> io::Result<Self> {
        let input = if with_stdin { Some(end_of_stdin()?) } else { None };
        Ok(Self { signals: Signals::new()?, input })
    }

    /// The first ending.
    pub(super) async fn next(&mut self) -> Ending {
        let input = async {
            match &mut self.input {
                // Its thread has ended in either case.
                Some(end) => drop(end.await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            signal = self.signals.next() => Ending::Signal(signal),
            () = input => Ending::StandardInput,
        }
    }

    /// Waits for a second signal. A program that ends the server may close standard input and send a
    /// signal, and is in no hurry.
    pub(super) async fn second_signal(&mut self, first: Ending) {
        if first == Ending::StandardInput {
            self.signals.next().await;
        }
        self.signals.next().await;
    }
}

/// Reads standard input to its end, in a thread that nobody waits for: it cannot be woken, and a
/// signal may end the process first.
fn end_of_stdin() -> io::Result<oneshot::Receiver<()>> {
    let (ended, end) = oneshot::channel();
    let read = move || {
        if let Err(error) = io::copy(&mut io::stdin().lock(), &mut io::sink()) {
            tracing::warn!("standard input cannot be read, which counts as its end: {error}");
        }
        // The server may have ended.
        let _ = ended.send(());
    };
    thread::Builder::new().name("zoolet-stdin".to_owned()).spawn(read)?;
    Ok(end)
}
