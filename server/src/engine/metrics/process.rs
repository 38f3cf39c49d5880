//! What the system knows of this process, under the names of Prometheus' client libraries
//! (`StandardExports`). Where there is no `/proc` they are left out.

use super::families::{Family, Growth, Value};

pub(super) fn families() -> Vec<Family> {
    let mut families = Vec::new();
    let mut put = |name: &str, help, growth, value| {
        families.push(Family { name: name.to_owned(), value: Value::Process(help, growth, value) });
    };
    let gauge = Growth::GrowsAndShrinks;
    if let Some(usage) = Usage::read() {
        let help = "Total user and system CPU time spent in seconds.";
        put("process_cpu_seconds_total", help, Growth::OnlyGrows, usage.cpu_seconds);
        let help = "Start time of the process since unix epoch in seconds.";
        put("process_start_time_seconds", help, gauge, usage.start_seconds);
        put(
            "process_virtual_memory_bytes",
            "Virtual memory size in bytes.",
            gauge,
            usage.virtual_bytes,
        );
        put(
            "process_resident_memory_bytes",
            "Resident memory size in bytes.",
            gauge,
            usage.resident_bytes,
        );
    }
    if let Some((open, most)) = open_descriptors() {
        put("process_open_fds", "Number of open file descriptors.", gauge, open as f64);
        put("process_max_fds", "Maximum number of open file descriptors.", gauge, most as f64);
    }
    families
}

/// The open file descriptors and their limit.
pub(super) fn open_descriptors() -> Option<(u64, u64)> {
    let open = std::fs::read_dir("/proc/self/fd").ok()?.count();
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find(|line| line.starts_with("Max open files"))?;
    let most = line.split_whitespace().nth(3)?.parse().ok()?;
    Some((open as u64, most))
}

#[derive(Debug, PartialEq)]
struct Usage {
    cpu_seconds: f64,
    start_seconds: f64,
    virtual_bytes: f64,
    resident_bytes: f64,
}

impl Usage {
    #[cfg(target_os = "linux")]
    fn read() -> Option<Self> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let system = std::fs::read_to_string("/proc/stat").ok()?;
        let boot = system.lines().find_map(|line| line.strip_prefix("btime "))?;
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        Self::of(&stat, boot.trim().parse().ok()?, ticks, rustix::param::page_size() as f64)
    }

    #[cfg(not(target_os = "linux"))]
    fn read() -> Option<Self> {
        None
    }

    /// From the line in `/proc/self/stat` and the seconds at which the machine was booted.
    #[cfg(any(target_os = "linux", test))]
    fn of(stat: &str, boot_seconds: f64, ticks: f64, page_bytes: f64) -> Option<Self> {
        // The second field is the name of the program, which may contain anything.
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<_> = rest.split_whitespace().collect();
        // The third field of `proc(5)` is the first here.
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) / ticks,
            start_seconds: boot_seconds + field(22)? / ticks,
            virtual_bytes: field(23)?,
            resident_bytes: field(24)? * page_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_proc_are_found_whatever_the_program_is_called() {
        let stat =
            "42 (a) b (c) S 1 1 1 0 -1 4194560 9 0 0 0 150 50 0 0 20 0 4 0 1000 8192 3 1 1 1";
        let usage = Usage::of(stat, 5.0, 100.0, 4096.0).unwrap();
        let expected = Usage {
            cpu_seconds: 2.0,
            start_seconds: 15.0,
            virtual_bytes: 8192.0,
            resident_bytes: 3.0 * 4096.0,
        };
        assert_eq!(usage, expected);
        assert_eq!(Usage::of("42 (a", 5.0, 100.0, 4096.0), None);
    }
}
