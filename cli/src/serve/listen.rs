//! Resolves the host to listen on, and binds its first usable address, unless a socket was passed.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;

use zoolet_server::storage::StorageError;
use zoolet_server::{Config, Server, StartError};
use zoolet_testkit::{Faults, Observer, TestHooks};

use crate::server_options::values::HostPort;

/// What a server listens on.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) plain: Plain,
    /// For TLS: the first of these that can be bound, nothing if there are none.
    pub(super) secure: Vec<SocketAddr>,
}

/// What a server listens on for plaintext connections.
#[derive(Debug)]
pub(super) enum Plain {
    /// The first of these that can be bound, nothing if there are none.
    Addresses(Vec<SocketAddr>),
    /// A socket that the service manager has bound.
    Passed(Arc<TcpListener>),
}

impl Listening {
    /// The same for a server that is started again, with the addresses that the first was bound to.
    pub(super) fn again(self, first: &Server) -> Self {
        let plain = match self.plain {
            Plain::Addresses(_) => Plain::Addresses(first.local_addr().into_iter().collect()),
            passed @ Plain::Passed(_) => passed,
        };
        Self { plain, secure: first.secure_addr().into_iter().collect() }
    }
}

/// The addresses of a host, at least one; none of no host.
///
/// # Errors
///
/// [`ListenError::Unresolved`] if it has none.
pub(super) fn resolve(name: Option<&HostPort>) -> Result<Vec<SocketAddr>, ListenError> {
    let Some(name) = name else { return Ok(Vec::new()) };
    let unresolved = |source| ListenError::Unresolved { host: name.host.clone(), source };
    let addresses = (name.host.as_str(), name.port).to_socket_addrs().map_err(unresolved)?;
    let addresses: Vec<_> = addresses.collect();
    if addresses.is_empty() {
        return Err(unresolved(io::Error::new(ErrorKind::NotFound, "it has no address")));
    }
    Ok(addresses)
}

/// Starts a server on the socket that was passed, or on the first addresses that can be bound.
///
/// # Errors
///
/// [`ListenError`] if none can be bound.
pub(super) async fn start(
    config: &Config,
    listening: &Listening,
    faults: Option<&Faults>,
) -> Result<Server, ListenError> {
    let (mut plain, passed) = match &listening.plain {
        Plain::Addresses(addresses) => (addresses.as_slice(), None),
        Plain::Passed(listener) => (&[][..], Some(listener)),
    };
    let mut secure = listening.secure.as_slice();
    let mut refusals = Vec::new();
    loop {
        let mut config = config.clone();
        config.listen = plain.first().copied();
        if let Some(tls) = &mut config.tls {
            tls.listen = secure.first().copied();
        }
        let mut builder = Server::builder().config(config);
        if let Some(listener) = passed {
            builder = builder.listener(Arc::clone(listener));
        }
        if let Some(faults) = faults {
            builder = builder.hooks(TestHooks::new(faults, &Observer::default()));
        }
        match builder.start().await {
            Ok(server) => return Ok(server),
            Err(StartError::Listen { address, source }) => {
                refusals.push(Refusal { address, source });
                let refused =
                    if plain.first() == Some(&address) { &mut plain } else { &mut secure };
                *refused = refused.get(1..).unwrap_or_default();
                if refused.is_empty() {
                    return Err(ListenError::Refused(Refusals(refusals)));
                }
            }
            Err(error) => return Err(ListenError::Start(error)),
        }
    }
}

/// Why a server does not listen.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListenError {
    #[error("cannot find the address of {host:?} to listen at: {source}")]
    Unresolved { host: String, source: io::Error },
    #[error("cannot listen on {0}")]
    Refused(Refusals),
    #[error("{start}{cure}", start = .0, cure = cure(.0))]
    Start(StartError),
}

impl ListenError {
    /// Whether the data directory is missing, or cannot be created.
    pub(super) fn is_about_the_data_directory(&self) -> bool {
        let Self::Start(StartError::Storage(error)) = self else { return false };
        matches!(
            error,
            StorageError::MissingDirectory { .. } | StorageError::Io { what: "create", .. }
        )
    }

    /// Whether the host name is at fault.
    pub(super) fn is_about_the_name(&self) -> bool {
        matches!(self, Self::Unresolved { .. })
    }
}

