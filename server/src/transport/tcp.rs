//! Connections over TCP: a listener, and one task for each connection.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use bytes::BytesMut;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::engine::connection::Connection;
use crate::engine::lock::Engine;
use crate::engine::registry::Entrance;
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
    /// Whether it speaks only TLS.
    fn is_secure(&self) -> bool;

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
    fn is_secure(&self) -> bool {
        false
    }

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
    if let Some(connection) = open(&engine, address, &port) {
        let peer = Arc::clone(&connection.peer);
        let task = pin!(port.serve(stream, connection, engine, cancelled));
        peer.run_task(task).await;
    }
}

/// Opens a connection; `None` if the limits or the hooks do not allow it.
pub(super) fn open(
    engine: &Arc<Engine>,
    address: SocketAddr,
    port: &impl Port,
) -> Option<Arc<Connection>> {
    if engine.refuses_connection() {
        return None;
    }
    let entrance = Entrance { address: Some(address), is_secure: port.is_secure() };
    match Connection::open(Arc::clone(engine), entrance) {
        Ok(connection) => {
            tracing::debug!(%address, "connected");
            Some(Arc::new(connection))
        }
        Err(full) => {
            engine.warnings.connection_refused(address, engine.clock.now_ms(), &full);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::{Buf as _, Bytes};
    use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, duplex};
    use tokio::runtime::Builder;
    use tokio::time::advance;
    use zoolet_core::Core;
    use zoolet_protocol::{
        Acl, ConnectRequest, ConnectResponse, Create, CreateFlags, CreateKind, Encode, ErrorCode,
        Expect, FrameCodec, Lookup, MultiOp, OpCode, Read, Request, RequestHeader, Response,
        SessionId, SetData, Watch, Write, Xid, decode_all, encode_request,
    };

    use super::*;
    use crate::config::{ConnectionThrottling, Throttling};
    use crate::engine::journal::Journal;
    use crate::engine::ticker;
    use crate::measure::Window;
    use crate::storage::{MemDisk, StorageConfig};
    use crate::transport::stream;

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
            Self::of(Arc::new(Engine::new(config, None, Journal::in_memory(), core))).await
        }

        /// A server with a log that syncs at once.
        async fn throttled(throttling: Throttling) -> Self {
            let storage =
                StorageConfig { disk: Arc::new(MemDisk::default()), ..StorageConfig::at("/data") };
            let config = Config { throttling, ..Config::default() };
            let (journal, core) = Journal::open(&storage, &config.settings).unwrap();
            Self::of(Arc::new(Engine::new(config, None, journal, core))).await
        }

        async fn of(engine: Arc<Engine>) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (stream, address) = listener.accept().await.unwrap();
            let served =
                serve(stream, address, PlainPort, Arc::clone(&engine), CancellationToken::new());
            tokio::spawn(served);
            let session = connect(&mut client).await.session;
            Self { engine, client, session }
        }

        /// What `mntr` shows.
        fn metric(&self, name: &str) -> String {
            let all = crate::engine::metrics::monitor(&self.engine, "");
            let found = all.into_iter().find(|(key, _)| key == name);
            found.unwrap_or_else(|| panic!("there is no {name}")).1
        }

        fn has_session(&self) -> bool {
            self.engine.inspect(|core| core.has_session(self.session))
        }

        /// Lets so many requests of others wait for the disk.
        fn let_wait(&self, requests: u64) {
            self.engine.stats.storage.as_ref().unwrap().appended.add(requests);
        }

        /// They are durable.
        fn let_go_on(&self, requests: u64) {
            self.engine.stats.storage.as_ref().unwrap().durable.add(requests);
        }

        /// The error code of the next reply, if it comes within a time.
        async fn reply(&mut self, within: Duration) -> Option<i32> {
            let length = tokio::time::timeout(within, self.client.read_u32()).await.ok()?.ok()?;
            let mut reply = vec![0; length as usize];
            self.client.read_exact(&mut reply).await.unwrap();
            Some(i32::from_be_bytes(*reply[12..].first_chunk().unwrap()))
        }

        /// The xid, the error code and the body of the next message.
        async fn message(&mut self) -> (i32, i32, Bytes) {
            let length = self.client.read_u32().await.unwrap();
            let mut payload = BytesMut::zeroed(length as usize);
            self.client.read_exact(&mut payload).await.unwrap();
            let (xid, _zxid, err) = (payload.get_i32(), payload.get_i64(), payload.get_i32());
            (xid, err, payload.freeze())
        }

        /// Lets the connection's task run.
        async fn schedule(&self) {
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        }
    }

    async fn connect(client: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> ConnectResponse {
        let mut handshake = BytesMut::new();
        ConnectRequest::new(6_000).encode(&mut handshake);
        client.write_all(&framed(&handshake.freeze())).await.unwrap();
        let length = client.read_u32().await.unwrap();
        let mut answer = vec![0; length as usize];
        client.read_exact(&mut answer).await.unwrap();
        decode_all(&answer.into()).unwrap()
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

    #[tokio::test(start_paused = true)]
    async fn a_session_whose_connection_was_asked_for_input_expires_at_once_when_all_are_to() {
        let fixture = Fixture::new().await;
        advance(Duration::from_secs(9)).await;
        ticker::tick(&fixture.engine);
        assert!(fixture.has_session(), "its connection has not looked yet");
        ticker::tick_now(&fixture.engine);
        assert!(!fixture.has_session());
    }

    fn sync(xid: i32) -> BytesMut {
        let path = zoolet_protocol::RawPath::from("/");
        let read = Read::Sync(path);
        framed(&encode_request(Xid(xid), &Request::Read(read)))
    }

    /// A znode with this data, a `getData` of it with or without a watch, and a write of it.
    fn create(xid: i32, path: &str, data: &[u8]) -> BytesMut {
        let data = Some(Bytes::copy_from_slice(data));
        let (acl, flags) = (Some(vec![Acl::open()]), CreateFlags::PERSISTENT);
        let create = Create { kind: CreateKind::Create, path: path.into(), data, acl, flags };
        framed(&encode_request(Xid(xid), &Request::Write(Write::Op(MultiOp::Create(create)))))
    }

    fn get(xid: i32, path: &str) -> BytesMut {
        let read = Read::Lookup(Lookup::GetData(path.into()));
        framed(&encode_request(Xid(xid), &Request::Read(read)))
    }

    fn watch(xid: i32, path: &str) -> BytesMut {
        let watch = Watch::Lookup(Lookup::GetData(path.into()));
        framed(&encode_request(Xid(xid), &Request::Watch(watch)))
    }

    fn set(xid: i32, path: &str, data: &[u8]) -> BytesMut {
        let data = Some(Bytes::copy_from_slice(data));
        let set = SetData { path: path.into(), data, version: Expect::Any };
        framed(&encode_request(Xid(xid), &Request::Write(Write::Op(MultiOp::SetData(set)))))
    }

    /// A client that a write wakes is served before the client that wrote. Here nobody drives its task.
    #[test]
    fn the_client_of_a_stream_waits_for_no_task_of_another_runtime() {
        let [serving, streaming] =
            [(); 2].map(|()| Builder::new_current_thread().enable_all().build().unwrap());
        let watcher = serving.block_on(async {
            let mut fixture = Fixture::new().await;
            for request in [create(1, "/a", b"one"), watch(2, "/a")] {
                fixture.client.write_all(&request).await.unwrap();
                assert_eq!(fixture.reply(Duration::from_secs(5)).await, Some(0));
            }
            fixture
        });
        streaming.block_on(async {
            let (ours, mut client) = duplex(1 << 16);
            let address = watcher.client.local_addr().unwrap();
            let engine = Arc::clone(&watcher.engine);
            tokio::spawn(stream::serve(ours, address, engine, CancellationToken::new()));
            connect(&mut client).await;
            client.write_all(&set(1, "/a", b"two")).await.unwrap();
            let reply = tokio::time::timeout(Duration::from_secs(5), client.read_u32()).await;
            reply.expect("the writer has its reply").unwrap();
        });
    }

    #[tokio::test(start_paused = true)]
    async fn replies_and_events_keep_their_order_however_they_leave() {
        let mut fixture = Fixture::new().await;
        let long = vec![7; 20_000];
        let requests = [
            create(1, "/a", b"one"),
            get(2, "/a"),
            get(3, "/missing"),
            watch(4, "/a"),
            get(5, "/a"),
            set(6, "/a", b"two"),
            get(7, "/a"),
            set(8, "/a", &long),
            get(9, "/a"),
            get(10, "/"),
        ];
        fixture.client.write_all(&requests.concat()).await.unwrap();
        let mut messages = Vec::new();
        for _ in 0..requests.len() + 1 {
            messages.push(fixture.message().await);
        }
        let order: Vec<_> = messages.iter().map(|(xid, err, _)| (*xid, *err)).collect();
        let (none, event) = (ErrorCode::NO_NODE.0, (Xid::EVENT.0, 0));
        let one_to_five = [(1, 0), (2, 0), (3, none), (4, 0), (5, 0)];
        assert_eq!(order[..5], one_to_five);
        assert_eq!(order[5..], [event, (6, 0), (7, 0), (8, 0), (9, 0), (10, 0)]);
        let data = |at: usize| match Response::decode(OpCode::GET_DATA, &messages[at].2).unwrap() {
            Response::Data(data, stat) => (data.unwrap(), stat.version),
            other => panic!("{other:?}"),
        };
        assert_eq!((data(1), data(4)), ((b"one"[..].into(), 0), (b"one"[..].into(), 0)));
        assert_eq!((data(7), data(9)), ((b"two"[..].into(), 1), (long.into(), 2)));
    }

    #[tokio::test(start_paused = true)]
    async fn replies_and_events_leave_before_a_frame_that_is_none_ends_the_connection() {
        let too_long = i32::MAX.to_be_bytes().to_vec();
        let too_short = framed(&Bytes::from_static(b"abc")).to_vec();
        for end in [too_long, too_short] {
            let mut fixture = Fixture::new().await;
            let requests =
                [create(1, "/a", b"one"), watch(2, "/a"), set(3, "/a", b"two"), set(4, "/a", b"")];
            fixture.client.write_all(&[requests.concat(), end].concat()).await.unwrap();
            let mut xids = Vec::new();
            for _ in 0..requests.len() + 1 {
                xids.push(fixture.message().await.0);
            }
            assert_eq!(xids, [1, 2, Xid::EVENT.0, 3, 4]);
            assert_eq!(fixture.reply(Duration::from_secs(1)).await, None, "it has ended");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn more_plain_reads_than_are_answered_at_once_keep_their_order() {
        let mut fixture = Fixture::new().await;
        let missing = |xid| [20, 21, 50].contains(&xid);
        let read = |xid| get(xid, if missing(xid) { "/missing" } else { "/a" });
        let requests: Vec<_> =
            std::iter::once(create(1, "/a", b"data")).chain((2..=50).map(read)).collect();
        fixture.client.write_all(&requests.concat()).await.unwrap();
        for wanted in 1..=50 {
            let (xid, err, _) = fixture.message().await;
            let wanted_err = if missing(wanted) { ErrorCode::NO_NODE } else { ErrorCode::OK };
            assert_eq!((xid, err), (wanted, wanted_err.0));
        }
        assert_eq!(fixture.engine.stats.read_latency.summarise(Window::All).count, 49);
    }

    #[tokio::test(start_paused = true)]
    async fn a_path_that_is_no_text_is_answered_behind_others_as_alone() {
        let mut fixture = Fixture::new().await;
        let broken = |xid| {
            let mut frame = get(xid, "/ab").to_vec();
            let name = frame.windows(3).position(|bytes| bytes == b"/ab").unwrap() + 2;
            frame[name] = 0xff;
            frame
        };
        let behind = vec![get(3, "/a").to_vec(), broken(4), get(5, "/a").to_vec(), broken(6)];
        let mut errors = Vec::new();
        for requests in [vec![create(1, "/a", b"data").to_vec()], vec![broken(2)], behind] {
            fixture.client.write_all(&requests.concat()).await.unwrap();
            for _ in requests {
                errors.push(fixture.message().await.1);
            }
        }
        let no_node = ErrorCode::NO_NODE.0;
        assert_eq!(errors, [0, no_node, 0, no_node, 0, no_node]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_the_replies_of_a_turn_sees_it_in_all_numbers() {
        let mut fixture = Fixture::new().await;
        let number = |fixture: &Fixture, name| fixture.metric(name).parse::<u64>().unwrap();
        let names = ["packets_received", "packets_sent", "response_bytes", "bytes_received_count"];
        let before = names.map(|name| number(&fixture, name));
        let requests = [
            create(1, "/ns", b"data"),
            get(2, "/ns"),
            get(3, "/ns"),
            set(4, "/ns", b"more data"),
            get(5, "/ns"),
            get(6, "/ns/missing"),
        ];
        let bytes: usize = requests.iter().map(|request| request.len()).sum();
        fixture.client.write_all(&requests.concat()).await.unwrap();
        let mut replied = 0;
        for _ in &requests {
            replied += 16 + fixture.message().await.2.len();
        }
        let since = |at: usize| number(&fixture, names[at]) - before[at];
        assert_eq!((since(0), since(1)), (6, 6));
        assert_eq!((since(2), since(3)), (replied as u64, bytes as u64));
        let stats = &fixture.engine.stats;
        let of = |name| stats.operations.values().find(|(known, _)| *known == name).unwrap().1;
        assert_eq!((of("get_data"), of("create"), of("set_data")), (4, 1, 1));
        let all = Window::All;
        assert_eq!(stats.read_latency.summarise(all).count, 4);
        let namespaces = stats.namespaces.all();
        let (name, counters) = &namespaces[0];
        let (reads, writes) = (counters.reads.summarise(all), counters.writes.summarise(all));
        assert_eq!((namespaces.len(), name.as_str()), (1, "ns"));
        assert_eq!((reads.count, reads.sum), (3, 3 * (3 + 68) + 4 + 4 + 9));
        assert_eq!((writes.count, writes.sum), (2, 2 * 3 + 4 + 9));
        let peer = &fixture.engine.registry.peers()[0];
        let last = peer.stats.last();
        assert_eq!((last.op, last.xid), (OpCode::GET_DATA, Xid(6)));
        assert_eq!((peer.stats.received.value(), peer.stats.sent()), (7, 7));
    }

    const SOON: Duration = Duration::from_millis(200);

    #[tokio::test(start_paused = true)]
    async fn requests_wait_while_too_many_of_all_clients_are_outstanding() {
        let throttling = Throttling {
            max_requests: Some(10),
            throttled_op_wait: Some(Duration::from_secs(1)),
            ..Throttling::default()
        };
        let mut fixture = Fixture::throttled(throttling).await;
        fixture.let_wait(9);
        fixture.client.write_all(&sync(1)).await.unwrap();
        assert_eq!(fixture.reply(SOON).await, Some(0), "nine may be outstanding");

        fixture.let_wait(1);
        fixture.client.write_all(&sync(2)).await.unwrap();
        assert_eq!(fixture.reply(SOON).await, None, "ten may not");
        assert!(fixture.engine.stats.request_throttle_waits.value() >= 1);
        fixture.let_go_on(1);
        assert_eq!(fixture.reply(SOON).await, Some(0), "it goes on after the time for a stall");

        fixture.let_wait(1);
        fixture.client.write_all(&sync(3)).await.unwrap();
        fixture.client.write_all(&ping()).await.unwrap();
        assert_eq!(fixture.reply(Duration::from_secs(2)).await, None);
        fixture.let_go_on(1);
        assert_eq!(fixture.reply(SOON).await, Some(-127), "it has waited too long");
        assert_eq!(fixture.reply(SOON).await, Some(0), "a ping is answered in any case");
        assert_eq!(fixture.engine.stats.throttled_operations.value(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn stale_requests_are_dropped_with_their_connection() {
        let throttling = Throttling {
            max_requests: Some(1),
            stale_latency_check: true,
            ..Throttling::default()
        };
        let mut fixture = Fixture::throttled(throttling).await;
        fixture.let_wait(1);
        fixture.client.write_all(&sync(1)).await.unwrap();
        // The session has six seconds; nobody looks whether it expires.
        assert_eq!(fixture.reply(Duration::from_secs(7)).await, None);
        fixture.let_go_on(1);
        assert_eq!(fixture.client.read(&mut [0]).await.unwrap(), 0, "the connection is closed");
        assert_eq!(fixture.engine.stats.stale_requests_dropped.value(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn large_requests_have_their_memory_or_are_rejected() {
        let throttling = Throttling {
            large_request_bytes_min: Some(100),
            large_requests_bytes_max: 1_000,
            ..Throttling::default()
        };
        let mut first = Fixture::throttled(throttling).await;
        let mut second = Fixture::of(Arc::clone(&first.engine)).await;
        // Only their lengths: what is still to come counts too.
        first.client.write_all(&600_u32.to_be_bytes()).await.unwrap();
        first.schedule().await;
        tokio::time::sleep(SOON).await;
        second.client.write_all(&500_u32.to_be_bytes()).await.unwrap();
        assert_eq!(second.client.read(&mut [0]).await.unwrap(), 0, "the connection is closed");
        assert_eq!(first.engine.stats.large_requests_rejected.value(), 1);
        let engine = Arc::clone(&first.engine);
        drop(first);
        tokio::time::sleep(SOON).await;
        let mut third = Fixture::of(engine).await;
        third.client.write_all(&1_000_u32.to_be_bytes()).await.unwrap();
        assert_eq!(third.metric("large_requests_rejected"), "1");
        assert_eq!(third.reply(SOON).await, None, "its memory was given back");
        assert_eq!(third.engine.stats.large_requests_rejected.value(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn clients_take_tokens() {
        let connections =
            ConnectionThrottling { fill_time_ms: 1_000, ..ConnectionThrottling::of_tokens(2) };
        let throttling = Throttling { connections: Some(connections), ..Throttling::default() };
        let first = Fixture::throttled(throttling).await;
        let engine = Arc::clone(&first.engine);
        let _second = Fixture::of(Arc::clone(&engine)).await;
        assert_eq!(engine.stats.connections_rejected.value(), 0);
        let third = tokio::spawn(Fixture::of(Arc::clone(&engine)));
        assert!(third.await.is_err(), "there is no token for its handshake");
        assert_eq!(engine.stats.connections_rejected.value(), 1);
        advance(Duration::from_millis(1_001)).await;
        let fourth = Fixture::of(engine).await;
        // Of those that were admitted: one token is missing, two, and two again.
        assert_eq!(fourth.metric("cnt_connection_token_deficit"), "3");
        assert_eq!(fourth.metric("sum_connection_token_deficit"), "5");
        assert_eq!(fourth.metric("max_connection_token_deficit"), "2");
        assert_eq!(fourth.metric("connection_request_count"), "3");
        assert_eq!(fourth.metric("connection_rejected"), "1");
        assert_eq!(fourth.metric("connection_drop_probability"), "0.0");
    }

    #[tokio::test(start_paused = true)]
    async fn the_probability_of_a_refusal_is_shown() {
        let connections = ConnectionThrottling {
            fill_time_ms: 1_000_000,
            freeze_time_ms: Some(0),
            drop_increase: 1.0,
            ..ConnectionThrottling::of_tokens(1)
        };
        let throttling = Throttling { connections: Some(connections), ..Throttling::default() };
        let first = Fixture::throttled(throttling).await;
        assert_eq!(first.metric("connection_drop_probability"), "0.0");
        advance(Duration::from_millis(1)).await;
        let second = tokio::spawn(Fixture::of(Arc::clone(&first.engine)));
        assert!(second.await.is_err(), "there is no token for its handshake");
        assert_eq!(first.metric("connection_drop_probability"), "1.0");
    }
}
