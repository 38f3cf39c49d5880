//! Floors of a ZooKeeper server: what it takes to read its requests and to write as many bytes as it
//! answers, with nothing behind it, or with a plain tree.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use hashbrown::HashMap;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use zoolet::protocol::{
    ConnectRequest, ConnectResponse, Encode as _, ErrorCode, OpCode, Password, SessionId,
    decode_all,
};

use crate::connections;
use crate::requests::DATA;

/// What is behind the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// Nothing: every znode has [`DATA`], and every write succeeds.
    Nothing,
    /// A hash table of directories, each a hash table of names with their data. It knows no versions,
    /// sessions, watches, lists of children and access control, and checks nothing that the client could
    /// have done wrong.
    PlainTree,
}

/// The longest frame that is read.
const FRAME_BYTES_MAX: usize = 1 << 20;
/// As many bytes as zoolet reads at once.
const READ_BYTES: usize = 8 << 10;
/// The digits of a sequence number.
const DIGITS: usize = 10;
const SEQUENTIAL: i32 = 2;

/// Answers a client of ZooKeeper on the runtime that `zoolet serve` has, until stdin ends. It knows
/// `getData`, `exists`, `setData`, creates, deletes, pings and the end of a session; to others it answers
/// that there is no such znode. The answers to what one read brings are one write, and are found with the
/// tree locked once. Tells its address by `tell`.
///
/// # Errors
///
/// Those of the system.
pub fn serve(behind: Behind, tell: impl FnOnce(SocketAddr)) -> io::Result<()> {
    let tree = (behind == Behind::PlainTree).then(Arc::<Mutex<Tree>>::default);
    connections::serve(tell, |socket| converse(socket, tree.clone()))
}

async fn converse(mut socket: TcpStream, tree: Option<Arc<Mutex<Tree>>>) -> io::Result<()> {
    let (mut input, mut output) = (BytesMut::new(), BytesMut::new());
    let mut nothing = Nothing::default();
    let mut is_attached = false;
    loop {
        input.reserve(READ_BYTES);
        if socket.read_buf(&mut input).await? == 0 {
            return Ok(());
        }
        let mut unread = &input[..];
        if !is_attached && let Some(handshake) = next_frame(&mut unread)? {
            welcome(handshake, &mut output)?;
            is_attached = true;
        }
        if is_attached {
            let answered = match &tree {
                None => answer_all(&mut unread, &mut nothing, &mut output),
                Some(tree) => {
                    let mut tree = tree.lock().unwrap_or_else(PoisonError::into_inner);
                    answer_all(&mut unread, &mut *tree, &mut output)
                }
            };
            answered?;
        }
        let read = input.len() - unread.len();
        input.advance(read);
        socket.write_all(&output).await?;
        output.clear();
    }
}

/// Takes the next frame, if it is whole.
fn next_frame<'a>(input: &mut &'a [u8]) -> io::Result<Option<&'a [u8]>> {
    let Some((length, rest)) = input.split_first_chunk() else { return Ok(None) };
    match usize::try_from(i32::from_be_bytes(*length)) {
        Ok(length) if length > rest.len() && length <= FRAME_BYTES_MAX => Ok(None),
        Ok(length) if length <= rest.len() => {
            let (frame, rest) = rest.split_at(length);
            *input = rest;
            Ok(Some(frame))
        }
        _ => Err(unreadable()),
    }
}

fn unreadable() -> io::Error {
    io::Error::other("a request is no request of ZooKeeper, or longer than a megabyte")
}

/// Answers a handshake with a session that nothing depends on.
fn welcome(handshake: &[u8], output: &mut BytesMut) -> io::Result<()> {
    static LAST: AtomicI64 = AtomicI64::new(0);
    let asked: ConnectRequest =
        decode_all(&Bytes::copy_from_slice(handshake)).map_err(io::Error::other)?;
    let session = SessionId(LAST.fetch_add(1, Ordering::Relaxed) + 1);
    let response = ConnectResponse {
        protocol_version: 0,
        timeout_ms: asked.timeout_ms,
        session,
        password: Password::of(session),
        read_only: asked.read_only.map(|_| false),
    };
    output.put_i32(i32::try_from(response.encoded_len()).map_err(io::Error::other)?);
    response.encode(output);
    Ok(())
}

/// Answers all whole requests.
fn answer_all(input: &mut &[u8], kept: &mut impl Kept, output: &mut BytesMut) -> io::Result<()> {
    while let Some(frame) = next_frame(input)? {
        answer(frame, kept, output).ok_or_else(unreadable)?;
    }
    Ok(())
}

/// What answers are made of.
trait Kept {
    /// The data of a znode.
    fn data(&self, path: &[u8]) -> Option<&[u8]>;
    fn set(&mut self, path: &[u8], data: &[u8]);
    fn insert(&mut self, path: &[u8], data: &[u8]);
    fn remove(&mut self, path: &[u8]);
    /// The next sequence number below the parent of a path.
    fn next_number(&mut self, path: &[u8]) -> i64;
    /// The zxid of the last write.
    fn zxid(&self) -> i64;
}

