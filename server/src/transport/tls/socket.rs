//! A socket that speaks TLS, after and during its handshake.

use std::io::{self, BufRead, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use socket2::SockRef;
use tokio::io::{AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use zoolet_tls::rustls::ServerConnection;

use crate::limits::{READ_BYTES, READS_WITHOUT_DATA_MAX, TLS_WRITE_BYTES};
use crate::transport::output::PARTS_PER_WRITE;
use crate::transport::socket::Socket;

/// A TCP socket and the TLS session over it. All input that came in is decrypted at once, so that
/// none is left in here when the driver asks the system.
pub(crate) struct TlsSocket {
    pub(super) stream: TcpStream,
    /// It has more than a kilobyte, which a connection does not take before it is needed.
    pub(super) session: Box<ServerConnection>,
    /// The client has ended the stream, or the socket has.
    is_at_end: bool,
    /// The client was told that the stream ends.
    is_closing: bool,
}

impl TlsSocket {
    pub(super) fn new(stream: TcpStream, mut session: ServerConnection) -> Self {
        // `encrypt` has a limit of its own.
        session.set_buffer_limit(None);
        Self { stream, session: Box::new(session), is_at_end: false, is_closing: false }
    }

    /// Reads bytes as they are on the wire. 0 at the end of the stream.
    fn poll_read_encrypted(
        &mut self,
        context: &mut Context<'_>,
        encrypted: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        tokio::io::AsyncRead::poll_read(Pin::new(&mut self.stream), context, encrypted)
    }

    /// Takes bytes as they came from the wire. Appends what they decrypt to to `input`, and returns
    /// how much that was.
    pub(super) fn take(&mut self, mut encrypted: &[u8], input: &mut BytesMut) -> io::Result<usize> {
        let before = input.len();
        while !encrypted.is_empty() && !self.is_at_end {
            self.session.read_tls(&mut encrypted)?;
            let state = self
                .session
                .process_new_packets()
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            let mut left = state.plaintext_bytes_to_read();
            while left > 0 {
                let mut reader = self.session.reader();
                let decrypted = reader.fill_buf()?;
                let length = decrypted.len();
                input.extend_from_slice(decrypted);
                reader.consume(length);
                left = left.saturating_sub(length.max(1));
            }
            if state.peer_has_closed() {
                // What follows is not part of the stream. TLS wants its end to be confirmed.
                self.is_at_end = true;
                self.announce_end();
                self.write_now(&mut nothing())?;
            }
        }
        Ok(input.len() - before)
    }

    fn announce_end(&mut self) {
        if !std::mem::replace(&mut self.is_closing, true) {
            self.session.send_close_notify();
        }
    }

    /// Encrypts some output, unless earlier output was not written yet: a client that does not read
    /// makes no use of memory here.
    fn encrypt(&mut self, output: &mut impl Buf) -> io::Result<()> {
        let mut room = if self.session.wants_write() { 0 } else { TLS_WRITE_BYTES };
        while room > 0 && output.has_remaining() {
            // Records with many short parts each: a record takes longer than a part.
            let mut chunks = [IoSlice::new(&[]); PARTS_PER_WRITE];
            let count = output.chunks_vectored(&mut chunks);
            let mut bytes = 0;
            let fits = |chunk: &&IoSlice<'_>| {
                bytes += chunk.len();
                bytes <= room
            };
            let taken = match chunks[..count].iter().take_while(fits).count() {
                0 | 1 => {
                    let chunk = output.chunk();
                    self.session.writer().write(&chunk[..chunk.len().min(room)])?
                }
                fitting => self.session.writer().write_vectored(&chunks[..fitting])?,
            };
            output.advance(taken);
            room -= taken;
        }
        Ok(())
    }
}

/// No output, to write what was encrypted before.
pub(super) fn nothing() -> &'static [u8] {
    &[]
}

impl Socket for TlsSocket {
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        input: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        let mut buffer = [const { MaybeUninit::uninit() }; READ_BYTES];
        for _ in 0..READS_WITHOUT_DATA_MAX {
            if self.is_at_end {
                return Poll::Ready(Ok(0));
            }
            let mut encrypted = ReadBuf::uninit(&mut buffer);
            ready!(self.poll_read_encrypted(context, &mut encrypted))?;
            if encrypted.filled().is_empty() {
                self.is_at_end = true;
                continue;
            }
            // A part of a record decrypts to nothing.
            let taken = self.take(encrypted.filled(), input)?;
            if taken > 0 {
                return Poll::Ready(Ok(taken));
            }
            if self.session.wants_write() {
                self.write_now(&mut nothing())?;
            }
        }
        // Other clients get their turn before more is read.
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn read_now(&mut self, input: &mut BytesMut) -> io::Result<usize> {
        let mut buffer = [0; READ_BYTES];
        for _ in 0..READS_WITHOUT_DATA_MAX {
            if self.is_at_end {
                return Ok(0);
            }
            let bytes = (&*SockRef::from(&self.stream)).read(&mut buffer)?;
            if bytes == 0 {
                self.is_at_end = true;
                continue;
            }
            let taken = self.take(&buffer[..bytes], input)?;
            if taken > 0 {
                return Ok(taken);
            }
        }
        // Records without data are as good as none.
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        output: &mut impl Buf,
    ) -> Poll<io::Result<()>> {
        self.encrypt(output)?;
        let Self { session, stream, .. } = self;
        match session.write_tls(&mut Waiting { stream, context }) {
            Ok(_) => Poll::Ready(Ok(())),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn write_now(&mut self, output: &mut impl Buf) -> io::Result<bool> {
        let mut has_written = false;
        loop {
            self.encrypt(output)?;
            if !self.session.wants_write() {
                return Ok(has_written);
            }
            match self.session.write_tls(&mut AtOnce(&self.stream)) {
                Ok(_) => has_written = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(has_written),
                Err(error) => return Err(error),
            }
        }
    }

    fn has_unsent(&self) -> bool {
        self.session.wants_write()
    }

    fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.announce_end();
        while self.session.wants_write() {
            ready!(self.poll_write(context, &mut nothing()))?;
        }
        AsyncWrite::poll_shutdown(Pin::new(&mut self.stream), context)
    }
}

/// Writes records to a socket; the task is woken when it takes more.
struct Waiting<'a, 'b> {
    stream: &'a mut TcpStream,
    context: &'a mut Context<'b>,
}

impl Write for Waiting<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, records: &[IoSlice<'_>]) -> io::Result<usize> {
        match Pin::new(&mut *self.stream).poll_write_vectored(self.context, records) {
            Poll::Ready(written) => written,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes records as far as the socket takes them at once.
struct AtOnce<'a>(&'a TcpStream);

impl Write for AtOnce<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, records: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(records)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
