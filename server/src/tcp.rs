//! Clients over TCP: a listener, and for each connection one task that drives it.
//!
//! A turn reads what the socket has, handles the requests in it, and writes what came of them, so
//! that many requests cost two system calls. A client that asks faster than it reads is not read
//! from until it has read.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use zoolet_protocol::FrameCodec;

use crate::config::Config;
use crate::connection::Connection;
use crate::descriptors::is_kept_for_files;
use crate::engine::Engine;
use crate::faults;
use crate::four_letter::{self, Word};
use crate::limits::{
    ACCEPT_RETRY, BUFFER_BYTES_KEPT, LINGER_TIMEOUT, OUTBOX_BYTES_PAUSE, READ_BYTES,
    REQUESTS_PER_TURN, SESSIONLESS_TIMEOUT, SHUTDOWN_TIMEOUT, WRITE_BYTES,
};
use crate::outbox::Taken;

/// What the system keeps of connections that were not accepted yet, unless told otherwise.
const DEFAULT_BACKLOG: u32 = 1_024;

/// So many others are told of a change before the client that made it has its answer: who waits for
/// a lock has more need to hurry than who releases it. More than these would keep it waiting.
const TOLD_FIRST_MAX: usize = 4;

/// Listens at an address; port 0 picks a free one.
pub(crate) fn listen(address: SocketAddr, config: &Config) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A server that is restarted must not wait for the old connections to time out.
    socket.set_reuseaddr(true)?;
    // Accepted connections inherit it.
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
                // On a socket for both families an IPv4 client has an address of IPv6.
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
    // An answer is not held back to be sent with the next.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(peer = %address, "socket options: {error}");
    }
    if engine.faults.refuse() {
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
    let gate = connection.peer.outbox.gate();
    let beginning = async {
        gate.lifted().await;
        let beginning = begin(&mut stream, &mut input).await;
        // What has come meanwhile is not answered before.
        gate.lifted().await;
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
    let result = Driver { stream, input, has_grown: false, connection, engine, address }
        .run(cancelled)
        .await;
    match result {
        Ok(()) => tracing::debug!(peer = %address, "disconnected"),
        Err(error) => tracing::debug!(peer = %address, "disconnected: {error}"),
    }
}

/// What a connection begins with.
enum Beginning {
    Frames,
    Word(Word),
    /// Nothing, for too long.
    Idle,
}

/// Reads the first four bytes: a word, or the length of a frame.
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

/// Drives a connection from a socket.
struct Driver {
    stream: TcpStream,
    input: BytesMut,
    /// More than a little has been in the output since it was empty.
    has_grown: bool,
    connection: Arc<Connection>,
    engine: Arc<Engine>,
    address: SocketAddr,
}

/// What made a turn.
enum Turn {
    /// Bytes came in; 0 at the end of the stream.
    Read(usize),
    /// Bytes went out.
    Wrote,
    /// The outbox has something, or is over.
    Outgoing(Taken),
    /// No handshake in time.
    Idle,
    /// The server shuts down.
    Shutdown,
}

impl Driver {
    async fn run(mut self, cancelled: CancellationToken) -> io::Result<()> {
        let codec = FrameCodec::new(self.engine.config.frame_bytes_max);
        let durable = self.engine.durable();
        let mut output = BytesMut::new();
        let idle = tokio::time::sleep(SESSIONLESS_TIMEOUT);
        tokio::pin!(idle);
        let mut has_more = true;
        loop {
            let is_held = self.connection.peer.outbox.gate().is_frozen();
            if has_more && !is_held && !self.engine.is_behind() && !self.has_much_waiting(&output) {
                // Answers to its own requests need not wake this task: it looks for them itself, below.
                drop(self.connection.peer.outbox.lend_taker());
                has_more = self.handle_frames(&codec);
                if (1..=TOLD_FIRST_MAX).contains(&self.connection.peer.take_woken()) {
                    tokio::task::yield_now().await;
                }
                if !self.encode_waiting(&mut output) {
                    return self.close(&mut output).await;
                }
                self.write_now(&mut output)?;
            }
            if output.is_empty() && std::mem::take(&mut self.has_grown) {
                // What one long answer took is not kept for the life of the connection.
                output = BytesMut::new();
            }
            // Looked at once: the disk may catch up at any time, and whoever is paused for it waits for that.
            let is_behind = self.engine.is_behind();
            let is_held = self.connection.peer.outbox.gate().is_frozen();
            let is_paused = is_held || is_behind || self.has_much_waiting(&output);
            if !is_paused {
                self.input.reserve(READ_BYTES);
            }
            let peer = &self.connection.peer;
            let (mut reader, mut writer) = self.stream.split();
            let turn = tokio::select! {
                biased;
                () = cancelled.cancelled() => Turn::Shutdown,
                wrote = writer.write_buf(&mut output), if !output.is_empty() => {
                    wrote?;
                    Turn::Wrote
                }
                taken = std::future::poll_fn(|cx| peer.outbox.poll_take(cx)),
                    if output.len() < WRITE_BYTES => Turn::Outgoing(taken),
                // A client that does not read is noticed to be cut off all the same.
                () = std::future::poll_fn(|cx| peer.outbox.poll_end(cx)),
                    if output.len() >= WRITE_BYTES => Turn::Outgoing(Taken::Over),
                // Others have their turn before more requests of this client are handled.
                () = tokio::task::yield_now(), if has_more && !is_paused => continue,
                read = reader.read_buf(&mut self.input), if !has_more && !is_paused => {
                    Turn::Read(read?)
                }
                () = durable.caught_up(), if is_behind => continue,
                () = peer.outbox.gate().lifted(), if is_held => continue,
                () = &mut idle, if !is_held && !self.connection.is_established() => Turn::Idle,
            };
            match turn {
                Turn::Read(0) => return Ok(()),
                Turn::Read(_) => has_more = true,
                Turn::Wrote => {}
                Turn::Outgoing(Taken::Message(message)) => {
                    message.put(&mut output);
                    if !self.encode_waiting(&mut output) {
                        return self.close(&mut output).await;
                    }
                    self.write_now(&mut output)?;
                }
                Turn::Outgoing(Taken::Over) | Turn::Shutdown => {
                    return self.close(&mut output).await;
                }
                Turn::Idle => {
                    self.engine.stats.sessionless_expired.add(1);
                    return Ok(());
                }
            }
        }
    }

    /// Whether so much waits for the client that no more is read from it.
    fn has_much_waiting(&self, output: &BytesMut) -> bool {
        output.len() + self.connection.peer.outbox.waiting_bytes() > OUTBOX_BYTES_PAUSE
    }

    /// Handles the frames that are there, and tells whether more of them may be.
    fn handle_frames(&mut self, codec: &FrameCodec) -> bool {
        for _ in 0..REQUESTS_PER_TURN {
            if self.connection.peer.outbox.waiting_bytes() > OUTBOX_BYTES_PAUSE
                || self.engine.is_behind()
                || self.connection.peer.outbox.gate().is_frozen()
            {
                return true;
            }
            match codec.next_frame(&mut self.input) {
                Ok(Some(frame)) => {
                    if self.input.is_empty() && frame.len() > BUFFER_BYTES_KEPT {
                        self.input = BytesMut::new();
                    }
                    if faults::receive(&self.connection, frame).is_err() {
                        return false;
                    }
                }
                Ok(None) => return false,
                Err(error) => {
                    tracing::warn!(peer = %self.address, "connection closed: {error}");
                    // What was answered before the bad frame still leaves.
                    self.connection.peer.outbox.finish();
                    return false;
                }
            }
        }
        true
    }

    /// Encodes what may leave, up to about [`WRITE_BYTES`], and tells whether the conversation goes
    /// on.
    fn encode_waiting(&self, output: &mut BytesMut) -> bool {
        let room = WRITE_BYTES.saturating_sub(output.len());
        let (taken, goes_on) = self.connection.peer.outbox.take_all(room);
        for message in taken {
            message.put(output);
        }
        goes_on
    }

    /// Writes what the socket takes at once, without waiting for it.
    fn write_now(&mut self, output: &mut BytesMut) -> io::Result<()> {
        self.has_grown |= output.len() > BUFFER_BYTES_KEPT;
        while !output.is_empty() {
            match self.stream.try_write(output) {
                Ok(written) => {
                    let _ = output.split_to(written);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends the conversation: what may leave does, within a limit of time.
    async fn close(mut self, output: &mut BytesMut) -> io::Result<()> {
        self.connection.peer.outbox.finish();
        let flush = async {
            loop {
                let goes_on = self.encode_waiting(output);
                self.stream.write_all_buf(output).await?;
                if !goes_on {
                    break;
                }
                let outbox = &self.connection.peer.outbox;
                // What is not durable yet leaves when it is.
                match std::future::poll_fn(|context| outbox.poll_take(context)).await {
                    Taken::Message(message) => message.put(output),
                    Taken::Over => break,
                }
            }
            self.stream.shutdown().await
        };
        let flushed = tokio::time::timeout(SHUTDOWN_TIMEOUT, flush).await.unwrap_or_else(|_| {
            tracing::warn!(peer = %self.address, "what waited for the client was not taken in time");
            Err(io::ErrorKind::TimedOut.into())
        });
        if flushed.is_ok() {
            self.linger().await;
        }
        flushed
    }

    /// Reads on for a moment after the last byte was written: a socket that is closed with bytes
    /// unread takes back what it has sent.
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
