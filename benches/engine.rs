//! What a request costs: create, getData, setData, getChildren, and the firing of a watch that 1
//! to 10,000 connections have left; on the state machine alone, and in process with decoding,
//! locking, outbox and encoding.
//!
//! Numbers of different rows of one run may be compared; those of different machines may not.

#![allow(missing_docs, reason = "what criterion's macro makes has no docs")]

use std::hint::black_box;

use bytes::Bytes;
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use zoolet::core::{ConnectionId, Core, Requester, Settings};
use zoolet::protocol::{
    Acl, ConnectRequest, Create, CreateFlags, CreateKind, Dial, Encode, Expect, Lookup, MultiOp,
    Read, Request, SessionId, SetData, Transport, Watch, Write, Xid, encode_request,
};
use zoolet::{Config, Server};

/// The numbers of watchers: small ones where the bench only has to run, under `cargo test`.
fn watchers(most: u64) -> impl Iterator<Item = u64> {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let most = if is_bench { most } else { 10 };
    [1, 10, 100, 1_000, 10_000].into_iter().filter(move |&count| count <= most)
}

const SESSION: SessionId = SessionId(1);
const DATA: &[u8] = &[7; 100];

fn lookup(path: &str, wrap: fn(zoolet::protocol::RawPath) -> Lookup) -> Read {
    Read::Lookup(wrap(path.into()))
}

fn create(path: &str, flags: CreateFlags) -> Write {
    Write::Op(MultiOp::Create(Create {
        kind: CreateKind::Create,
        path: path.into(),
        data: Some(Bytes::from_static(DATA)),
        acl: Some(vec![Acl::open()]),
        flags,
    }))
}

fn set_data(path: &str) -> Write {
    let data = Some(Bytes::from_static(DATA));
    Write::Op(MultiOp::SetData(SetData { path: path.into(), data, version: Expect::Any }))
}

fn requester(connection: u64) -> Requester {
    Requester::new(SESSION, ConnectionId(connection), Xid(1))
}

/// A state machine with `/dir` and `children` znodes in it.
fn core_with(children: usize) -> Core {
    let mut core = Core::new(Settings::default());
    core.apply(&core.prepare_create_session(SESSION, 30_000, 0));
    apply(&mut core, &create("/dir", CreateFlags::PERSISTENT));
    for _ in 0..children {
        apply(&mut core, &create("/dir/lock-", CreateFlags::PERSISTENT_SEQUENTIAL));
    }
    core
}

fn apply(core: &mut Core, write: &Write) -> zoolet::core::Effects {
    let txn = core.prepare(write, &requester(1), 0);
    core.apply(&txn)
}

fn state_machine(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("core");
    let mut core = core_with(1_000);
    let asker = requester(1);
    let get = lookup("/dir", Lookup::GetData);
    group.bench_function("getData", |b| b.iter(|| black_box(core.read(black_box(&get), &asker))));
    let set = set_data("/dir");
    group.bench_function("setData", |b| b.iter(|| black_box(apply(&mut core, &set))));
    for children in [10, 1_000] {
        let core = core_with(children);
        let list = lookup("/dir", Lookup::GetChildren);
        let id = BenchmarkId::new("getChildren", children);
        group.bench_function(id, |b| b.iter(|| black_box(core.read(&list, &asker))));
    }
    let sequential = create("/dir/lock-", CreateFlags::PERSISTENT_SEQUENTIAL);
    group.bench_function("create", |b| {
        b.iter_batched_ref(
            || core_with(1_000),
            |core| {
                for _ in 0..1_000 {
                    black_box(apply(core, &sequential));
                }
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

fn fire(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fire");
    for watchers in watchers(10_000) {
        let mut core = core_with(0);
        let watch = Watch::Lookup(Lookup::GetData("/dir".into()));
        let set = set_data("/dir");
        group.throughput(Throughput::Elements(watchers));
        group.bench_function(BenchmarkId::new("arm and fire", watchers), |b| {
            b.iter(|| {
                for connection in 0..watchers {
                    core.watch(&watch, &requester(connection));
                }
                black_box(apply(&mut core, &set))
            });
        });
    }
    group.finish();
}

/// A client in process: frames in, frames out, on this thread.
struct Client(Box<dyn Transport>);

impl Client {
    fn connect(runtime: &tokio::runtime::Runtime, server: &Server) -> Self {
        let transport = runtime.block_on(server.dialer().dial()).expect("the server is there");
        let mut handshake = bytes::BytesMut::new();
        ConnectRequest::new(30_000).encode(&mut handshake);
        transport.send(handshake.freeze()).expect("the connection is new");
        let client = Self(transport);
        client.receive();
        client
    }

    fn receive(&self) -> Bytes {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match self.0.poll_receive(&mut context) {
            std::task::Poll::Ready(Some(frame)) => frame,
            other => panic!("a frame should be there: {other:?}"),
        }
    }

    fn call(&self, request: &Request) -> Bytes {
        self.0.send(encode_request(Xid(1), request)).expect("the connection is open");
        self.receive()
    }
}

fn in_process(criterion: &mut Criterion) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let server = runtime
        .block_on(Server::builder().config(Config::default()).start())
        .expect("a server that listens nowhere starts");
    let mut group = criterion.benchmark_group("in process");
    let client = Client::connect(&runtime, &server);
    client.call(&Request::Write(create("/dir", CreateFlags::PERSISTENT)));
    for _ in 0..1_000 {
        client.call(&Request::Write(create("/dir/n-", CreateFlags::PERSISTENT_SEQUENTIAL)));
    }
    let get = Request::Read(lookup("/dir", Lookup::GetData));
    group.bench_function("getData", |b| b.iter(|| black_box(client.call(&get))));
    let set = Request::Write(set_data("/dir"));
    group.bench_function("setData", |b| b.iter(|| black_box(client.call(&set))));
    let list = Request::Read(lookup("/dir", Lookup::GetChildren));
    group.bench_function("getChildren/1000", |b| b.iter(|| black_box(client.call(&list))));
    let cycle = [
        Request::Write(create("/dir/x", CreateFlags::EPHEMERAL)),
        Request::Write(Write::Op(MultiOp::Delete(zoolet::protocol::Delete {
            path: "/dir/x".into(),
            version: Expect::Any,
        }))),
    ];
    group.bench_function("create and delete", |b| {
        b.iter(|| cycle.each_ref().map(|request| black_box(client.call(request))));
    });
    for watchers in watchers(10_000) {
        let clients: Vec<_> = (0..watchers).map(|_| Client::connect(&runtime, &server)).collect();
        let watch = Request::Watch(Watch::Lookup(Lookup::GetData("/dir".into())));
        group.throughput(Throughput::Elements(watchers));
        group.bench_function(BenchmarkId::new("arm and fire", watchers), |b| {
            b.iter(|| {
                for client in &clients {
                    client.call(&watch);
                }
                client.call(&set);
                for client in &clients {
                    black_box(client.receive());
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, state_machine, fire, in_process);
criterion_main!(benches);
