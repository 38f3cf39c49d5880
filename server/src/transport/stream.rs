//! Connections over any stream of bytes: a simulated network, a pipe, or TLS of one's own.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::coop::unconstrained;
use tokio_util::sync::CancellationToken;

use super::driver;
use super::output::PARTS_PER_WRITE;
use super::tcp::{self, PlainPort};
use crate::engine::lock::Engine;
use crate::transport::socket::Socket;

/// Serves a stream from its first byte to its last, if the limits allow it.
pub(crate) async fn serve<S>(
    stream: S,
    address: SocketAddr,
    engine: Arc<Engine>,
    cancelled: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin,
{
    let Some(connection) = tcp::open(&engine, address, &PlainPort) else { return };
    let socket = StreamSocket { stream, has_unflushed: false };
    driver::converse(socket, BytesMut::new(), connection, engine, cancelled).await;
}

/// A stream as the driver uses it.
#[derive(Debug)]
struct StreamSocket<S> {
    stream: S,
    /// The stream may keep what it took until it is flushed.
    has_unflushed: bool,
}

/// A context for those who do not wait. Before the driver waits it polls again, with its own.
fn at_once() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// How many bytes of short parts are copied for one write. The stream may take fewer, and the rest is
/// copied again.
const GATHERED_BYTES_MAX: usize = 16 << 10;

/// A copy of the first `length` bytes of `output`, or of fewer if they are in many parts.
fn gathered(output: &impl Buf, length: usize) -> Vec<u8> {
    let mut chunks = [IoSlice::new(&[]); PARTS_PER_WRITE];
    let count = output.chunks_vectored(&mut chunks);
    let mut gathered = Vec::with_capacity(length);
    for chunk in &chunks[..count] {
        let room = length - gathered.len();
        gathered.extend_from_slice(&chunk[..chunk.len().min(room)]);
    }
    gathered
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for StreamSocket<S> {
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        input: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        pin!(self.stream.read_buf(input)).poll(context)
    }

    fn read_now(&mut self, input: &mut BytesMut) -> io::Result<usize> {
        // A task that has used up its budget would find nothing.
        match pin!(unconstrained(self.stream.read_buf(input))).poll(&mut at_once()) {
            Poll::Ready(read) => read,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        output: &mut impl Buf,
    ) -> Poll<io::Result<()>> {
        if !output.has_remaining() {
            ready!(Pin::new(&mut self.stream).poll_flush(context))?;
            self.has_unflushed = false;
            return Poll::Ready(Ok(()));
        }
        let length = output.remaining().min(GATHERED_BYTES_MAX);
        let written = if self.stream.is_write_vectored() || output.chunk().len() >= length {
            ready!(pin!(self.stream.write_buf(output)).poll(context))?
        } else {
            // A write for each part would be a system call, or a TLS record, for each.
            let gathered = gathered(output, length);
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &gathered))?;
            output.advance(written);
            written
        };
        self.has_unflushed = true;
        Poll::Ready(if written == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(()) })
    }

    fn write_now(&mut self, output: &mut impl Buf) -> io::Result<bool> {
        let before = output.remaining();
        while output.has_remaining() || self.has_unflushed {
            match self.poll_write(&mut at_once(), output) {
                Poll::Ready(written) => written?,
                Poll::Pending => break,
            }
        }
        Ok(output.remaining() < before)
    }

    fn has_unsent(&self) -> bool {
        self.has_unflushed
    }

    fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;

    use bytes::Bytes;
    use tokio::io::{BufWriter, ReadBuf, duplex};
    use zoolet_core::Core;
    use zoolet_protocol::{
        ConnectRequest, ConnectResponse, Encode, FrameCodec, OpCode, Parts, RequestHeader, Xid,
        decode_all,
    };

    use super::*;
    use crate::config::Config;
    use crate::engine::journal::Journal;
    use crate::engine::ticker;
    use crate::server::Server;
    use crate::transport::output::Output;

    const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7);

    fn frame(record: &impl Encode) -> BytesMut {
        let (mut payload, mut framed) = (BytesMut::new(), BytesMut::new());
        record.encode(&mut payload);
        FrameCodec::put(&payload.freeze(), &mut framed);
        framed
    }

    async fn connect(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> ConnectResponse {
        stream.write_all(&frame(&ConnectRequest::new(6_000))).await.unwrap();
        let length = stream.read_u32().await.unwrap();
        let mut answer = vec![0; length as usize];
        stream.read_exact(&mut answer).await.unwrap();
        decode_all(&answer.into()).unwrap()
    }

    /// A stream without vectored writes. It takes at most `most` bytes with each write.
    struct Plain {
        most: usize,
        taken: Vec<u8>,
        writes: usize,
    }

    impl AsyncRead for Plain {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl AsyncWrite for Plain {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let taken = bytes.len().min(self.most);
            self.taken.extend_from_slice(&bytes[..taken]);
            self.writes += 1;
            Poll::Ready(Ok(taken))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// The names of 5,000 children are 40 parts of 128 names.
    #[test]
    fn a_stream_without_vectored_writes_gets_many_short_parts_with_few_writes() {
        let part = |number: u32| Bytes::from(vec![number as u8; 128 * 19]);
        let parts: Arc<[Bytes]> = (0..40).map(part).collect();
        let expected = parts.concat();
        for (most, writes_max) in [(usize::MAX, 6), (1 << 10, 96)] {
            let mut output = Output::default();
            output.share_all(&parts, expected.len());
            let stream = Plain { most, taken: Vec::new(), writes: 0 };
            let mut socket = StreamSocket { stream, has_unflushed: false };
            while output.has_remaining() {
                let written = socket.poll_write(&mut at_once(), &mut output);
                assert!(matches!(written, Poll::Ready(Ok(()))), "{written:?}");
            }
            assert!(socket.stream.taken == expected, "the bytes are in their order");
            let writes = socket.stream.writes;
            assert!(writes <= writes_max, "{writes} writes of at most {most} bytes");
        }
    }

    /// The pipe is shorter than a reply, and the stream keeps replies until it is flushed. The test
    /// calls the ticker.
    #[tokio::test(start_paused = true)]
    async fn a_stream_that_takes_little_and_must_be_flushed_is_served() {
        let config = Config::default();
        let core = Core::new(config.settings.clone());
        let engine = Arc::new(Engine::new(config, None, Journal::in_memory(), core));
        let (ours, mut client) = duplex(16);
        let ours = BufWriter::new(ours);
        let served = serve(ours, ADDRESS, Arc::clone(&engine), CancellationToken::new());
        let served = tokio::spawn(served);
        let session = connect(&mut client).await.session;
        assert_eq!(engine.registry.peers()[0].address, Some(ADDRESS));

        for _ in 0..3 {
            tokio::time::advance(Duration::from_secs(9)).await;
            // The connection's task is not scheduled before the session's timeout has passed.
            let ping = frame(&RequestHeader { xid: Xid::PING, op: OpCode::PING });
            client.write_all(&ping).await.unwrap();
            ticker::tick(&engine);
            client.read_exact(&mut [0; 20]).await.unwrap();
            assert!(engine.inspect(|core| core.has_session(session)), "its ping was in the stream");
        }
        tokio::time::advance(Duration::from_secs(9)).await;
        ticker::tick(&engine);
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0, "a silent session expires");
        drop(client);
        served.await.unwrap();
        assert!(engine.registry.peers().is_empty());
    }

    #[tokio::test]
    async fn a_shutdown_ends_streams_and_no_other_is_served() {
        let server = Server::builder().start().await.unwrap();
        let (ours, mut client) = duplex(1 << 16);
        let served = tokio::spawn(server.serve_stream(ours, ADDRESS));
        let (late, mut refused) = duplex(1 << 16);
        let late = server.serve_stream(late, ADDRESS);
        connect(&mut client).await;
        let shutdown = tokio::spawn(server.shutdown());
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
        drop(client);
        served.await.unwrap();
        late.await;
        shutdown.await.unwrap();
        assert_eq!(refused.read(&mut [0]).await.unwrap(), 0);
    }
}
