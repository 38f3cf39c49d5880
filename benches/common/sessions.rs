//! Sessions that send requests, wait for all answers, and send the next: the same client for every
//! server that is compared.

mod redis;
mod zookeeper;

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::{requests, runtime};

/// How many znodes or keys are read and written.
const KEPT: usize = 1_000;
/// How many znodes or keys [`Operation::Create`] creates at most in one run. Without a limit a quick
/// server would be measured with a larger tree than a slow one.
const CREATED_MAX: usize = 100_000;
/// What a bare server is asked with: as many bytes as a `getData` of one of the znodes.
pub const BARE_REQUEST: [u8; 31] = [b'.'; 31];
/// The bytes of the answer to a `getData` of [`requests::DATA`], with its length.
pub const ANSWER_BYTES: usize = 4 + 16 + 4 + requests::DATA.len() + 68;

/// What a server understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// ZooKeeper's: a session on each connection.
    ZooKeeper,
    /// Redis' own.
    Redis,
    /// None: [`bare::serve`](crate::bare::serve) answers each [`BARE_REQUEST`].
    Bare,
}

/// What the sessions ask for. All data is [`requests::DATA`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// The data of one of a thousand znodes or keys.
    Get,
    /// To change one of them.
    Set,
    /// A new znode or key, at most 100,000 in one run. [`Load::delete_created`] deletes them.
    Create,
    /// What a lock needs: an ephemeral sequential and its delete; of Redis a key that expires, if it is
    /// not there, and its delete. Both are counted.
    CreateAndDelete,
}

impl Protocol {
    /// The first bytes of a connection, and how many answers they have.
    fn greeting(self) -> Option<Bytes> {
        (self == Self::ZooKeeper).then(zookeeper::connect)
    }

    /// The last request of a connection, which ends its session at once: one that expires later would
    /// cost the server something while another is measured.
    fn farewell(self) -> Option<Bytes> {
        (self == Self::ZooKeeper).then(zookeeper::close)
    }

    /// Takes the next answer out of what has been read.
    fn next_answer(self, input: &mut BytesMut) -> io::Result<Option<Bytes>> {
        match self {
            Self::ZooKeeper => zookeeper::next_answer(input),
            Self::Redis => redis::next_answer(input),
            Self::Bare => {
                Ok((input.len() >= ANSWER_BYTES).then(|| input.split_to(ANSWER_BYTES).freeze()))
            }
        }
    }

    /// Refuses the answer to a request that was refused.
    fn check(self, answer: &[u8]) -> io::Result<()> {
        // Errors of Redis are found where its answers are read.
        if self == Self::ZooKeeper { zookeeper::check(answer) } else { Ok(()) }
    }

    fn get(self, key: usize) -> Bytes {
        match self {
            Self::ZooKeeper => zookeeper::get(key),
            Self::Redis => redis::get(key),
            Self::Bare => Bytes::from_static(&BARE_REQUEST),
        }
    }

    fn set(self, key: usize) -> io::Result<Bytes> {
        match self {
            Self::ZooKeeper => Ok(zookeeper::set(key)),
            Self::Redis => Ok(redis::set(key)),
            Self::Bare => Err(cannot("set")),
        }
    }

    /// Creates a znode or key of this name, and the request that deletes it.
    fn create(self, name: &str) -> io::Result<(Bytes, Bytes)> {
        match self {
            Self::ZooKeeper => Ok(zookeeper::create(name)),
            Self::Redis => Ok(redis::create(name)),
            Self::Bare => Err(cannot("create")),
        }
    }

    fn enter(self, name: &str) -> io::Result<Bytes> {
        match self {
            Self::ZooKeeper => Ok(zookeeper::enter()),
            Self::Redis => Ok(redis::enter(name)),
            Self::Bare => Err(cannot("create")),
        }
    }

    /// Deletes what [`Protocol::enter`] has created, of which this is the answer.
    fn leave(self, name: &str, entered: &Bytes) -> io::Result<Bytes> {
        match self {
            Self::ZooKeeper => zookeeper::leave(entered),
            Self::Redis => Ok(redis::leave(name)),
            Self::Bare => Err(cannot("delete")),
        }
    }

    /// What must be there before: each request is refused if it is there already.
    fn prepare(self) -> Vec<Bytes> {
        match self {
            Self::ZooKeeper => zookeeper::prepare(KEPT),
            Self::Redis => (0..KEPT).map(redis::set).collect(),
            Self::Bare => Vec::new(),
        }
    }
}

fn cannot(what: &str) -> io::Error {
    io::Error::other(format!("a bare server cannot {what}: it answers only"))
}

