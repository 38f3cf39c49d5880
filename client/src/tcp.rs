//! Frames over a TCP socket.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use zoolet_protocol::{Disconnected, FrameCodec, Transport};

use super::limits::FRAME_BYTES_MAX;
use super::security::{at, is_tls_alert, probe, speaks_tls};

/// The bytes of one read.
const READ_BYTES: usize = 16 << 10;
/// The room for one read. The replies before it may still be in use: with less left than this, there
/// is a new buffer.
const READ_BYTES_MIN: usize = 4 << 10;

/// Makes room for a read.
pub(crate) fn make_room(input: &mut BytesMut) {
    if input.capacity() - input.len() < READ_BYTES_MIN {
        input.reserve(READ_BYTES);
    }
}

/// A connection over a socket. The caller of `flush` writes what the socket takes at once; the task
/// that receives writes the rest.
pub(crate) struct TcpTransport {
    writer: OwnedWriteHalf,
    output: Mutex<Output>,
    input: Mutex<Input>,
    /// Where it leads to.
    address: String,
    peer: SocketAddr,
    /// Whether a server has answered in plaintext, over this connection or another.
    has_answered: Arc<AtomicBool>,
    /// Why the connection was given up, if the server is to blame.
    fault: Mutex<Option<io::Error>>,
}

struct Input {
    reader: OwnedReadHalf,
    bytes: BytesMut,
    is_begun: bool,
    /// The server ended the connection before it sent anything, and is asked whether it speaks TLS.
    asking: Option<Pin<Box<dyn Future<Output = bool> + Send>>>,
}

#[derive(Default)]
struct Output {
    /// The bytes that were not written yet.
    bytes: BytesMut,
    /// The socket did not take all bytes: the task that receives writes the rest.
    is_stuck: bool,
    /// The task that writes as soon as the socket takes more.
    writer: Option<Waker>,
}

impl TcpTransport {
    pub(crate) fn new(
        stream: TcpStream,
        address: &str,
        has_answered: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let peer = stream.peer_addr()?;
        let (reader, writer) = stream.into_split();
        let input = Input { reader, bytes: BytesMut::new(), is_begun: false, asking: None };
        Ok(Self {
            address: address.to_owned(),
            peer,
            has_answered,
            writer,
            output: Mutex::default(),
            input: Mutex::new(input),
            fault: Mutex::default(),
        })
    }

