//! Ends a connection on which nothing moves.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::engine::clock::now;

/// Whether a handler is at work on a connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Handling(Arc<()>);

impl Handling {
    /// A handler is at work until the returned value is dropped.
    pub(super) fn begin(&self) -> Self {
        self.clone()
    }

    fn is_under_way(&self) -> bool {
        // One belongs to the stream, and one to the service.
        Arc::strong_count(&self.0) > 2
    }
}

/// How long nothing may move.
#[derive(Debug, Clone, Copy)]
pub(super) struct IdleTimeouts {
    pub(super) known: Duration,
    pub(super) stranger: Duration,
}

/// A stream that fails when nothing has moved on it for some time. While a handler is at work the
/// client is not expected to send anything.
#[derive(Debug)]
pub(super) struct IdleLimited<S> {
    stream: S,
    timeouts: IdleTimeouts,
    is_known: Arc<AtomicBool>,
    idle: Pin<Box<Sleep>>,
    handling: Handling,
}

impl<S> IdleLimited<S> {
    pub(super) fn new(
        stream: S,
        timeouts: IdleTimeouts,
        is_known: Arc<AtomicBool>,
        handling: Handling,
    ) -> Self {
        let idle = Box::pin(tokio::time::sleep(timeouts.stranger));
        Self { stream, timeouts, is_known, idle, handling }
    }

    fn moved(&mut self) {
        let IdleTimeouts { known, stranger } = self.timeouts;
        let timeout = if self.is_known.load(Ordering::Relaxed) { known } else { stranger };
        self.idle.as_mut().reset(now() + timeout);
    }

    /// What a read or write that cannot go on returns.
    fn wait<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        ready!(self.idle.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for IdleLimited<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        match Pin::new(&mut this.stream).poll_read(context, buffer) {
            Poll::Pending if this.handling.is_under_way() => {
                this.moved();
                Poll::Pending
            }
            Poll::Pending => this.wait(context),
            Poll::Ready(read) => {
                this.moved();
                Poll::Ready(read)
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for IdleLimited<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        match Pin::new(&mut this.stream).poll_write(context, buffer) {
            Poll::Pending => this.wait(context),
            Poll::Ready(written) => {
                this.moved();
                Poll::Ready(written)
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // TLS has bytes of its own that wait for a client who does not read.
        match Pin::new(&mut self.stream).poll_flush(context) {
            Poll::Pending => self.wait(context),
            flushed => flushed,
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_shutdown(context) {
            Poll::Pending => self.wait(context),
            shut_down => shut_down,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// Takes all bytes, and is never done with them, like TLS with a client who does not read.
    struct Stuck;

    impl AsyncWrite for Stuck {
        fn poll_write(
            self: Pin<&mut Self>,
            _context: &mut Context<'_>,
            buffer: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(buffer.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_that_are_taken_and_not_written_are_given_up() {
        const IDLE: Duration = Duration::from_secs(30);
        let stuck = || {
            let timeouts = IdleTimeouts { known: IDLE, stranger: IDLE };
            IdleLimited::new(Stuck, timeouts, Arc::default(), Handling::default())
        };
        let mut stream = stuck();
        stream.write_all(b"an answer").await.unwrap();
        let flushed = tokio::time::timeout(2 * IDLE, stream.flush()).await.unwrap();
        assert_eq!(flushed.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let mut stream = stuck();
        let ended = tokio::time::timeout(2 * IDLE, stream.shutdown()).await.unwrap();
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
