//! Frames over TLS.

use std::io::{self, BufRead, IoSlice, Write};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use zoolet_protocol::{Disconnected, FrameCodec, Transport};
use zoolet_tls::SettingNames;
use zoolet_tls::rustls::ClientConnection;

use super::failure;
use crate::limits::FRAME_BYTES_MAX;
use crate::security::at;
use crate::tcp::acknowledge;

/// The bytes of one read: somewhat less than the longest record.
const READ_BYTES: usize = 16 << 10;

/// The bytes that are encrypted before they are written.
const WRITE_BYTES: usize = 64 << 10;

/// A connection over a socket that speaks TLS. The caller of `flush` encrypts, and writes what the
/// socket takes at once; the task that receives writes the rest.
pub(super) struct TlsTransport(Mutex<Connection>);

struct Connection {
    /// Where it leads to.
    address: String,
    /// What messages call the settings.
    names: SettingNames,
    socket: TcpStream,
    session: ClientConnection,
    /// Frames that were not encrypted yet.
    output: BytesMut,
    input: BytesMut,
    /// The socket did not take all bytes: the task that receives writes the rest.
    is_stuck: bool,
    /// The task that writes as soon as the socket takes more.
    writer: Option<Waker>,
    is_at_end: bool,
    /// Why the connection was given up.
    fault: Option<io::Error>,
}

impl TlsTransport {
    /// A transport over a session whose handshake is done.
    pub(super) fn new(
        socket: TcpStream,
        mut session: ClientConnection,
        address: String,
        names: SettingNames,
    ) -> Self {
        // `encrypt` has a limit of its own.
        session.set_buffer_limit(None);
        Self(Mutex::new(Connection {
            address,
            names,
            socket,
            session,
            output: BytesMut::new(),
            input: BytesMut::new(),
            is_stuck: false,
            writer: None,
            is_at_end: false,
            fault: None,
        }))
    }
}

impl Connection {
    /// Encrypts some output, unless earlier output was not written yet.
    fn encrypt(&mut self) -> io::Result<()> {
        if !self.session.wants_write() && !self.output.is_empty() {
            let some = self.output.len().min(WRITE_BYTES);
            let taken = self.session.writer().write(&self.output[..some])?;
            self.output.advance(taken);
        }
        Ok(())
    }

    /// Writes as much as the socket takes at once.
    fn write_now(&mut self) -> io::Result<()> {
        self.is_stuck = false;
        loop {
            self.encrypt()?;
            if !self.session.wants_write() {
                return Ok(());
            }
            match self.session.write_tls(&mut AtOnce(&self.socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_stuck = true;
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes what the socket did not take before.
    fn poll_write(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if !self.writer.as_ref().is_some_and(|writer| writer.will_wake(context.waker())) {
            self.writer = Some(context.waker().clone());
        }
        while self.is_stuck {
            match self.socket.poll_write_ready(context) {
                Poll::Ready(ready) => ready?,
                Poll::Pending => return Ok(()),
            }
            self.write_now()?;
        }
        Ok(())
    }

    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let codec = FrameCodec::new(FRAME_BYTES_MAX);
        let mut buffer = [const { MaybeUninit::uninit() }; READ_BYTES];
        loop {
            let frame = codec.next_frame(&mut self.input);
            if let Some(frame) =
                frame.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?
            {
                if self.input.is_empty() && frame.len() > READ_BYTES {
                    // The buffer of one long list is not kept for the life of the connection.
                    self.input = BytesMut::new();
                }
                return Poll::Ready(Ok(frame));
            }
            if self.is_at_end {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            let mut encrypted = ReadBuf::uninit(&mut buffer);
            ready!(Pin::new(&mut self.socket).poll_read(context, &mut encrypted))?;
            self.take(encrypted.filled())?;
            if self.session.wants_write() {
                // TLS answers by itself, as with new keys.
                self.write_now()?;
                self.poll_write(context)?;
            }
        }
    }

    /// Decrypts bytes as they came from the wire; none is the end of the stream.
    fn take(&mut self, mut encrypted: &[u8]) -> io::Result<()> {
        self.is_at_end = encrypted.is_empty();
        while !encrypted.is_empty() && !self.is_at_end {
            self.session.read_tls(&mut encrypted)?;
            let processed = self.session.process_new_packets();
            let state = processed.map_err(|error| failure::of_tls(&error, self.names))?;
            let mut left = state.plaintext_bytes_to_read();
            while left > 0 {
                let mut reader = self.session.reader();
                let decrypted = reader.fill_buf()?;
                let length = decrypted.len();
                self.input.extend_from_slice(decrypted);
                reader.consume(length);
                left = left.saturating_sub(length.max(1));
            }
            self.is_at_end = state.peer_has_closed();
        }
        Ok(())
    }
}

impl Transport for TlsTransport {
    fn is_local(&self) -> bool {
        false
    }

    fn send(&self, frame: Bytes) -> Result<(), Disconnected> {
        FrameCodec::put(&frame, &mut self.0.lock().output);
        Ok(())
    }

    fn flush(&self) -> Result<(), Disconnected> {
        let mut connection = self.0.lock();
        if !connection.is_stuck {
            connection.write_now().map_err(|_| Disconnected)?;
            if connection.is_stuck
                && let Some(writer) = connection.writer.take()
            {
                writer.wake();
            }
        }
        Ok(())
    }

    fn poll_receive(&self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut connection = self.0.lock();
        let received = match connection.poll_write(context) {
            Ok(()) => ready!(connection.poll_frame(context)),
            Err(error) => Err(error),
        };
        Poll::Ready(match received {
            Ok(frame) => Some(frame),
            Err(error) => {
                tracing::debug!("the connection is given up: {error}");
                connection.fault = Some(at(&connection.address, error));
                None
            }
        })
    }

    fn acknowledge(&self) {
        acknowledge(&self.0.lock().socket);
    }

    fn take_fault(&self) -> Option<io::Error> {
        self.0.lock().fault.take()
    }
}

impl Drop for Connection {
    /// Tells the server that nothing was cut off, if the socket takes that at once.
    fn drop(&mut self) {
        self.session.send_close_notify();
        let _ = self.write_now();
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
