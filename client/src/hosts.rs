//! The connection string: the servers of an ensemble, and the chroot.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use zoolet_protocol::{Dial, Dialing, Searching, ZPath};

use super::error::Error;
use super::security::{self, Security};

/// The port of a server without one in the connection string.
const DEFAULT_PORT: u16 = 2181;

/// A connection string: the servers to connect to in turn, and the chroot, below which all paths
/// are.
///
/// ```
/// use zoolet_client::Hosts;
///
/// let hosts: Hosts = "one:2181,two/app".parse()?;
/// assert_eq!(hosts.addresses(), ["one:2181", "two:2181"]);
/// assert_eq!(hosts.chroot(), "/app");
/// # Ok::<(), zoolet_client::Error>(())
/// ```
#[derive(Clone)]
pub struct Hosts {
    addresses: Arc<[String]>,
    chroot: String,
    next: Arc<AtomicUsize>,
    /// A server that serves writes, to be dialled next.
    read_write: Arc<Mutex<Option<usize>>>,
    /// Whether a server has answered in plaintext.
    has_answered: Arc<AtomicBool>,
    /// Plaintext without it.
    pub(crate) security: Option<Arc<dyn Security>>,
}

impl Hosts {
    /// The servers, each as `host:port`.
    #[must_use]
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// The znode below which all paths of the client are; empty for the root.
    #[must_use]
    pub fn chroot(&self) -> &str {
        &self.chroot
    }

    /// The index of the server whose turn it is.
    pub(crate) fn next_index(&self) -> usize {
        self.next.fetch_add(1, Ordering::Relaxed) % self.addresses.len()
    }

    /// The index of the server to dial: one that serves writes if one was found, or else that whose
    /// turn it is.
    pub(crate) fn next_to_dial(&self) -> usize {
        let found = self.read_write.lock().take();
        found.unwrap_or_else(|| self.next_index())
    }

    /// The server with this index serves writes, and is dialled next.
    pub(crate) fn dial_next(&self, index: usize) {
        *self.read_write.lock() = Some(index);
    }
}

impl FromStr for Hosts {
    type Err = Error;

    /// `host[:port],..[/chroot]`, an IPv6 address in brackets.
    fn from_str(text: &str) -> Result<Self, Error> {
        let (servers, chroot) = match text.find('/') {
            Some(slash) => text.split_at(slash),
            None => (text, ""),
        };
        let chroot = if chroot == "/" { "" } else { chroot };
        if !chroot.is_empty() {
            ZPath::check(chroot)?;
        }
        let addresses = servers.split(',').map(address).collect::<Result<Arc<[_]>, _>>()?;
        // Clients that start at the same time are spread over the servers.
        let next = Arc::new(AtomicUsize::new(fastrand::usize(..addresses.len())));
        Ok(Self {
            addresses,
            chroot: chroot.to_owned(),
            next,
            read_write: Arc::default(),
            has_answered: Arc::default(),
            security: None,
        })
    }
}

/// `HOST[:PORT]` with its port.
pub(crate) fn address(server: &str) -> Result<String, Error> {
    let server = server.trim();
    let bad = |what: &str| Error::Hosts(format!("{server:?} is not HOST or HOST:PORT: {what}"));
    let host_ends = server.rfind(']').map_or(0, |bracket| bracket + 1);
    let (host, port) = match server[host_ends..].rfind(':') {
        Some(colon) => {
            let (host, port) = server.split_at(host_ends + colon);
            (host, port[1..].parse().map_err(|_| bad("the port is not a number up to 65535"))?)
        }
        None => (server, DEFAULT_PORT),
    };
    let bare = match host.strip_prefix('[') {
        Some(rest) => match rest.strip_suffix(']') {
            Some(bare) => bare,
            None if rest.contains(']') => return Err(bad("after the bracket comes :PORT")),
            None => return Err(bad("the bracket of the IPv6 address is not closed")),
        },
        None if host.contains(':') => return Err(bad("an IPv6 address stands in brackets")),
        None => host,
    };
    if bare.is_empty() {
        return Err(bad("there is no host"));
    }
    if bare.contains(['[', ']']) {
        return Err(bad("brackets stand around an IPv6 address only"));
    }
    Ok(format!("{host}:{port}"))
}