/// What to do about a data directory that the system refuses, or about a full disk, on a line of its own.
fn cure(error: &StartError) -> &'static str {
    let StartError::Storage(StorageError::Io { what, source, .. }) = error else { return "" };
    let is_refused = matches!(
        source.kind(),
        ErrorKind::NotFound
            | ErrorKind::NotADirectory
            | ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
    );
    // Other operations are about a file: another directory is no cure for what it lacks.
    match *what {
        _ if matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
            "\nThe disk is full, or the part of it that this user may have. Make room, and start again: nothing \
             acknowledged is lost. Delete no file of the data directory by hand; `zoolet data compact DIR` \
             replaces them by one snapshot, if there is room for that."
        }
        "create" | "lock" | "list" if is_refused => {
            "\nThe data directory must be one that this user can create, read and write. Choose \
             another with --data-dir DIR (or dataDir in the configuration file)."
        }
        _ if source.kind() == ErrorKind::PermissionDenied => {
            "\nThe user who runs the server must be able to read and write every file of the data \
             directory."
        }
        _ => "",
    }
}

/// The error of each address.
#[derive(Debug)]
pub(crate) struct Refusals(Vec<Refusal>);

#[derive(Debug)]
struct Refusal {
    address: SocketAddr,
    source: io::Error,
}

impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Refusal { address, source }) in self.0.iter().enumerate() {
            write!(f, "{}{address}: {source}", if i == 0 { "" } else { ", nor on " })?;
        }
        let cure = match self.0.last().map(|refusal| refusal.source.kind()) {
            Some(ErrorKind::AddrInUse) => {
                "Another program, perhaps ZooKeeper or zoolet, has this port. Stop it, or choose \
                 another port with --listen HOST:PORT (or clientPort in the configuration file); \
                 port 0 picks a free one."
            }
            Some(ErrorKind::PermissionDenied) => {
                "The system reserves low ports; choose one from 1024 up."
            }
            Some(ErrorKind::AddrNotAvailable) => {
                "This machine has no such address; 127.0.0.1 is for clients on this machine, \
                 0.0.0.0 for all."
            }
            _ => return Ok(()),
        };
        write!(f, "\n{cure}")
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn taken() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    #[test]
    fn another_directory_is_advised_only_where_the_directory_is_refused() {
        let told = |what, path: &str, kind: ErrorKind| {
            let (path, source) = (path.into(), io::Error::from(kind));
            let error = StartError::Storage(StorageError::Io { what, path, source });
            ListenError::Start(error).to_string()
        };
        let refused = told("create", "/data/version-2", ErrorKind::PermissionDenied);
        assert!(refused.contains("--data-dir DIR"), "{refused}");
        let missing = told("read", "/data/version-2/log.1", ErrorKind::NotFound);
        assert_eq!(missing, "cannot read /data/version-2/log.1: entity not found");
        let unreadable = told("read", "/data/version-2/log.1", ErrorKind::PermissionDenied);
        assert!(unreadable.ends_with("every file of the data directory."), "{unreadable}");
        assert!(!unreadable.contains("--data-dir"), "{unreadable}");
        for what in ["create", "write to"] {
            let full = told(what, "/data/version-2/log.1", ErrorKind::StorageFull);
            assert!(full.contains("The disk is full"), "{full}");
        }
    }

    fn plain(addresses: Vec<SocketAddr>) -> Listening {
        Listening { plain: Plain::Addresses(addresses), secure: Vec::new() }
    }

    #[tokio::test]
    async fn the_first_address_that_can_be_had_is_taken() {
        let (_listener, taken) = taken();
        let free = ([127, 0, 0, 1], 0).into();
        let server = start(&Config::default(), &plain(vec![taken, free]), None).await.unwrap();
        let address = server.local_addr().unwrap();
        assert_ne!(address, taken);
        server.shutdown().await;
    }

    #[tokio::test]
    async fn every_refusal_is_told_with_the_last_ones_cure() {
        let (_listener, taken) = taken();
        // From the block of addresses for documentation.
        let elsewhere = ([192, 0, 2, 1], 0).into();
        let started = start(&Config::default(), &plain(vec![elsewhere, taken]), None).await;
        let error = started.unwrap_err().to_string();
        assert!(error.starts_with("cannot listen on 192.0.2.1:0: "), "{error}");
        assert!(error.contains(&format!(", nor on {taken}: ")), "{error}");
        assert!(error.contains("Another program"), "{error}");
    }
}
