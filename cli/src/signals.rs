//! The signals that ask a command to end.

use std::io;

/// Signals that arrived before they are awaited are kept.
pub(crate) struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};

        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    /// The name of the signal that came first. If both came at once it is SIGINT: SIGTERM is
    /// mostly sent since SIGINT has not ended the command.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

#[cfg(not(unix))]
impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {})
    }

    pub(crate) async fn next(&mut self) -> &'static str {
        if let Err(error) = tokio::signal::ctrl_c().await {
            tracing::warn!("Ctrl-C cannot be waited for: {error}");
            std::future::pending::<()>().await;
        }
        "Ctrl-C"
    }
}

#[cfg(all(test, unix))]
mod tests {
    use nix::sys::signal::{Signal, raise};

    use super::*;

    #[tokio::test]
    async fn an_interrupt_is_not_told_as_the_signal_that_came_after_it() {
        for _ in 0..20 {
            let mut signals = Signals::new().expect("signals can be caught");
            let mut others = Signals::new().expect("signals can be caught");
            raise(Signal::SIGINT).expect("it can be sent");
            raise(Signal::SIGTERM).expect("it can be sent");
            // All receivers have both then.
            others.terminate.recv().await;
            others.interrupt.recv().await;
            assert_eq!(signals.next().await, "SIGINT");
        }
    }
}
