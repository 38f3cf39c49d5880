//! Properties of every value and of any bytes:
//!
//! - Decoding what was encoded gives the same value, and `encoded_len` is the number of bytes.
//! - A frame that was cut short is an error, wherever it was cut.
//! - Bytes that are no record never cause a panic, nor more memory than in proportion to their
//!   number.

use std::fmt::Debug;
use std::mem::size_of;

use bytes::{BufMut, Bytes, BytesMut};
use bytestring::ByteString;
use proptest::collection::vec;
use proptest::prelude::*;
use zoolet_protocol::{
    Acl, ClientInfo, ConnectRequest, ConnectResponse, Create, Decode, DecodeError, DecodeFault,
    Encode, FrameCodec, Incoming, MultiOp, MultiReadOp, MultiResult, Names, OpCode, Password,
    RawPath, Read, ReplyHeader, Request, RequestHeader, Response, Write, Xid, decode_all,
    decode_incoming, decode_request, encode_event, encode_reply, encode_request, into_incoming,
};

mod values;

// Values: encoded and decoded, and cut short.

/// The properties of a value that is complete in itself.
fn check_record<T: Encode + Decode + PartialEq + Debug>(value: &T) {
    let frame = encoded(value);
    assert!(frame.len() >= T::MIN_BYTES, "{value:?} is shorter than MIN_BYTES");
    assert_eq!(decode_all::<T>(&frame).as_ref(), Ok(value));
    for end in 0..frame.len() {
        let cut = decode_all::<T>(&frame.slice(..end));
        assert!(cut.is_err(), "{value:?} cut at {end} reads as {cut:?}");
    }
    let longer = [&frame[..], b"more"].concat().into();
    assert_eq!(decode_all::<T>(&longer).as_ref(), Ok(value), "with bytes after it");
}

macro_rules! check_records {
    ($( $name:ident: $strategy:expr; )+) => {
        proptest! { $( #[test] fn $name(value in $strategy) { check_record(&value); } )+ }
    };
}

check_records! {
    int: any::<i32>();
    long: any::<i64>();
    boolean: any::<bool>();
    buffer: values::data();
    text: values::text();
    text_or_null: proptest::option::of(values::text());
    vector: vec(values::text(), 0..4);
    vector_or_null: values::acls();
    zxid: values::zxid();
    xid: values::xid();
    session_id: values::session();
    expected_version: values::expect();
    path: values::path();
    names: values::names();
    stat: values::stat();
    id: values::id();
    acl: values::acl();
    password: values::password();
    request_header: values::request_header();
    reply_header: values::reply_header();
    watched_event: values::event();
    client_info: values::client_info();
    delete: values::delete();
    set_data: values::set_data();
    check: values::check();
    set_acl: values::set_acl();
    reconfig: values::reconfig();
    add_watch: values::add_watch();
    remove_watches: values::remove_watches();
    check_watches: values::check_watches();
    set_watches2: values::set_watches();
    auth: values::auth();
}

proptest! {
    #[test]
    fn connect_request(request in values::connect_request()) {
        let without_flag = ConnectRequest { read_only: None, ..request.clone() };
        check_handshake(&request, &without_flag, request.read_only.is_some());
    }

    #[test]
    fn connect_response(response in values::connect_response()) {
        let without_flag = ConnectResponse { read_only: None, ..response.clone() };
        check_handshake(&response, &without_flag, response.read_only.is_some());
    }

    #[test]
    fn unknown_request(xid in values::xid(), request in values::unknown_request()) {
        let frame = encode_request(xid, &request);
        let header = RequestHeader { xid, op: request.op_code() };
        prop_assert_eq!(decode_request(&frame), Ok((header, Ok(request))));
    }

    #[test]
    fn event(zxid in values::zxid(), event in values::event()) {
        let frame = encode_event(zxid, &event);
        prop_assert_eq!(decode_incoming(&frame), Ok(Incoming::Event { zxid, event }));
        prop_assert_eq!(into_incoming(frame.clone()), decode_incoming(&frame));
        for end in 0..frame.len() {
            let cut = frame.slice(..end);
            prop_assert!(decode_incoming(&cut).is_err());
            prop_assert_eq!(into_incoming(cut.clone()), decode_incoming(&cut));
        }
    }

    #[test]
    fn names_contain_their_parts(texts in vec(values::text(), 0..6)) {
        let names: Names = texts.iter().map(|text| &**text).collect();
        prop_assert_eq!(names.len(), texts.len());
        prop_assert!(names.iter().eq(texts.iter().map(|text| &**text)));
        let decoded: Names = decode_all(&encoded(&names)).expect("names");
        prop_assert!(decoded.iter().eq(names.iter()));
    }

    #[test]
    fn frames_are_decoded_however_the_stream_is_cut(
        payloads in vec(values::bytes(), 0..6),
        chunk in 1..40usize,
    ) {
        let mut sent = BytesMut::new();
        payloads.iter().for_each(|payload| FrameCodec::put(payload, &mut sent));
        let codec = FrameCodec::default();
        let mut stream = BytesMut::new();
        let mut received = Vec::new();
        for part in sent.chunks(chunk) {
            stream.extend_from_slice(part);
            while let Some(frame) = codec.next_frame(&mut stream).expect("legal lengths") {
                received.push(frame);
            }
        }
        prop_assert_eq!(received, payloads);
        prop_assert!(stream.is_empty());
    }

    #[test]
    fn frames_beyond_the_limit_are_refused(
        length in prop_oneof![any::<i32>(), -2..8],
        limit in 0..8usize,
    ) {
        let mut stream = BytesMut::from(&length.to_be_bytes()[..]);
        let is_legal = usize::try_from(length).is_ok_and(|length| length <= limit);
        prop_assert_eq!(FrameCodec::new(limit).next_frame(&mut stream).is_ok(), is_legal);
    }
}

/// Two values that a round trip could mistake for each other.
#[test]
fn null_has_the_length_minus_one_and_empty_the_length_zero() {
    let null = Bytes::from_static(&[0xff; 4]);
    assert_eq!(encoded(&None::<Bytes>), null);
    assert_eq!(encoded(&None::<ByteString>), null);
    assert_eq!(encoded(&None::<Vec<Acl>>), null);
    assert_eq!(encoded(&RawPath::NULL), null);
    assert_eq!(encoded(&Names::NULL), null);
    assert_eq!(encoded(&Password::NULL), null);
    let empty = Bytes::from_static(&[0; 4]);
    assert_eq!(encoded(&Some(Bytes::new())), empty);
    assert_eq!(encoded(&ByteString::new()), empty);
    assert_eq!(encoded(&Some(Vec::<Acl>::new())), empty);
    assert_eq!(encoded(&Names::EMPTY), empty);
}

/// About a hundred cases for each operation.
const CASES_OF_ALL_OPERATIONS: u32 = 3_000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES_OF_ALL_OPERATIONS))]

    #[test]
    fn request(xid in values::xid(), request in values::request()) {
        check_request(xid, &request);
    }

    #[test]
    fn response(
        (op, response) in answered(),
        header in values::reply_header().prop_filter("a reply", |reply| reply.xid != Xid::EVENT),
    ) {
        check_response(op, header, &response);
    }
}

