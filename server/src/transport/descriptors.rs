//! How many file descriptors the process may still open.
//!
//! Each connection takes a descriptor, and so does each file. A server whose connections have taken
//! them all can begin no log and no snapshot, and must end. So the last ones are kept for files.

#[cfg(unix)]
use std::os::fd::AsRawFd;

#[cfg(unix)]
use crate::limits::DESCRIPTORS_KEPT;

/// Whether a socket has one of the descriptors that are kept for files. The system gives out the
/// lowest number that is free, so all below that of a new socket are taken.
#[cfg(unix)]
pub(crate) fn is_kept_for_files(socket: &impl AsRawFd) -> bool {
    use nix::sys::resource::{Resource, getrlimit};

    let Ok((limit, _)) = getrlimit(Resource::RLIMIT_NOFILE) else { return false };
    // A process with few descriptors keeps a quarter of them.
    let kept = DESCRIPTORS_KEPT.min(limit / 4);
    u64::try_from(socket.as_raw_fd()).is_ok_and(|number| number >= limit - kept)
}

/// Other systems have no such limit.
#[cfg(not(unix))]
pub(crate) fn is_kept_for_files<T>(_socket: &T) -> bool {
    false
}
