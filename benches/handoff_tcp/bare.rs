//! Bare sockets: a byte of the holder wakes the server, and a byte of the server wakes the next. There is no lock:
//! who gets a byte without having asked holds it.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::pair::Pair;
use crate::rhythm::Contender;

/// Goes on to the other client and back to the sender.
const HAND_OVER: [u8; 1] = [1];
/// Goes back to the sender only.
const REQUEST: [u8; 1] = [2];

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
        from.write_all(&byte)?;
    }
    Ok(())
}

/// The same, on the runtime that zoolet has.
pub(crate) async fn serve_on_tokio(tell: impl FnOnce(SocketAddr)) -> io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    tell(listener.local_addr()?);
    loop {
        let Pair { readers, writers } = Pair::accept(&listener).await?;
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
        writers[client].try_write(&byte)?;
    }
    Ok(())
}

/// A contender without a runtime: it blocks its thread wherever it waits.
pub(crate) struct BareContender(TcpStream);

impl Contender for BareContender {
    async fn connect(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        Ok(Self(socket))
    }

    async fn acquire(&mut self) -> io::Result<()> {
        self.0.read_exact(&mut [0])
    }

    async fn release(&mut self) -> io::Result<()> {
        self.0.write_all(&HAND_OVER)?;
        self.0.read_exact(&mut [0])
    }

    async fn request(&mut self) -> io::Result<()> {
        self.0.write_all(&REQUEST)?;
        self.0.read_exact(&mut [0])
    }

    async fn sleep(duration: Duration) {
        thread::sleep(duration);
    }
}

pub(crate) struct ContenderOnTokio(tokio::net::TcpStream);

impl ContenderOnTokio {
    async fn receive(&mut self) -> io::Result<()> {
        self.0.read_exact(&mut [0]).await.map(drop)
    }
}

impl Contender for ContenderOnTokio {
    async fn connect(address: SocketAddr) -> io::Result<Self> {
        let socket = tokio::net::TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(Self(socket))
    }

    async fn acquire(&mut self) -> io::Result<()> {
        self.receive().await
    }

    async fn release(&mut self) -> io::Result<()> {
        self.0.write_all(&HAND_OVER).await?;
        self.receive().await
    }

    async fn request(&mut self) -> io::Result<()> {
        self.0.write_all(&REQUEST).await?;
        self.receive().await
    }
}
