//! Floors of a ZooKeeper server: what it takes to read its requests and to write as many bytes as it
//! answers, with nothing behind it, with a plain tree, or with a tree that answers right.

mod exact_tree;
mod plain_tree;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use zoolet::protocol::{
    ConnectRequest, ConnectResponse, Encode as _, ErrorCode, OpCode, Password, SessionId, Stat,
    decode_all,
};

use self::exact_tree::ExactTree;
use self::plain_tree::PlainTree;
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
    /// A hash table of znodes with their Stats and the names of their children, and the ephemerals of each
    /// session: what a server must keep so that each of its answers is right. It checks paths, versions and
    /// what exists. It knows no watches, access control, quotas, order of names, log and expiry.
    ExactTree,
}

/// The longest frame that is read.
const FRAME_BYTES_MAX: usize = 1 << 20;
/// As many bytes as zoolet reads at once.
const READ_BYTES: usize = 8 << 10;
/// The digits of a sequence number.
const DIGITS: usize = 10;
const EPHEMERAL: i32 = 1;
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
    match behind {
        Behind::Nothing => connections::serve(tell, |socket| converse(socket, Nothing::default())),
        Behind::PlainTree => {
            let tree = Arc::<Mutex<PlainTree>>::default();
            connections::serve(tell, |socket| converse(socket, Arc::clone(&tree)))
        }
        Behind::ExactTree => {
            let tree = Arc::<Mutex<ExactTree>>::default();
            connections::serve(tell, |socket| converse(socket, Arc::clone(&tree)))
        }
    }
}

