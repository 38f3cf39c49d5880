//! The floor of a server: it reads requests and writes answers, and does nothing else.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::connections;
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
pub fn serve(tell: impl FnOnce(SocketAddr)) -> io::Result<()> {
    connections::serve(tell, answer)
}

async fn answer(mut socket: TcpStream) -> io::Result<()> {
    let mut buffer = [0; MOST_AT_ONCE * BARE_REQUEST.len()];
    let answers = [0; MOST_AT_ONCE * ANSWER_BYTES];
    let mut rest = 0;
    loop {
        let read = socket.read(&mut buffer[rest..]).await?;
        if read == 0 {
            return Ok(());
        }
        let requests = (rest + read) / BARE_REQUEST.len();
        rest = (rest + read) % BARE_REQUEST.len();
        socket.write_all(&answers[..requests * ANSWER_BYTES]).await?;
    }
}