/// Asks a server with the four-letter word `isro`.
pub(crate) async fn serves_writes(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
) -> io::Result<bool> {
    stream.write_all(b"isro").await?;
    stream.flush().await?;
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).await?;
    Ok(answer == *b"rw")
}

impl Dial for Hosts {
    fn servers(&self) -> usize {
        self.addresses.len()
    }

    fn chroot(&self) -> &str {
        &self.chroot
    }

    /// Connects to the next server in turn, by any of its addresses.
    fn dial(&self) -> Dialing {
        let index = self.next_to_dial();
        let (addresses, security) = (Arc::clone(&self.addresses), self.security.clone());
        let has_answered = Arc::clone(&self.has_answered);
        Box::pin(async move {
            security::dial(&addresses[index], security.as_deref(), has_answered).await
        })
    }

    fn find_read_write(&self) -> Searching {
        let (index, hosts) = (self.next_index(), self.clone());
        Box::pin(async move {
            let (address, security) = (&hosts.addresses[index], hosts.security.as_deref());
            let asked = async { serves_writes(security::open(address, security).await?).await };
            let serves_writes = asked.await.unwrap_or(false);
            if serves_writes {
                hosts.dial_next(index);
            }
            serves_writes
        })
    }

    fn begin_at(&self, index: usize) {
        self.next.store(index, Ordering::Relaxed);
    }
}

impl fmt::Debug for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hosts")
            .field("addresses", &self.addresses)
            .field("chroot", &self.chroot)
            .field("has_tls", &self.security.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_server_that_serves_writes_is_found_and_dialled_next() {
        let mut listeners = Vec::new();
        for answer in ["ro\n", "rw\n", ""] {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
            listeners.push((listener, answer));
        }
        let address =
            |listener: &TcpListener| listener.local_addr().expect("it listens").to_string();
        let all: Vec<_> = listeners.iter().map(|(listener, _)| address(listener)).collect();
        let hosts: Hosts = all.join(",").parse().expect("addresses");
        for (listener, answer) in listeners {
            tokio::spawn(async move {
                while let Ok((mut stream, _)) = listener.accept().await {
                    let mut word = [0; 4];
                    if stream.read_exact(&mut word).await.is_ok() && word == *b"isro" {
                        let _ = stream.write_all(answer.as_bytes()).await;
                    }
                }
            });
        }
        let mut found = 0;
        for _ in 0..6 {
            if hosts.find_read_write().await {
                found += 1;
                assert_eq!(*hosts.read_write.lock(), Some(1));
                hosts.dial().await.expect("it accepts");
                assert_eq!(*hosts.read_write.lock(), None);
            }
        }
        assert_eq!(found, 2, "each is asked in turn");
    }

    #[test]
    fn connection_strings_are_read_as_zookeeper_reads_them() {
        let read = |text: &str| {
            text.parse::<Hosts>()
                .map(|hosts| (hosts.addresses().to_vec(), hosts.chroot().to_owned()))
        };
        let both = |addresses: &[&str], chroot: &str| {
            Ok((addresses.iter().map(ToString::to_string).collect(), chroot.to_owned()))
        };
        assert_eq!(read("a"), both(&["a:2181"], ""));
        assert_eq!(read("a:1,b:2/"), both(&["a:1", "b:2"], ""));
        assert_eq!(read("[::1]:5, [::2]/x/y"), both(&["[::1]:5", "[::2]:2181"], "/x/y"));
        for bad in [
            "",
            "a:port",
            ":2181",
            "::1",
            "a,,b",
            "a/x/",
            "a:99999",
            "[::1",
            "[::1:5",
            "::1]:5",
            "[]",
            "[::1]x:5",
            "[[::1]]:5",
            "a]:5",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