#[test]
fn every_operation_has_a_request() {
    let operations = values::operations();
    assert_eq!(operations.len(), 30, "{operations:?}");
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for op in operations {
        let tree = values::request_of(op).new_tree(&mut runner).expect("a request");
        let request = proptest::strategy::ValueTree::current(&tree);
        assert_eq!(request.op_code(), op);
        assert!(!matches!(request, Request::Unknown { .. }), "{op}");
    }
}

/// The flag at the end may be missing; every other end is an error.
fn check_handshake<T>(value: &T, without_flag: &T, has_flag: bool)
where
    T: Encode + Decode + PartialEq + Debug,
{
    let frame = encoded(value);
    assert_eq!(decode_all::<T>(&frame).as_ref(), Ok(value));
    let flag_at = frame.len() - usize::from(has_flag);
    for end in T::MIN_BYTES.min(flag_at)..flag_at {
        assert!(decode_all::<T>(&frame.slice(..end)).is_err(), "{value:?} cut at {end}");
    }
    assert_eq!(decode_all::<T>(&frame.slice(..flag_at)).as_ref(), Ok(without_flag));
}

fn check_request(xid: Xid, request: &Request) {
    let header = RequestHeader { xid, op: request.op_code() };
    let frame = encode_request(xid, request);
    assert_eq!(frame.len(), header.encoded_len() + request.encoded_len());
    assert_eq!(decode_request(&frame), Ok((header, Ok(request.clone()))));
    for end in 0..frame.len() {
        match decode_request(&frame.slice(..end)) {
            Err(_) => assert!(end < header.encoded_len(), "there is a header"),
            Ok((_, Err(_))) => assert!(end >= header.encoded_len(), "there is no header"),
            Ok((_, Ok(cut))) => panic!("{request:?} cut at {end} reads as {cut:?}"),
        }
    }
}

/// An operation with a reply to it.
fn answered() -> impl Strategy<Value = (OpCode, Response)> {
    proptest::sample::select(values::operations())
        .prop_flat_map(|op| values::response_of(op).prop_map(move |response| (op, response)))
}

