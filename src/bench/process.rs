//! What a server's process has used, as Linux tells it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::embedded::THREAD_NAME;

/// Where the numbers of a server are.
#[derive(Debug, Clone)]
pub(crate) enum Process {
    /// The server is elsewhere, or on nobody's thread.
    Unknown,
    /// It is a process of its own.
    Of(u32),
    /// It has threads of this process.
    Embedded,
}

const BYTES_PER_KIB: f64 = 1024.0;

impl Process {
    /// The CPU time that the server's threads have used so far, of those that live.
    pub(crate) fn cpu_time(&self) -> Option<Duration> {
        let (folder, is_whole) = match self {
            Self::Unknown => return None,
            Self::Of(pid) => (proc(&pid.to_string()), true),
            Self::Embedded => (proc("self"), false),
        };
        let threads = fs::read_dir(folder.join("task")).ok()?;
        let of_server = threads.filter_map(|thread| {
            let thread = thread.ok()?.path();
            let is_of_server = || {
                let name = fs::read_to_string(thread.join("comm"));
                name.is_ok_and(|name| name.trim_end() == THREAD_NAME)
            };
            // A thread may end while we look.
            (is_whole || is_of_server()).then(|| thread_time(&thread)).flatten()
        });
        let times: Vec<Duration> = of_server.collect();
        (!times.is_empty()).then(|| times.into_iter().sum())
    }

    /// The memory that the process has; that of an embedded server has the clients in it.
    pub(crate) fn resident_bytes(&self) -> Option<f64> {
        let folder = match self {
            Self::Unknown => return None,
            Self::Of(pid) => proc(&pid.to_string()),
            Self::Embedded => proc("self"),
        };
        let status = fs::read_to_string(folder.join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib * BYTES_PER_KIB)
    }
}

fn proc(process: &str) -> PathBuf {
    Path::new("/proc").join(process)
}

/// What a thread has used: the first number of its `schedstat`, in nanoseconds, where the coarser
/// `stat` counts in hundredths of a second.
fn thread_time(thread: &Path) -> Option<Duration> {
    let text = fs::read_to_string(thread.join("schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_is_known_by_its_number() {
        let process = Process::Of(std::process::id());
        assert!(process.cpu_time().is_some_and(|time| !time.is_zero()));
        assert!(process.resident_bytes().is_some_and(|bytes| bytes > 100_000.0));
        assert_eq!(Process::Embedded.cpu_time(), None, "there is no server in this process");
    }

    #[test]
    fn nothing_is_known_of_a_process_that_is_not_there() {
        for process in [Process::Unknown, Process::Of(u32::MAX)] {
            assert_eq!((process.cpu_time(), process.resident_bytes()), (None, None));
        }
    }
}
