//! Requests to a ZooKeeper server, and its answers.

use std::io;

use bytes::{Buf as _, Bytes, BytesMut};
use zoolet::protocol::{
    ConnectRequest, CreateFlags, FrameCodec, Incoming, Lookup, OpCode, Request, Response, Watch,
    Write, Xid, decode_incoming, encode_request,
};
use zoolet_test_support::encoded;

use super::Place;
use crate::requests;

const SESSION_TIMEOUT_MS: i32 = 40_000;
/// The longest frame of an answer.
const FRAME_BYTES_MAX: usize = 4_096;
/// The directory of the znodes that are read and written.
const KEPT: &str = "/kept";
/// The directory in which znodes are created.
const CREATED: &str = "/created";
/// The directory of ephemeral sequentials.
const LINE: &str = "/line";
/// The directory below which [`Place::Directories`] are.
const FILL: &str = "/fill";
/// How many znodes each of these has.
const IN_A_DIRECTORY: usize = 1_000;

pub(super) fn connect() -> Bytes {
    framed(&encoded(&ConnectRequest::new(SESSION_TIMEOUT_MS)))
}

pub(super) fn close() -> Bytes {
    request(Request::Write(Write::CloseSession))
}

pub(super) fn get(key: usize) -> Bytes {
    request(Request::Read(requests::lookup(&kept(key), Lookup::GetData)))
}

pub(super) fn set(key: usize) -> Bytes {
    request(Request::Write(requests::set_data(&kept(key))))
}

/// A create, and the delete of the same.
pub(super) fn create(name: &str) -> (Bytes, Bytes) {
    let path = format!("{CREATED}/{name}");
    let delete = request(Request::Write(requests::delete(&path)));
    (creates(&path, CreateFlags::PERSISTENT), delete)
}

/// An ephemeral sequential.
pub(super) fn enter() -> Bytes {
    creates(&format!("{LINE}/lock-"), CreateFlags::EPHEMERAL_SEQUENTIAL)
}

/// The delete of what [`enter`] has created.
pub(super) fn leave(entered: &Bytes) -> io::Result<Bytes> {
    let Incoming::Reply { header, body } = decode_incoming(entered).map_err(io::Error::other)?
    else {
        return Err(io::Error::other("an event came where nobody watches"));
    };
    match Response::decode_error(OpCode::CREATE, &body).map_err(io::Error::other)? {
        Response::Path(path) => Ok(request(Request::Write(requests::delete(&path.to_string())))),
        _ => Err(io::Error::other(format!("not created: {:?}", header.err))),
    }
}

/// A read of a znode that watches it.
#[must_use]
pub fn watch() -> Bytes {
    request(Request::Watch(Watch::Lookup(Lookup::GetData(kept(0).as_str().into()))))
}

/// A change of that znode.
#[must_use]
pub fn change() -> Bytes {
    set(0)
}

/// What the requests need.
pub(super) fn prepare(kept_znodes: usize) -> Vec<Bytes> {
    let directories = [KEPT, CREATED, LINE].map(str::to_owned).into_iter();
    let paths = directories.chain((0..kept_znodes).map(kept));
    paths.map(|path| creates(&path, CreateFlags::PERSISTENT)).collect()
}

pub(super) fn filling(place: Place, count: usize) -> Box<dyn Iterator<Item = Bytes>> {
    let persistent = |path: String| creates(&path, CreateFlags::PERSISTENT);
    match place {
        Place::Line => {
            Box::new((0..count).map(move |number| persistent(format!("{LINE}/{number:010}"))))
        }
        Place::Directories => Box::new(std::iter::once(persistent(FILL.to_owned())).chain(
            (0..count).flat_map(move |number| {
                let directory = format!("{FILL}/{:05}", number / IN_A_DIRECTORY);
                let znode = persistent(format!("{directory}/{number:010}"));
                let is_first = number % IN_A_DIRECTORY == 0;
                is_first.then(|| persistent(directory)).into_iter().chain([znode])
            }),
        )),
    }
}

/// Takes the next answer.
pub(super) fn next_answer(input: &mut BytesMut) -> io::Result<Option<Bytes>> {
    FrameCodec::new(FRAME_BYTES_MAX).next_frame(input).map_err(io::Error::other)
}

/// Refuses the answer to a request that was refused.
pub(super) fn check(mut answer: &[u8]) -> io::Result<()> {
    // The header: xid, zxid and error.
    let error = answer.get(12..16).map_or(i32::MIN, |_| {
        answer.advance(12);
        answer.get_i32()
    });
    match error {
        0 => Ok(()),
        error => Err(io::Error::other(format!("the server refuses a request: error {error}"))),
    }
}

fn kept(key: usize) -> String {
    format!("{KEPT}/{key}")
}

fn creates(path: &str, flags: CreateFlags) -> Bytes {
    request(Request::Write(requests::create(path, flags)))
}

fn request(request: Request) -> Bytes {
    framed(&encode_request(Xid(1), &request))
}

/// A payload with its length.
fn framed(payload: &Bytes) -> Bytes {
    let mut frame = BytesMut::new();
    FrameCodec::put(payload, &mut frame);
    frame.freeze()
}
