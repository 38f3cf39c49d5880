//! A TLS socket by the traits of tokio, for programs that are not driven by our own driver.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use zoolet_tls::rustls::pki_types::CertificateDer;

use super::socket::{TlsSocket, nothing};
use crate::transport::socket::Socket;

/// A TLS socket after its handshake, and what of its input was not read yet.
pub(crate) struct TlsStream {
    socket: TlsSocket,
    input: BytesMut,
}

impl TlsStream {
    /// A stream of a socket that has received `input`, decrypted.
    pub(crate) fn new(socket: TlsSocket, input: BytesMut) -> Self {
        Self { socket, input }
    }

    /// The certificates that the client showed, its own first.
    pub(crate) fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        self.socket.session.peer_certificates().unwrap_or_default()
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { socket, input } = &mut *self;
        if input.is_empty() {
            // At the end of the stream it stays empty, which says so.
            ready!(socket.poll_read(context, input))?;
        }
        let length = input.len().min(buffer.remaining());
        buffer.put_slice(&input[..length]);
        input.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut output = buffer;
        while output.len() == buffer.len() && !buffer.is_empty() {
            match self.socket.poll_write(context, &mut output) {
                Poll::Ready(written) => written?,
                Poll::Pending if output.len() == buffer.len() => return Poll::Pending,
                // It is encrypted, and leaves with the next write or flush.
                Poll::Pending => break,
            }
        }
        Poll::Ready(Ok(buffer.len() - output.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.socket.has_unsent() {
            ready!(self.socket.poll_write(context, &mut nothing()))?;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_shutdown(context)
    }
}
