//! The floor of a server: it reads requests and writes answers, and does nothing else.

use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::process::until_stdin_ends;
use crate::sessions::{ANSWER_BYTES, BARE_REQUEST};

/// The requests that one answer is made of at most, as many as the buffer takes.
const MOST_AT_ONCE: usize = 128;

/// Answers each [`BARE_REQUEST`] with as many bytes as a `getData` is answered with, on the runtime that
/// `zoolet serve` has, until stdin ends. The answers to what one read brings are one write. Tells its
/// address by `tell`.
///
/// # Errors
///
/// Those of the system.
pub fn serve(tell: impl FnOnce(std::net::SocketAddr)) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        tell(listener.local_addr()?);
        let end = tokio::spawn(until_stdin_ends());
        tokio::select! {
            ended = end => ended?,
            accepted = accept(listener) => accepted,
        }
    })
}

async fn accept(listener: TcpListener) -> io::Result<()> {
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        tokio::spawn(answer(socket));
    }
}

async fn answer(mut socket: TcpStream) {
    let mut buffer = [0; MOST_AT_ONCE * BARE_REQUEST.len()];
    let answers = [0; MOST_AT_ONCE * ANSWER_BYTES];
    let mut rest = 0;
    while let Ok(read @ 1..) = socket.read(&mut buffer[rest..]).await {
        let requests = (rest + read) / BARE_REQUEST.len();
        rest = (rest + read) % BARE_REQUEST.len();
        if socket.write_all(&answers[..requests * ANSWER_BYTES]).await.is_err() {
            return;
        }
    }
}
