//! Where and when a run was made, and with which versions.

use std::fs;
use std::sync::Arc;

use serde::Serialize;
use zoolet_client::FourLetterWord;
use zoolet_client::tls::ClientTls;

/// The machine of the clients.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Machine {
    pub(crate) system: String,
    pub(crate) processor: Option<String>,
    pub(crate) cores: usize,
    pub(crate) memory_bytes: Option<u64>,
    /// How busy it was when the run began: the load average of the last minute.
    pub(crate) load: Option<f64>,
}

impl Machine {
    pub(crate) fn look() -> Self {
        let release = read("/proc/sys/kernel/osrelease");
        let release = release.map_or(String::new(), |release| format!(" {}", release.trim()));
        let kib: Option<u64> = line("/proc/meminfo", "MemTotal").and_then(|text| first(&text));
        Self {
            system: format!("{}{release}, {}", std::env::consts::OS, std::env::consts::ARCH),
            processor: line("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: kib.map(|kib| kib << 10),
            load: read("/proc/loadavg").and_then(|text| first(&text)),
        }
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// The value of a name in a file of names and values.
fn line(path: &str, name: &str) -> Option<String> {
    let text = read(path)?;
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}

fn first<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.split_whitespace().next()?.parse().ok()
}

/// The present time, in UTC and to the second.
pub(crate) fn date() -> String {
    let now = jiff::Timestamp::now();
    now.round(jiff::Unit::Second).unwrap_or(now).to_string()
}

/// The command line, as a shell would read it.
pub(crate) fn command_line() -> String {
    let words = std::env::args().skip(1);
    shell_words::join(std::iter::once("zoolet".to_owned()).chain(words))
}

/// This program, and how it was compiled.
pub(crate) const ZOOLET: &str = concat!("zoolet ", env!("CARGO_PKG_VERSION"));

/// The version in a server's answer to `srvr`; `None` if it does not answer.
pub(crate) async fn version(address: &str, tls: Option<Arc<ClientTls>>) -> Option<String> {
    let srvr = FourLetterWord::new("srvr");
    let srvr = match tls {
        Some(tls) => srvr.tls(tls),
        None => srvr,
    };
    let answer = srvr.ask(address).await.ok()?;
    let text = answer.lines().find_map(|line| line.strip_prefix("Zookeeper version: "))?;
    Some(short_version(text))
}

/// The name and the number of a version, without hash and date.
fn short_version(text: &str) -> String {
    let version = text.split(',').next().unwrap_or(text);
    match version.split_once("-zoolet-") {
        Some((_, ours)) => format!("zoolet {ours}"),
        None => format!("ZooKeeper {}", version.split('-').next().unwrap_or(version)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_shortened() {
        for (text, version) in [
            ("3.9.4-zoolet-0.1.0, built on 2026-11-20 00:00 UTC", "zoolet 0.1.0"),
            ("3.8.0-5a02a05eddb59aee6ac762f7ea82e92a68eb9c0f, built on 2022", "ZooKeeper 3.8.0"),
            ("3.4.14", "ZooKeeper 3.4.14"),
        ] {
            assert_eq!(short_version(text), version);
        }
    }
}
