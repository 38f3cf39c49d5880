//! Connections over TCP: a listener, and one task for each connection.
//!
//! In a turn the task reads what the socket has, handles the requests in it, and writes the
//! replies, so that many requests cost two system calls. It reads no requests while too many bytes
//! wait for the client or for the disk. A turn ends after a number of requests and a time. A
//! connection whose turn took long waits for its next one in a queue with others like it.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Buf, BytesMut};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use zoolet_protocol::FrameCodec;

use crate::config::Config;
use crate::engine::connection::Connection;
use crate::engine::lock::Engine;
use crate::engine::outbox::Taken;
use crate::limits::{
    ACCEPT_RETRY, BUFFER_BYTES_KEPT, EXPENSIVE_TURN_MS, LINGER_TIMEOUT, OUTBOX_BYTES_PAUSE,
    READ_BYTES, REQUESTS_PER_TURN, SESSIONLESS_TIMEOUT, SHUTDOWN_TIMEOUT, TURN_MS, WRITE_BYTES,
};
use crate::transport::descriptors::is_kept_for_files;
use crate::transport::four_letter::{self, Word};
use crate::transport::output::Output;

/// The connections that the system queues before they are accepted, unless the configuration says
/// otherwise.
const DEFAULT_BACKLOG: u32 = 1_024;

/// If a write wakes at most so many other clients they are served before the client that wrote gets
/// its reply: the next owner of a lock is in more of a hurry than the client that released it. More
/// would delay the reply too long.
const TOLD_FIRST_MAX: usize = 4;

/// After a longer frame the task reads the clock, because not every such request notes when the
/// server replied.
const LONG_FRAME_BYTES: usize = 4 << 10;

/// Listens on an address; port 0 picks a free one.
pub(crate) fn listen(address: SocketAddr, config: &Config) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restarted server need not wait until its old connections have timed out.
    socket.set_reuseaddr(true)?;
    // Accepted connections inherit the option.
    socket.set_keepalive(config.tcp_keep_alive)?;
    socket.bind(address)?;
    socket.listen(config.listen_backlog.unwrap_or(DEFAULT_BACKLOG))
}