    /// Writes as much as the socket takes at once.
    fn write_now(&self, output: &mut Output) -> io::Result<()> {
        output.is_stuck = false;
        while !output.bytes.is_empty() {
            match self.writer.try_write(&output.bytes) {
                Ok(written) => output.bytes.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    output.is_stuck = true;
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes what the socket did not take before.
    fn poll_write(&self, context: &mut Context<'_>) -> io::Result<()> {
        let mut output = self.output.lock();
        if !output.writer.as_ref().is_some_and(|writer| writer.will_wake(context.waker())) {
            output.writer = Some(context.waker().clone());
        }
        while output.is_stuck {
            match self.writer.as_ref().poll_write_ready(context) {
                Poll::Ready(ready) => ready?,
                Poll::Pending => return Ok(()),
            }
            self.write_now(&mut output)?;
        }
        Ok(())
    }

    fn poll_frame(&self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let codec = FrameCodec::new(FRAME_BYTES_MAX);
        let mut input = self.input.lock();
        let input = &mut *input;
        loop {
            let frame = codec.next_frame(&mut input.bytes);
            let frame = frame.map_err(|error| match is_tls_alert(&input.bytes) {
                true => speaks_tls(),
                false => io::Error::other(error),
            });
            if let Some(frame) = frame? {
                if input.bytes.is_empty() && frame.len() > READ_BYTES {
                    // The buffer of one long list is not kept for the life of the connection.
                    input.bytes = BytesMut::new();
                }
                return Poll::Ready(Ok(frame));
            }
            make_room(&mut input.bytes);
            // A read that does not fill the buffer has emptied the socket: unlike `try_read`, this
            // asks the system only once then.
            match ready!(pin!(input.reader.read_buf(&mut input.bytes)).poll(context)) {
                Ok(0) => {
                    let error = io::ErrorKind::UnexpectedEof.into();
                    return self.poll_end(input, error, context).map(Err);
                }
                Ok(_) if input.is_begun => {}
                Ok(_) => {
                    input.is_begun = true;
                    self.has_answered.store(!is_tls_alert(&input.bytes), Ordering::Relaxed);
                }
                Err(error) => return self.poll_end(input, error, context).map(Err),
            }
        }
    }

    /// Why the connection has ended. A server that never answered may speak TLS on this port.
    fn poll_end(
        &self,
        input: &mut Input,
        error: io::Error,
        context: &mut Context<'_>,
    ) -> Poll<io::Error> {
        if input.is_begun || self.has_answered.load(Ordering::Relaxed) {
            return Poll::Ready(error);
        }
        let asking = input.asking.get_or_insert_with(|| Box::pin(probe::speaks_tls(self.peer)));
        let speaks_it = ready!(asking.as_mut().poll(context));
        // A future that is done must not be polled again.
        (input.is_begun, input.asking) = (true, None);
        Poll::Ready(if speaks_it { speaks_tls() } else { error })
    }
}

/// Acknowledges what was read, and lets later acknowledgements travel with what is sent. The system
/// otherwise sends one for an event that comes after a pause, and sends it in the read that brings the
/// event: the client learns of the event after that packet. It is no fault if the system refuses this.
#[cfg(target_os = "linux")]
pub(crate) fn acknowledge(socket: &TcpStream) {
    use rustix::net::sockopt::set_tcp_quickack;
    // The first sends what is due, since the system would end the state that the second asks for when
    // it sends that after a delay.
    let _ = set_tcp_quickack(socket, true).and_then(|()| set_tcp_quickack(socket, false));
}

/// Other systems have no such option.
#[cfg(not(target_os = "linux"))]
pub(crate) fn acknowledge(_socket: &TcpStream) {}

impl Transport for TcpTransport {
    fn is_local(&self) -> bool {
        false
    }

    fn send(&self, frame: Bytes) -> Result<(), Disconnected> {
        FrameCodec::put(&frame, &mut self.output.lock().bytes);
        Ok(())
    }

    fn flush(&self) -> Result<(), Disconnected> {
        let mut output = self.output.lock();
        if !output.is_stuck {
            self.write_now(&mut output).map_err(|_| Disconnected)?;
            if output.is_stuck
                && let Some(writer) = output.writer.take()
            {
                writer.wake();
            }
        }
        Ok(())
    }

    fn poll_receive(&self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Err(error) = self.poll_write(context) {
            tracing::debug!("the connection cannot be written to: {error}");
            return Poll::Ready(None);
        }
        match ready!(self.poll_frame(context)) {
            Ok(frame) => Poll::Ready(Some(frame)),
            Err(error) => {
                tracing::debug!("the connection cannot be read from: {error}");
                if error.kind() == io::ErrorKind::InvalidData {
                    *self.fault.lock() = Some(at(&self.address, error));
                }
                Poll::Ready(None)
            }
        }
    }

    fn acknowledge(&self) {
        acknowledge(self.writer.as_ref());
    }

    fn take_fault(&self) -> Option<io::Error> {
        self.fault.lock().take()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::net::sockopt::tcp_quickack;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_connection_that_has_acknowledged_sends_no_acknowledgement_by_itself() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let transport = TcpTransport::new(stream, "server", Arc::default()).unwrap();
        let is_acknowledged_at_once = || tcp_quickack(transport.writer.as_ref()).unwrap();
        let mut frame = BytesMut::new();
        FrameCodec::put(&Bytes::from_static(b"an answer"), &mut frame);
        for _ in 0..2 {
            server.write_all(&frame).await.unwrap();
            let received = std::future::poll_fn(|context| transport.poll_receive(context)).await;
            assert_eq!(received.as_deref(), Some(&b"an answer"[..]));
            transport.acknowledge();
            assert!(!is_acknowledged_at_once());
            // The system would end that state when it acknowledges after its delay of 40 ms.
            tokio::time::sleep(std::time::Duration::from_millis(120)).await;
            assert!(!is_acknowledged_at_once());
        }
    }
}