/// Appends the answer to a request. `None` if it is none.
fn answer(mut frame: &[u8], kept: &mut impl Kept, output: &mut BytesMut) -> Option<()> {
    let (xid, op) = (take_i32(&mut frame)?, OpCode(take_i32(&mut frame)?));
    let begin = output.len();
    // The length, the xid, the zxid and the error; the first and the third are known at the end.
    output.put_slice(&[0; 4 + 16]);
    let mut error = ErrorCode::OK;
    match op {
        OpCode::GET_DATA => match kept.data(take_bytes(&mut frame)?) {
            Some(data) => {
                output.put_i32(data.len() as i32);
                output.put_slice(data);
                put_stat(output);
            }
            None => error = ErrorCode::NO_NODE,
        },
        OpCode::EXISTS => put_stat(output),
        OpCode::SET_DATA => {
            let path = take_bytes(&mut frame)?;
            kept.set(path, take_bytes(&mut frame)?);
            put_stat(output);
        }
        OpCode::CREATE | OpCode::CREATE2 => {
            let (path, data) = (take_bytes(&mut frame)?, take_bytes(&mut frame)?);
            let flags = frame.last_chunk().map(|flags| i32::from_be_bytes(*flags))?;
            let digits = if flags & SEQUENTIAL == 0 { 0 } else { DIGITS };
            output.put_i32((path.len() + digits) as i32);
            let name_at = output.len();
            output.put_slice(path);
            if digits > 0 {
                output.put_slice(&decimal(kept.next_number(path)));
            }
            kept.insert(&output[name_at..], data);
            if op == OpCode::CREATE2 {
                put_stat(output);
            }
        }
        OpCode::DELETE => kept.remove(take_bytes(&mut frame)?),
        OpCode::PING | OpCode::CLOSE_SESSION => {}
        _ => error = ErrorCode::NO_NODE,
    }
    let length = output.len() - begin - 4;
    let mut header = &mut output[begin..];
    header.put_i32(length as i32);
    header.put_i32(xid);
    header.put_i64(kept.zxid());
    header.put_i32(error.0);
    Some(())
}

fn put_stat(output: &mut BytesMut) {
    output.put_slice(&[0; STAT_BYTES]);
}

const STAT_BYTES: usize = 68;

fn decimal(mut number: i64) -> [u8; DIGITS] {
    let mut digits = [b'0'; DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit += (number % 10) as u8;
        number /= 10;
    }
    digits
}

fn take_i32(input: &mut &[u8]) -> Option<i32> {
    let (number, rest) = input.split_first_chunk()?;
    *input = rest;
    Some(i32::from_be_bytes(*number))
}

/// A string or data. None are as good as empty ones.
fn take_bytes<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take_i32(input)?).unwrap_or(0);
    let (bytes, rest) = input.split_at_checked(length)?;
    *input = rest;
    Some(bytes)
}

/// Keeps nothing.
#[derive(Debug, Default)]
struct Nothing {
    numbers: i64,
}

impl Kept for Nothing {
    fn data(&self, _: &[u8]) -> Option<&[u8]> {
        Some(DATA)
    }

    fn set(&mut self, _: &[u8], _: &[u8]) {}

    fn insert(&mut self, _: &[u8], _: &[u8]) {}

    fn remove(&mut self, _: &[u8]) {}

    fn next_number(&mut self, _: &[u8]) -> i64 {
        self.numbers += 1;
        self.numbers
    }

    fn zxid(&self) -> i64 {
        0
    }
}

/// A plain tree.
#[derive(Debug, Default)]
struct Tree {
    directories: HashMap<Vec<u8>, Directory>,
    zxid: i64,
}

#[derive(Debug, Default)]
struct Directory {
    names: HashMap<Box<[u8]>, Box<[u8]>>,
    next_number: i64,
}

impl Tree {
    /// The directory of a path, and the name in it. A directory is known from its first name on.
    fn directory<'a>(&mut self, path: &'a [u8]) -> (&mut Directory, &'a [u8]) {
        let (parent, name) = split(path);
        (self.directories.entry_ref(parent).or_default(), name)
    }
}

/// The path of the parent, and the name.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let slash = path.iter().rposition(|byte| *byte == b'/');
    slash.map_or((&[], path), |slash| (&path[..slash], &path[slash + 1..]))
}

impl Kept for Tree {
    fn data(&self, path: &[u8]) -> Option<&[u8]> {
        let (parent, name) = split(path);
        self.directories.get(parent)?.names.get(name).map(|data| &**data)
    }

    fn set(&mut self, path: &[u8], data: &[u8]) {
        self.zxid += 1;
        let (directory, name) = self.directory(path);
        match directory.names.get_mut(name) {
            // As long as before, mostly: in its place.
            Some(kept) if kept.len() == data.len() => kept.copy_from_slice(data),
            Some(kept) => *kept = data.into(),
            None => {}
        }
    }

    fn insert(&mut self, path: &[u8], data: &[u8]) {
        self.zxid += 1;
        let (directory, name) = self.directory(path);
        directory.names.insert(name.into(), data.into());
    }

    fn remove(&mut self, path: &[u8]) {
        self.zxid += 1;
        let (directory, name) = self.directory(path);
        directory.names.remove(name);
    }

    fn next_number(&mut self, path: &[u8]) -> i64 {
        let (directory, _) = self.directory(path);
        directory.next_number += 1;
        directory.next_number - 1
    }

    fn zxid(&self) -> i64 {
        self.zxid
    }
}
