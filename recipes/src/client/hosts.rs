//! The servers of an ensemble, as ZooKeeper's connection string names them.

use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::TcpStream;
use zoolet_protocol::{Dial, Dialing, Transport, ZPath};

use super::error::Error;
use super::tcp::TcpTransport;

/// The port of a server that names none.
const DEFAULT_PORT: u16 = 2181;

/// Servers to connect to, one after the other, and the znode that is the root of all paths.
///
/// ```
/// use zoolet_recipes::client::Hosts;
///
/// let hosts: Hosts = "one:2181,two/app".parse()?;
/// assert_eq!(hosts.addresses(), ["one:2181", "two:2181"]);
/// assert_eq!(hosts.chroot(), "/app");
/// # Ok::<(), zoolet_recipes::client::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Hosts {
    addresses: Arc<[String]>,
    chroot: String,
    next: Arc<AtomicUsize>,
}

impl Hosts {
    /// The servers, each as `host:port`.
    #[must_use]
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// The znode that is the root of all paths; empty for the root itself.
    #[must_use]
    pub fn chroot(&self) -> &str {
        &self.chroot
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
        // Clients that start together should not all begin with the first server.
        let next = Arc::new(AtomicUsize::new(fastrand::usize(..addresses.len())));
        Ok(Self { addresses, chroot: chroot.to_owned(), next })
    }
}

fn address(server: &str) -> Result<String, Error> {
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
    if host.is_empty() {
        return Err(bad("there is no host"));
    }
    if host.contains(':') && !host.starts_with('[') {
        return Err(bad("an IPv6 address stands in brackets"));
    }
    Ok(format!("{host}:{port}"))
}

impl Dial for Hosts {
    fn servers(&self) -> usize {
        self.addresses.len()
    }

    /// Connects to the next server in turn, by any of its addresses.
    fn dial(&self) -> Dialing {
        let index = self.next.fetch_add(1, Ordering::Relaxed) % self.addresses.len();
        let addresses = Arc::clone(&self.addresses);
        Box::pin(async move {
            let address = &addresses[index];
            let stream = TcpStream::connect(address.as_str())
                .await
                .map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))?;
            let transport: Box<dyn Transport> = Box::new(TcpTransport::new(stream)?);
            Ok(transport)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for bad in ["", "a:port", ":2181", "::1", "a,,b", "a/x/", "a:99999"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
