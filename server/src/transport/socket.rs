//! The sockets from which connections are driven.

use std::future::Future;
use std::io::{self, IoSlice, Read};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::output::PARTS_PER_WRITE;
use crate::limits::READ_BYTES;

/// The bytes of a connection in clear, whatever carries them: TCP, or TLS over it.
///
/// The driver is compiled for each kind of socket, so that a plain one pays nothing for the others.
pub(crate) trait Socket: Send {
    /// Reads what has come in, and appends it to `input`. Returns the number of bytes, 0 at the end
    /// of the stream.
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        input: &mut BytesMut,
    ) -> Poll<io::Result<usize>>;

    /// As [`Socket::poll_read`], but asks the system: the runtime may not know yet what has come
    /// in.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::WouldBlock`] if nothing has come in, or nothing but records without data.
    fn read_now(&mut self, input: &mut BytesMut) -> io::Result<usize>;

    /// Writes some bytes, and advances `output` by those that the socket has taken. What
    /// it took and has not written yet is [`Socket::has_unsent`].
    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        output: &mut impl Buf,
    ) -> Poll<io::Result<()>>;

    /// Writes what the system takes without waiting. Returns whether it took anything.
    fn write_now(&mut self, output: &mut impl Buf) -> io::Result<bool>;

    /// Whether [`Socket::poll_write`] is to be called even if there is no output.
    fn has_unsent(&self) -> bool {
        false
    }

    /// Writes what was taken, and ends the stream in this direction.
    fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// [`Socket::poll_read`] as a future.
    fn read(&mut self, input: &mut BytesMut) -> impl Future<Output = io::Result<usize>> + Send {
        std::future::poll_fn(move |context| self.poll_read(context, input))
    }

    /// Writes all of `output`.
    fn write_all(
        &mut self,
        output: &mut (impl Buf + Send),
    ) -> impl Future<Output = io::Result<()>> + Send {
        std::future::poll_fn(move |context| {
            while output.has_remaining() || self.has_unsent() {
                ready!(self.poll_write(context, output))?;
            }
            Poll::Ready(Ok(()))
        })
    }

    /// [`Socket::poll_shutdown`] as a future.
    fn shutdown(&mut self) -> impl Future<Output = io::Result<()>> + Send {
        std::future::poll_fn(move |context| self.poll_shutdown(context))
    }
}

impl Socket for TcpStream {
    #[inline]
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        input: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        pin!(self.read_buf(input)).poll(context)
    }

    fn read_now(&mut self, input: &mut BytesMut) -> io::Result<usize> {
        let mut unread = [0; READ_BYTES];
        let bytes = (&*SockRef::from(&*self)).read(&mut unread)?;
        input.extend_from_slice(&unread[..bytes]);
        Ok(bytes)
    }

    #[inline]
    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        output: &mut impl Buf,
    ) -> Poll<io::Result<()>> {
        pin!(self.write_buf(output)).poll(context).map_ok(|_bytes| ())
    }

    #[inline]
    fn write_now(&mut self, output: &mut impl Buf) -> io::Result<bool> {
        let before = output.remaining();
        while output.has_remaining() {
            let chunk = output.chunk();
            let written = match chunk.len() == output.remaining() {
                true => self.try_write(chunk),
                false => {
                    let mut chunks = [IoSlice::new(&[]); PARTS_PER_WRITE];
                    let count = output.chunks_vectored(&mut chunks);
                    self.try_write_vectored(&chunks[..count])
                }
            };
            match written {
                Ok(written) => output.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(output.remaining() < before)
    }

    fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_shutdown(Pin::new(self), context)
    }
}