fn check_response(op: OpCode, header: ReplyHeader, response: &Response) {
    let mut frame = BytesMut::new();
    encode_reply(&header, response, &mut frame);
    let frame = frame.freeze();
    assert_eq!(frame.len(), header.encoded_len() + response.encoded_len());
    let body = response.to_bytes();
    let reply = Incoming::Reply { header, body: body.clone() };
    assert_eq!(decode_incoming(&frame), Ok(reply));
    assert_eq!(into_incoming(frame.clone()), decode_incoming(&frame));
    assert_eq!(Response::decode(op, &body).as_ref(), Ok(response));
    assert_eq!(Response::decode_error(op, &body).as_ref(), Ok(response));
    for end in 0..body.len() {
        let cut = Response::decode(op, &body.slice(..end));
        assert!(cut.is_err(), "{response:?} cut at {end} reads as {cut:?}");
    }
    for end in 0..header.encoded_len() {
        assert!(decode_incoming(&frame.slice(..end)).is_err());
    }
}

// Bytes that are no record.

/// The bytes of memory for each byte of a frame. A `delete` in a multi's results takes 9 bytes, and
/// as much memory as the greatest result; a vector that grows has room for twice its entries.
const AMPLIFICATION_MAX: usize = 32;

/// The memory that a growing vector takes for its first entries.
const ALLOCATION_MIN: usize = 1_024;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES_OF_ALL_OPERATIONS))]

    #[test]
    fn random_bytes_cause_no_panic(bytes in vec(any::<u8>(), 0..200)) {
        decode_as_everything(&bytes.into());
    }

    /// Small integers are more often records, or nearly records, than random bytes.
    #[test]
    fn small_integers_cause_no_panic(
        op in proptest::sample::select(values::operations()),
        integers in vec(-2..5i32, 0..60),
    ) {
        let mut frame = BytesMut::new();
        RequestHeader { xid: Xid(1), op }.encode(&mut frame);
        integers.iter().for_each(|integer| frame.put_i32(*integer));
        decode_as_everything(&frame.freeze());
    }

    #[test]
    fn a_damaged_request_causes_no_panic(
        request in values::request(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        decode_as_everything(&damaged(&encode_request(Xid(1), &request), &damage));
    }

    #[test]
    fn a_damaged_response_causes_no_panic(
        (op, response) in answered(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        check_response_bytes(op, &damaged(&response.to_bytes(), &damage));
    }
}

/// Overwrites some bytes, half of them with 0xff, which makes lengths negative.
fn damaged(frame: &Bytes, damage: &[(prop::sample::Index, u8)]) -> Bytes {
    let mut bytes = frame.to_vec();
    for (index, byte) in damage.iter().filter(|_| !frame.is_empty()) {
        let at = index.index(bytes.len());
        bytes[at] = if byte % 2 == 0 { *byte } else { 0xff };
    }
    bytes.into()
}

fn decode_as_everything(frame: &Bytes) {
    let _ = decode_all::<ConnectRequest>(frame);
    let _ = decode_all::<ConnectResponse>(frame);
    assert_eq!(into_incoming(frame.clone()), decode_incoming(frame));
    check_vector(&decode_all::<Vec<Acl>>(frame), frame);
    check_vector(&decode_all::<Vec<ByteString>>(frame), frame);
    check_vector(&decode_all::<Vec<i64>>(frame), frame);
    if let Ok((header, Ok(request))) = decode_request(frame) {
        check_memory(request_memory(&request), frame);
        let again = decode_request(&encode_request(header.xid, &request));
        assert_eq!(again, Ok((header, Ok(request))));
    }
    for op in values::operations() {
        check_response_bytes(op, frame);
    }
}

fn check_response_bytes(op: OpCode, body: &Bytes) {
    if let Ok(response) = Response::decode(op, body) {
        check_memory(response_memory(&response), body);
        assert_eq!(Response::decode(op, &response.to_bytes()), Ok(response));
    }
}

fn check_vector<T>(vector: &Result<Vec<T>, DecodeError>, frame: &Bytes) {
    check_memory(vector.as_ref().map_or(0, vector_memory), frame);
}

fn check_memory(memory: usize, frame: &Bytes) {
    let allowed = ALLOCATION_MIN + AMPLIFICATION_MAX * frame.len();
    assert!(memory <= allowed, "{memory} bytes of memory for a frame of {}", frame.len());
}

/// The memory of the vectors of a request. Strings and buffers are slices of the frame.
fn request_memory(request: &Request) -> usize {
    match request {
        Request::Write(Write::Op(op)) => op_memory(op),
        Request::Write(Write::SetAcl(set)) => set.acl.as_ref().map_or(0, vector_memory),
        Request::Write(Write::Multi(ops)) => {
            vector_memory(ops) + ops.iter().map(op_memory).sum::<usize>()
        }
        Request::Read(Read::MultiRead(reads)) => vector_memory::<MultiReadOp>(reads),
        _ => 0,
    }
}

fn op_memory(op: &MultiOp) -> usize {
    match op {
        MultiOp::Create(Create { acl: Some(acl), .. }) => vector_memory(acl),
        _ => 0,
    }
}

fn response_memory(response: &Response) -> usize {
    match response {
        Response::Acl(Some(acl), _) => vector_memory(acl),
        Response::Multi(results) => vector_memory::<MultiResult>(results),
        Response::WhoAmI(infos) => vector_memory::<ClientInfo>(infos),
        _ => 0,
    }
}

fn vector_memory<T>(vector: &Vec<T>) -> usize {
    vector.capacity() * size_of::<T>()
}

/// A count is compared with the bytes that follow before memory is allocated for the entries.
#[test]
fn a_million_entries_in_ten_bytes_are_refused_at_once() {
    for claimed in [7, 1_000, 1_000_000, i32::MAX] {
        let mut frame = BytesMut::new();
        claimed.encode(&mut frame);
        frame.put_slice(&[0; 6]);
        let frame = frame.freeze();
        let refused = Some(DecodeFault::LengthBeyondInput { claimed, left: 6 });
        assert_eq!(fault(decode_all::<Vec<Acl>>(&frame)), refused);
        assert_eq!(fault(decode_all::<Option<Vec<Acl>>>(&frame)), refused);
        assert_eq!(fault(decode_all::<Vec<ClientInfo>>(&frame)), refused);
        assert_eq!(fault(decode_all::<Vec<ByteString>>(&frame)), refused);
        assert_eq!(fault(decode_all::<Vec<i32>>(&frame)), refused);
        assert_eq!(fault(decode_all::<Vec<bool>>(&frame)), refused);
        assert_eq!(fault(decode_all::<Names>(&frame)), refused);
        assert_eq!(fault(decode_all::<ByteString>(&frame)), refused);
        assert_eq!(fault(decode_all::<Option<Bytes>>(&frame)), refused);
    }
}

/// The same for a vector at the end of a request or a reply.
#[test]
fn a_million_entries_at_the_end_of_a_frame_are_refused_at_once() {
    let bodies: &[(OpCode, &[u8])] = &[
        (OpCode::CREATE, b"\0\0\0\x01/\xff\xff\xff\xff"),
        (OpCode::CREATE_TTL, b"\0\0\0\x01/\xff\xff\xff\xff"),
        (OpCode::SET_ACL, b"\0\0\0\x01/"),
        (OpCode::SET_WATCHES, &[0; 8]),
        (OpCode::SET_WATCHES, &[0; 16]),
        (OpCode::SET_WATCHES2, &[0; 24]),
        (OpCode::MULTI, b"\0\0\0\x01\0\xff\xff\xff\xff\0\0\0\x01/\xff\xff\xff\xff"),
    ];
    let refused = Some(DecodeFault::LengthBeyondInput { claimed: 1_000_000, left: 2 });
    let claim = |start: &[u8]| Bytes::from([start, b"\0\x0f\x42\x40", b"ab"].concat());
    for (op, start) in bodies {
        let header = encoded(&RequestHeader { xid: Xid(1), op: *op });
        let (_, body) = decode_request(&claim(&[&header, *start].concat())).expect("a header");
        assert_eq!(fault(body), refused, "{op}");
    }
    for op in [OpCode::GET_ACL, OpCode::GET_CHILDREN, OpCode::GET_CHILDREN2, OpCode::WHO_AM_I] {
        assert_eq!(fault(Response::decode(op, &claim(b""))), refused, "{op}");
    }
    let result = claim(b"\0\0\0\x08\0\0\0\0\0");
    assert_eq!(fault(Response::decode(OpCode::MULTI_READ, &result)), refused);
}

/// Many of the smallest entries, which cost the most memory for their bytes.
#[test]
fn the_smallest_entries_keep_memory_in_proportion() {
    for count in [1, 5, 33, 1_025, 65_537] {
        let results = Response::Multi(vec![MultiResult::Delete; count]);
        check_response_bytes(OpCode::MULTI, &results.to_bytes());
        let infos = Response::WhoAmI(vec![ClientInfo { scheme: None, user: None }; count]);
        check_response_bytes(OpCode::WHO_AM_I, &infos.to_bytes());
        let read = MultiReadOp::GetData(RawPath::NULL);
        let reads = Request::Read(Read::MultiRead(vec![read; count]));
        decode_as_everything(&encode_request(Xid(1), &reads));
    }
}

fn fault<T>(decoded: Result<T, DecodeError>) -> Option<DecodeFault> {
    decoded.err().map(|error| error.fault)
}

/// The encoding of a value, whose length must be `encoded_len`.
fn encoded<T: Encode>(value: &T) -> Bytes {
    let mut out = BytesMut::new();
    value.encode(&mut out);
    assert_eq!(out.len(), value.encoded_len());
    out.freeze()
}