async fn converse(mut socket: TcpStream, mut behind: impl Answering) -> io::Result<()> {
    let (mut input, mut output) = (BytesMut::new(), BytesMut::new());
    let mut session = None;
    loop {
        input.reserve(READ_BYTES);
        if socket.read_buf(&mut input).await? == 0 {
            return Ok(());
        }
        let mut unread = &input[..];
        if session.is_none()
            && let Some(handshake) = next_frame(&mut unread)?
        {
            session = Some(welcome(handshake, &mut output)?);
        }
        if let Some(session) = session {
            behind.answer_all(&mut unread, session, &mut output)?;
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
fn welcome(handshake: &[u8], output: &mut BytesMut) -> io::Result<SessionId> {
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
    Ok(session)
}

/// Answers requests.
trait Answering {
    /// Answers all whole requests of a session.
    fn answer_all(
        &mut self,
        input: &mut &[u8],
        session: SessionId,
        output: &mut BytesMut,
    ) -> io::Result<()>;
}

impl Answering for Nothing {
    fn answer_all(
        &mut self,
        input: &mut &[u8],
        session: SessionId,
        output: &mut BytesMut,
    ) -> io::Result<()> {
        while let Some(frame) = next_frame(input)? {
            answer(frame, session, self, output).ok_or_else(unreadable)?;
        }
        Ok(())
    }
}

/// A tree is locked once for all.
impl<K: Kept> Answering for Arc<Mutex<K>> {
    fn answer_all(
        &mut self,
        input: &mut &[u8],
        session: SessionId,
        output: &mut BytesMut,
    ) -> io::Result<()> {
        let mut kept = self.lock().unwrap_or_else(PoisonError::into_inner);
        kept.heard_of(session);
        while let Some(frame) = next_frame(input)? {
            answer(frame, session, &mut *kept, output).ok_or_else(unreadable)?;
        }
        Ok(())
    }
}

/// A znode that a request creates.
struct Created<'a> {
    path: &'a [u8],
    data: &'a [u8],
    /// The encoded list.
    acl: &'a [u8],
    /// The owner of an ephemeral.
    owner: Option<SessionId>,
}

/// What answers are made of. A Stat that is `None` is answered with as many zeros.
trait Kept {
    /// A session has sent requests.
    fn heard_of(&mut self, _: SessionId) {}
    /// The data of a znode, and its Stat.
    fn data(&self, path: &[u8]) -> Result<(&[u8], Option<Stat>), ErrorCode>;
    fn exists(&self, path: &[u8]) -> Result<Option<Stat>, ErrorCode>;
    fn set(&mut self, path: &[u8], data: &[u8], version: i32) -> Result<Option<Stat>, ErrorCode>;
    fn create(&mut self, created: &Created<'_>) -> Result<Option<Stat>, ErrorCode>;
    fn delete(&mut self, path: &[u8], version: i32) -> Result<(), ErrorCode>;
    /// A session has ended.
    fn close(&mut self, _: SessionId) {}
    /// The next sequence number below the parent of a path.
    fn next_number(&mut self, path: &[u8]) -> i64;
    /// The zxid of the last write.
    fn zxid(&self) -> i64;
}

/// Appends the answer to a request. `None` if it is none.
fn answer(
    mut frame: &[u8],
    session: SessionId,
    kept: &mut impl Kept,
    output: &mut BytesMut,
) -> Option<()> {
    let (xid, op) = (take_i32(&mut frame)?, OpCode(take_i32(&mut frame)?));
    let begin = output.len();
    // The length, the xid, the zxid and the error; the first and the third are known at the end.
    output.put_slice(&[0; 4 + 16]);
    let error = match body(op, frame, session, kept, output)? {
        Ok(()) => ErrorCode::OK,
        Err(error) => {
            output.truncate(begin + 4 + 16);
            error
        }
    };
    let length = output.len() - begin - 4;
    let mut header = &mut output[begin..];
    header.put_i32(length as i32);
    header.put_i32(xid);
    header.put_i64(kept.zxid());
    header.put_i32(error.0);
    Some(())
}

/// Appends the body of the answer to a request. `None` if it is none.
fn body(
    op: OpCode,
    mut frame: &[u8],
    session: SessionId,
    kept: &mut impl Kept,
    output: &mut BytesMut,
) -> Option<Result<(), ErrorCode>> {
    let done = match op {
        OpCode::GET_DATA => kept.data(take_bytes(&mut frame)?).map(|(data, stat)| {
            output.put_i32(data.len() as i32);
            output.put_slice(data);
            put_stat(stat, output);
        }),
        OpCode::EXISTS => kept.exists(take_bytes(&mut frame)?).map(|stat| put_stat(stat, output)),
        OpCode::SET_DATA => {
            let (path, data) = (take_bytes(&mut frame)?, take_bytes(&mut frame)?);
            let set = kept.set(path, data, take_i32(&mut frame)?);
            set.map(|stat| put_stat(stat, output))
        }
        OpCode::CREATE | OpCode::CREATE2 | OpCode::CREATE_CONTAINER => {
            let (path, data) = (take_bytes(&mut frame)?, take_bytes(&mut frame)?);
            let (acl, flags) = frame.split_last_chunk()?;
            let flags = i32::from_be_bytes(*flags);
            let digits = if flags & SEQUENTIAL == 0 { 0 } else { DIGITS };
            output.put_i32((path.len() + digits) as i32);
            let name_at = output.len();
            output.put_slice(path);
            if digits > 0 {
                output.put_slice(&decimal(kept.next_number(path)));
            }
            let owner = (flags & EPHEMERAL != 0).then_some(session);
            let created = kept.create(&Created { path: &output[name_at..], data, acl, owner });
            created.map(|stat| {
                if op != OpCode::CREATE {
                    put_stat(stat, output);
                }
            })
        }
        OpCode::DELETE => kept.delete(take_bytes(&mut frame)?, take_i32(&mut frame)?),
        OpCode::CLOSE_SESSION => {
            kept.close(session);
            Ok(())
        }
        OpCode::PING => Ok(()),
        _ => Err(ErrorCode::NO_NODE),
    };
    Some(done)
}

fn put_stat(stat: Option<Stat>, output: &mut BytesMut) {
    match stat {
        Some(stat) => stat.encode(output),
        None => output.put_slice(&[0; STAT_BYTES]),
    }
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

/// The path of the parent, empty for a child of the root, and the name.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let slash = path.iter().rposition(|byte| *byte == b'/');
    slash.map_or((&[], path), |slash| (&path[..slash], &path[slash + 1..]))
}

/// Keeps nothing.
#[derive(Debug, Default)]
struct Nothing {
    numbers: i64,
}

impl Kept for Nothing {
    fn data(&self, _: &[u8]) -> Result<(&[u8], Option<Stat>), ErrorCode> {
        Ok((DATA, None))
    }

    fn exists(&self, _: &[u8]) -> Result<Option<Stat>, ErrorCode> {
        Ok(None)
    }

    fn set(&mut self, _: &[u8], _: &[u8], _: i32) -> Result<Option<Stat>, ErrorCode> {
        Ok(None)
    }

    fn create(&mut self, _: &Created<'_>) -> Result<Option<Stat>, ErrorCode> {
        Ok(None)
    }

    fn delete(&mut self, _: &[u8], _: i32) -> Result<(), ErrorCode> {
        Ok(())
    }

    fn next_number(&mut self, _: &[u8]) -> i64 {
        self.numbers += 1;
        self.numbers
    }

    fn zxid(&self) -> i64 {
        0
    }
}
