//! Asking a server for its four-letter words.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a server may take for its answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a server says to a word.
///
/// # Errors
///
/// When it cannot be reached or does not answer.
pub fn ask(server: SocketAddr, word: &str) -> io::Result<String> {
    let mut socket = TcpStream::connect_timeout(&server, PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.write_all(word.as_bytes())?;
    let mut said = String::new();
    socket.read_to_string(&mut said)?;
    Ok(said)
}
