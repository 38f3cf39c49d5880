//! Sends four-letter words to a server.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a server may take for its reply.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sends a word and returns the reply.
///
/// # Errors
///
/// If the server cannot be reached or does not reply.
pub fn ask(server: SocketAddr, word: &str) -> io::Result<String> {
    let mut socket = TcpStream::connect_timeout(&server, PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.write_all(word.as_bytes())?;
    let mut reply = String::new();
    socket.read_to_string(&mut reply)?;
    Ok(reply)
}
