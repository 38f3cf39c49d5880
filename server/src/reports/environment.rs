//! The properties of the process and its machine, under the names of `Environment`.

use std::path::PathBuf;

use super::VERSION;

/// The keys and values, in ZooKeeper's order. Monitors look for the keys of the Java virtual machine;
/// they tell what runs in its place.
pub(crate) fn environment() -> Vec<(&'static str, String)> {
    let unknown = || "<NA>".to_owned();
    let system = |file: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/{file}"));
        text.map_or_else(|_| unknown(), |text| text.trim().to_owned())
    };
    let text = |path: std::io::Result<PathBuf>| {
        path.map_or_else(|_| unknown(), |path| path.display().to_string())
    };
    // By Java's names.
    let (os, arch) = match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => ("Linux", "amd64"),
        ("linux", arch) => ("Linux", arch),
        ("macos", arch) => ("Mac OS X", arch),
        other => other,
    };
    let executable = std::env::current_exe();
    let home = executable.as_ref().ok().and_then(|path| path.parent()).map(PathBuf::from);
    let memory = Memory::of_process();
    let megabytes = |bytes: u64| format!("{}MB", bytes >> 20);
    vec![
        ("zookeeper.version", VERSION.to_owned()),
        ("host.name", system("hostname")),
        ("java.version", concat!("zoolet ", env!("CARGO_PKG_VERSION")).to_owned()),
        ("java.vendor", "zoolet".to_owned()),
        ("java.home", text(home.ok_or_else(|| std::io::ErrorKind::NotFound.into()))),
        ("java.class.path", text(executable)),
        ("java.library.path", std::env::var("LD_LIBRARY_PATH").unwrap_or_default()),
        ("java.io.tmpdir", std::env::temp_dir().display().to_string()),
        ("java.compiler", unknown()),
        ("os.name", os.to_owned()),
        ("os.arch", arch.to_owned()),
        ("os.version", system("osrelease")),
        ("user.name", whoami::username().unwrap_or_else(|_| unknown())),
        ("user.home", std::env::var("HOME").unwrap_or_else(|_| unknown())),
        ("user.dir", text(std::env::current_dir())),
        ("os.memory.free", megabytes(memory.free_bytes)),
        ("os.memory.max", megabytes(memory.max_bytes)),
        ("os.memory.total", megabytes(memory.used_bytes.saturating_add(memory.free_bytes))),
    ]
}

/// What a Java virtual machine tells of its heap, of the process: a program without a heap of its own
/// may use what the machine has free.
#[derive(Debug, Default)]
struct Memory {
    used_bytes: u64,
    free_bytes: u64,
    max_bytes: u64,
}

impl Memory {
    /// All 0 where the system does not tell it.
    fn of_process() -> Self {
        let value = |file: &str, key: &str| {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix(key).map(str::to_owned));
            let kb = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
            kb.unwrap_or(0).saturating_mul(1024)
        };
        Self {
            used_bytes: value("/proc/self/status", "VmRSS:"),
            free_bytes: value("/proc/meminfo", "MemAvailable:"),
            max_bytes: value("/proc/meminfo", "MemTotal:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_zookeeper_is_there_with_a_value_of_one_line() {
        let environment = environment();
        let keys: Vec<_> = environment.iter().map(|(key, _)| *key).collect();
        // From `Environment.list` of 3.9.5.
        let expected = [
            "zookeeper.version",
            "host.name",
            "java.version",
            "java.vendor",
            "java.home",
            "java.class.path",
            "java.library.path",
            "java.io.tmpdir",
            "java.compiler",
            "os.name",
            "os.arch",
            "os.version",
            "user.name",
            "user.home",
            "user.dir",
            "os.memory.free",
            "os.memory.max",
            "os.memory.total",
        ];
        assert_eq!(keys, expected);
        for (key, value) in environment {
            assert!(!value.contains('\n'), "{key}={value}");
            assert!(!value.is_empty() || key == "java.library.path", "{key} is empty");
        }
    }
}
