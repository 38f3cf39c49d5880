//! How many file descriptors the process may open, and which of them connections may take.
//!
//! Each connection takes a file descriptor, and so does each file. A server whose connections have
//! taken all of them can begin no log and no snapshot, and must stop. So the last descriptors are
//! kept for files.

use std::io;
#[cfg(unix)]
use std::os::fd::AsRawFd;

#[cfg(unix)]
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[cfg(unix)]
use crate::limits::DESCRIPTORS_KEPT;

/// The most that Apple's systems accept, whatever limit they report (`OPEN_MAX`).
#[cfg(unix)]
const APPLE_DESCRIPTORS_MAX: u64 = 10_240;

/// Raises the number of files and sockets that this process may have open as far as the system
/// allows, and returns it; `None` where there is no limit.
///
/// Each client over TCP takes one. The usual limit of 1,024 is kept low only for programs that use
/// `select`; the Java virtual machine raises it too. A server that is embedded does not change its
/// process by itself: a program that expects a thousand connections calls this before it starts
/// one.
///
/// # Errors
///
/// When the system refuses; the limit is then what it was.
///
/// ```
/// match zoolet_server::raise_descriptor_limit() {
///     Ok(limit) => println!("the limit of open files is {limit:?}"),
///     Err(error) => eprintln!("the limit of open files stays: {error}"),
/// }
/// ```
#[cfg(unix)]
pub fn raise_descriptor_limit() -> io::Result<Option<u64>> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = if cfg!(target_vendor = "apple") {
        let allowed = maximum.unwrap_or(APPLE_DESCRIPTORS_MAX).min(APPLE_DESCRIPTORS_MAX);
        current.map(|current| current.max(allowed))
    } else {
        maximum
    };
    setrlimit(Resource::Nofile, Rlimit { current: wanted, maximum })?;
    Ok(wanted)
}

/// Other systems have no such limit, so there is nothing to raise.
///
/// # Errors
///
/// None.
#[cfg(not(unix))]
pub fn raise_descriptor_limit() -> io::Result<Option<u64>> {
    Ok(None)
}

/// Whether a new socket has one of the descriptors that are kept for files. The system gives out
/// the lowest free number, so all numbers below it are in use.
#[cfg(unix)]
pub(crate) fn is_kept_for_files(socket: &impl AsRawFd) -> bool {
    let Some(limit) = getrlimit(Resource::Nofile).current else { return false };
    // With a low limit a quarter of the descriptors is kept.
    let kept = DESCRIPTORS_KEPT.min(limit / 4);
    u64::try_from(socket.as_raw_fd()).is_ok_and(|number| number >= limit - kept)
}

/// Other systems have no such limit.
#[cfg(not(unix))]
pub(crate) fn is_kept_for_files<T>(_socket: &T) -> bool {
    false
}
