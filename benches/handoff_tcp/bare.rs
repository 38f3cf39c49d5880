//! Bare sockets: a byte of the holder wakes the server, and a byte of the server wakes the next. There is no lock.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::pair::Pair;
use crate::rhythm::Contender;

/// To the server: hand over what I hold. To a client: you hold it.
const HAND_OVER: [u8; 1] = [1];
/// To the server: answer me. To a client: the answer.
const REQUEST: [u8; 1] = [2];
/// As many answers a mutex waits for before it waits for its turn: for its place, and for its watch.
const ENTERING_REQUESTS: usize = 2;

/// Serves one pair of clients after the other, each client by a thread that waits for its byte.
pub(crate) fn serve(tell: impl FnOnce(SocketAddr)) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    tell(listener.local_addr()?);
    loop {
        let ((one, _), (other, _)) = (listener.accept()?, listener.accept()?);
        one.set_nodelay(true)?;
        other.set_nodelay(true)?;
        (&one).write_all(&HAND_OVER)?;
        for (from, to) in [(&one, &other), (&other, &one)] {
            let (from, to) = (from.try_clone()?, to.try_clone()?);
            thread::spawn(move || relay(from, to));
        }
    }
}

fn relay(mut from: TcpStream, mut to: TcpStream) -> io::Result<()> {
    let mut byte = [0];
    while from.read(&mut byte)? > 0 {
        if byte == HAND_OVER {
            // The other one has gone after its last turn.
            to.write_all(&byte).ok();
        }
        from.write_all(&REQUEST)?;
    }
    Ok(())
}

/// The same, on the runtime that zoolet has.
pub(crate) async fn serve_on_tokio(tell: impl FnOnce(SocketAddr)) -> io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    tell(listener.local_addr()?);
    loop {
        let Pair { readers, writers } = Pair::accept(&listener).await?;
        writers[0].writable().await?;
        writers[0].try_write(&HAND_OVER)?;
        for (client, reader) in readers.into_iter().enumerate() {
            tokio::spawn(relay_on_tokio(client, reader, Arc::clone(&writers)));
        }
    }
}

async fn relay_on_tokio(
    client: usize,
    mut reader: OwnedReadHalf,
    writers: Arc<[OwnedWriteHalf; 2]>,
) -> io::Result<()> {
    let mut byte = [0];
    while reader.read(&mut byte).await? > 0 {
        if byte == HAND_OVER {
            // The other one has gone after its last turn.
            writers[1 - client].try_write(&byte).ok();
        }
        writers[client].try_write(&REQUEST)?;
    }
    Ok(())
}

/// A contender that blocks its thread wherever it waits for the server. It sleeps as all others do.
pub(crate) struct BareContender {
    socket: TcpStream,
    is_next: bool,
}

impl BareContender {
    fn ask(&mut self, byte: [u8; 1]) -> io::Result<()> {
        self.socket.write_all(&byte)?;
        while self.receive()? == HAND_OVER {
            self.is_next = true;
        }
        Ok(())
    }

    fn receive(&mut self) -> io::Result<[u8; 1]> {
        let mut byte = [0];
        self.socket.read_exact(&mut byte)?;
        Ok(byte)
    }
}

impl Contender for BareContender {
    async fn connect(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        Ok(Self { socket, is_next: false })
    }

    async fn acquire(&mut self) -> io::Result<()> {
        for _ in 0..ENTERING_REQUESTS {
            self.ask(REQUEST)?;
        }
        while !std::mem::take(&mut self.is_next) {
            self.is_next = self.receive()? == HAND_OVER;
        }
        Ok(())
    }

    async fn release(&mut self) -> io::Result<()> {
        self.ask(HAND_OVER)
    }

    async fn request(&mut self) -> io::Result<()> {
        self.ask(REQUEST)
    }
}

pub(crate) struct ContenderOnTokio {
    socket: tokio::net::TcpStream,
    is_next: bool,
}

impl ContenderOnTokio {
    async fn ask(&mut self, byte: [u8; 1]) -> io::Result<()> {
        self.socket.write_all(&byte).await?;
        while self.receive().await? == HAND_OVER {
            self.is_next = true;
        }
        Ok(())
    }

    async fn receive(&mut self) -> io::Result<[u8; 1]> {
        let mut byte = [0];
        self.socket.read_exact(&mut byte).await?;
        Ok(byte)
    }
}

impl Contender for ContenderOnTokio {
    async fn connect(address: SocketAddr) -> io::Result<Self> {
        let socket = tokio::net::TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(Self { socket, is_next: false })
    }

    async fn acquire(&mut self) -> io::Result<()> {
        for _ in 0..ENTERING_REQUESTS {
            self.ask(REQUEST).await?;
        }
        while !std::mem::take(&mut self.is_next) {
            self.is_next = self.receive().await? == HAND_OVER;
        }
        Ok(())
    }

    async fn release(&mut self) -> io::Result<()> {
        self.ask(HAND_OVER).await
    }

    async fn request(&mut self) -> io::Result<()> {
        self.ask(REQUEST).await
    }
}
