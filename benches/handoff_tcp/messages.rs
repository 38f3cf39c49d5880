//! The messages of a hand-over, without a lock, on the runtime that zoolet has at all ends. They are as long as those of a
//! mutex; what is sent together, as a create with its list or two events, is one. The server knows who holds and who
//! waits, and nothing else.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use crate::pair::Pair;
use crate::rhythm::Contender;

/// As many bytes as zoolet reads at once.
const READ_BYTES: usize = 8 << 10;

/// A message: its first byte tells what it is, and how long it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Message {
    /// Creates a place, and lists the line.
    Enter,
    Entered,
    /// Watches the place ahead.
    Watch,
    Watched,
    /// The place ahead is gone.
    Event,
    Release,
    Released,
}

impl Message {
    const ALL: [Self; 7] = [
        Self::Enter,
        Self::Entered,
        Self::Watch,
        Self::Watched,
        Self::Event,
        Self::Release,
        Self::Released,
    ];

    /// As of a mutex of two clients.
    const fn len(self) -> usize {
        match self {
            Self::Enter => 139,
            Self::Entered => 298,
            Self::Watch => 236,
            Self::Watched => 20,
            Self::Event => 192,
            Self::Release => 195,
            Self::Released => 211,
        }
    }

    fn bytes(self) -> Vec<u8> {
        vec![self as u8; self.len()]
    }

    /// Takes the next message that was read, if it is whole.
    fn take(input: &mut BytesMut) -> Option<Self> {
        let message = Self::ALL.into_iter().find(|it| input.first() == Some(&(*it as u8)))?;
        (input.len() >= message.len()).then(|| input.advance(message.len()))?;
        Some(message)
    }
}

/// Who holds and who waits, by the numbers of two clients.
#[derive(Debug, Default)]
struct Line {
    holder: Option<usize>,
    waiter: Option<usize>,
}

/// Serves one pair of clients after the other. Tells its address by `tell`.
pub(crate) async fn serve(tell: impl FnOnce(SocketAddr)) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    tell(listener.local_addr()?);
    loop {
        let Pair { readers, writers } = Pair::accept(&listener).await?;
        let line = Arc::<Mutex<Line>>::default();
        for (client, reader) in readers.into_iter().enumerate() {
            tokio::spawn(answer(client, reader, Arc::clone(&writers), Arc::clone(&line)));
        }
    }
}

async fn answer(
    client: usize,
    mut reader: OwnedReadHalf,
    writers: Arc<[OwnedWriteHalf; 2]>,
    line: Arc<Mutex<Line>>,
) -> io::Result<()> {
    let mut input = BytesMut::new();
    let send = |client: usize, message: Message| writers[client].try_write(&message.bytes());
    loop {
        input.reserve(READ_BYTES);
        if reader.read_buf(&mut input).await? == 0 {
            return Ok(());
        }
        while let Some(message) = Message::take(&mut input) {
            let mut line = line.lock().unwrap_or_else(PoisonError::into_inner);
            match message {
                Message::Enter => send(client, Message::Entered)?,
                Message::Watch if line.holder.is_none() => {
                    line.holder = Some(client);
                    send(client, Message::Watched)?;
                    send(client, Message::Event)?
                }
                Message::Watch => {
                    line.waiter = Some(client);
                    send(client, Message::Watched)?
                }
                _ => {
                    line.holder = line.waiter.take();
                    if let Some(next) = line.holder {
                        send(next, Message::Event)?;
                    }
                    send(client, Message::Released)?
                }
            };
        }
    }
}

/// A client without a task that reads: who waits reads itself.
pub(crate) struct MessageContender {
    socket: TcpStream,
    input: BytesMut,
    /// The event has come.
    is_next: bool,
}

impl MessageContender {
    async fn ask(&mut self, message: Message) -> io::Result<()> {
        self.socket.write_all(&message.bytes()).await?;
        while self.receive().await? == Message::Event {
            self.is_next = true;
        }
        Ok(())
    }

    async fn receive(&mut self) -> io::Result<Message> {
        loop {
            if let Some(message) = Message::take(&mut self.input) {
                return Ok(message);
            }
            self.input.reserve(READ_BYTES);
            if self.socket.read_buf(&mut self.input).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

impl Contender for MessageContender {
    async fn connect(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(Self { socket, input: BytesMut::new(), is_next: false })
    }

    async fn acquire(&mut self) -> io::Result<()> {
        self.ask(Message::Enter).await?;
        self.ask(Message::Watch).await?;
        while !std::mem::take(&mut self.is_next) {
            self.is_next = self.receive().await? == Message::Event;
        }
        Ok(())
    }

    async fn release(&mut self) -> io::Result<()> {
        self.ask(Message::Release).await
    }

    async fn request(&mut self) -> io::Result<()> {
        self.ask(Message::Enter).await
    }
}