/// Accepts connections until it is cancelled.
pub(crate) async fn accept(
    listener: TcpListener,
    engine: Arc<Engine>,
    tasks: TaskTracker,
    cancelled: CancellationToken,
) {
    loop {
        let Some(accepted) = cancelled.run_until_cancelled(listener.accept()).await else { return };
        match accepted {
            Ok((stream, _)) if is_kept_for_files(&stream) => {
                drop(stream);
                engine.stats.connections_rejected.add(1);
                tracing::warn!(
                    "a connection is refused: the last file descriptors are kept for files; \
                     raise the limit (`ulimit -n`) or lower maxCnxns"
                );
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
            Ok((stream, address)) => {
                // On a dual-stack socket an IPv4 client has a mapped IPv6 address.
                let address = SocketAddr::new(address.ip().to_canonical(), address.port());
                tasks.spawn(serve(stream, address, Arc::clone(&engine), cancelled.clone()));
            }
            Err(error) => {
                tracing::warn!("a connection cannot be accepted: {error}");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

/// Serves one connection from its first byte to its last.
async fn serve(
    mut stream: TcpStream,
    address: SocketAddr,
    engine: Arc<Engine>,
    cancelled: CancellationToken,
) {
    // Replies are not delayed to be sent together with later ones.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(peer = %address, "socket options: {error}");
    }
    if engine.refuses_connection() {
        return;
    }
    let connection = match Connection::open(Arc::clone(&engine), Some(address)) {
        Ok(connection) => Arc::new(connection),
        Err(full) => {
            tracing::warn!(peer = %address, "connection refused: {full}");
            return;
        }
    };
    tracing::debug!(peer = %address, "connected");
    let mut input = BytesMut::new();
    let outbox = &connection.peer.outbox;
    let beginning = async {
        outbox.thawed().await;
        let beginning = begin(&mut stream, &mut input).await;
        // A hook may have frozen the connection meanwhile.
        outbox.thawed().await;
        beginning
    };
    let beginning = cancelled.run_until_cancelled(beginning).await;
    match beginning {
        Some(Ok(Beginning::Frames)) => {}
        Some(Ok(Beginning::Word(word))) => {
            let answer =
                four_letter::answer(&mut stream, &mut input, word, &engine, &connection.peer);
            let _ = cancelled.run_until_cancelled(answer).await;
            return;
        }
        Some(Ok(Beginning::Idle)) => {
            engine.stats.sessionless_expired.add(1);
            tracing::debug!(peer = %address, "no handshake in {SESSIONLESS_TIMEOUT:?}");
            return;
        }
        Some(Err(_)) | None => return,
    }
    let driver = Driver {
        stream,
        input,
        output: Output::default(),
        has_grown: false,
        is_expensive: false,
        connection: Arc::clone(&connection),
        engine: Arc::clone(&engine),
        address,
    };
    let result = driver.run(cancelled).await;
    engine.remove_watches(&connection.peer).await;
    match result {
        Ok(()) => tracing::debug!(peer = %address, "disconnected"),
        Err(error) => tracing::debug!(peer = %address, "disconnected: {error}"),
    }
}

/// How a connection begins.
enum Beginning {
    Frames,
    Word(Word),
    /// The client has sent nothing for too long.
    Idle,
}

/// Reads the first four bytes: a four-letter word, or the length of a frame.
async fn begin(stream: &mut TcpStream, input: &mut BytesMut) -> io::Result<Beginning> {
    let first = async {
        while input.len() < 4 {
            if stream.read_buf(input).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let word = input.first_chunk().and_then(|bytes| Word::from_bytes(*bytes));
        Ok(word.map_or(Beginning::Frames, Beginning::Word))
    };
    tokio::time::timeout(SESSIONLESS_TIMEOUT, first).await.unwrap_or(Ok(Beginning::Idle))
}

/// Drives a connection from its socket.
struct Driver {
    stream: TcpStream,
    input: BytesMut,
    output: Output,
    /// Whether the output has grown beyond [`BUFFER_BYTES_KEPT`] since it was last freed.
    has_grown: bool,
    /// Whether the last turn took long.
    is_expensive: bool,
    connection: Arc<Connection>,
    engine: Arc<Engine>,
    address: SocketAddr,
}

/// What ends the task's wait between two turns.
enum Woken {
    /// Bytes came in; 0 at the end of the stream.
    Read(usize),
    /// Bytes went out.
    Wrote,
    /// The outbox has a message, or the connection has ended.
    Outgoing(Taken),
    /// The client sent no handshake in time.
    Idle,
    /// The server shuts down.
    Shutdown,
}

/// Whether the connection goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    GoesOn,
    Over,
}

impl Driver {
    async fn run(mut self, cancelled: CancellationToken) -> io::Result<()> {
        let codec = FrameCodec::new(self.engine.config.frame_bytes_max);
        let durable = self.engine.durable();
        let idle = tokio::time::sleep(SESSIONLESS_TIMEOUT);
        tokio::pin!(idle);
        let mut has_more = true;
        loop {
            if has_more && !self.is_paused() {
                match self.take_turn(&codec, &cancelled).await? {
                    Some(may_have_more) => has_more = may_have_more,
                    None => return self.close().await,
                }
            }
            if self.output.is_empty() && std::mem::take(&mut self.has_grown) {
                // The memory of one long reply is not kept for the life of the connection.
                self.output = Output::default();
            }
            // Read once: the disk may catch up at any time, and a connection that pauses for it
            // waits for that.
            let is_behind = self.engine.is_behind();
            let is_held = self.connection.peer.outbox.is_frozen();
            let is_full = self.has_much_waiting();
            let is_paused = is_held || is_behind || is_full;
            if !is_paused {
                self.input.reserve(READ_BYTES);
            }
            let peer = &self.connection.peer;
            let output = &mut self.output;
            let waiting = output.len();
            let (mut reader, mut writer) = self.stream.split();
            let woken = tokio::select! {
                biased;
                () = cancelled.cancelled() => Woken::Shutdown,
                wrote = writer.write_buf(output), if waiting > 0 => {
                    wrote?;
                    Woken::Wrote
                }
                taken = std::future::poll_fn(|cx| peer.outbox.poll_take(cx)),
                    if waiting < WRITE_BYTES => Woken::Outgoing(taken),
                // The end of the connection of a client that does not read is noticed as well.
                taken = std::future::poll_fn(|cx| peer.outbox.poll_end(cx)),
                    if waiting >= WRITE_BYTES => Woken::Outgoing(taken),
                // Other clients get their turn before more requests of this client are handled.
                () = tokio::task::yield_now(), if has_more && !is_paused => continue,
                read = reader.read_buf(&mut self.input), if !has_more && !is_paused => {
                    Woken::Read(read?)
                }
                () = durable.caught_up(), if is_behind => continue,
                () = peer.outbox.thawed(), if is_held => continue,
                () = &mut idle, if !is_held && !self.connection.is_established() => Woken::Idle,
            };
            match woken {
                Woken::Read(0) => return Ok(()),
                Woken::Read(_) => has_more = true,
                Woken::Wrote if is_full => self.connection.extend_session(),
                Woken::Wrote => {}
                Woken::Outgoing(Taken::Message(message)) => {
                    self.output.put(&message);
                    if self.encode_waiting() == Progress::Over {
                        return self.close().await;
                    }
                    if self.write_now()? > 0 && is_full {
                        self.connection.extend_session();
                    }
                }
                Woken::Outgoing(Taken::ReadInput) => match self.read_or_expire(&codec)? {
                    Some(may_have_more) => has_more = may_have_more,
                    None => return Ok(()),
                },
                Woken::Outgoing(Taken::Over) | Woken::Shutdown => return self.close().await,
                Woken::Idle => {
                    self.engine.stats.sessionless_expired.add(1);
                    return Ok(());
                }
            }
        }
    }

    /// Handles requests that were read and writes their replies. Returns whether more requests may
    /// have been read; `None` if the connection has ended.
    async fn take_turn(
        &mut self,
        codec: &FrameCodec,
        cancelled: &CancellationToken,
    ) -> io::Result<Option<bool>> {
        let engine = Arc::clone(&self.engine);
        let permit = match self.is_expensive {
            true => cancelled.run_until_cancelled(engine.expensive_turns.acquire()).await,
            false => None,
        };
        // Replies to its own requests need not wake this task: it takes them itself, below.
        drop(self.connection.peer.outbox.take_receiver());
        let has_more = self.handle_frames(codec);
        drop(permit);
        if (1..=TOLD_FIRST_MAX).contains(&self.connection.peer.take_woken()) {
            tokio::task::yield_now().await;
        }
        if self.encode_waiting() == Progress::Over {
            return Ok(None);
        }
        self.write_now()?;
        Ok(Some(has_more))
    }

    /// Whether no requests are handled for now.
    fn is_paused(&self) -> bool {
        self.connection.peer.outbox.is_frozen()
            || self.engine.is_behind()
            || self.has_much_waiting()
    }

    /// Whether so many bytes wait for the client that no more is read from it.
    fn has_much_waiting(&self) -> bool {
        self.output.len() + self.connection.peer.outbox.waiting_bytes() > OUTBOX_BYTES_PAUSE
    }

    /// The session's timeout seems to have passed: reads the socket, and expires the session if the
    /// client has sent nothing. Returns that requests may have been read; `None` at the end of the
    /// stream.
    fn read_or_expire(&mut self, codec: &FrameCodec) -> io::Result<Option<bool>> {
        let outbox = &self.connection.peer.outbox;
        if self.engine.is_behind() || outbox.waits_for_disk() {
            // The disk delays the client, from which nothing is read meanwhile. The ticker asks
            // again.
            return Ok(Some(true));
        }
        let mut unread = [0; READ_BYTES];
        // A client that does not read its messages does not extend its session by sending more.
        while !self.has_much_waiting() && self.connection.peer.outbox.is_open() {
            if self.handle_frames(codec) || !self.connection.is_due() {
                return Ok(Some(true));
            }
            // Read from the socket itself: the runtime may not know yet what has come in.
            let socket = SockRef::from(&self.stream);
            match (&*socket).read(&mut unread) {
                Ok(0) => return Ok(None),
                Ok(bytes) => self.input.extend_from_slice(&unread[..bytes]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        self.connection.expire_if_due();
        Ok(Some(true))
    }

    /// Handles the frames that were read, up to the limits of a turn. Returns whether more of them
    /// may be left.
    fn handle_frames(&mut self, codec: &FrameCodec) -> bool {
        let begin_ms = self.engine.clock.now_ms();
        let mut took_ms = 0;
        for _ in 0..REQUESTS_PER_TURN {
            self.is_expensive = took_ms >= EXPENSIVE_TURN_MS;
            if took_ms >= TURN_MS {
                return true;
            }
            if self.connection.peer.outbox.waiting_bytes() > OUTBOX_BYTES_PAUSE
                || self.engine.is_behind()
                || self.connection.peer.outbox.is_frozen()
            {
                return true;
            }
            match codec.next_frame(&mut self.input) {
                Ok(Some(frame)) => {
                    if self.input.is_empty() && frame.len() > BUFFER_BYTES_KEPT {
                        self.input = BytesMut::new();
                    }
                    let is_long = frame.len() > LONG_FRAME_BYTES;
                    if self.connection.receive(frame).is_err() {
                        return false;
                    }
                    // Each short request notes when the server replied.
                    let now_ms = match is_long {
                        true => self.engine.clock.now_ms(),
                        false => self.connection.peer.stats.last_replied_ms(),
                    };
                    took_ms = now_ms.saturating_sub(begin_ms);
                }
                Ok(None) => return false,
                Err(error) => {
                    tracing::warn!(peer = %self.address, "connection closed: {error}");
                    // Replies to earlier frames still leave.
                    self.connection.peer.outbox.finish();
                    return false;
                }
            }
        }
        true
    }

    /// Encodes the messages that may leave, up to about [`WRITE_BYTES`].
    fn encode_waiting(&mut self) -> Progress {
        let room = WRITE_BYTES.saturating_sub(self.output.len());
        let (taken, goes_on) = self.connection.peer.outbox.take_all(room);
        for message in taken {
            self.output.put(&message);
        }
        if goes_on { Progress::GoesOn } else { Progress::Over }
    }

    /// Writes what the socket takes without waiting, and returns the number of bytes.
    fn write_now(&mut self) -> io::Result<usize> {
        self.has_grown |= self.output.len() > BUFFER_BYTES_KEPT;
        let before = self.output.len();
        while !self.output.is_empty() {
            match self.stream.try_write(self.output.chunk()) {
                Ok(written) => self.output.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(before - self.output.len())
    }

    /// Ends the connection. Messages that may leave do so within [`SHUTDOWN_TIMEOUT`].
    async fn close(mut self) -> io::Result<()> {
        self.connection.peer.outbox.finish();
        let flush = async {
            loop {
                let progress = self.encode_waiting();
                self.stream.write_all_buf(&mut self.output).await?;
                if progress == Progress::Over {
                    break;
                }
                let outbox = &self.connection.peer.outbox;
                // The other messages leave when they are durable.
                match std::future::poll_fn(|context| outbox.poll_take(context)).await {
                    Taken::Message(message) => self.output.put(&message),
                    Taken::ReadInput => {}
                    Taken::Over => break,
                }
            }
            self.stream.shutdown().await
        };
        let flushed = tokio::time::timeout(SHUTDOWN_TIMEOUT, flush).await.unwrap_or_else(|_| {
            tracing::warn!(peer = %self.address, "the client did not read its last messages in time");
            Err(io::ErrorKind::TimedOut.into())
        });
        if flushed.is_ok() {
            self.linger().await;
        }
        flushed
    }

    /// Reads on for a moment after the last byte was written: closing a socket with unread bytes
    /// resets the connection, and the client would lose what was sent.
    async fn linger(&mut self) {
        let discard = async {
            loop {
                self.input.clear();
                self.input.reserve(READ_BYTES);
                match self.stream.read_buf(&mut self.input).await {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
            }
        };
        let _ = tokio::time::timeout(LINGER_TIMEOUT, discard).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use tokio::time::advance;
    use zoolet_core::Core;
    use zoolet_protocol::{
        ConnectRequest, ConnectResponse, Encode, OpCode, RequestHeader, SessionId, Xid, decode_all,
    };

    use super::*;
    use crate::engine::journal::Journal;
    use crate::engine::ticker;

    /// A server whose ticker the test calls, and a client with a session timeout of six seconds.
    struct Fixture {
        engine: Arc<Engine>,
        client: TcpStream,
        session: SessionId,
    }

    impl Fixture {
        async fn new() -> Self {
            let config = Config::default();
            let core = Core::new(config.settings.clone());
            let engine = Arc::new(Engine::new(config, None, Journal::in_memory(), core));
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (stream, address) = listener.accept().await.unwrap();
            let served = serve(stream, address, Arc::clone(&engine), CancellationToken::new());
            tokio::spawn(served);
            let mut handshake = BytesMut::new();
            ConnectRequest::new(6_000).encode(&mut handshake);
            client.write_all(&framed(&handshake.freeze())).await.unwrap();
            let length = client.read_u32().await.unwrap();
            let mut answer = vec![0; length as usize];
            client.read_exact(&mut answer).await.unwrap();
            let answer: ConnectResponse = decode_all(&answer.into()).unwrap();
            Self { engine, client, session: answer.session }
        }

        fn has_session(&self) -> bool {
            self.engine.inspect(|core| core.has_session(self.session))
        }

        /// Lets the connection's task run.
        async fn schedule(&self) {
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        }
    }

    fn framed(payload: &Bytes) -> BytesMut {
        let mut framed = BytesMut::new();
        FrameCodec::put(payload, &mut framed);
        framed
    }

    fn ping() -> BytesMut {
        let mut ping = BytesMut::new();
        RequestHeader { xid: Xid::PING, op: OpCode::PING }.encode(&mut ping);
        framed(&ping.freeze())
    }

    #[tokio::test(start_paused = true)]
    async fn unread_input_is_read_before_the_session_expires() {
        let fixture = Fixture::new().await;
        for _ in 0..3 {
            advance(Duration::from_secs(9)).await;
            // The connection's task is not scheduled before the session's timeout has passed.
            fixture.client.try_write(&ping()).unwrap();
            ticker::tick(&fixture.engine);
            assert!(fixture.has_session(), "its ping may be in the socket");
            fixture.schedule().await;
            assert!(fixture.has_session(), "its ping was in the socket");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_without_unread_input_expires_on_time() {
        let fixture = Fixture::new().await;
        advance(Duration::from_secs(9)).await;
        // Part of a frame does not extend the session.
        fixture.client.try_write(&ping()[..6]).unwrap();
        ticker::tick(&fixture.engine);
        fixture.schedule().await;
        assert!(!fixture.has_session());
    }
}
