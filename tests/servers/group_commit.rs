//! Tests with a disk that blocks on demand: which messages wait for it, and snapshots that are
//! written during writes.

#![allow(clippy::unwrap_used, reason = "what a test has written itself is there")]

use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use zoolet::client::{Client, RetryPolicy};
use zoolet::protocol::{
    Acl, ConnectRequest, ConnectResponse, Create, CreateKind, CreateMode, Delete, Dial, Encode,
    ErrorCode, Expect, Incoming, MultiOp, OpCode, RawPath, Request, RequestHeader, Response,
    SetData, Transport, Write as WriteRequest, Xid, decode_all, decode_incoming, encode_request,
};
use zoolet::server::storage::{
    DirectoryLock, Disk, DiskFile, LockError, LogReader, MemDisk, StorageConfig, write_snapshot,
};
use zoolet::server::{Config, Server};
use zoolet_core::{Core, Settings};
use zoolet_test_support::blocking::FrameStream;

/// Short for a test that expects nothing to happen, and far shorter than any timeout.
const MOMENT: Duration = Duration::from_millis(200);

/// Blocks every caller of `pass` while it is closed.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<GateState>,
    opened: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    is_closed: bool,
    /// How many may pass though it is closed.
    admitted: usize,
}

impl Gate {
    /// Closes the gate until the returned value is dropped.
    fn close(self: &Arc<Self>) -> Closed {
        self.state.lock().unwrap().is_closed = true;
        Closed(Arc::clone(self))
    }

    /// Lets one pass, now or later.
    fn admit_one(&self) {
        self.state.lock().unwrap().admitted += 1;
        self.opened.notify_one();
    }

    fn pass(&self) {
        let state = self.state.lock().unwrap();
        let blocks = |state: &mut GateState| state.is_closed && state.admitted == 0;
        let mut state = self.opened.wait_while(state, blocks).unwrap();
        state.admitted = state.admitted.saturating_sub(1);
    }
}

/// Opens a gate when the test ends in any way: a server that is dropped waits for its disk.
struct Closed(Arc<Gate>);

impl Drop for Closed {
    fn drop(&mut self) {
        *self.0.state.lock().unwrap() = GateState::default();
        self.0.opened.notify_all();
    }
}

/// A disk whose files are written by a thread of its own, and which can block that thread.
#[derive(Debug, Clone, Default)]
struct SlowDisk {
    files: MemDisk,
    syncs: Arc<Gate>,
    snapshots: Arc<Gate>,
    panics: Arc<AtomicBool>,
    /// The threads that began a sync, by their names.
    syncing: Arc<Mutex<Vec<String>>>,
}

impl SlowDisk {
    /// Which threads began a sync since this was last asked.
    fn syncing(&self) -> Vec<String> {
        std::mem::take(&mut *self.syncing.lock().unwrap())
    }
}

#[derive(Debug)]
struct SlowFile {
    file: Box<dyn DiskFile>,
    disk: SlowDisk,
}

impl Disk for SlowDisk {
    fn create_directory(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        self.files.create_directory(directory)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.files.list(directory)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        self.files.open(path)
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        self.files.length(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        if path.to_string_lossy().contains("snapshot") {
            self.snapshots.pass();
        }
        Ok(Box::new(SlowFile { file: self.files.create(path)?, disk: self.clone() }))
    }

    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        self.files.truncate(path, length)
    }

    fn rewrite(&self, path: &Path, part: Range<u64>) -> io::Result<()> {
        self.files.rewrite(path, part)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.files.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.files.remove(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.files.sync_directory(directory)
    }

    fn lock(&self, directory: &Path) -> Result<Box<dyn DirectoryLock>, LockError> {
        self.files.lock(directory)
    }
}

impl Write for SlowFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl DiskFile for SlowFile {
    fn write_at(&mut self, position: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(position, bytes)
    }

