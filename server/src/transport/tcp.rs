//! Connections over TCP: a listener, and one task for each connection.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::engine::connection::Connection;
use crate::engine::lock::Engine;
use crate::limits::ACCEPT_RETRY;
use crate::transport::descriptors::is_kept_for_files;
use crate::transport::driver;

/// The connections that the system queues before they are accepted, unless the configuration says
/// otherwise.
const DEFAULT_BACKLOG: u32 = 1_024;

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

/// Accepts from a socket that was bound by someone else, who may use it again after a restart.
pub(crate) fn adopt(listener: &std::net::TcpListener, config: &Config) -> io::Result<TcpListener> {
    let socket = SockRef::from(listener);
    socket.set_keepalive(config.tcp_keep_alive)?;
    // If it listens already this sets the backlog only. A connected socket is refused here.
    let backlog = config.listen_backlog.unwrap_or(DEFAULT_BACKLOG);
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    let listener = listener.try_clone()?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Serves the connections that are accepted at one address.
pub(crate) trait Port: Clone + Send + 'static {
    /// Serves an open connection from its first byte to its last.
    fn serve(
        self,
        stream: TcpStream,
        connection: Arc<Connection>,
        engine: Arc<Engine>,
        cancelled: CancellationToken,
    ) -> impl Future<Output = ()> + Send;
}

/// The port of plaintext connections.
#[derive(Debug, Clone)]
pub(crate) struct PlainPort;

impl Port for PlainPort {
    async fn serve(
        self,
        stream: TcpStream,
        connection: Arc<Connection>,
        engine: Arc<Engine>,
        cancelled: CancellationToken,
    ) {
        engine.stats.plaintext_connection(connection.peer.address);
        driver::converse(stream, BytesMut::new(), connection, engine, cancelled).await;
    }
}

/// Accepts connections until it is cancelled.
pub(crate) async fn accept(
    listener: TcpListener,
    port: impl Port,
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
                let (port, engine) = (port.clone(), Arc::clone(&engine));
                tasks.spawn(serve(stream, address, port, engine, cancelled.clone()));
            }
            Err(error) => {
                tracing::warn!("a connection cannot be accepted: {error}");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

/// Opens a connection if the limits allow it, and serves it.
async fn serve(
    stream: TcpStream,
    address: SocketAddr,
    port: impl Port,
    engine: Arc<Engine>,
    cancelled: CancellationToken,
) {
    // Replies are not delayed to be sent together with later ones.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%address, cause = %error, "socket options");
    }
    if engine.refuses_connection() {
        return;
    }
    match Connection::open(Arc::clone(&engine), Some(address)) {
        Ok(connection) => {
            tracing::debug!(%address, "connected");
            port.serve(stream, Arc::new(connection), engine, cancelled).await;
        }
        Err(full) => tracing::warn!(%address, cause = %full, "connection refused"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::advance;
    use zoolet_core::Core;
    use zoolet_protocol::{
        ConnectRequest, ConnectResponse, Encode, FrameCodec, OpCode, RequestHeader, SessionId, Xid,
        decode_all,
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
            let served =
                serve(stream, address, PlainPort, Arc::clone(&engine), CancellationToken::new());
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
