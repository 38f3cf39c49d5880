//! Whether a port speaks something else than this client, when it has ended a connection without an answer.
//!
//! Servers end a connection for many reasons, so one that ends proves nothing. What a port answers to the
//! other side's first bytes does. No secret is sent, and no session is opened.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, ToSocketAddrs};

use super::is_tls_alert;
use crate::limits::PROBE_TIMEOUT;

/// The longest answer that is looked at: the first line.
const ANSWER_BYTES_MAX: usize = 128;

/// Whether the port answers a four-letter word in plaintext. Servers execute `srvr` unless they are told
/// otherwise, and say so of a word that they do not execute.
#[cfg(feature = "tls")]
pub(super) async fn speaks_plaintext(server: impl ToSocketAddrs) -> bool {
    let answer = ask(server, b"srvr").await.unwrap_or_default();
    let answer = String::from_utf8_lossy(&answer);
    let answers = ["Zookeeper version", "srvr is not executed", "This ZooKeeper instance"];
    answers.iter().any(|begin| answer.starts_with(begin))
}

/// Whether the port answers the beginning of a handshake of TLS.
pub(crate) async fn speaks_tls(server: impl ToSocketAddrs) -> bool {
    let answer = ask(server, CLIENT_HELLO).await.unwrap_or_default();
    is_tls_alert(&answer) || answer.starts_with(&[HANDSHAKE, 0x03])
}

/// Asks a port that has not answered for this long whether it speaks TLS, and ends only if it does.
pub(crate) async fn find_tls(server: &str, silence: Duration) {
    tokio::time::sleep(silence).await;
    if !speaks_tls(server).await {
        std::future::pending().await
    }
}

/// The type of a record of TLS that has a message of a handshake.
const HANDSHAKE: u8 = 0x16;

/// A ClientHello of TLS 1.2 without extensions, for one cipher suite of TLS 1.3. Servers refuse it with an
/// alert, and compute nothing.
const CLIENT_HELLO: &[u8] = b"\x16\x03\x01\x00\x2d\x01\x00\x00\x29\x03\x03\
    zoolet asks: is this port TLS?  \
    \x00\x00\x02\x13\x01\x01\x00";

/// The beginning of the answer to these bytes.
async fn ask(server: impl ToSocketAddrs, request: &[u8]) -> io::Result<Vec<u8>> {
    let asking = async {
        let mut socket = TcpStream::connect(server).await?;
        socket.write_all(request).await?;
        let mut answer = Vec::new();
        while answer.len() < ANSWER_BYTES_MAX && !answer.contains(&b'\n') {
            // A server may reset the connection after its answer.
            if matches!(socket.read_buf(&mut answer).await, Ok(0) | Err(_)) {
                break;
            }
        }
        Ok(answer)
    };
    tokio::time::timeout(PROBE_TIMEOUT, asking).await?
}