    fn set_length(&mut self, length: u64) -> io::Result<()> {
        self.file.set_length(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        self.disk.syncing.lock().unwrap().push(thread);
        self.disk.syncs.pass();
        assert!(!self.disk.panics.load(Ordering::SeqCst), "the test lets the disk panic");
        self.file.sync()
    }
}

async fn start(disk: &SlowDisk, snap_count: u64) -> Server {
    let disk = Arc::new(disk.clone());
    let storage =
        StorageConfig { disk, snap_count, snap_retain_count: None, ..StorageConfig::at("/data") };
    let config = Config { storage: Some(storage), ..Config::default() };
    Server::builder().config(config).start().await.unwrap()
}

async fn receive(transport: &dyn Transport) -> Option<Bytes> {
    std::future::poll_fn(|context| transport.poll_receive(context)).await
}

fn frame(record: &impl Encode) -> Bytes {
    let mut frame = BytesMut::new();
    record.encode(&mut frame);
    frame.freeze()
}

/// Connects and opens a session, or reattaches to the session of an earlier response.
async fn shake_hands(server: &Server, before: Option<&ConnectResponse>) -> Box<dyn Transport> {
    let transport = server.dialer().dial().await.unwrap();
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: zoolet::protocol::Zxid::ZERO,
        timeout_ms: 30_000,
        session: before.map_or(zoolet::protocol::SessionId::NONE, |before| before.session),
        password: before.map_or_else(Default::default, |before| before.password.clone()),
        read_only: Some(false),
    };
    transport.send(frame(&request)).unwrap();
    transport
}

#[tokio::test]
async fn the_end_of_a_session_is_reported_after_it_is_durable() {
    let disk = SlowDisk::default();
    let server = start(&disk, 1_000).await;
    let first = shake_hands(&server, None).await;
    let answer = receive(&*first).await.unwrap();
    let session: ConnectResponse = decode_all(&answer).unwrap();

    let closed = disk.syncs.close();
    let close = RequestHeader { xid: Xid(1), op: OpCode::CLOSE_SESSION };
    first.send(frame(&close)).unwrap();
    let second = shake_hands(&server, Some(&session)).await;
    let early = tokio::time::timeout(MOMENT, receive(&*second)).await;
    assert!(early.is_err(), "the end of the session may still be lost: {early:?}");

    drop(closed);
    let answer = receive(&*second).await.unwrap();
    let refused: ConnectResponse = decode_all(&answer).unwrap();
    assert!(refused.session.is_none(), "{refused:?}");
    assert_eq!(receive(&*second).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_of_the_log_thread_stops_the_server() {
    let disk = SlowDisk::default();
    let server = start(&disk, 1_000).await;
    let client = Client::connect(server.dialer()).await.unwrap();
    let client = client.with_retry_policy(RetryPolicy::never());
    disk.panics.store(true, Ordering::SeqCst);
    let written = tokio::time::timeout(Duration::from_secs(20), client.create("/a").into_future());
    written.await.expect("the request fails").unwrap_err();
    let failure = tokio::time::timeout(Duration::from_secs(20), server.failure()).await;
    assert!(failure.unwrap().to_string().contains("panicked"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_taken_during_writes_equals_the_state_at_its_zxid() {
    let disk = SlowDisk::default();
    let server = start(&disk, 40).await;
    let client = Client::connect(server.dialer()).await.unwrap();
    let mut closed = Some(disk.snapshots.close());
    for number in 0..300_u32 {
        let path = format!("/{}", number % 30);
        match number / 30 % 3 {
            0 => drop(client.create(&path).data(number.to_string()).await.unwrap()),
            1 => drop(client.set(&path, number.to_string()).await.unwrap()),
            _ => client.delete(&path).await.unwrap(),
        }
        if number == 150 {
            closed = None;
        }
    }
    let directory = Path::new("/data/version-2");
    drop((closed, client, server));

    let names = disk.files.list(directory).unwrap();
    let zxid = |name: &str| i64::from_str_radix(name.split_once('.').unwrap().1, 16).unwrap();
    let mut logs: Vec<_> = names.iter().filter(|name| name.starts_with("log.")).collect();
    logs.sort_by_key(|name| zxid(name));
    let snapshots: Vec<_> =
        names.iter().filter(|name| name.starts_with("snapshot.") && zxid(name) > 0).collect();
    assert!(!snapshots.is_empty() && zxid(logs[0]) == 1, "{names:?}");
    for snapshot in snapshots {
        let mut core = Core::new(Settings::default());
        for log in &logs {
            let mut log = LogReader::new(disk.files.open(&directory.join(log)).unwrap()).unwrap();
            while let Some(record) = log.next_record().unwrap() {
                if record.txn.zxid.0 <= zxid(snapshot) {
                    core.apply(&record.txn);
                }
            }
        }
        assert_eq!(core.last_zxid().0, zxid(snapshot));
        let mut expected = Vec::new();
        write_snapshot(&core.freeze(), &mut expected).unwrap();
        let mut file = Vec::new();
        disk.files.open(&directory.join(snapshot)).unwrap().read_to_end(&mut file).unwrap();
        assert!(file == expected, "{snapshot} is not what the logs make of it");
    }
}

/// A server that is reached over TCP, and a client of it.
async fn start_over_tcp(disk: &SlowDisk) -> (Server, FrameStream) {
    let storage = StorageConfig { disk: Arc::new(disk.clone()), ..StorageConfig::at("/data") };
    let shutdown_timeout = Duration::from_millis(100);
    let config = Config { storage: Some(storage), shutdown_timeout, ..Config::default() };
    let builder = Server::builder().config(config).listen(([127, 0, 0, 1], 0).into());
    let server = builder.start().await.unwrap();
    let address = server.local_addr().unwrap();
    // The test ends with an error if the connection is open for longer.
    let open = move || {
        let mut stream = FrameStream::connect_within(address, Duration::from_secs(10))?;
        stream.shake_hands(&ConnectRequest::new(30_000)).map(|_| stream)
    };
    let stream = tokio::task::spawn_blocking(open).await.unwrap().unwrap();
    (server, stream)
}

/// They are carried out from where they were read, and their replies borrow.
#[tokio::test(flavor = "multi_thread")]
async fn the_replies_to_short_writes_wait_for_the_disk() {
    let disk = SlowDisk::default();
    let (server, mut stream) = start_over_tcp(&disk).await;
    let path = || RawPath::from("/a");
    let (version, data) = (Expect::Any, Some(Bytes::from_static(b"data")));
    let create = |path| Create::new(path, CreateMode::Persistent).acl(vec![Acl::open()]);
    let with_stat = Create { kind: CreateKind::Create2, ..create("/b") };
    let writes: [(OpCode, MultiOp); 5] = [
        (OpCode::CREATE, create("/a").into()),
        (OpCode::CREATE2, with_stat.into()),
        (OpCode::SET_DATA, SetData { path: path(), data, version }.into()),
        (OpCode::DELETE, Delete { path: path(), version }.into()),
        (OpCode::DELETE, Delete { path: path(), version }.into()),
    ];
    let closed = disk.syncs.close();
    for (xid, (_, write)) in (1..).zip(&writes) {
        let before = server.totals();
        let request = Request::Write(WriteRequest::Op(write.clone()));
        stream.send([&encode_request(Xid(xid), &request)]).unwrap();
        // Each but the last changes something, and is alone.
        while xid < 5 && server.totals() == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    let receive = move || writes.map(|(op, _)| (op, stream.receive().unwrap()));
    let mut received = tokio::task::spawn_blocking(receive);
    let early = tokio::time::timeout(MOMENT, &mut received).await;
    assert!(early.is_err(), "they may still be lost: {early:?}");
    drop(closed);
    let replies = received.await.unwrap().map(|(op, reply)| {
        let Ok(Incoming::Reply { header, body }) = decode_incoming(&reply) else {
            panic!("{reply:?} is no reply")
        };
        (header.xid.0, header.err, Response::decode_error(op, &body).unwrap())
    });
    let errors = replies.each_ref().map(|(xid, err, _)| (*xid, *err));
    let ok = ErrorCode::OK;
    assert_eq!(errors, [(1, ok), (2, ok), (3, ok), (4, ok), (5, ErrorCode::NO_NODE)]);
    let [created, created_with_stat, set, deleted, refused] = replies.map(|(_, _, body)| body);
    assert_eq!(
        [created, deleted, refused],
        [Response::Path(path()), Response::Empty, Response::Empty]
    );
    assert!(
        matches!(&created_with_stat, Response::PathStat(path, stat) if path == "/b" && stat.version == 0)
    );
    assert!(matches!(&set, Response::Stat(stat) if stat.version == 1));
}

/// The connection of a client that waits for the disk, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_ends_its_connections_in_time_though_the_disk_hangs() {
    let disk = SlowDisk::default();
    let (server, mut stream) = start_over_tcp(&disk).await;
    let (znodes, closed) = (server.totals().znodes, disk.syncs.close());
    let create = Create::new("/a", CreateMode::Persistent).acl(vec![Acl::open()]);
    let create = encode_request(Xid(1), &Request::Write(WriteRequest::Op(create.into())));
    stream.send([&create]).unwrap();
    let client = tokio::task::spawn_blocking(move || stream.receive());
    while server.totals().znodes == znodes {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let ending = tokio::spawn(server.shutdown());
    let end = client.await.unwrap().unwrap_err();
    assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof, "{end}");
    drop(closed);
    ending.await.unwrap();
}

/// The name of the threads of a runtime.
const WORKER: &str = "tokio-rt-worker";

/// The name of the thread that writes the log.
const LOG_THREAD: &str = "zoolet-log";

/// A create in a task of its own, as a frame: who sends it need not wait for the reply.
fn create(path: &str, xid: i32) -> Bytes {
    let create = Create::new(path, CreateMode::Persistent).acl(vec![Acl::open()]);
    encode_request(Xid(xid), &Request::Write(WriteRequest::Op(create.into())))
}

/// Writes one by one until a worker of the runtime syncs the log.
async fn write_until_inline(server: &Server, disk: &SlowDisk) {
    let transport = shake_hands(server, None).await;
    let syncing = disk.clone();
    let writes = async move {
        receive(&*transport).await.unwrap();
        for number in 1.. {
            syncing.syncing();
            transport.send(create(&format!("/inline-{number}"), number)).unwrap();
            receive(&*transport).await.unwrap();
            if syncing.syncing() == [WORKER] {
                break;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), tokio::spawn(writes)).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_writes_alone_wakes_no_other_thread() {
    let disk = SlowDisk::default();
    let server = start(&disk, 1_000_000).await;
    write_until_inline(&server, &disk).await;
}

#[tokio::test]
async fn on_a_runtime_with_one_thread_the_thread_of_the_log_syncs() {
    let disk = SlowDisk::default();
    let server = start(&disk, 1_000_000).await;
    let client = Client::connect(server.dialer()).await.unwrap();
    disk.syncing();
    for number in 0..100 {
        client.create(&format!("/{number}")).await.unwrap();
    }
    let syncing = disk.syncing();
    assert!(syncing.iter().all(|name| name == LOG_THREAD), "{syncing:?}");
}

/// The only other worker sleeps, and nobody waits for the sockets and timers of the runtime until it
/// is woken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_go_on_while_a_worker_waits_for_a_disk_that_hangs() {
    let disk = SlowDisk::default();
    let server = start(&disk, 1_000_000).await;
    for _ in 0..20 {
        write_until_inline(&server, &disk).await;
        let transport = shake_hands(&server, None).await;
        receive(&*transport).await.unwrap();
        disk.syncing();
        let closed = disk.syncs.close();
        let writes = tokio::spawn(async move {
            transport.send(create("/a", 1)).unwrap();
            receive(&*transport).await
        });
        let ticks = tokio::spawn(async {
            for _ in 0..20 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        tokio::time::timeout(Duration::from_secs(20), ticks).await.unwrap().unwrap();
        assert!(!writes.is_finished(), "it is not durable");
        drop(closed);
        writes.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_becomes_durable_though_its_task_keeps_the_worker_busy() {
    let disk = SlowDisk::default();
    let server = start(&disk, 1_000_000).await;
    write_until_inline(&server, &disk).await;
    let transport = shake_hands(&server, None).await;
    receive(&*transport).await.unwrap();
    disk.syncing();
    let busy = Arc::new(Gate::default());
    let closed = busy.close();
    let hog = tokio::spawn(async move {
        transport.send(create("/a", 1)).unwrap();
        // The task that was asked waits for this worker, and nobody else may run it.
        busy.pass();
    });
    let syncs = async {
        while disk.syncing().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), syncs).await.unwrap();
    drop(closed);
    hog.await.unwrap();
}

/// Blocks who wakes it while the gate is closed, as a client does that computes when it has its reply.
struct Blocking(Arc<Gate>);

impl Wake for Blocking {
    fn wake(self: Arc<Self>) {
        self.0.pass();
    }
}

/// Waits until so many syncs have begun.
async fn until_syncing(disk: &SlowDisk, count: usize) {
    let syncing = async {
        while disk.syncing.lock().unwrap().len() < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let within = tokio::time::timeout(Duration::from_secs(20), syncing).await;
    within.unwrap_or_else(|_| panic!("sync {count} does not begin: {:?}", disk.syncing()));
}

/// Panics when it is woken first, as a client's executor may.
#[derive(Default)]
struct Panicking(AtomicBool);

impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        let was_woken = self.0.swap(true, Ordering::SeqCst);
        assert!(was_woken, "the test lets whoever wakes it panic");
    }
}

/// Many clients whose writes share a sync, so that the task of the log wakes them.
struct Crowd {
    clients: Vec<Box<dyn Transport>>,
    disk: SlowDisk,
}

impl Crowd {
    const MANY: usize = 40;

    async fn connect(server: &Server, disk: &SlowDisk) -> Self {
        let mut clients = Vec::new();
        for _ in 0..Self::MANY + 2 {
            let transport = shake_hands(server, None).await;
            receive(&*transport).await.unwrap();
            clients.push(transport);
        }
        disk.syncing();
        Self { clients, disk: disk.clone() }
    }

    fn send(&self, client: usize) {
        self.clients[client].send(create(&format!("/{client}"), 1)).unwrap();
    }

    fn has_reply(&self, client: usize, waker: &Waker) -> bool {
        self.clients[client].poll_receive(&mut Context::from_waker(waker)).is_ready()
    }

    /// Lets the writes of the many share the second sync. It ends when another write waits for the third.
    async fn share_a_sync(&self, waker: &Waker) {
        self.send(0);
        until_syncing(&self.disk, 1).await;
        (1..=Self::MANY).for_each(|client| self.send(client));
        self.disk.syncs.admit_one();
        until_syncing(&self.disk, 2).await;
        // Not before: if so many waited when the first sync ended, the task would be asked to wake them then, and
        // the thread would wake them itself after the second if the task had not begun by that time.
        assert!((1..=Self::MANY).all(|client| !self.has_reply(client, waker)), "it is not durable");
        self.send(Self::MANY + 1);
        self.disk.syncs.admit_one();
    }
}

/// Each reply is there once its sync has ended, whoever else has not received his.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_batch_is_written_while_replies_to_the_last_one_are_given() {
    let disk = SlowDisk::default();
    let server = start(&disk, 1_000_000).await;
    let crowd = Crowd::connect(&server, &disk).await;
    let syncs = disk.syncs.close();
    let busy = Arc::new(Gate::default());
    let given = busy.close();
    let waker = Waker::from(Arc::new(Blocking(Arc::clone(&busy))));
    crowd.share_a_sync(&waker).await;
    // Whoever wakes the many is held up by the first of them.
    until_syncing(&disk, 3).await;
    assert!((1..=Crowd::MANY).all(|client| crowd.has_reply(client, &waker)), "it is durable");
    assert!(!crowd.has_reply(Crowd::MANY + 1, Waker::noop()), "it is not durable");
    drop(syncs);
    let last = receive(&*crowd.clients[Crowd::MANY + 1]);
    tokio::time::timeout(Duration::from_secs(20), last).await.expect("a reply").unwrap();
    drop(given);
}

/// The others who were to be woken would wait forever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_while_many_replies_are_given_stops_the_server() {
    let disk = SlowDisk::default();
    let server = start(&disk, 1_000_000).await;
    let crowd = Crowd::connect(&server, &disk).await;
    let syncs = disk.syncs.close();
    crowd.share_a_sync(&Waker::from(Arc::new(Panicking::default()))).await;
    let failure = tokio::time::timeout(Duration::from_secs(20), server.failure()).await;
    assert!(failure.expect("the server stops").to_string().contains("panicked"));
    drop(syncs);
}

#[test]
fn a_server_writes_though_the_runtime_that_started_it_is_gone() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).enable_all().build().unwrap()
    };
    let (first, second) = (runtime(), runtime());
    let disk = SlowDisk::default();
    let server = first.block_on(async {
        let server = start(&disk, 1_000_000).await;
        write_until_inline(&server, &disk).await;
        server
    });
    first.shutdown_timeout(Duration::from_secs(20));
    let written = second.block_on(async {
        let transport = shake_hands(&server, None).await;
        let answers = async {
            receive(&*transport).await.unwrap();
            transport.send(create("/a", 1)).unwrap();
            receive(&*transport).await.unwrap()
        };
        tokio::time::timeout(Duration::from_secs(20), answers).await
    });
    written.expect("it is acknowledged");
    drop(server);
}
