//! The CPU time and the memory of a server's process, as Linux reports them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::embedded::THREAD_NAME;
use super::failure::Failure;

/// Where the numbers of a server come from.
#[derive(Debug, Clone)]
pub(crate) enum Process {
    /// Not known: the server is on another machine, or runs on the threads of its clients.
    Unknown,
    /// The server is a process of its own.
    Of(u32),
    /// The server has threads of its own in this process.
    Embedded,
}

const BYTES_PER_KIB: f64 = 1024.0;

impl Process {
    /// The process with this id.
    ///
    /// # Errors
    ///
    /// [`Failure::Usage`] if there is none on this machine, where the system tells.
    pub(crate) fn of(pid: u32) -> Result<Self, Failure> {
        if proc("self").exists() && !proc(&pid.to_string()).exists() {
            return Err(Failure::Usage(format!(
                "there is no process {pid} on this machine; --pid is for a server that runs here"
            )));
        }
        Ok(Self::Of(pid))
    }

    /// The CPU time that the server has used so far.
    pub(crate) fn cpu_time(&self) -> Option<Duration> {
        match self {
            Self::Unknown => None,
            Self::Of(pid) => process_time(*pid),
            Self::Embedded => threads_time(),
        }
    }

    /// The CPU time since it was `before`.
    pub(crate) fn cpu_time_since(&self, before: Option<Duration>) -> Option<Duration> {
        // The time of ended threads is missing in that of an embedded server.
        Some(self.cpu_time()?.saturating_sub(before?))
    }

    /// The resident memory of the process; with an embedded server it includes the clients.
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

/// From the kernel's clock of the process, which includes ended threads.
#[cfg(target_os = "linux")]
fn process_time(pid: u32) -> Option<Duration> {
    let pid = nix::unistd::Pid::from_raw(pid.try_into().ok()?);
    Some(nix::time::ClockId::pid_cpu_clock_id(pid).ok()?.now().ok()?.into())
}

#[cfg(not(target_os = "linux"))]
fn process_time(_pid: u32) -> Option<Duration> {
    None
}

/// From the threads of this process that have the server's name: the first number of `schedstat`, in
/// nanoseconds.
fn threads_time() -> Option<Duration> {
    let threads = fs::read_dir(proc("self").join("task")).ok()?;
    let of_server = threads.filter_map(|thread| {
        let thread = thread.ok()?.path();
        let name = fs::read_to_string(thread.join("comm")).ok()?;
        if name.trim_end() != THREAD_NAME {
            return None;
        }
        let text = fs::read_to_string(thread.join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
    });
    let times: Vec<Duration> = of_server.collect();
    (!times.is_empty()).then(|| times.into_iter().sum())
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
