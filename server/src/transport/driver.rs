//! One client's conversation over a socket: a four-letter word, or a session's frames, from its first
//! byte to its last.
//!
//! In a turn the task reads what the socket has, handles the requests in it, and writes the
//! replies, so that many requests cost two system calls. It reads no requests while too many bytes
//! wait for the client or for the disk. A turn ends after a number of requests and a time. A
//! connection whose turn took long waits for its next one in a queue with others like it.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio_util::sync::CancellationToken;
use zoolet_protocol::{FrameCodec, Parts as _};

use super::four_letter::{self, Word};
use super::output::Output;
use super::socket::Socket;
use crate::engine::connection::{Connection, Treatment, Turn};
use crate::engine::hooks::Closed;
use crate::engine::lock::Engine;
use crate::engine::outbox::Taken;
use crate::engine::plain_reads::Unread;
use crate::engine::throttle::large_requests::Taken as TakenMemory;
use crate::engine::throttle::{Fate, Wait};
use crate::limits::{
    BUFFER_BYTES_KEPT, EXPENSIVE_TURN_MS, LINGER_TIMEOUT, OUTBOX_BYTES_PAUSE, READ_BYTES,
    READS_PER_TURN, REQUESTS_PER_TURN, TURN_MS, WRITE_BYTES,
};

/// The first bytes of a TLS handshake: its type of record, and the major version. As the length of
/// a frame they would be hundreds of megabytes.
pub(super) const TLS_HANDSHAKE: [u8; 2] = [0x16, 0x03];

/// Why a connection with such a beginning is closed.
const SPEAKS_TLS: &str = "the client speaks TLS, which this port does not; it must connect to \
                          secureClientPort, or client.portUnification=true lets this port speak both";

/// Serves an open connection. Of the socket, `input` was read already.
pub(crate) async fn converse<S: Socket>(
    mut socket: S,
    mut input: BytesMut,
    connection: Arc<Connection>,
    engine: Arc<Engine>,
    cancelled: CancellationToken,
) {
    let peer = Arc::clone(&connection.peer);
    let beginning = async {
        peer.outbox.thawed().await;
        let timeout = engine.config.sessionless_timeout;
        let beginning = begin(&mut socket, &mut input, timeout).await;
        // A hook may have frozen the connection meanwhile.
        peer.outbox.thawed().await;
        beginning
    };
    let beginning = cancelled.run_until_cancelled(beginning).await;
    match beginning {
        Some(Ok(Beginning::Frames)) => {}
        Some(Ok(Beginning::Word(word))) => {
            let answer = four_letter::answer(&mut socket, &mut input, word, &engine, &peer);
            let _ = cancelled.run_until_cancelled(answer).await;
            return;
        }
        Some(Ok(Beginning::TlsHandshake)) => {
            engine.stats.unsuccessful_handshakes.add(1);
            let now_ms = engine.clock.now_ms();
            engine.warnings.connection_closed(&peer, now_ms, &SPEAKS_TLS);
            return;
        }
        Some(Ok(Beginning::Idle)) => {
            engine.stats.sessionless_expired.add(1);
            let (address, timeout) = (peer.address_text(), engine.config.sessionless_timeout);
            tracing::debug!(address, "no handshake in {timeout:?}");
            return;
        }
        Some(Err(_)) | None => return,
    }
    let driver = Driver {
        socket,
        input,
        output: Output::default(),
        has_grown: false,
        is_expensive: false,
        waits_since_ms: None,
        large_request: None,
        connection,
        engine: Arc::clone(&engine),
    };
    let result = driver.run(cancelled).await;
    engine.remove_watches(&peer).await;
    let (address, session) = (peer.address_text(), peer.stats.session());
    match result {
        Ok(()) => tracing::debug!(address, %session, "disconnected"),
        Err(error) => tracing::debug!(address, %session, cause = %error, "disconnected"),
    }
}

/// How a connection begins.
enum Beginning {
    Frames,
    Word(Word),
    /// The client speaks TLS.
    TlsHandshake,
    /// The client has sent nothing for too long.
    Idle,
}

