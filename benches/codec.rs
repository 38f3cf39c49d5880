//! How long it takes to decode and encode messages: requests, replies, multis and long lists of children.
//!
//! ```text
//! cargo bench -p zoolet-benches --bench codec
//! ```

#![allow(missing_docs, reason = "what criterion's macro makes has no docs")]

use std::hint::black_box;

use bytes::{Bytes, BytesMut};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use zoolet::protocol::{
    CreateFlags, ErrorCode, EventType, Incoming, Lookup, MultiResult, Names, OpCode, ReplyHeader,
    Request, Response, Stat, WatchedEvent, Write, Xid, Zxid, decode_incoming, decode_request,
    encode_event, encode_reply, encode_request,
};
use zoolet_benches::requests::{DATA, create, create_op, lookup, set_data};
use zoolet_benches::sizes;

const PATH: &str = "/locks/stock/_c_0f8fad5b-d9cb-469f-a165-70867728950e-lock-0000000001";
const HEADER: ReplyHeader = ReplyHeader { xid: Xid(1), zxid: Zxid(7), err: ErrorCode::OK };

fn multi(creates: usize) -> Request {
    let op = create_op(PATH, CreateFlags::EPHEMERAL_SEQUENTIAL);
    Request::Write(Write::Multi(vec![op; creates]))
}

fn requests(criterion: &mut Criterion) {
    let create = create(PATH, CreateFlags::EPHEMERAL_SEQUENTIAL);
    let all = [
        ("getData".to_owned(), Request::Read(lookup(PATH, Lookup::GetData))),
        ("setData of 100 bytes".to_owned(), Request::Write(set_data(PATH))),
        ("create of 100 bytes".to_owned(), Request::Write(create)),
    ];
    let multis =
        sizes(&[10, 1_000], 10).map(|creates| (format!("multi of {creates}"), multi(creates)));
    let mut group = criterion.benchmark_group("codec: requests");
    for (name, request) in all.into_iter().chain(multis) {
        let frame = encode_request(Xid(1), &request);
        group.throughput(Throughput::Bytes(frame.len() as u64));
        group.bench_function(BenchmarkId::new(&name, "decode"), |b| {
            b.iter(|| decode_request(black_box(&frame)));
        });
        group.bench_function(BenchmarkId::new(&name, "encode"), |b| {
            b.iter(|| encode_request(Xid(1), black_box(&request)));
        });
    }
    group.finish();
}

fn names(count: usize) -> Names {
    let names: Vec<_> = (0..count)
        .map(|number| format!("_c_0f8fad5b-d9cb-469f-a165-70867728950e-lock-{number:010}"))
        .collect();
    names.iter().map(String::as_str).collect()
}

fn reply(response: &Response) -> Bytes {
    let mut frame = BytesMut::new();
    encode_reply(&HEADER, response, &mut frame);
    frame.freeze()
}

/// Decodes as a client that has found the request of a reply.
fn read(op: OpCode, frame: &Bytes) -> Response {
    match decode_incoming(frame) {
        Ok(Incoming::Reply { body, .. }) => Response::decode(op, &body).expect("it was encoded"),
        other => panic!("a reply was encoded: {other:?}"),
    }
}

fn replies(criterion: &mut Criterion) {
    let data = Response::Data(Some(Bytes::from_static(DATA)), Stat::default());
    let created = MultiResult::Create(PATH.into());
    let mut all = vec![
        ("exists".to_owned(), OpCode::EXISTS, Response::Stat(Stat::default())),
        ("getData of 100 bytes".to_owned(), OpCode::GET_DATA, data),
        ("multi of 10".to_owned(), OpCode::MULTI, Response::Multi(vec![created; 10])),
    ];
    for children in sizes(&[10, 1_000, 10_000], 10) {
        let name = format!("getChildren of {children}");
        all.push((name, OpCode::GET_CHILDREN, Response::Names(names(children))));
    }
    let mut group = criterion.benchmark_group("codec: replies");
    for (name, op, response) in all {
        let frame = reply(&response);
        group.throughput(Throughput::Bytes(frame.len() as u64));
        group.bench_function(BenchmarkId::new(&name, "decode"), |b| {
            b.iter(|| read(op, black_box(&frame)));
        });
        group.bench_function(BenchmarkId::new(&name, "encode"), |b| {
            // As the server does, into a buffer with enough capacity.
            let mut out = BytesMut::with_capacity(frame.len());
            b.iter(|| {
                out.clear();
                encode_reply(&HEADER, black_box(&response), &mut out);
                out.len()
            });
        });
    }
    let event = WatchedEvent::new(EventType::NODE_DELETED, PATH);
    let frame = encode_event(Zxid(7), &event);
    group.throughput(Throughput::Bytes(frame.len() as u64));
    group.bench_function(BenchmarkId::new("event", "decode"), |b| {
        b.iter(|| decode_incoming(black_box(&frame)));
    });
    group.bench_function(BenchmarkId::new("event", "encode"), |b| {
        b.iter(|| encode_event(Zxid(7), black_box(&event)));
    });
    group.finish();
}

criterion_group!(benches, requests, replies);
criterion_main!(benches);
