//! The sessions: tasks that send a request, wait for its answer, and send the next one.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use zoolet::protocol::{
    ConnectRequest, CreateFlags, FrameCodec, Incoming, Lookup, OpCode, Request, Response, Xid,
    decode_incoming, encode_request,
};
use zoolet_benches::{requests, runtime};
use zoolet_test_support::encoded;

/// The bytes of the answer to a `getData` of [`requests::DATA`], without its length.
pub(crate) const ANSWER_BYTES: usize = 16 + 4 + requests::DATA.len() + 68;

const SESSION_TIMEOUT_MS: i32 = 30_000;
/// The longest frame of an answer.
const FRAME_BYTES_MAX: usize = 4_096;
/// The znode that is read.
const READ: &str = "/read";
/// The znode under which ephemeral sequentials are created.
const LINE: &str = "/line";

/// What the sessions ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing: the server answers with as many bytes as to a `getData`.
    Echo,
    GetData,
    /// An ephemeral sequential, and its delete. Both are counted.
    CreateAndDelete,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Echo, Self::GetData, Self::CreateAndDelete];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Echo => "a bare answer",
            Self::GetData => "getData",
            Self::CreateAndDelete => "create or delete of an ephemeral sequential",
        }
    }
}

/// Sessions that are open and do nothing yet.
pub(crate) struct Load {
    runtime: Runtime,
    sessions: Vec<Session>,
    kind: Kind,
}

impl Load {
    pub(crate) fn open(address: SocketAddr, kind: Kind, sessions: usize) -> io::Result<Self> {
        let runtime = runtime();
        let sessions = runtime.block_on(async {
            let mut opened = Vec::with_capacity(sessions);
            for _ in 0..sessions {
                opened.push(Session::open(address, kind).await?);
            }
            if kind != Kind::Echo
                && let Some(first) = opened.first_mut()
            {
                first.prepare().await?;
            }
            io::Result::Ok(opened)
        })?;
        Ok(Self { runtime, sessions, kind })
    }

    /// Sends requests for some time, and returns how many were answered.
    pub(crate) fn run(self, time: Duration) -> io::Result<u64> {
        let end = Instant::now() + time;
        self.runtime.block_on(async {
            let mut running = JoinSet::new();
            for session in self.sessions {
                running.spawn(session.run(self.kind, end));
            }
            let mut total = 0;
            while let Some(done) = running.join_next().await {
                total += done??;
            }
            Ok(total)
        })
    }
}

/// A connection with a session, or to a server that has none.
struct Session {
    socket: TcpStream,
    input: BytesMut,
}

impl Session {
    async fn open(address: SocketAddr, kind: Kind) -> io::Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let mut session = Self { socket, input: BytesMut::new() };
        if kind != Kind::Echo {
            session.ask(&framed(&encoded(&ConnectRequest::new(SESSION_TIMEOUT_MS)))).await?;
        }
        Ok(session)
    }

    /// Creates what the sessions need, if it is not there.
    async fn prepare(&mut self) -> io::Result<()> {
        for path in [READ, LINE] {
            // Refused if it is there.
            self.ask(&create(path, CreateFlags::PERSISTENT)).await?;
        }
        Ok(())
    }

    async fn run(mut self, kind: Kind, end: Instant) -> io::Result<u64> {
        let read = Request::Read(requests::lookup(READ, Lookup::GetData));
        let read = framed(&encode_request(Xid(1), &read));
        let create = create(&format!("{LINE}/lock-"), CreateFlags::EPHEMERAL_SEQUENTIAL);
        let mut answered = 0;
        while Instant::now() < end {
            match kind {
                Kind::Echo | Kind::GetData => {
                    self.ask(&read).await?;
                    answered += 1;
                }
                Kind::CreateAndDelete => {
                    let path = created(&self.ask(&create).await?)?;
                    let delete = Request::Write(requests::delete(&path));
                    self.ask(&framed(&encode_request(Xid(2), &delete))).await?;
                    answered += 2;
                }
            }
        }
        Ok(answered)
    }

    /// Sends a request and waits for its answer.
    async fn ask(&mut self, request: &[u8]) -> io::Result<Bytes> {
        self.socket.write_all(request).await?;
        let codec = FrameCodec::new(FRAME_BYTES_MAX);
        loop {
            if let Some(answer) = codec.next_frame(&mut self.input).map_err(io::Error::other)? {
                return Ok(answer);
            }
            if self.socket.read_buf(&mut self.input).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

fn create(path: &str, flags: CreateFlags) -> Bytes {
    framed(&encode_request(Xid(3), &Request::Write(requests::create(path, flags))))
}

/// A payload with its length.
fn framed(payload: &Bytes) -> Bytes {
    let mut frame = BytesMut::new();
    FrameCodec::put(payload, &mut frame);
    frame.freeze()
}

/// The path of a znode that was created.
fn created(answer: &Bytes) -> io::Result<String> {
    let Incoming::Reply { header, body } = decode_incoming(answer).map_err(io::Error::other)?
    else {
        return Err(io::Error::other("an event came where nobody watches"));
    };
    match Response::decode_error(OpCode::CREATE, &body).map_err(io::Error::other)? {
        Response::Path(path) => Ok(path.to_string()),
        _ => Err(io::Error::other(format!("not created: {:?}", header.err))),
    }
}