/// What is asked, and how.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// What the server understands.
    pub protocol: Protocol,
    /// What it is asked for.
    pub operation: Operation,
    /// How many requests a session sends at once. It waits for all answers before it sends again.
    pub depth: usize,
}

/// What was answered.
#[derive(Debug, Default)]
pub struct Answered {
    /// How many requests were answered.
    pub operations: u64,
    /// How long each batch of requests took until its last answer.
    pub times: Vec<Duration>,
}

/// Sessions that are open, on one thread.
#[derive(Debug)]
pub struct Load {
    runtime: Runtime,
    sessions: Vec<Session>,
    work: Work,
}

impl Load {
    /// Opens sessions, and creates what they need if it is not there.
    ///
    /// # Errors
    ///
    /// Those of the system, and what a server answers that is not expected.
    pub fn open(address: SocketAddr, work: Work, sessions: usize) -> io::Result<Self> {
        let runtime = runtime();
        let sessions = runtime.block_on(async {
            let mut opened = Vec::with_capacity(sessions);
            for number in 0..sessions {
                opened.push(Session::open(address, work, number).await?);
            }
            if let Some(first) = opened.first_mut() {
                for request in work.protocol.prepare() {
                    first.ask(&request, 1).await?;
                }
            }
            io::Result::Ok(opened)
        })?;
        Ok(Self { runtime, sessions, work })
    }

    /// Sends requests for some time, or until 100,000 znodes or keys are created.
    ///
    /// # Errors
    ///
    /// As of [`Load::open`].
    pub fn run(&mut self, time: Duration) -> io::Result<Answered> {
        let end = Instant::now() + time;
        let created_max = CREATED_MAX / self.sessions.len().max(1);
        let (sessions, operation) = (std::mem::take(&mut self.sessions), self.work.operation);
        let (sessions, answered) = self.runtime.block_on(async move {
            let mut running = JoinSet::new();
            for mut session in sessions {
                running.spawn(async move {
                    let answered = session.run(operation, created_max, end).await?;
                    io::Result::Ok((session, answered))
                });
            }
            let (mut sessions, mut all) = (Vec::new(), Answered::default());
            while let Some(done) = running.join_next().await {
                let (session, answered) = done??;
                sessions.push(session);
                all.operations += answered.operations;
                all.times.extend(answered.times);
            }
            io::Result::Ok((sessions, all))
        })?;
        self.sessions = sessions;
        Ok(answered)
    }

    /// Sends requests for some time, and leaves nothing behind.
    ///
    /// # Errors
    ///
    /// As of [`Load::open`].
    pub fn warm_up(&mut self, time: Duration) -> io::Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.run(end.saturating_duration_since(Instant::now()))?;
            self.delete_created()?;
        }
        Ok(())
    }

    /// Deletes what [`Operation::Create`] has left.
    ///
    /// # Errors
    ///
    /// As of [`Load::open`].
    pub fn delete_created(&mut self) -> io::Result<()> {
        self.runtime.block_on(async {
            for session in &mut self.sessions {
                let left = std::mem::take(&mut session.created);
                session.ask_all(left).await?;
            }
            Ok(())
        })
    }

    /// Deletes what [`Operation::Create`] has left, and closes the sessions.
    ///
    /// # Errors
    ///
    /// As of [`Load::open`].
    pub fn close(mut self) -> io::Result<()> {
        self.delete_created()?;
        self.runtime.block_on(async {
            for session in self.sessions {
                session.close().await?;
            }
            Ok(())
        })
    }
}

/// A connection, with a session where the protocol has such.
#[derive(Debug)]
pub struct Session {
    socket: TcpStream,
    input: BytesMut,
    work: Work,
    number: usize,
    /// How many requests have been made up.
    next: usize,
    /// The requests that delete what was created.
    created: Vec<Bytes>,
}

/// How many requests are sent at once where nothing is measured.
const TOGETHER: usize = 256;

