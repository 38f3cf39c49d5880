//! Connections over TCP: one port for each server.

use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use zoolet_protocol::FrameCodec;
use zoolet_server::limits::{ACCEPT_RETRY, LINGER_TIMEOUT, READ_BYTES, WRITE_BYTES};
use zoolet_server::{Config, FourLetterWhitelist};

use super::engine::Ensemble;
use super::hooked::ServerSide;
use super::words;

/// The port of one server.
struct Port {
    ensemble: Ensemble,
    server: usize,
    words: FourLetterWhitelist,
    sessionless_timeout: Duration,
}

/// Listens on a free port of the loopback address, until the task is aborted.
pub(super) async fn listen(
    ensemble: &Ensemble,
    server: usize,
    config: &Config,
) -> io::Result<(SocketAddr, JoinHandle<()>)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let port = Port {
        ensemble: ensemble.clone(),
        server,
        words: config.four_letter_words.clone(),
        sessionless_timeout: config.sessionless_timeout,
    };
    Ok((address, tokio::spawn(accept(listener, Arc::new(port)))))
}

async fn accept(listener: TcpListener, port: Arc<Port>) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                let port = Arc::clone(&port);
                tokio::spawn(async move {
                    if let Err(error) = port.serve(stream, address).await {
                        tracing::debug!(%address, cause = %error, "disconnected");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(server = port.server, cause = %error, "accept failed");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

impl Port {
    /// Serves a connection: a four-letter word, or a session's frames.
    async fn serve(&self, mut stream: TcpStream, address: SocketAddr) -> io::Result<()> {
        stream.set_nodelay(true)?;
        if self.ensemble.inspect(|state| state.is_stopped(self.server)) {
            return Ok(());
        }
        let mut input = BytesMut::new();
        let begun = tokio::select! {
            begun = tokio::time::timeout(self.sessionless_timeout, begin(&mut stream, &mut input)) => begun,
            () = self.ensemble.until(|| self.ensemble.is_over()) => return Ok(()),
        };
        let Ok(begun) = begun else { return Ok(()) };
        begun?;
        self.thawed().await;
        if let Some(word) = input.first_chunk().and_then(|bytes| words::word(*bytes)) {
            let text = match self.words.contains(word) {
                true => self.ensemble.inspect(|state| words::answer(state, self.server, word)),
                false => words::not_listed(word),
            };
            stream.write_all(text.as_bytes()).await?;
            return stream.shutdown().await;
        }
        let Ok(connection) = self.ensemble.open(self.server, Some(address)) else {
            return Ok(());
        };
        self.converse(stream, input, &connection).await
    }

    /// Waits until no fault lets the whole server stand still.
    async fn thawed(&self) {
        self.ensemble.until(|| !self.ensemble.inspect(|state| state.is_frozen(self.server))).await;
    }

    async fn converse(
        &self,
        stream: TcpStream,
        input: BytesMut,
        connection: &Arc<ServerSide>,
    ) -> io::Result<()> {
        let (mut reader, writer) = stream.into_split();
        let sessionless = async {
            tokio::time::sleep(self.sessionless_timeout).await;
            if connection.has_session() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            sent = send(writer, connection) => sent?,
            read = read(&mut reader, input, connection) => return read,
            () = sessionless => return Ok(()),
        }
        // A socket that is closed with unread input may lose what was just written.
        let linger = async {
            let mut rest = [0; READ_BYTES];
            while reader.read(&mut rest).await.is_ok_and(|length| length > 0) {}
        };
        let _ = tokio::time::timeout(LINGER_TIMEOUT, linger).await;
        Ok(())
    }
}

/// Reads the first four bytes: a four-letter word, or the length of a frame.
async fn begin(stream: &mut TcpStream, input: &mut BytesMut) -> io::Result<()> {
    while input.len() < 4 {
        if stream.read_buf(input).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

/// Passes frames to the server until the client closes the connection.
async fn read(
    reader: &mut OwnedReadHalf,
    mut input: BytesMut,
    connection: &Arc<ServerSide>,
) -> io::Result<()> {
    let codec = connection.codec();
    loop {
        loop {
            let goes_on = match codec.next_frame(&mut input) {
                Ok(Some(frame)) => connection.receive(frame).is_ok(),
                Ok(None) => break,
                Err(error) => {
                    connection.close(&error);
                    false
                }
            };
            if !goes_on {
                // The connection ends when its messages have left.
                std::future::pending::<()>().await;
            }
        }
        input.reserve(READ_BYTES);
        if reader.read_buf(&mut input).await? == 0 {
            return Ok(());
        }
    }
}

/// Writes the messages of the server until the connection ends.
async fn send(mut writer: OwnedWriteHalf, connection: &Arc<ServerSide>) -> io::Result<()> {
    let mut output = BytesMut::new();
    let mut next = poll_fn(|context| connection.poll_take(context)).await;
    while let Some(message) = next {
        FrameCodec::put(&message.into_frame(), &mut output);
        let mut waiting = Poll::Pending;
        if output.len() < WRITE_BYTES {
            waiting = connection.poll_take(&Context::from_waker(Waker::noop()));
        }
        next = match waiting {
            Poll::Ready(message) => message,
            Poll::Pending => {
                // A client that does not read keeps no connection that was cut.
                tokio::select! {
                    written = writer.write_all(&output) => written?,
                    () = connection.until_cut() => return Ok(()),
                }
                output.clear();
                poll_fn(|context| connection.poll_take(context)).await
            }
        };
    }
    writer.write_all(&output).await?;
    writer.shutdown().await
}