/// Reads the first four bytes: a four-letter word, or the length of a frame.
async fn begin(
    socket: &mut impl Socket,
    input: &mut BytesMut,
    timeout: Duration,
) -> io::Result<Beginning> {
    let first = async {
        while input.len() < 4 {
            if socket.read(input).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        if input.starts_with(&TLS_HANDSHAKE) {
            return Ok(Beginning::TlsHandshake);
        }
        let word = input.first_chunk().and_then(|bytes| Word::from_bytes(*bytes));
        Ok(word.map_or(Beginning::Frames, Beginning::Word))
    };
    tokio::time::timeout(timeout, first).await.unwrap_or(Ok(Beginning::Idle))
}

/// Drives a connection from its socket.
struct Driver<S> {
    socket: S,
    input: BytesMut,
    output: Output,
    /// Whether the output has grown beyond [`BUFFER_BYTES_KEPT`] since it was last freed.
    has_grown: bool,
    /// Whether the last turn took long.
    is_expensive: bool,
    /// Since when the requests that were read wait for those of all clients; in milliseconds of the
    /// server's clock.
    waits_since_ms: Option<u64>,
    /// The memory of the large request that is being read.
    large_request: Option<TakenMemory>,
    connection: Arc<Connection>,
    engine: Arc<Engine>,
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

impl<S: Socket> Driver<S> {
    async fn run(mut self, cancelled: CancellationToken) -> io::Result<()> {
        let codec = FrameCodec::new(self.engine.config.frame_bytes_max);
        let engine = Arc::clone(&self.engine);
        let connection = Arc::clone(&self.connection);
        let outbox = &connection.peer.outbox;
        let idle = tokio::time::sleep(engine.config.sessionless_timeout);
        tokio::pin!(idle);
        let mut has_more = true;
        loop {
            if has_more && !self.is_paused() {
                match self.take_turn(&codec, &connection, &cancelled).await? {
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
            let is_held = outbox.is_frozen();
            let is_full = self.has_much_waiting();
            let stall_time = self.stall_time();
            let is_paused = is_held || is_behind || is_full || stall_time.is_some();
            if !is_paused {
                self.input.reserve(READ_BYTES);
            }
            let reads = !has_more && !is_paused;
            let woken = if reads && engine.hooks.is_none() && connection.is_established() {
                // Nothing else can happen to it: a server that shuts down wakes it by its outbox. The
                // futures below would cost each request several locks that all connections share.
                self.exchange(reads).await?
            } else {
                tokio::select! {
                    biased;
                    () = cancelled.cancelled() => Woken::Shutdown,
                    woken = self.exchange(reads) => woken?,
                    // Other clients get their turn before more requests of this client are handled.
                    () = tokio::task::yield_now(), if has_more && !is_paused => continue,
                    () = engine.caught_up(), if is_behind => continue,
                    () = engine.stall(stall_time.unwrap_or_default()), if stall_time.is_some() => continue,
                    () = outbox.thawed(), if is_held => continue,
                    () = &mut idle, if !is_held && !connection.is_established() => Woken::Idle,
                }
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
                    if self.write_now()? && is_full {
                        self.connection.extend_session();
                    }
                }
                Woken::Outgoing(Taken::ReadInput) => {
                    match self.read_or_expire(&codec, &connection)? {
                        Some(may_have_more) => has_more = may_have_more,
                        None => return Ok(()),
                    }
                }
                Woken::Outgoing(Taken::Over) | Woken::Shutdown => return self.close().await,
                Woken::Idle => {
                    self.engine.stats.sessionless_expired.add(1);
                    return Ok(());
                }
            }
        }
    }

    /// Waits until bytes went out, the outbox has a message, or, if it `reads`, bytes came in.
    async fn exchange(&mut self, reads: bool) -> io::Result<Woken> {
        let Self { socket, input, output, connection, engine, .. } = self;
        let outbox = &connection.peer.outbox;
        let waiting = output.len();
        let mut exchange = |context: &mut Context<'_>| {
            if engine.is_shut_down() {
                // What waits for the disk has a time limit from now on.
                return Poll::Ready(Ok(Woken::Shutdown));
            }
            if (waiting > 0 || socket.has_unsent())
                && let Poll::Ready(wrote) = socket.poll_write(context, output)
            {
                return Poll::Ready(wrote.map(|()| Woken::Wrote));
            }
            let taken = match waiting < WRITE_BYTES {
                true => outbox.poll_take(context),
                // The end of the connection of a client that does not read is noticed as well.
                false => outbox.poll_end(context),
            };
            match taken {
                Poll::Ready(taken) => Poll::Ready(Ok(Woken::Outgoing(taken))),
                Poll::Pending if reads => socket.poll_read(context, input).map_ok(Woken::Read),
                Poll::Pending => Poll::Pending,
            }
        };
        std::future::poll_fn(&mut exchange).await
    }

    /// Handles requests that were read and writes their replies. Returns whether more requests may
    /// have been read; `None` if the connection has ended.
    async fn take_turn(
        &mut self,
        codec: &FrameCodec,
        connection: &Arc<Connection>,
        cancelled: &CancellationToken,
    ) -> io::Result<Option<bool>> {
        let engine = Arc::clone(&self.engine);
        let permit = match self.is_expensive {
            true => cancelled.run_until_cancelled(engine.expensive_turns.acquire()).await,
            false => None,
        };
        // Replies to its own requests need not wake this task: it takes them itself, below.
        self.connection.peer.outbox.forget_receiver();
        self.connection.peer.forget_woken();
        let has_more = self.handle_frames(codec, connection);
        drop(permit);
        self.connection.peer.let_woken_go_first().await;
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
            || self.wait() != Wait::No
    }

    /// Whether requests wait because too many are outstanding.
    fn wait(&self) -> Wait {
        let Some(throttle) = &self.engine.throttle.requests else { return Wait::No };
        let outbox = &self.connection.peer.outbox;
        throttle.wait(self.engine.stats.outstanding_requests(), || outbox.waits_for_disk())
    }

    /// How long to wait at most before looking again, if requests wait.
    fn stall_time(&mut self) -> Option<Duration> {
        match self.wait() {
            Wait::No => return None,
            Wait::ForOwnReplies => {}
            Wait::ForAll => {
                self.engine.stats.request_throttle_waits.add(1);
                let now_ms = self.engine.clock.now_ms();
                self.waits_since_ms.get_or_insert(now_ms);
            }
        }
        Some(self.engine.throttle.requests.as_ref()?.stall_time)
    }

    /// Whether so many bytes wait for the client that no more is read from it.
    fn has_much_waiting(&self) -> bool {
        self.output.len() + self.connection.peer.outbox.waiting_bytes() > OUTBOX_BYTES_PAUSE
    }

    /// The session's timeout seems to have passed: reads the socket, and expires the session if the
    /// client has sent nothing. Returns that requests may have been read; `None` at the end of the
    /// stream.
    fn read_or_expire(
        &mut self,
        codec: &FrameCodec,
        connection: &Arc<Connection>,
    ) -> io::Result<Option<bool>> {
        let outbox = &self.connection.peer.outbox;
        if self.engine.is_behind() || outbox.waits_for_disk() || self.wait() != Wait::No {
            // The disk delays the client, from which nothing is read meanwhile. The ticker asks
            // again.
            return Ok(Some(true));
        }
        for _ in 0..READS_PER_TURN {
            // A client that does not read its messages does not extend its session by sending more.
            if self.has_much_waiting() || !self.connection.peer.outbox.is_open() {
                self.connection.expire_if_due();
                return Ok(Some(true));
            }
            if self.handle_frames(codec, connection) || !self.connection.is_due() {
                return Ok(Some(true));
            }
            match self.socket.read_now(&mut self.input) {
                Ok(0) => return Ok(None),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.connection.expire_if_due();
                    return Ok(Some(true));
                }
                Err(error) => return Err(error),
            }
        }
        // It has sent something. The ticker asks again.
        Ok(Some(true))
    }

    /// Handles the frames that were read, up to the limits of a turn. Returns whether more of them
    /// may be left.
    fn handle_frames(&mut self, codec: &FrameCodec, connection: &Arc<Connection>) -> bool {
        let engine = &connection.engine;
        let begin_ms = engine.clock.now_ms();
        // Hooks handle each frame by itself.
        let mut turn = engine.hooks.is_none().then(|| connection.begin_turn(begin_ms));
        let (mut took_ms, mut requests) = (0, 0);
        while requests < REQUESTS_PER_TURN {
            self.is_expensive = took_ms >= EXPENSIVE_TURN_MS;
            if took_ms >= TURN_MS {
                engine.stats.turns_cut.add(1);
                engine.stats.expensive_turns.add(u64::from(self.is_expensive));
                return true;
            }
            if self.is_paused() {
                return true;
            }
            if let Some(turn) = &mut turn
                && let Some(answered) =
                    self.answer_plain_ones(turn, codec, REQUESTS_PER_TURN - requests)
            {
                requests += answered;
                took_ms = turn.now_ms().saturating_sub(begin_ms);
                continue;
            }
            let Some(frame) = self.next_frame(codec) else { return false };
            requests += 1;
            let treatment = match self.waits_since_ms {
                None => Ok(Treatment::CarryOut),
                Some(since_ms) => self.treatment_of_late(since_ms),
            };
            let received = match (treatment, &mut turn) {
                (Err(closed), _) => Err(closed),
                (Ok(treatment), Some(turn)) => self.receive_in(turn, &frame, treatment),
                (Ok(Treatment::CarryOut), None) => connection.receive(frame),
                (Ok(treatment), None) => connection.handle(frame, treatment),
            };
            self.large_request = None;
            if received.is_err() {
                return false;
            }
            let now_ms = turn.as_ref().map_or_else(|| engine.clock.now_ms(), Turn::now_ms);
            took_ms = now_ms.saturating_sub(begin_ms);
        }
        engine.stats.turns_cut.add(1);
        true
    }

    /// Answers the plain reads, or the plain writes, that are next, at most so many. Returns how many there
    /// were; `None` if the next request is to be handled as any other.
    fn answer_plain_ones(
        &mut self,
        turn: &mut Turn<'_>,
        codec: &FrameCodec,
        most: usize,
    ) -> Option<usize> {
        let has_to_wait = self.waits_since_ms.is_some() || self.output.len() >= WRITE_BYTES;
        if has_to_wait || self.engine.throttle.large_requests.is_some() {
            return None;
        }
        let unread = Unread { codec, stream: &self.input, most };
        if let Some((requests, bytes)) = turn.answer_plain_reads(unread, self.output.buffer()) {
            self.input.advance(bytes);
            return Some(requests);
        }
        if self.engine.throttle.requests.is_some() {
            // Whether one waits depends on those before it, whose replies wait for the disk.
            return None;
        }
        let (input, buffer) = (&mut self.input, self.output.buffer());
        turn.carry_out_plain_writes(codec, input, most, buffer)
    }

    /// Handles a frame, and encodes the reply if it need not go through the outbox. Others do while so
    /// much is encoded that it is to be written first.
    fn receive_in(
        &mut self,
        turn: &mut Turn<'_>,
        frame: &Bytes,
        treatment: Treatment,
    ) -> Result<(), Closed> {
        let buffer = (self.output.len() < WRITE_BYTES).then(|| self.output.buffer());
        if let Some(reply) = turn.handle(frame, treatment, buffer)? {
            self.output.put(&reply);
        }
        Ok(())
    }

    /// The next frame that was read, if it is whole and may be handled.
    fn next_frame(&mut self, codec: &FrameCodec) -> Option<Bytes> {
        match codec.next_frame(&mut self.input) {
            Ok(Some(frame)) => {
                if self.input.is_empty() && frame.len() > BUFFER_BYTES_KEPT {
                    self.input = BytesMut::new();
                }
                self.has_room_for(frame.len()).then_some(frame)
            }
            Ok(None) => {
                self.waits_since_ms = None;
                if let Some(length) = self.input.first_chunk().map(|it| i32::from_be_bytes(*it)) {
                    self.has_room_for(usize::try_from(length).unwrap_or(0));
                }
                None
            }
            Err(error) => {
                self.connection.refuse_frame(&error);
                None
            }
        }
    }

    /// Takes the memory of the next request if it is large, unless that is done already. If there is
    /// none left the connection ends.
    fn has_room_for(&mut self, bytes: usize) -> bool {
        let Some(limits) = &self.engine.throttle.large_requests else { return true };
        if self.large_request.is_some() {
            return true;
        }
        match limits.take(bytes) {
            Ok(taken) => {
                self.large_request = taken;
                true
            }
            Err(error) => {
                self.engine.stats.large_requests_rejected.add(1);
                let (peer, now_ms) = (&self.connection.peer, self.engine.clock.now_ms());
                self.engine.warnings.frame_refused(peer, now_ms, &error);
                peer.outbox.finish();
                false
            }
        }
    }

    /// What becomes of a request that has waited for those of all clients.
    fn treatment_of_late(&self, since_ms: u64) -> Result<Treatment, Closed> {
        let Some(throttle) = &self.engine.throttle.requests else { return Ok(Treatment::CarryOut) };
        let stats = &self.engine.stats;
        let waited_ms = self.engine.clock.now_ms().saturating_sub(since_ms);
        stats.request_throttle_time.record(waited_ms);
        match throttle.fate(waited_ms, self.connection.peer.stats.timeout_ms()) {
            Fate::CarriedOut => Ok(Treatment::CarryOut),
            Fate::CarriedOutStale => {
                stats.stale_requests.add(1);
                Ok(Treatment::CarryOut)
            }
            Fate::Refused => Ok(Treatment::Throttle),
            Fate::Dropped => {
                stats.stale_requests_dropped.add(1);
                self.connection.peer.outbox.finish();
                Err(Closed)
            }
        }
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

    /// Writes what the socket takes without waiting, and returns whether it took anything.
    fn write_now(&mut self) -> io::Result<bool> {
        self.has_grown |= self.output.len() > BUFFER_BYTES_KEPT;
        self.socket.write_now(&mut self.output)
    }

    /// Ends the connection. Messages that may leave do so within the time for a shutdown.
    async fn close(mut self) -> io::Result<()> {
        self.connection.peer.outbox.finish();
        let timeout = self.engine.config.shutdown_timeout;
        let flush = async {
            loop {
                let progress = self.encode_waiting();
                self.socket.write_all(&mut self.output).await?;
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
            self.socket.shutdown().await
        };
        let flushed = tokio::time::timeout(timeout, flush).await.unwrap_or_else(|_| {
            let peer = &self.connection.peer;
            let (address, session) = (peer.address_text(), peer.stats.session());
            tracing::warn!(address, %session, "the client did not read its last messages in time");
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
                match self.socket.read(&mut self.input).await {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
            }
        };
        let _ = tokio::time::timeout(LINGER_TIMEOUT, discard).await;
    }
}