impl Session {
    /// Connects.
    ///
    /// # Errors
    ///
    /// As of [`Load::open`].
    pub async fn open(address: SocketAddr, work: Work, number: usize) -> io::Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let (input, created) = (BytesMut::new(), Vec::new());
        let mut session = Self { socket, input, work, number, next: 0, created };
        if let Some(greeting) = work.protocol.greeting() {
            session.ask(&greeting, 1).await?;
        }
        Ok(session)
    }

    async fn run(
        &mut self,
        operation: Operation,
        created_max: usize,
        end: Instant,
    ) -> io::Result<Answered> {
        let mut answered = Answered::default();
        while Instant::now() < end && self.created.len() < created_max {
            let begin = Instant::now();
            match operation {
                Operation::CreateAndDelete => answered.operations += self.pairs().await?,
                _ => {
                    let requests = self.requests(operation)?;
                    self.ask_and_check(&requests).await?;
                    answered.operations += self.work.depth as u64;
                }
            }
            answered.times.push(begin.elapsed());
        }
        Ok(answered)
    }

    /// As many requests as are sent at once.
    fn requests(&mut self, operation: Operation) -> io::Result<Bytes> {
        let mut requests = BytesMut::new();
        for _ in 0..self.work.depth {
            let number = self.next;
            self.next += 1;
            // Sessions begin at different znodes.
            let key = (self.number * 61 + number) % KEPT;
            match operation {
                Operation::Set => requests.extend_from_slice(&self.work.protocol.set(key)?),
                Operation::Create => {
                    let name = format!("{}-{}-{number}", std::process::id(), self.number);
                    let (create, delete) = self.work.protocol.create(&name)?;
                    requests.extend_from_slice(&create);
                    self.created.push(delete);
                }
                _ => requests.extend_from_slice(&self.work.protocol.get(key)),
            }
        }
        Ok(requests.freeze())
    }

    /// Creates, and deletes what was created.
    async fn pairs(&mut self) -> io::Result<u64> {
        let Work { protocol, depth, .. } = self.work;
        let name = |slot: usize| format!("{}-{slot}", self.number);
        let names: Vec<String> = (0..depth).map(name).collect();
        let mut requests = BytesMut::new();
        for name in &names {
            requests.extend_from_slice(&protocol.enter(name)?);
        }
        let entered = self.ask_and_check(&requests.split()).await?;
        for (name, entered) in names.iter().zip(&entered) {
            requests.extend_from_slice(&protocol.leave(name, entered)?);
        }
        self.ask_and_check(&requests).await?;
        Ok(2 * depth as u64)
    }

    /// Sends as many requests as are sent at once, of which none may be refused.
    ///
    /// # Errors
    ///
    /// As of [`Load::open`].
    pub async fn ask_and_check(&mut self, requests: &[u8]) -> io::Result<Vec<Bytes>> {
        let answers = self.ask(requests, self.work.depth).await?;
        answers.iter().try_for_each(|answer| self.work.protocol.check(answer))?;
        Ok(answers)
    }

    /// Sends requests, and waits for this many answers.
    ///
    /// # Errors
    ///
    /// As of [`Load::open`].
    pub async fn ask(&mut self, requests: &[u8], answers: usize) -> io::Result<Vec<Bytes>> {
        self.socket.write_all(requests).await?;
        let mut received = Vec::with_capacity(answers);
        while received.len() < answers {
            received.push(self.answer().await?);
        }
        Ok(received)
    }

    /// Ends the session.
    ///
    /// # Errors
    ///
    /// As of [`Load::open`].
    pub async fn close(mut self) -> io::Result<()> {
        match self.work.protocol.farewell() {
            Some(farewell) => self.ask(&farewell, 1).await.map(|_| ()),
            None => Ok(()),
        }
    }

    /// Waits for an answer or an event.
    ///
    /// # Errors
    ///
    /// As of [`Load::open`].
    pub async fn answer(&mut self) -> io::Result<Bytes> {
        loop {
            if let Some(answer) = self.work.protocol.next_answer(&mut self.input)? {
                return Ok(answer);
            }
            if self.socket.read_buf(&mut self.input).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Sends requests, many at once.
    ///
    /// # Errors
    ///
    /// As of [`Load::open`].
    pub async fn ask_all(&mut self, requests: impl IntoIterator<Item = Bytes>) -> io::Result<()> {
        let mut requests = requests.into_iter();
        loop {
            let together: Vec<Bytes> = requests.by_ref().take(TOGETHER).collect();
            if together.is_empty() {
                return Ok(());
            }
            self.ask(&together.concat(), together.len()).await?;
        }
    }
}

/// Fills a server with znodes or keys: those of one directory, or as many directories as are needed.
///
/// # Errors
///
/// As of [`Load::open`].
pub fn fill(address: SocketAddr, protocol: Protocol, place: Place, count: usize) -> io::Result<()> {
    let work = Work { protocol, operation: Operation::Create, depth: 1 };
    runtime().block_on(async {
        let mut session = Session::open(address, work, 0).await?;
        session.ask_all(protocol.prepare()).await?;
        match protocol {
            Protocol::ZooKeeper => session.ask_all(zookeeper::filling(place, count)).await?,
            Protocol::Redis => session.ask_all(redis::filling(count)).await?,
            Protocol::Bare => return Err(cannot("create")),
        }
        session.close().await
    })
}

/// Where [`fill`] creates znodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the directory in which [`Operation::CreateAndDelete`] creates.
    Line,
    /// In directories of a thousand.
    Directories,
}

pub use zookeeper::{change, watch};
